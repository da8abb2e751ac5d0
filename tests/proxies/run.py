#!/usr/bin/env python3
"""Real proxies that ask Tollgate, in front of a real backend: run.py TOLLGATE DIRECTORY [PROXY...]

The configurations are those of docs/behind-*.md, with other ports and a smaller limit. Each
proxy runs twice: once so that it refuses requests while Tollgate is away, and once so that it
lets them pass, which Traefik cannot do. DIRECTORY is for files. A proxy that is not installed is a failure.
"""

import contextlib
import http.client
import http.server
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(PROJECT / "scripts"))

import ports

DOCS = PROJECT / "docs"
TOLD = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit", "ratelimit-policy"]
REFUSED = [*TOLD, "retry-after", "x-ratelimit-retry-after"]
LIMIT = 3
# What a client may send to seem another one, or to seem to send another request.
FORGED = {
    "X-Forwarded-For": "198.51.100.{n}",
    "X-Real-Ip": "198.51.100.{n}",
    "Forwarded": "for=198.51.100.{n}",
    "X-Forwarded-Method": "OPTIONS",
    "X-Forwarded-Uri": "/free",
    "X-Forwarded-Host": "other.test",
    "X-Original-Method": "OPTIONS",
    "X-Original-Uri": "/free",
    "X-Original-Url": "http://other.test/free",
    "X-Envoy-Original-Path": "/free",
    "X-Tollgate-Status": "200",
    "X-Tollgate-Outcome": "admitted",
    "X-Ratelimit-Remaining": "99",
}
# A name in the documents, the page, the status while Tollgate is away.
PROXIES = {
    "nginx": ("behind-nginx.md", 500),
    "haproxy": ("behind-haproxy.md", 503),
    "caddy": ("behind-caddy.md", 502),
    "traefik": ("behind-traefik.md", 500),
    "envoy": ("behind-envoy.md", 503),
    "envoy-grpc": ("behind-envoy.md", 503),
}


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


def eventually(what, condition, seconds=15):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f"this never happened: {what}")
        time.sleep(0.05)


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Backend(http.server.ThreadingHTTPServer):
    """Answers with the method, the path and the number of bytes of the body, and with those of
    the fields `passed_on` that it gets."""

    daemon_threads = True

    def __init__(self, passed_on):
        self.count, self.passed_on = 0, passed_on
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        # Proxies are killed while they keep connections.
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.count += 1
        body = f"{self.command} {self.path} {self.received()}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        for name in self.server.passed_on:
            for value in self.headers.get_all(name, []):
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_GET

    def received(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return len(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        count = 0
        while size := int(self.rfile.readline(), 16):
            count += len(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return count

    def log_message(self, *_):
        pass


def blocks(page):
    """The blocks of a page by the names in their first lines."""
    found = {}
    for block in re.findall(r"^( *)```\w+\n(.*?)^\1```", (DOCS / page).read_text(), re.M | re.S):
        indent, text = block
        text = re.sub(f"^{indent}", "", text, flags=re.M)
        if name := re.match(r"(?:#|--) (\S+)\n", text):
            found[pathlib.Path(name[1]).name] = text
    return found


class Setup:
    """A proxy in both forms, with a backend and a Tollgate of their own."""

    def __init__(self, name, program, tollgate, directory):
        self.name, self.program, self.tollgate = name, program, tollgate
        self.page, self.status_away = PROXIES[name]
        self.directory = directory / name
        self.directory.mkdir()
        self.forms = {"traefik": ["closed"], "caddy": ["closed", "open", "short"]}.get(name, ["closed", "open"])
        # Traefik tells the backend about the limits of an admitted request, and not the client.
        self.backend = Backend(TOLD if name == "traefik" else [])
        self.ports = dict(zip(["9902", "9903", "closed", "open", "short", "9904"], ports.reserve(6)))
        self.ports["9000"] = self.backend.server_address[1]
        self.started = []

    def with_ports(self, text, form):
        used = {**self.ports, "8080": self.ports[form]}
        return re.sub(r"\b(8080|9000|9902|9903|9904)\b", lambda port: str(used[port[1]]), text)

    def configuration(self, name, form):
        text = blocks(self.page)[name]
        if form == "open":
            text = re.sub(r"^(\s*)# (.*?) # fail open$", r"\1\2", text, flags=re.M)
            text = text.replace("/auth closed", "/auth open")
        return self.with_ports(text, form).replace("/etc/haproxy", str(self.directory))

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return str(path)

    def start(self, *command):
        home = {**os.environ, "HOME": str(self.directory), "XDG_DATA_HOME": str(self.directory)}
        log = open(self.directory / "log", "ab")
        process = subprocess.Popen(command, stdout=log, stderr=log, env=home)
        self.started.append(process)
        return process

    def start_tollgate(self):
        text = blocks("behind-proxies.md")["gateway.yaml"].replace("100/minute", f"{LIMIT}/6s, algorithm: token_bucket")
        port = "9902"
        if self.name == "envoy-grpc":
            port = "9903"
            text = text.replace("http: 127.0.0.1:9902", "grpc: 127.0.0.1:9903")
        free = "routes:\n  - { path: /free, respond: { status: 204 } }"
        text = self.with_ports(text.replace("routes:", free), "closed") + "telemetry: { access_log: false }\n"
        self.limiter = self.start(self.tollgate, "run", "-c", self.write("gateway.yaml", text))
        eventually("Tollgate listens", lambda: listens(self.ports[port]))

    def start_proxy(self, form):
        getattr(self, f"start_{self.name.replace('-', '_')}")(form)
        eventually(f"{self.name} listens", lambda: listens(self.ports[form]))

    def start_nginx(self, form):
        place = self.directory / form
        place.mkdir()
        kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        paths = "".join(f"{kind}_temp_path {place}/{kind};" for kind in kinds)
        user = "user root;" if os.geteuid() == 0 else ""
        server = self.configuration("tollgate.conf", form)
        text = (
            f"daemon off; {user} pid {place}/pid; error_log stderr; worker_processes 1; events {{}}\n"
            f"http {{ access_log off; {paths}\n{server}}}\n"
        )
        self.start(self.program, "-e", "stderr", "-c", self.write(f"{form}.conf", text))

    def start_haproxy(self, form):
        self.write("tollgate.lua", self.configuration("tollgate.lua", form))
        self.start(self.program, "-db", "-f", self.write(f"{form}.cfg", self.configuration("haproxy.cfg", form)))

    def start_caddy(self, form):
        name = "forward_auth.caddyfile" if form == "short" else "Caddyfile"
        text = "{\n\tadmin off\n\tpersist_config off\n}\n" + self.configuration(name, form)
        self.start(self.program, "run", "--adapter", "caddyfile", "--config", self.write(f"{form}.caddy", text))

    def start_traefik(self, form):
        routes = self.write("dynamic.yaml", self.configuration("dynamic.yaml", form))
        text = self.configuration("traefik.yaml", form).replace("dynamic.yaml", routes)
        text += "global: { checkNewVersion: false }\n"
        self.start(self.program, f"--configFile={self.write('static.yaml', text)}")

    def start_envoy(self, form, name="envoy.yaml"):
        file = self.write(f"{form}.yaml", self.configuration(name, form))
        self.start(self.program, "-c", file, "--concurrency", "1", "--disable-hot-restart", "-l", "warning")

    def start_envoy_grpc(self, form):
        self.start_envoy(form, "envoy-grpc.yaml")

    def stop(self):
        for process in self.started:
            # Killed, nginx would leave its worker process behind.
            process.terminate()
        for process in self.started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ask(self, method="GET", path="/", fields=(), body=None, form="closed", chunked=False):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[form], timeout=20)
        try:
            connection.request(method, path, body, dict(fields), encode_chunked=chunked)
            response = connection.getresponse()
            response.text = response.read().decode()
            return response
        finally:
            connection.close()

    def exhaust(self, what, told=TOLD, **request):
        """Asks until a request is refused, and returns the refusal. What passes is told so."""
        begun = time.monotonic()
        for admitted in range(100):
            before = self.backend.count
            response = self.ask(**request)
            if response.status != 200:
                break
            self.has(what, response, told)
            left = int(response.headers.get("x-ratelimit-remaining", 0))
            expect(left < LIMIT, f"{what}: {left} remain")
        # A unit comes back every two seconds.
        most = LIMIT + (time.monotonic() - begun) // 2
        expect(LIMIT <= admitted <= most, f"{what}: {admitted} requests were admitted")
        expect(response.status == 429, f"{what}: refused with {response.status}")
        self.has(what, response, REFUSED)
        expect(self.backend.count == before, f"{what}: a refused request came to the backend")
        return response

    def has(self, what, response, fields):
        for field in fields:
            values = response.headers.get_all(field, [])
            expect(len(values) == 1, f"{what}: {field} in {response.status} {response.headers.items()}")

    def check_limits(self):
        key = {"X-Api-Key": "limits"}
        first = self.ask(path="/a%20b?c=d", fields=key)
        expect(first.text == "GET /a%20b?c=d 0", f"the backend got {first.text}")
        left = int(first.headers["x-ratelimit-remaining"])
        expect(left == LIMIT - 1, f"{left} remain after the first request")
        refused = None
        while refused is None or refused.status == 200:
            refused = self.ask(fields=key)
        wait = int(refused.headers["retry-after"])
        expect(1 <= wait <= 2, f"Retry-After is {wait}")
        time.sleep(wait)
        again = self.ask(fields=key)
        expect(again.status == 200, f"refused with {again.status} after Retry-After")

    def check_methods(self):
        head = self.exhaust("HEAD", method="HEAD", fields={"X-Api-Key": "head"})
        expect(head.text == "", "a refused HEAD has a body")
        body = b"x" * 100_000
        for chunked in (False, True):
            key = {"X-Api-Key": f"post-{chunked}"}
            if chunked:
                key["Transfer-Encoding"] = "chunked"
            data = iter([body]) if chunked else body
            response = self.ask("POST", "/p", key, data, chunked=chunked)
            expect(response.text == "POST /p 100000", f"chunked {chunked}: {response.status} {response.text[:80]}")
        self.exhaust("POST", method="POST", path="/p", fields={"X-Api-Key": "post"}, body=body)

    def check_forged(self):
        forged = lambda n: {name: value.format(n=n) for name, value in FORGED.items()}
        refusal = self.exhaust("forged", path="/limited", fields=forged(1))
        for n in range(2, 5):
            response = self.ask(path="/limited", fields=forged(n))
            if int(refusal.headers["retry-after"]) > 1:
                expect(response.status == 429, f"forged fields make another client: {response.status}")
        free = self.ask(path="/free", fields={"X-Api-Key": "limits", "X-Ratelimit-Remaining": "99"})
        expect(free.status == 200, f"a request without a limit: {free.status}")
        expect("x-ratelimit-remaining" not in free.headers, f"no limit: {free.headers.items()}")
        expect(not [it for it in free.headers.values() if "{" in it], f"no values: {free.headers.items()}")
        dots = self.ask(path="/a/%2e%2e/free", fields={"X-Api-Key": "dots"})
        if self.name == "traefik":
            # It resolves the dots before it asks.
            expect(dots.text == "GET /free 0", f"dots: {dots.status} {dots.text}")
        else:
            expect(dots.status in (400, 403), f"an ambiguous path: {dots.status}")

    def check_short(self):
        """The short form tells clients about limits only when it refuses their requests."""
        refused = self.exhaust("short", told=[], form="short", fields={"X-Api-Key": "short"})
        expect(refused.text != "", "a refusal has no body")

    def check_away(self):
        self.limiter.kill()
        self.limiter.wait()
        closed = self.ask(fields={"X-Api-Key": "away"})
        expect(closed.status == self.status_away, f"while Tollgate is away: {closed.status}")
        for _ in range(LIMIT + 1 if "open" in self.forms else 0):
            passed = self.ask(fields={"X-Api-Key": "away"}, form="open")
            expect(passed.text == "GET / 0", f"while Tollgate is away, open: {passed.status} {passed.text}")
        self.start_tollgate()
        for form in self.forms[:2]:
            asked = lambda: self.ask(fields={"X-Api-Key": "back"}, form=form)
            eventually(f"limits hold again: {form}", lambda: asked().headers.get("x-ratelimit-limit") is not None)
            eventually(f"requests are refused again: {form}", lambda: asked().status == 429)

    def check(self):
        self.start_tollgate()
        for form in self.forms:
            self.start_proxy(form)
        eventually("the backend is reached", lambda: self.ask(path="/free").status == 200)
        checks = [self.check_limits, self.check_methods, self.check_forged, self.check_away]
        if "short" in self.forms:
            checks.insert(0, self.check_short)
        for check in checks:
            begun = time.monotonic()
            check()
            what = check.__name__.removeprefix("check_")
            print(f"ok  {self.name}: {what} ({time.monotonic() - begun:.1f} s)", flush=True)


def run(setup, failed):
    try:
        setup.check()
    except Exception as error:
        log = (setup.directory / "log").read_text(errors="replace").splitlines()[-15:]
        failed.append(setup.name)
        print(f"FAILED  {setup.name}: {error!r}", *log, sep="\n  ", file=sys.stderr, flush=True)
    finally:
        setup.stop()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tollgate, directory, *wanted = sys.argv[1:]
    failed, setups = [], []
    for name in wanted or PROXIES:
        program = shutil.which(name.split("-")[0])
        if program is None:
            sys.exit(f"FAILED  {name}: it is not installed: scripts/test-proxies installs it")
        setups.append(Setup(name, program, os.path.abspath(tollgate), pathlib.Path(directory)))
    threads = [threading.Thread(target=run, args=(setup, failed)) for setup in setups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
