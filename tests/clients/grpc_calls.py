#!/usr/bin/env python3
"""gRPC through the gateway: grpc_calls.py BACKEND_PORT GATEWAY_PORT CA

Starts a backend and calls it in all four streaming kinds. Messages are bytes, so
that no generated code is necessary. The gateway limits the service "test.Limited".
"""

import concurrent.futures
import pathlib
import queue
import sys
import time

import grpc

PIECES = 100
PIECE = b"x" * 10_000


def unary(request, context):
    context.set_trailing_metadata((("x-trailer", "at the end"),))
    return request


def refused(request, context):
    context.set_trailing_metadata((("x-trailer", "with the refusal"),))
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now: 100 %")


def slow(request, context):
    for _ in range(1000):
        if not context.is_active():
            return b""
        time.sleep(0.01)
    return b""


def server_stream(request, context):
    for number in range(PIECES):
        yield b"%d" % number + PIECE


def client_stream(requests, context):
    return b"%d" % sum(len(request) for request in requests)


def both_streams(requests, context):
    yield from requests


def start_backend(port):
    services = {
        "test.Calls": {
            "Unary": grpc.unary_unary_rpc_method_handler(unary),
            "Refused": grpc.unary_unary_rpc_method_handler(refused),
            "Slow": grpc.unary_unary_rpc_method_handler(slow),
            "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
            "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
            "BothStreams": grpc.stream_stream_rpc_method_handler(both_streams),
        },
        "test.Limited": {"Unary": grpc.unary_unary_rpc_method_handler(unary)},
    }
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(name, methods) for name, methods in services.items()]
    )
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server


def check(what, is_so):
    if not is_so:
        sys.exit(f"gRPC: {what}: no")
    print(f"ok  gRPC: {what}", flush=True)


def failure_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    return None


def check_streams(channel):
    answer, call = channel.unary_unary("/test.Calls/Unary").with_call(b"hello", timeout=10)
    check("one message for one message", answer == b"hello")
    check("trailers arrive", ("x-trailer", "at the end") in list(call.trailing_metadata()))
    pieces = list(channel.unary_stream("/test.Calls/ServerStream")(b"", timeout=20))
    check("a stream of answers", pieces == [b"%d" % number + PIECE for number in range(PIECES)])
    count = channel.stream_unary("/test.Calls/ClientStream")(iter([PIECE] * PIECES), timeout=20)
    check("a stream of requests", count == b"%d" % (PIECES * len(PIECE)))
    check("streams both ways, in turn", is_in_turn(channel.stream_stream("/test.Calls/BothStreams")))


def is_in_turn(method):
    """Each request is sent when the one before has been answered."""
    to_say = queue.SimpleQueue()
    answers = method(iter(to_say.get, None), timeout=20)
    for number in range(PIECES):
        to_say.put(b"%d" % number)
        if next(answers) != b"%d" % number:
            return False
    to_say.put(None)
    return list(answers) == []


def check_failures(channel):
    error = failure_of(lambda: channel.unary_unary("/test.Calls/Refused")(b"", timeout=10))
    check("a status arrives", error.code() == grpc.StatusCode.FAILED_PRECONDITION)
    check("its message arrives", error.details() == "not now: 100 %")
    trailers = list(error.trailing_metadata())
    check("its trailers arrive", ("x-trailer", "with the refusal") in trailers)
    error = failure_of(lambda: channel.unary_unary("/test.Calls/Slow")(b"", timeout=0.3))
    check("a deadline ends a call", error.code() == grpc.StatusCode.DEADLINE_EXCEEDED)
    limited = channel.unary_unary("/test.Limited/Unary")
    check("below the limit a call passes", limited(b"hello", timeout=10) == b"hello")
    error = failure_of(lambda: limited(b"hello", timeout=10))
    check("a limit is RESOURCE_EXHAUSTED", error and error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED)


def main():
    backend_port, gateway_port, ca = sys.argv[1:]
    server = start_backend(backend_port)
    credentials = grpc.ssl_channel_credentials(pathlib.Path(ca).read_bytes())
    with grpc.secure_channel(f"localhost:{gateway_port}", credentials) as channel:
        check_streams(channel)
        check_failures(channel)
    server.stop(0)


if __name__ == "__main__":
    main()
