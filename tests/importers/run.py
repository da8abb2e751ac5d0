#!/usr/bin/env python3
"""Programs and Tollgate with what is imported from their configurations:
run.py TOLLGATE DIRECTORY NGINX TRAEFIK

Each program gets the requests of a scenario at the same times as the others. The numbers of
responses by status are compared, and not single requests: two versions of nginx differ in every
fifth request, while they admit the same number. A program that does not start is a failure.
"""

import collections
import concurrent.futures
import contextlib
import http.client
import http.server
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(PROJECT / "scripts"))

import kong
import ports

# The limits of docs/import.md, each in a location of its own.
NGINX = """
limit_req_zone $binary_remote_addr zone=burst:1m rate=10r/s;
limit_req_zone $binary_remote_addr zone=strict:1m rate=10r/s;
limit_req_zone $binary_remote_addr zone=minute:1m rate=600r/m;
limit_req_zone $binary_remote_addr zone=one:1m rate=20r/s;
limit_req_zone $binary_remote_addr zone=two:1m rate=5r/s;
limit_req_zone $binary_remote_addr zone=held:1m rate=10r/s;
limit_req_zone $http_x_k zone=field:1m rate=10r/s;
limit_req_zone $binary_remote_addr zone=inherited:1m rate=10r/s;
limit_req_zone $limit_key zone=exempt:1m rate=10r/s;
limit_req_zone $binary_remote_addr zone=wide:1m rate=1000r/s;
limit_req_zone $binary_remote_addr zone=page:1m rate=20r/s;
limit_conn_zone $binary_remote_addr zone=open:1m;
map $http_x_free $limit_key {{ default $binary_remote_addr; yes ""; }}
server {{
    listen 127.0.0.1:{port};
    limit_req zone=inherited burst=4 nodelay;
    location / {{ proxy_pass http://127.0.0.1:{backend}; }}
    location /burst/ {{ limit_req zone=burst burst=20 nodelay; proxy_pass http://127.0.0.1:{backend}; }}
    location /strict/ {{ limit_req zone=strict; limit_req_status 429; proxy_pass http://127.0.0.1:{backend}; }}
    location /minute/ {{ limit_req zone=minute burst=10 nodelay; proxy_pass http://127.0.0.1:{backend}; }}
    location /both/ {{
        limit_req zone=one burst=9 nodelay;
        limit_req zone=two burst=2 nodelay;
        proxy_pass http://127.0.0.1:{backend};
    }}
    location = /held {{ limit_req zone=held burst=20; proxy_pass http://127.0.0.1:{backend}; }}
    location /field/ {{ limit_req zone=field burst=3 nodelay; proxy_pass http://127.0.0.1:{backend}; }}
    location /exempt/ {{ limit_req zone=exempt burst=3 nodelay; proxy_pass http://127.0.0.1:{backend}; }}
    location /slow/ {{ limit_req zone=wide burst=1000 nodelay; limit_conn open 5; proxy_pass http://127.0.0.1:{backend}; }}
    location /fixed {{ limit_req zone=strict; return 204; }}
    location /page/ {{ limit_req zone=page; error_page 503 =429 /busy; proxy_pass http://127.0.0.1:{backend}; }}
}}
"""
TRAEFIK_STATIC = """
entryPoints: {{ web: {{ address: "127.0.0.1:{port}" }} }}
providers: {{ file: {{ filename: {dynamic} }} }}
log: {{ level: ERROR }}
"""
TRAEFIK = """
http:
  routers:
    burst: {{ rule: PathPrefix(`/burst`), middlewares: [limit], service: s }}
    again: {{ rule: PathPrefix(`/again`), middlewares: [limit], service: s }}
    minute: {{ rule: PathPrefix(`/minute`), middlewares: [minute], service: s }}
    slow: {{ rule: PathPrefix(`/slow`), middlewares: [open], service: s }}
  middlewares:
    limit: {{ rateLimit: {{ average: 10, burst: 20 }} }}
    minute: {{ rateLimit: {{ average: 60, period: 1m }} }}
    open: {{ inFlightReq: {{ amount: 5 }} }}
  services:
    s: {{ loadBalancer: {{ servers: [{{ url: "http://127.0.0.1:{backend}" }}] }} }}
"""
RANDOM = "30 at once and 120 at random times in 4 s"
# How many requests more one program admits than another with the same limit. A limit without a burst
# admits a request only if it arrives late enough after the last. If each of these requests arrives up to 100 ms
# late, as on a busy machine, two equal programs differ by up to 6, and with a burst by 1.
EDGES = collections.defaultdict(lambda: 2, {"no burst": 6})
# A name, what is sent, the path, fields of the request, and how many a second are admitted.
SCENARIOS = {
    "nginx": [
        ("a burst", RANDOM, "/burst/", {}, 10),
        ("no burst", RANDOM, "/strict/", {}, 10),
        ("a rate in minutes", RANDOM, "/minute/", {}, 10),
        ("two limits", RANDOM, "/both/", {}, 5),
        ("a burst that is held", 80, "/held", {}, 10),
        ("a key in a field", RANDOM, "/field/", {"X-K": "a"}, 10),
        ("no key", 40, "/field/", {}, 0),
        ("an exemption", 40, "/exempt/", {"X-Free": "yes"}, 0),
        ("no exemption", RANDOM, "/exempt/", {}, 10),
        ("a limit of the server", RANDOM, "/", {}, 10),
        ("connections", 12, "/slow/", {}, 0),
        ("an answer before the limit", 12, "/fixed", {}, 0),
        ("a page for refusals", 12, "/page/", {}, 20),
    ],
    "traefik": [
        ("a burst", RANDOM, "/burst/", {}, 10),
        ("another router", RANDOM, "/again/", {}, 10),
        ("a rate in minutes", 12, "/minute/", {}, 1),
        ("connections", 12, "/slow/", {}, 0),
    ],
}


class Failure(Exception):
    pass


def eventually(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"this never happened: {what}")
        time.sleep(0.05)


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Backend(http.server.ThreadingHTTPServer):
    """Answers at once, and slowly below /slow/."""

    daemon_threads = True
    request_queue_size = 1000

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.startswith("/slow"):
            time.sleep(3)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Programs:
    """Started programs, with their ports by names."""

    def __init__(self, directory, tollgate):
        self.directory, self.tollgate = directory, tollgate
        self.started, self.ports = [], {}
        self.backend = Backend().server_address[1]

    def start(self, name, port, *command):
        log = open(self.directory / f"{name}.log", "ab")
        self.started.append(subprocess.Popen(command, stdout=log, stderr=log))
        self.ports[name] = port
        return name

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return str(path)

    def nginx(self, name, program):
        (port,) = ports.reserve(1)
        place = self.directory / name
        place.mkdir()
        kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        paths = "".join(f"{kind}_temp_path {place}/{kind};" for kind in kinds)
        text = (
            f"daemon off; user root; pid {place}/pid; error_log {place}/error.log; events {{}}\n"
            f"http {{ access_log off; {paths} {NGINX.format(port=port, backend=self.backend)} }}"
        )
        return self.start(name, port, program, "-p", str(place), "-c", self.write(f"{name}.conf", text))

    def traefik(self, program):
        (port,) = ports.reserve(1)
        dynamic = self.write("dynamic.yaml", TRAEFIK.format(backend=self.backend))
        static = self.write("static.yaml", TRAEFIK_STATIC.format(port=port, dynamic=dynamic))
        return self.start("traefik", port, program, f"--configFile={static}")

    def imported(self, kind, text):
        """Tollgate with what is imported from a text. The exit code says that no limit is lost."""
        (port,) = ports.reserve(1)
        source = self.write(f"{kind}.source", text(port, self.backend))
        output = str(self.directory / f"{kind}.yaml")
        command = [self.tollgate, "import", kind, "-o", output, source]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode > 1:
            raise Failure(f"{' '.join(command)}: exit code {ran.returncode}\n{ran.stderr}")
        yaml = pathlib.Path(output).read_text()
        yaml = re.sub(r"0\.0\.0\.0:\d+", f"127.0.0.1:{port}", yaml)
        self.write(f"{kind}.yaml", yaml + "\ntelemetry: { access_log: false }\n")
        checked = subprocess.run([self.tollgate, "check", output], capture_output=True, text=True)
        if checked.returncode:
            raise Failure(f"tollgate check {kind}.yaml:\n{checked.stderr}")
        return self.start(f"tollgate-{kind}", port, self.tollgate, "run", "-c", output)

    def stop(self):
        for process in self.started:
            process.send_signal(signal.SIGTERM)
        for process in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
                continue
            process.kill()


def written(template):
    return lambda port, backend: template.format(port=port, backend=backend)


def ask(port, path, fields):
    """The status of a request, and when it was sent."""
    sent = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers=fields)
        return connection.getresponse().status, sent
    finally:
        connection.close()


def run(names, programs, scenario, pool):
    """The numbers of statuses by program, and the time between its first and its last request."""
    _, what, path, fields, _ = scenario
    if what == RANDOM:
        source = random.Random(path)
        times = [0.0] * 30 + sorted(source.uniform(0, 4) for _ in range(120))
    else:
        times = [0.0] * what
    answers = {name: [] for name in names}
    begin = time.monotonic() + 0.1
    for at in times:
        time.sleep(max(0, begin + at - time.monotonic()))
        for name in names:
            answers[name].append(pool.submit(ask, programs.ports[name], path, fields))
    found = {}
    for name, futures in answers.items():
        results = [future.result() for future in futures]
        sent = [at for _, at in results]
        found[name] = (collections.Counter(status for status, _ in results), max(sent) - min(sent))
    return found


def faults(kind, names, programs, scenario, pool):
    title, _, path, _, rate = scenario
    # On a busy machine the requests may take so long that a program refuses none. They are sent again then.
    for _ in range(5):
        found = run(names, programs, scenario, pool)
        if not rate or all({429, 503} & {*counts} for counts, _ in found.values()):
            break
    shown = "; ".join(f"{name} {dict(sorted(counts.items()))}" for name, (counts, _) in found.items())
    print(f"{kind}: {title}: {shown}")
    (own, own_time) = found[names[-1]]
    for name in names[:-1]:
        counts, taken = found[name]
        # More are admitted if a program got its requests during a longer time.
        slack = 0 if rate == 0 else EDGES[title] + rate * abs(taken - own_time)
        for status in {*counts, *own}:
            if abs(counts[status] - own[status]) > slack:
                yield f"{kind}: {title} ({path}): {name} has {counts[status]} times {status}, Tollgate {own[status]}"
    if rate and not {429, 503} & {*own}:
        yield f"{kind}: {title}: nothing is refused"


def main():
    tollgate, directory, newer, traefik = sys.argv[1:]
    programs = Programs(pathlib.Path(directory), tollgate)
    problems = []
    try:
        groups = {
            "nginx": [programs.nginx("nginx", "nginx"), programs.nginx("newer-nginx", newer), programs.imported("nginx", written(NGINX))],
            "traefik": [programs.traefik(traefik), programs.imported("traefik", written(TRAEFIK))],
        }
        programs.imported("kong", lambda _, backend: kong.text(backend))
        for name, port in programs.ports.items():
            eventually(f"{name} listens", lambda: listens(port))
        # Traefik listens before it has read its routes.
        eventually("Traefik has its routes", lambda: ask(programs.ports["traefik"], "/minute", {})[0] != 404)
        ask(programs.ports["tollgate-traefik"], "/minute", {})
        with concurrent.futures.ThreadPoolExecutor(400) as pool, concurrent.futures.ThreadPoolExecutor(40) as runs:
            waiting = [
                runs.submit(lambda *args: list(faults(*args)), kind, names, programs, scenario, pool)
                for kind, names in groups.items()
                for scenario in SCENARIOS[kind]
                if scenario[2] != "/field/" or scenario[3]
            ]
            for future in waiting:
                problems.extend(future.result())
            problems.extend(kong.faults(programs, ask))
            # The scenario with the same path comes later.
            for scenario in SCENARIOS["nginx"]:
                if scenario[2] == "/field/" and not scenario[3]:
                    problems.extend(faults("nginx", groups["nginx"], programs, scenario, pool))
    except Failure as failure:
        problems.append(str(failure))
    finally:
        programs.stop()
    for problem in problems:
        print(f"tests/importers: {problem}", file=sys.stderr)
    if problems:
        for log in sorted(pathlib.Path(directory).glob("*.log")):
            print(f"{log.name}: {log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
        sys.exit(1)


main()
