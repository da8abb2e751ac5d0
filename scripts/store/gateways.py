"""Gateways that share a store, and clients that send requests to them."""

import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import subprocess
import threading
import time

import ports

CONNECTIONS = 64
START_TIMEOUT_S = 20
# Long enough for any request that waits for its store.
ANSWER_TIMEOUT_S = 15
LIMIT = 60
# The gateway reads these variables, so that no file and no command line has them.
USERNAME, PASSWORD = "TOLLGATE_TEST_STORE_USERNAME", "TOLLGATE_TEST_STORE_PASSWORD"

# Every policy counts by X-Client, and has a route of its name.
POLICIES = {
    "cost": "limit: 1M/hour",
    "exact": f"limit: {LIMIT}/hour",
    "bucket": f"limit: {LIMIT}/hour, algorithm: token_bucket",
    "log": f"limit: {LIMIT}/hour, algorithm: sliding_log",
    "single": f"limit: {LIMIT}/hour, overrides: true",
    "leased": f"limit: {LIMIT}/hour, store_mode: leased",
    "leased-bucket": f"limit: {LIMIT}/hour, store_mode: leased, algorithm: token_bucket",
    "write-back": f"limit: {LIMIT}/hour, store_mode: write_back",
}


class Failure(Exception):
    """An error that ends the test, with a text for the user."""


@dataclasses.dataclass
class Gateway:
    """A running gateway."""

    port: int
    process: subprocess.Popen
    configuration: pathlib.Path
    log: pathlib.Path

    def says(self):
        return self.log.read_text(errors="replace")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def configuration(port, access, prefix, timeout, clients):
    store = {"url": access.url(), "prefix": prefix, "timeout": timeout, "expected_clients": clients}
    if access.username:
        store["username"] = f"${{{USERNAME}}}"
    if access.password:
        store["password"] = f"${{{PASSWORD}}}"
    named = {"ca": access.ca and str(pathlib.Path(access.ca).resolve()), "server_name": access.server_name}
    if tls := {name: value for name, value in named.items() if value}:
        store["tls"] = tls
    policies = "".join(f"  {name}: {{ key: \"header:x-client\", {fields} }}\n" for name, fields in POLICIES.items())
    routes = "".join(f"- {{ path: /{name}, policies: [{name}], respond: {{ body: ok }} }}\n" for name in POLICIES)
    return (
        f'listeners: [{{ address: "127.0.0.1:{port}" }}]\n'
        f"store: {{ redis: {json.dumps(store)} }}\n"
        f"policies:\n{policies}routes:\n{routes}"
        "telemetry: { access_log: false }\n"
    )


def environment(access):
    """The environment of all programs of the gateway."""
    names = {"TOLLGATE_LOG": "info", "TOLLGATE_LOG_FORMAT": "text", "NO_COLOR": "1"}
    return os.environ | names | {USERNAME: access.username, PASSWORD: access.password}


def start(program, directory, access, prefixes, timeout, clients):
    """Starts a gateway for each prefix. Their end is that of the stack that is returned."""
    stack = contextlib.ExitStack()
    gateways = []
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(stack.close)
        for number, (port, prefix) in enumerate(zip(ports.reserve(len(prefixes)), prefixes)):
            file, log = directory / f"gateway-{number}.yaml", directory / f"gateway-{number}.log"
            file.write_text(configuration(port, access, prefix, timeout, clients))
            with log.open("wb") as output:
                command = [program, "run", "-c", file]
                process = subprocess.Popen(command, stdout=output, stderr=output, env=environment(access))
            gateways.append(Gateway(port, process, file, log))
            stack.callback(gateways[-1].stop)
        for gateway in gateways:
            wait_for_store(gateway)
        on_failure.pop_all()
    return stack, gateways


def wait_for_store(gateway):
    """Waits until the workers of a gateway use its store. Connections are spread over workers."""
    end = time.monotonic() + START_TIMEOUT_S
    problem = ""
    while time.monotonic() < end and gateway.process.poll() is None:
        try:
            if all(ask_once(gateway.port, "/cost", "first") == (200, False) for _ in range(8)):
                return
            problem = "its answers have X-Ratelimit-Source: local"
        except (OSError, http.client.HTTPException) as error:
            problem = str(error)
        time.sleep(0.1)
    raise Failure(f"a gateway does not use the store: {problem}")


def ask_once(port, path, client):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
    with contextlib.closing(connection):
        return ask(connection, path, client)


def ask(connection, path, client):
    """The status, and whether the gateway has decided without its store."""
    connection.request("GET", path, headers={"X-Client": client})
    response = connection.getresponse()
    response.read()
    return response.status, response.getheader("X-Ratelimit-Source") == "local"


class Load:
    """What the gateways have answered to 64 connections at once: the statuses of each client."""

    def __init__(self, gateways, path, clients, requests):
        """Each connection sends this number of requests, of all these clients in turn. No two
        connections begin with the same client, if there are enough of them."""
        self.admitted, self.local, self.others = dict.fromkeys(clients, 0), 0, []
        self.lock, self.at_once = threading.Lock(), threading.Barrier(CONNECTIONS)
        of_all = [(gateways[it % len(gateways)].port, it * len(clients) // CONNECTIONS) for it in range(CONNECTIONS)]
        threads = [threading.Thread(target=self.send, args=(*one, path, clients, requests), daemon=True) for one in of_all]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def send(self, port, first, path, clients, requests):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
            connection.connect()
        except OSError as error:
            self.at_once.abort()
            return self.note(None, str(error), False)
        with contextlib.closing(connection), contextlib.suppress(threading.BrokenBarrierError):
            self.at_once.wait(ANSWER_TIMEOUT_S)
            for turn in range(requests):
                client = clients[(first + turn) % len(clients)]
                try:
                    self.note(client, *ask(connection, path, client))
                except (OSError, http.client.HTTPException) as error:
                    return self.note(client, repr(error), False)

    def note(self, client, status, is_local):
        with self.lock:
            self.local += is_local
            if status == 200:
                self.admitted[client] += 1
            elif status != 429:
                self.others.append(status)

    def problems(self):
        """The answers that no store in use gives."""
        found = []
        if self.local:
            found.append(f"{self.local} answers without the store: is --timeout shorter than a call, or this machine busy?")
        if self.others:
            found.append(f"{len(self.others)} other answers, such as {self.others[0]}")
        return found
