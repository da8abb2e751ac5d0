#!/usr/bin/env python3
"""A scripted server of xDS for the rate limit service: server.py ADDRESS DIRECTORY [CA CERT KEY]

It tells the files of DIRECTORY, one domain in JSON or in YAML each (the words of RateLimitConfig), as version 1, and
again with the next version when one changes. It numbers from 1 in each process, as Envoy Gateway does, and tells a
stream only what it has not told it. With CA, CERT and KEY it speaks TLS and demands certificates of CA. What clients
say is printed. It needs grpcio, grpcio-tools and xds-protos."""

import concurrent.futures
import importlib
import json
import pathlib
import queue
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path = [it for it in sys.path if pathlib.Path(it or ".").resolve() != pathlib.Path(__file__).resolve().parent]

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from google.protobuf import json_format
from grpc_tools import protoc

TYPE = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
HERE = pathlib.Path(__file__).resolve().parent


def messages():
    """The messages of rls_conf.proto, compiled now."""
    with tempfile.TemporaryDirectory() as out:
        well_known = str(pathlib.Path(protoc.__file__).parent / "_proto")
        if protoc.main(["", f"-I{HERE}", f"-I{well_known}", f"--python_out={out}", str(HERE / "rls_conf.proto")]) != 0:
            sys.exit("server.py: rls_conf.proto cannot be compiled")
        sys.path.insert(0, out)
        return importlib.import_module("rls_conf_pb2")


def read(text):
    """JSON, or the part of YAML that these files use if there is a package for it."""
    try:
        return json.loads(text)
    except ValueError:
        import yaml

        return yaml.safe_load(text)


def capitals(value):
    """Files write units in small letters, and messages in capitals."""
    if isinstance(value, list):
        return [capitals(it) for it in value]
    if not isinstance(value, dict):
        return value
    return {k: v.upper() if k == "unit" and isinstance(v, str) else capitals(v) for k, v in value.items()}


class Server(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):
    def __init__(self, config):
        self.config, self.version, self.resources = config, 0, []
        self.streams, self.lock, self.nonce = set(), threading.Lock(), 0

    def set(self, domains):
        """Another state, for all streams."""
        with self.lock:
            self.version += 1
            self.resources = [json_format.ParseDict(it, self.config()) for it in domains]
            for stream in self.streams:
                stream.put(None)

    def heard(self, text):
        print(text, flush=True)

    def response(self):
        with self.lock:
            self.nonce += 1
            response = discovery_pb2.DiscoveryResponse(
                version_info=str(self.version), type_url=TYPE, nonce=f"{self.nonce}"
            )
            for resource in self.resources:
                response.resources.add(type_url=TYPE, value=resource.SerializeToString())
            return response

    def StreamAggregatedResources(self, requests, context):
        events = queue.Queue()
        self.streams.add(events)
        context.add_callback(lambda: (self.streams.discard(events), events.put(StopIteration)))

        def listen():
            try:
                for request in requests:
                    events.put(request)
            except grpc.RpcError:
                pass
            events.put(StopIteration)

        threading.Thread(target=listen, daemon=True).start()
        taken, waits = "", False
        while (event := events.get()) is not StopIteration:
            if event is not None:
                taken, waits = event.version_info, True
                said = f"version {taken!r} nonce {event.response_nonce!r}"
                node = f" node {event.node.id}" if event.node.id else ""
                fault = f" error {event.error_detail.message!r}" if event.HasField("error_detail") else ""
                self.heard(f"told {said}{node}{fault}")
                if fault:
                    # The same again would be rejected again.
                    taken = str(self.version)
            if waits and self.version > 0 and taken != str(self.version):
                waits = False
                yield self.response()


def main():
    address, directory, *tls = sys.argv[1:]
    config = messages().RateLimitConfig
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(64),
        options=[("grpc.max_send_message_length", -1), ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000)],
    )
    service = Server(config)
    ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(service, server)
    if tls:
        ca, cert, key = (pathlib.Path(it).read_bytes() for it in tls)
        credentials = grpc.ssl_server_credentials([(key, cert)], ca, require_client_auth=True)
        port = server.add_secure_port(address, credentials)
    else:
        port = server.add_insecure_port(address)
    if port == 0:
        sys.exit(f"server.py: cannot listen on {address}")
    server.start()
    print(f"listening on port {port}", flush=True)
    before = None
    while True:
        files = sorted(it for it in pathlib.Path(directory).iterdir() if not it.name.startswith("."))
        texts = [it.read_text() for it in files]
        if texts != before:
            before = texts
            try:
                domains = [capitals(read(text)) for text in texts]
                service.set([{"name": it.stem, **domain} for it, domain in zip(files, domains)])
                print(f"version {service.version}: {len(domains)} domains", flush=True)
            except Exception as error:  # A file that is half written is read again.
                print(f"not told: {error}", flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
