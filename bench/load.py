"""The clients of a measurement: as fast as possible, at a fixed rate, or idle."""

import collections
import gc
import json
import random
import re
import select
import socket
import ssl
import subprocess
import time

from bed import BENCH, Failure

READ = 256 * 1024
BROWSER_PATH = "/small?colour=blue&size=42"  # of requests of the kind "browser"


def request(path="/orders", key="client-00001"):
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: {key}\r\n\r\n".encode()


def wrk(bed, port, seconds, connections, **more):
    """Lets wrk send requests as fast as they are answered; returns its report (keys.lua)."""
    command = wrk_command(bed, port, seconds, connections, **more)
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def wrk_command(bed, port, seconds, connections, traffic="turns", clients=1000, path="/orders", tls=False, kind="keep", body=0, pause_ms=None):
    """The command of wrk. A body of that many bytes is sent, if it is not 0. A connection pauses between requests."""
    url = f"{'https' if tls else 'http'}://127.0.0.1:{port}{path}"
    command = ["taskset", "--cpu-list", str(bed.load_core), "wrk", "--threads", "1"]
    command += ["--connections", str(connections), "--duration", f"{seconds}s", "--timeout", "5s"]
    command += ["--script", str(BENCH / "keys.lua"), url, "--"]
    return [*command, traffic, str(clients), path, kind, str(body), *([str(pause_ms)] if pause_ms else [])]


def h2load(bed, port, seconds, connections, streams, path="/orders", tls=True, more=(), status=200):
    """Lets h2load send requests, over HTTP/2 if nothing else is said; returns a report like that of wrk.

    Requests with another status are errors.
    """
    log = bed.directory / "h2load.log"
    log.unlink(missing_ok=True)  # h2load would append to it
    more = ["--log-file", str(log), *more]
    subprocess.run(h2load_command(bed, port, seconds, connections, streams, path, tls, more), check=True, capture_output=True)
    statuses, times_us = collections.Counter(), []
    with open(log) as lines:
        for line in lines:
            _, status, time_us = line.split()
            statuses[status] += 1
            times_us.append(int(time_us))
    answered = statuses.pop(str(status), 0)
    return {
        "requests": answered,
        "duration_us": seconds * 1_000_000,
        "p50_us": percentile(times_us, 0.50),
        "p99_us": percentile(times_us, 0.99),
        "errors": {f"status {other}": count for other, count in statuses.items()},
    }


def h2load_command(bed, port, seconds, connections, streams, path="/orders", tls=True, more=()):
    command = ["taskset", "--cpu-list", str(bed.load_core), "h2load", "--threads", "1"]
    command += ["--clients", str(connections), "--max-concurrent-streams", str(streams)]
    command += ["--duration", str(seconds), "--header", "x-api-key: first"]
    return [*command, *more, f"{'https' if tls else 'http'}://127.0.0.1:{port}{path}"]


def failures_in(output, http2):
    """The failed requests that wrk or h2load has printed. When its time is over, h2load leaves some without an answer."""
    if http2:
        _, *wrong = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", output).groups()
        counts = dict(zip(["3xx", "4xx", "5xx"], map(int, wrong)))
    else:
        counts = json.loads(output.splitlines()[-1])["errors"]
    return {kind: count for kind, count in counts.items() if count}


def percentile(values, share):
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))] if ordered else 0


# --- A connection for each request.


def handshakes(port, seconds, path, resumes):
    """Sends requests, each on a connection with TLS of its own, one after the other; returns a report like that of wrk.

    If `resumes`, each connection resumes the session of the one before.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    content = request(path).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    errors, answered, session = collections.Counter(), 0, None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        plain = socket.create_connection(("127.0.0.1", port))
        # Else the request waits until the server confirms the end of the handshake.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(plain, session=session) as connection:
            connection.sendall(content)
            response = connection.recv(READ)
            while more := connection.recv(READ):
                response += more
            errors["status"] += not response.startswith(b"HTTP/1.1 200 ")
            errors["not resumed"] += session is not None and not connection.session_reused
            answered += 1
            # The server sends the session after its part of the handshake.
            session = connection.session if resumes else None
    return {"requests": answered, "duration_us": seconds * 1_000_000, "errors": errors}


# --- At a fixed rate.


class Steady:
    """Sends requests at random times with a fixed mean rate, whether or not others are answered.

    The times between two requests have an exponential distribution, as of many independent
    clients. A request takes an idle connection. If there is none it waits for one, and this
    wait is a part of its time. A delay of this program itself is not: such a request counts
    from the moment at which it is sent.
    """

    def __init__(self, port, rate_per_s, connections, content):
        self.idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
        for connection in self.idle:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
        self.all = list(self.idle)
        self.gap_ns, self.content = 1e9 / rate_per_s, content
        self.draw = random.Random(1)  # the same times for every gateway
        self.begun_ns, self.waiting, self.partial = {}, collections.deque(), {}
        self.times_us, self.statuses = [], collections.Counter()

    def run(self, seconds):
        """Returns the times in microseconds, and the number of responses of each status."""
        gc.disable()  # a collection would be a delay
        try:
            self.send_all(seconds)
        finally:
            gc.enable()
            for connection in self.all:
                connection.close()
        return self.times_us, self.statuses

    def send_all(self, seconds):
        clock = time.perf_counter_ns
        due = clock()
        end = due + int(seconds * 1e9)
        while due < end or self.begun_ns:
            now = clock()
            while due <= now and due < end:
                if self.idle:
                    self.send(self.idle.pop(), clock())
                else:
                    self.waiting.append(due)
                due += self.draw.expovariate(1) * self.gap_ns
            wait_ns = due - clock() if due < end else 1e9
            readable, _, _ = select.select(list(self.begun_ns), [], [], max(0, wait_ns) / 1e9)
            for connection in readable:
                self.receive(connection, clock())
            if now > end + 5e9:
                raise Failure("requests at a fixed rate are not answered within 5 s")

    def send(self, connection, since_ns):
        self.begun_ns[connection] = since_ns
        connection.send(self.content)

    def receive(self, connection, now):
        piece = connection.recv(READ)
        answer = self.partial.pop(connection, b"") + piece
        if not piece:
            raise Failure(f"a connection was closed while it had a request: {answer[:80]!r}")
        if not is_whole(answer):
            self.partial[connection] = answer
            return
        self.times_us.append((now - self.begun_ns.pop(connection)) / 1000)
        self.statuses[int(answer[9:12])] += 1
        if self.waiting:
            self.send(connection, self.waiting.popleft())
        else:
            self.idle.append(connection)


def is_whole(answer):
    """Whether this is a response to its end, by its Content-Length."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    if end and length is None:
        raise Failure(f"a response has no Content-Length: {head!r}")
    return bool(end) and len(body) >= int(length[1])


# --- Idle.


def idle_connections(port, number, path, tls):
    """Connections that have each served one request and stay open."""
    context = ssl._create_unverified_context() if tls else None
    connections = []
    for _ in range(number):
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        if context:
            connection = context.wrap_socket(connection)
        connections.append(connection)
        connection.sendall(request(path))
        answer = connection.recv(READ)
        while not is_whole(answer):
            piece = connection.recv(READ)
            if not piece:
                raise Failure(f"connection {len(connections)} was closed: {answer[:80]!r}")
            answer += piece
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise Failure(f"connection {len(connections)} was answered with {answer[:80]!r}")
    return connections
