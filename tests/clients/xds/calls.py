#!/usr/bin/env python3
"""The program as Envoy Gateway runs its rate limit service: calls.py TOLLGATE DIRECTORY

It has Envoy Gateway's environment with TLS both ways, limits from the scripted server, which is another program and has
messages of its own, a Redis, and a real Envoy with Envoy Gateway's filter. DIRECTORY is for files. It needs grpcio,
grpcio-tools, xds-protos, envoy, openssl and redis-server."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path = [it for it in sys.path if pathlib.Path(it or ".").resolve() != HERE]
sys.path += [str(HERE.parent), str(HERE.parents[2] / "scripts")]

import grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc

import envoy_front
import ports
from ratelimit_calls import OK, OVER, one, question, same, start, wait_for

ROUTE = "httproute/a-namespace-with-a-long-name/a-route-with-a-long-name-too/rule/12/match/3/" + "sub." * 16 + "example_com"
COST = {"domain": "cost", "descriptors": [{"key": "client", "rate_limit": {"unit": "DAY", "requests_per_unit": 21}}]}

# A request asks before, and its response costs 10, as Envoy Gateway writes it.
CLIENT = [{"request_headers": {"header_name": "x-client", "descriptor_key": "client"}}]
BEFORE_AND_AFTER = [
    {"actions": CLIENT, "hits_addend": {"number": 0}},
    {"actions": CLIENT, "hits_addend": {"number": 10}, "apply_on_stream_done": True},
]


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def authority(certs):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=ca",
            "-keyout", str(certs / "ca.key"), "-out", str(certs / "ca.crt"))


def sign(certs, serial):
    """A certificate for all sides, which takes the place of the one before in one step."""
    new = certs / "new"
    new.mkdir(exist_ok=True)
    (new / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN=n{serial}",
            "-keyout", str(new / "tls.key"), "-out", str(new / "csr"))
    openssl("x509", "-req", "-in", str(new / "csr"), "-CA", str(certs / "ca.crt"), "-CAkey", str(certs / "ca.key"), "-days", "1",
            "-set_serial", str(serial), "-extfile", str(new / "ext"), "-out", str(new / "tls.crt"))
    # As Kubernetes does with a Secret: the directory behind a link changes.
    data = certs / f"..{serial}"
    data.mkdir()
    for name in ("tls.crt", "tls.key"):
        shutil.copy(new / name, data / name)
    link = certs / "..data.new"
    link.symlink_to(data.name)
    os.replace(link, certs / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (certs / name).is_symlink():
            (certs / name).symlink_to(f"..data/{name}")


def shown(url, **fields):
    request = urllib.request.Request(url, **fields)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until(what, is_so, seconds=30):
    """Waits until something is so, and returns how long that took."""
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() - begun > seconds:
            sys.exit(f"FAILED  {what}: not within {seconds} s")
        time.sleep(0.02)
    took = time.monotonic() - begun
    print(f"ok  {what} ({took:.2f} s)")
    return took


class Client:
    """The service over TLS, as Envoy asks it."""

    def __init__(self, port, certs):
        credentials = grpc.ssl_channel_credentials((certs / "ca.crt").read_bytes())
        self.channel = grpc.secure_channel(f"localhost:{port}", credentials)
        self.service = rls_pb2_grpc.RateLimitServiceStub(self.channel)

    def code(self, *descriptors, **fields):
        """The code of the service, or that of gRPC if there is no answer."""
        try:
            return self.service.ShouldRateLimit(question(*descriptors, **fields), timeout=5).overall_code
        except grpc.RpcError as error:
            return error.code()

    def remaining(self, key, value):
        """The code for no hits, and what remains."""
        status = self.service.ShouldRateLimit(question(one(key, value, hits=0), domain="cost"), timeout=5).statuses[0]
        return status.code, status.limit_remaining

    def limit(self, key):
        response = self.service.ShouldRateLimit(question(one(key, hits=0), domain="d"), timeout=5)
        return response.statuses[0].current_limit.requests_per_unit


def tell(limits, name, domain):
    """A file appears whole."""
    (limits / f".{name}").write_text(json.dumps(domain))
    os.replace(limits / f".{name}", limits / name)


def domain(requests, unit="DAY"):
    limit = {"unit": unit, "requests_per_unit": requests}
    return {"domain": "d", "descriptors": [{"key": "k", "rate_limit": limit}]}


def check_certificates(certs, client, port):
    """Calls on old and new connections while the certificates of all sides are exchanged."""
    failed, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            fresh = Client(port, certs)
            for it in (client, fresh):
                if (code := it.code(one("k", "renewed", hits=0), domain="d")) != OK:
                    failed.append(code)
            fresh.channel.close()

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(ask) for _ in range(2)]
        certificate = lambda: subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-alpn", "h2"], input=b"", capture_output=True
        ).stdout.decode(errors="replace")
        sign(certs, 2)
        try:
            until("the new certificate is shown", lambda: "CN=n2" in certificate().replace(" = ", "="))
        finally:
            stop.set()
        [it.result() for it in workers]
    same("certificates are exchanged and no call fails", [], failed)


def check_envoy(files, certs, fronts, client, grpc_port):
    front, back, admin = fronts
    settings = {"domain": "cost", "timeout": "5s", "failure_mode_deny": True}
    command = envoy_front.command(files / "envoy.json", front, back, admin, grpc_port, BEFORE_AND_AFTER, settings, certs)
    envoy = start(files, "envoy", command)
    wait_for(front)

    def get(name):
        before = client.remaining("client", name)
        status, _ = shown(f"http://127.0.0.1:{front}/", headers={"x-client": name})
        # Envoy tells the cost of a response after it.
        if status == 200:
            until(f"the cost of a response to {name} is counted", lambda: client.remaining("client", name) != before)
        return status

    same("limit 21, cost 10 a response: three pass, the fourth does not", [200] * 3 + [429], [get("a") for _ in range(4)])
    return envoy, get


def main():
    tollgate, files = sys.argv[1], pathlib.Path(sys.argv[2])
    certs, limits = files / "certs", files / "limits"
    certs.mkdir(), limits.mkdir()
    authority(certs), sign(certs, 1)
    (files / "ratelimit").symlink_to(tollgate)
    xds, redis, http, door, metrics, *fronts = ports.reserve(8)
    tell(limits, "d.json", domain(3)), tell(limits, "cost.json", COST)
    route = {"key": ROUTE, "value": ROUTE, "rate_limit": {"unit": "DAY", "requests_per_unit": 5}}
    tell(limits, "route.json", {"domain": "routes", "descriptors": [route]})
    tls = [str(certs / name) for name in ("ca.crt", "tls.crt", "tls.key")]
    serve = lambda: start(files, "xds", [sys.executable, str(HERE / "server.py"), f"127.0.0.1:{xds}", str(limits), *tls])
    said = lambda: (files / "xds.log").read_text()
    environment = {
        "CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": f"localhost:{xds}", "CONFIG_GRPC_XDS_NODE_ID": "envoy-ratelimit",
        "CONFIG_GRPC_XDS_SERVER_USE_TLS": "true", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT": tls[0],
        "CONFIG_GRPC_XDS_CLIENT_TLS_CERT": tls[1], "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": tls[2],
        "GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": tls[1], "GRPC_SERVER_TLS_KEY": tls[2], "GRPC_SERVER_TLS_CA_CERT": tls[0],
        "FORCE_START_WITHOUT_INITIAL_CONFIG": "true", "LOG_LEVEL": "info", "USE_STATSD": "false",
        "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{redis}", "USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": f":{metrics}",
        "PORT": str(http), "GRPC_PORT": str(door),
    }
    env = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), str(files / "ratelimit")]
    processes = [start(files, "redis", ["redis-server", "--port", str(redis), "--save", "", "--dir", str(files)])]
    wait_for(redis)
    server = None
    try:
        processes.append(start(files, "tollgate", env))
        wait_for(door)
        client = Client(door, certs)
        healthcheck = lambda: shown(f"http://127.0.0.1:{http}/healthcheck")[0]
        same("ready before the server is there", 200, healthcheck())
        same("calls fail until then", grpc.StatusCode.UNAVAILABLE, client.code(one("k"), domain="d"))
        server = serve()
        until("limits arrive", lambda: client.code(one("k", hits=0), domain="d") == OK)
        same("limits hold", [OK] * 3 + [OVER], [client.code(one("k"), domain="d") for _ in range(4)])
        begun = time.monotonic()
        tell(limits, "d.json", domain(40))
        until("another limit holds", lambda: client.limit("k") == 40)
        print(f"    after {time.monotonic() - begun:.2f} s, of which up to 0.2 s are the server's")
        tell(limits, "d.json", {**domain(41), "descriptors": [{"key": "k"}, {"key": "k"}]})
        until("a mistake is told with its place", lambda: "d: descriptors[1].key: error: there is a second descriptor d.k" in said())
        same("and the limits stay", 40, client.limit("k"))
        tell(limits, "d.json", domain(42))
        until("a correction holds", lambda: client.limit("k") == 42)

        server.terminate(), server.wait()
        tell(limits, "d.json", domain(43))
        server = serve()
        until("the new version 1 of a server that has restarted holds", lambda: client.limit("k") == 43)
        same("it began with an empty version", True, "told version '' nonce '' node envoy-ratelimit" in said())

        check_certificates(certs, client, door)
        same("a route of 300 bytes", OK, client.code(one(ROUTE, ROUTE), domain="routes"))
        label = f"{ROUTE}_{ROUTE}".replace(":", "_").replace("|", "_")
        text = shown(f"http://127.0.0.1:{metrics}/metrics")[1]
        same(f"the dashboard finds its label of {len(label)} bytes", True, f'key1="{label}"' in text)

        envoy, get = check_envoy(files, certs, fronts, client, door)
        processes.append(envoy)
        processes[0].kill(), processes[0].wait()
        same("without Redis: still limited", [200] * 3 + [429], [get("b") for _ in range(4)])
        same("without Redis: healthy", 200, healthcheck())
        processes[1].terminate()
        same("after SIGTERM it ends with 0", 0, processes[1].wait(30))
    finally:
        for process in filter(None, [*processes, server]):
            process.kill()


if __name__ == "__main__":
    main()
