#!/usr/bin/env python3
"""Envoy's rate limit service, asked with Envoy's own messages: ratelimit_calls.py TOLLGATE DIRECTORY SECONDS

A real Envoy asks too, for SECONDS, while the store answers after 50 ms. DIRECTORY is for files. It
needs grpcio, xds-protos, envoy and redis-server.
"""

import concurrent.futures
import json
import pathlib
import queue
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import grpc
from envoy.service.auth.v3 import external_auth_pb2  # noqa: F401: adds its messages to the pool
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import envoy_front
import ports

OK, OVER = rls_pb2.RateLimitResponse.OK, rls_pb2.RateLimitResponse.OVER_LIMIT
MINUTE = 2
LIMITS = """
domain: test
descriptors:
  - key: small
    rate_limit: {unit: day, requests_per_unit: 5}
  - key: large
    rate_limit: {unit: day, requests_per_unit: 700}
  - key: path
    value: /api/*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: banned
    rate_limit: {unit: day, requests_per_unit: 0}
  - key: free
    rate_limit: {unlimited: true}
"""


def same(what, expected, actual):
    if expected != actual:
        sys.exit(f"FAILED  {what}: expected {expected!r}, got {actual!r}")
    print(f"ok  {what}")


def wait_for(port):
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"FAILED  nothing listens on port {port}")


def start(files, name, command):
    with open(files / f"{name}.log", "wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def question(*descriptors, domain="test", hits=0):
    """Each descriptor: a list of entries, and further fields."""
    request = rls_pb2.RateLimitRequest(domain=domain, hits_addend=hits)
    for entries, fields in descriptors:
        descriptor = request.descriptors.add()
        for key, value in entries:
            descriptor.entries.add(key=key, value=value)
        if "hits" in fields:
            descriptor.hits_addend.value = fields["hits"]
        if "limit" in fields:
            descriptor.limit.requests_per_unit, descriptor.limit.unit = fields["limit"]
        if fields.get("negative"):
            # Field 4, which the published messages do not have yet.
            descriptor.MergeFromString(b"\x20\x01")
    return request


def one(key, value="v", **fields):
    return [(key, value)], fields


class Client:
    def __init__(self, port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.service = rls_pb2_grpc.RateLimitServiceStub(self.channel)

    def ask(self, *descriptors, timeout=10, **fields):
        return self.service.ShouldRateLimit(question(*descriptors, **fields), timeout=timeout)

    def told(self, *descriptors, **fields):
        response = self.ask(*descriptors, **fields)
        return response.overall_code, [(it.code, it.limit_remaining) for it in response.statuses]

    def fails(self, request):
        try:
            self.service.ShouldRateLimit(request, timeout=10)
        except grpc.RpcError as error:
            return error.code()
        return None


def check_calls(client):
    codes = [client.ask(one("small")).overall_code for _ in range(6)]
    same("over limit", [OK] * 5 + [OVER], codes)
    status = client.ask(one("small")).statuses[0]
    until_midnight = 86400 - time.time() % 86400
    same("the limit", (5, 4), (status.current_limit.requests_per_unit, status.current_limit.unit))
    told = status.duration_until_reset
    same("whole seconds until reset, long enough", (True, 0), (0 <= told.seconds - until_midnight + 1 < 3, told.nanos))
    client.ask(one("small", "near", hits=4))
    same("near limit", (OK, [(OK, 0)]), client.told(one("small", "near")))
    several = (one("small", "a"), one("unknown"), one("free"), one("banned"))
    same("several descriptors", (OVER, [(OK, 4), (OK, 0), (OK, 2**32 - 1), (OVER, 0)]), client.told(*several))
    same("the same counter twice", (OVER, [(OK, 2), (OVER, 0)]), client.told(one("small", "b", hits=3), one("small", "b", hits=3)))
    same("a wildcard shares", (OK, [(OK, 2), (OK, 1)]), client.told(one("path", "/api/a"), one("path", "/api/b")))
    same("override", (OK, [(OK, 1)]), client.told(one("small", "o", limit=(2, MINUTE))))
    same("0 hits", [(OK, [(OK, 5)])] * 2, [client.told(one("small", "z", hits=0)) for _ in range(2)])
    same("the hits of the request", (OK, [(OK, 2)]), client.told(one("small", "r"), hits=3))
    same("2^32-1 hits", (OVER, [(OVER, 0)]), client.told(one("small", "m"), hits=2**32 - 1))
    same("a report beyond the limit counts", (OVER, [(OVER, 0)]), client.told(one("small", "m", hits=0)))
    same("hits are given back", (OK, [(OK, 5)]), client.told(one("small", "r", hits=9, negative=True)))


def check_malformed(client):
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    for what, request in {
        "no domain": question(one("small"), domain=""),
        "no descriptors": question(),
        "no entries": question(([], {})),
        "no key": question(one("")),
        "an unknown unit": question(one("small", limit=(1, 0))),
        "too many descriptors": question(*[one("small")] * 129),
    }.items():
        same(f"malformed: {what}", invalid, client.fails(request))
    same("too large", grpc.StatusCode.RESOURCE_EXHAUSTED, client.fails(question(one("small", "x" * 300_000))))
    for timeout in (0.5, 5):
        same(f"a deadline of {timeout} s", OK, client.ask(one("large", "deadline"), timeout=timeout).overall_code)


def check_concurrency(client):
    def call(_):
        return client.ask(one("large", "all")).overall_code

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        codes = list(pool.map(call, range(1000)))
    same("1,000 concurrent calls are exact", (700, 300), (codes.count(OK), codes.count(OVER)))


# The messages of reflection, of which a client must know these fields. 12: bytes, 9: a text.
REFLECTION = {
    "Question": [("file_by_filename", 3, 9, None), ("file_containing_symbol", 4, 9, None), ("list_services", 7, 9, None)],
    "Answer": [("files", 4, 11, "Files"), ("services", 6, 11, "Services"), ("error", 7, 11, "Error")],
    "Files": [("file", 1, 12, None)],
    "Services": [("service", 1, 11, "Service")],
    "Service": [("name", 1, 9, None)],
    "Error": [("code", 1, 5, None)],
}


def reflection_messages():
    """Classes for them. The choice among fields does not show on the wire."""
    file = descriptor_pb2.FileDescriptorProto(name="reflection.proto", package="client")
    for name, fields in REFLECTION.items():
        message = file.message_type.add(name=name)
        for field, number, kind, type_name in fields:
            repeated = name in ("Files", "Services")
            added = message.field.add(name=field, number=number, type=kind, label=3 if repeated else 1)
            if type_name:
                added.type_name = f".client.{type_name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"client.{name}")) for name in ("Question", "Answer")]


def shape(message):
    """The fields of a message: number, name, type, whether there can be several, type of messages."""
    kind = lambda field: field.message_type.full_name if field.message_type else None
    several = lambda field: field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
    return {(it.number, it.name, it.type, several(it), kind(it)) for it in message.fields}


def check_reflection(client):
    question, answer = reflection_messages()
    for version in ("v1", "v1alpha"):
        method = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        call = client.channel.stream_stream(method, question.SerializeToString, answer.FromString)
        # A client that asks the next question when it has the last answer.
        questions = queue.SimpleQueue()
        answers = call(iter(questions.get, None), timeout=10)

        def ask(**fields):
            # Empty texts count too, because a choice is made.
            questions.put(question(**fields))
            return next(answers)

        services = [it.name for it in ask(list_services="*").services.service]
        same(f"services by reflection {version}", 5, len(services))
        found, pool = {}, descriptor_pool.DescriptorPool()
        for service in services:
            for data in ask(file_containing_symbol=service).files.file:
                file = descriptor_pb2.FileDescriptorProto.FromString(data)
                found[file.name] = file
        same("a file by its name", 1, len(ask(file_by_filename="google/rpc/status.proto").files.file))
        same("no such symbol", 5, ask(file_containing_symbol="none").error.code)
        questions.put(None)
        same("the call ends with its questions", [], list(answers))
        same("and with success", grpc.StatusCode.OK, answers.code())

    def add(name):
        file = found.pop(name, None)
        if file:
            for dependency in file.dependency:
                add(dependency)
            pool.Add(file)
            names.extend(f"{file.package}.{it.name}" for it in file.message_type)

    names = []
    for name in list(found):
        add(name)
    published, new = descriptor_pool.Default(), (4, "is_negative_hits", 8, False, None)

    def differences(message, other):
        wrong = shape(message) - shape(other) - {new}
        inner = {it.name: it for it in other.nested_types}
        return [f"{message.full_name}: {wrong}"] * bool(wrong) + [
            text for it in message.nested_types for text in differences(it, inner[it.name])
        ]

    envoys = [name for name in names if name.startswith(("envoy.", "google."))]
    same("the messages are found", True, len(envoys) > 20)
    wrong = [text for name in envoys for text in differences(pool.FindMessageTypeByName(name), published.FindMessageTypeByName(name))]
    same(f"{len(envoys)} messages have fields that Envoy has published", [], wrong)


class SlowStore(threading.Thread):
    """Passes bytes between Tollgate and Redis, answers with a delay."""

    def __init__(self, port, redis, delay):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", port))
        self.redis, self.delay = redis, delay

    def run(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.redis))
            threading.Thread(target=self.copy, args=(client, server, 0), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, self.delay), daemon=True).start()

    def copy(self, source, sink, delay):
        late = []
        ready = threading.Condition()

        def send():
            while True:
                with ready:
                    while not late:
                        ready.wait()
                    due, data = late.pop(0)
                time.sleep(max(0, due - time.monotonic()))
                try:
                    sink.sendall(data)
                except OSError:
                    return

        threading.Thread(target=send, daemon=True).start()
        while data := source.recv(65536):
            with ready:
                late.append((time.monotonic() + delay, data))
                ready.notify()


# What a request counts at Envoy.
BY_CLIENT = [{"actions": [{"request_headers": {"header_name": "x-client", "descriptor_key": "small"}}]}]


# What Envoy counts of its cluster if calls are answered, or are too late for it.
EXPECTED = re.compile(
    r"(default\.total_match_count|membership_(change|healthy|total)|http2\.(nghttp2_upstream_connections|tx_reset|streams_active|pending_send_bytes)"
    r"|upstream_cx_(total|active|http2_total|[rt]x_bytes_(total|buffered))"
    r"|(internal\.)?upstream_rq_(200|2xx|504|5xx|completed)|upstream_rq_(total|active|pending_total|pending_active|timeout|tx_reset)"
    r"|update_.*|warming_state|version|upstream_flow_control_.*_total)"
)


def get(port, client):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"x-client": client})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


def envoy_statistics(admin):
    url = f"http://127.0.0.1:{admin}/stats?format=json&filter=cluster.tollgate|ratelimit"
    with urllib.request.urlopen(url, timeout=10) as response:
        stats = json.load(response)["stats"]
    return {it["name"]: it["value"] for it in stats if "value" in it}


def check_envoy(files, tollgate, seconds):
    """A proxy that waits 20 ms, and a store that answers after 50 ms: this node decides alone."""
    redis, slow, door, front, back, admin = ports.reserve(6)
    processes = [start(files, "redis", ["redis-server", "--port", str(redis), "--save", "", "--dir", str(files)])]
    try:
        wait_for(redis)
        SlowStore(slow, redis, 0.05).start()
        (files / "slow.yaml").write_text(
            f"store: {{ redis: {{ url: 'redis://127.0.0.1:{slow}', timeout: 100ms }} }}\n"
            f"check: {{ grpc: {{ address: '127.0.0.1:{door}', envoy_config: limits }} }}\n"
        )
        processes.append(start(files, "slow", [tollgate, "run", "--config", str(files / "slow.yaml")]))
        wait_for(door)
        settings = {"domain": "test", "timeout": "0.02s"}
        command = envoy_front.command(files / "envoy.json", front, back, admin, door, BY_CLIENT, settings)
        processes.append(start(files, "envoy", command))
        wait_for(front)
        codes, until, lock = {}, time.monotonic() + seconds, threading.Lock()

        def load(worker):
            number = 0
            while time.monotonic() < until:
                number += 1
                status, _ = get(front, f"{worker}-{number // 20}")
                with lock:
                    codes[status] = codes.get(status, 0) + 1

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(load, range(16)))
        stats = envoy_statistics(admin)
        shown = {name.removeprefix("cluster.tollgate."): value for name, value in stats.items() if value}
        print("    " + json.dumps({"responses": codes, "envoy": shown}, sort_keys=True))
        # An answer can be late at any time; then Envoy lets the request pass.
        for _ in range(100):
            status, fields = get(front, "0-0")
            if status == 429:
                break
        same("Envoy refuses by what this node counts", 429, status)
        same("Envoy's fields about the limit", True, "x-ratelimit-limit" in fields and "ratelimit" in fields)
        same("only these statuses", {200, 429}, set(codes))
        of = lambda name: stats.get(f"cluster.tollgate.{name}", 0)
        same("one connection, which is not closed", (1, 1), (of("upstream_cx_total"), of("upstream_cx_active")))
        own = {name.removeprefix("cluster.tollgate."): value for name, value in stats.items() if name.startswith("cluster.tollgate.")}
        same("no other error", [], [name for name, value in own.items() if value and not EXPECTED.fullmatch(name)])
        same("Envoy resets what it does not wait for, and nothing else", [of("upstream_rq_timeout")] * 2, [of("upstream_rq_tx_reset"), of("http2.tx_reset")])
        answered = sum(value for name, value in stats.items() if name.endswith(("ratelimit.ok", "ratelimit.over_limit")))
        # How many are in time depends on the machine, so one is enough here.
        same("the fallback is heard", True, answered > 0)
        others = {"ok", "over_limit", "error", "failure_mode_allowed"}
        strange = [name for name, value in stats.items() if ".ratelimit." in name and value and name.split(".")[-1] not in others]
        same("no other outcome", [], strange)
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(10)


def main():
    tollgate, files = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    seconds = float(sys.argv[3])
    (files / "limits").mkdir(exist_ok=True)
    (files / "limits" / "test.yaml").write_text(LIMITS)
    (door,) = ports.reserve(1)
    config = files / "gateway.yaml"
    config.write_text(f"check: {{ grpc: {{ address: '127.0.0.1:{door}', envoy_config: limits, reflection: true }} }}\n")
    gateway = start(files, "tollgate", [tollgate, "run", "--config", str(config)])
    try:
        wait_for(door)
        client = Client(door)
        check_calls(client)
        check_malformed(client)
        check_concurrency(client)
        check_reflection(client)
    finally:
        gateway.terminate()
        gateway.wait(10)
    for program in ("envoy", "redis-server"):
        if not shutil.which(program):
            sys.exit(f"FAILED  Envoy: {program} is not installed: scripts/test-ratelimit installs it")
    check_envoy(files, tollgate, seconds)


if __name__ == "__main__":
    main()
