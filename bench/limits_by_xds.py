"""What limits from a server of xDS cost. bench/xds runs it.

Calls: h2load asks one descriptor in turns (A B A B ...) of programs that were told 10 and 1,000 descriptors, with the
program on the first core and the load on the second.

Update: a client makes 1,000 calls a second, each at its time whatever the others do. Without an update and then while
the server tells a response of N MiB, the time of each call counts from when it was due. The program has one worker and
one core, so that the check of the response and the calls share it. The client has the second core before all others.
Started as root, the program comes before other programs of the machine."""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import concurrent.futures

sys.dont_write_bytecode = True

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc

import bed as beds

sys.path.append(str(beds.PROJECT / "tests/clients/xds"))
import server as xds

RATE = 1000
CONNECTIONS = 32


def field(tag, content):
    """A field of a message of protocol buffers, of fewer than 128 bytes."""
    return bytes([tag << 3 | 2, len(content)]) + content


def domain(number, padding=0):
    limit = {"unit": "MINUTE", "requests_per_unit": 100_000_000}
    key = lambda index: f"key-{index}" + "x" * padding
    return {"name": "edge", "domain": "edge", "descriptors": [{"key": key(it), "rate_limit": limit} for it in range(number)]}


@contextlib.contextmanager
def told(program, core, config):
    """A program on a core, and the server that it asks."""
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service = Prepared(config)
        options = [("grpc.max_send_message_length", -1), ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000)]
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=options)
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(service, server)
        port, door = server.add_insecure_port("127.0.0.1:0"), beds.free_port()
        server.start()
        stack.callback(server.stop, None)
        (directory / "gateway.yaml").write_text(
            f"check: {{ grpc: {{ address: 127.0.0.1:{door}, xds: {{ server: 'h2c://127.0.0.1:{port}' }} }} }}\n"
            "runtime: { workers: 1 }\ntelemetry: { log: { level: info, format: text }, access_log: false }\n"
        )
        log = stack.enter_context(open(directory / "log", "wb"))
        run = [program, "run", "-c", str(directory / "gateway.yaml")]
        command = [*before_others(-19), "taskset", "--cpu-list", str(core), *run]
        process = subprocess.Popen(command, stderr=log)
        stack.callback(beds.stop, process)
        beds.wait_for_port(program, door, process)
        yield service, process, door, lambda: (directory / "log").read_text()


def before_others(niceness):
    """What starts a command with this priority, if that is allowed."""
    return ["nice", "-n", str(niceness)] if os.geteuid() == 0 else []


def wait(what, is_so):
    for _ in range(3000):
        if is_so():
            return
        time.sleep(0.02)
    raise beds.Failure(f"{what}: not within 60 s")


def calls(program, cores, config, rounds, seconds):
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = {}
        for number in (10, 1000):
            service, process, door, log = stack.enter_context(told(program, cores[0], config))
            service.set([domain(number)])
            wait("the limits", lambda: "are in use" in log())
            entry = field(1, f"key-{number - 1}".encode()) + field(2, b"first")
            message = field(1, b"edge") + field(2, field(1, entry))
            file = directory / str(number)
            file.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
            found[number] = (process, door, file, [])

        def load(door, file, seconds):
            url = f"http://127.0.0.1:{door}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
            fields = ["--header", "te: trailers", "--header", "content-type: application/grpc", "--data", str(file)]
            many = ["--max-concurrent-streams", "10", "--clients", str(CONNECTIONS), "--threads", "1", "--duration", str(seconds)]
            command = ["taskset", "--cpu-list", str(cores[1]), "h2load", *many, *fields, url]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            return int(re.search(r"status codes: (\d+) 2xx", output)[1])

        for process, door, file, _ in found.values():
            load(door, file, 1)
        for _ in range(rounds):
            for process, door, file, costs in found.values():
                before = beds.cpu_us([process.pid])
                answered = load(door, file, seconds)
                costs.append((beds.cpu_us([process.pid]) - before) / answered)
        for number, (*_, costs) in found.items():
            print(f"{number:>5} descriptors: {statistics.median(costs):.2f} us of CPU a call ({min(costs):.2f} to {max(costs):.2f})")


async def steady(door, seconds):
    """The times of calls, in ms, and how many failed. Tells when a third has passed."""
    times, failed, tasks = [], [], []
    gc.disable()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door}") as channel:
        stub = rls_pb2_grpc.RateLimitServiceStub(channel)
        request = rls_pb2.RateLimitRequest(domain="edge")
        request.descriptors.add().entries.add(key="key-0", value="v")

        async def one(due):
            try:
                await stub.ShouldRateLimit(request, timeout=30)
                times.append((time.monotonic() - due) * 1000)
            except grpc.RpcError as error:
                failed.append(str(error.code()))

        for _ in range(100):
            await stub.ShouldRateLimit(request)
        begun = time.monotonic()
        for number in range(int(seconds * RATE)):
            due = begun + number / RATE
            if (pause := due - time.monotonic()) > 0:
                await asyncio.sleep(pause)
            if number == int(seconds * RATE / 3):
                print("third", flush=True)
            tasks.append(asyncio.create_task(one(due)))
        await asyncio.gather(*tasks)
    print(json.dumps({"times": sorted(times), "failed": len(failed)}))


def measured(door, seconds, at_third):
    """The output of a client in a process of its own."""
    command = [*before_others(-20), sys.executable, __file__, "--client", str(door), str(seconds)]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if client.stdout.readline() != "third\n":
        raise beds.Failure("the client has ended")
    at_third()
    output = json.loads(client.stdout.read())
    if client.wait() != 0:
        raise beds.Failure("the client has failed")
    return output


class Prepared(xds.Server):
    """A server that has its response before it tells it."""

    prepared = None

    def heard(self, text):
        pass

    def response(self):
        if self.prepared is None:
            return super().response()
        self.prepared.version_info = self.prepared.nonce = str(self.version)
        return self.prepared

    def prepare(self, domain):
        self.prepared = discovery_pb2.DiscoveryResponse(type_url=xds.TYPE)
        self.prepared.resources.add(type_url=xds.TYPE, value=domain.SerializeToString())

    def tell(self):
        with self.lock:
            self.version += 1
            for stream in self.streams:
                stream.put(None)


def update(program, cores, config, mib, seconds):
    padding = 200
    number = mib * 1024 * 1024 // (padding + 26)
    with told(program, cores[0], config) as (service, process, door, log):
        service.set([domain(10)])
        wait("the limits", lambda: "are in use" in log())
        status = pathlib.Path(f"/proc/{process.pid}/status")
        memory = lambda name: int(re.search(rf"{name}:\s+(\d+)", status.read_text())[1]) / 1024

        def show(what, output):
            times, failed = output["times"], output["failed"]
            of = lambda share: times[int(len(times) * share)]
            print(f"{what}: p50 {of(0.5):.2f} ms, p99 {of(0.99):.2f} ms, longest {times[-1]:.2f} ms, {failed} failed")
            return times[-1]

        both = domain(10)
        both["descriptors"] += domain(number, padding)["descriptors"]
        large = xds.json_format.ParseDict(both, config())
        size = large.ByteSize() / 1024 / 1024
        before = memory("VmRSS")
        calm = show("calm  ", measured(door, seconds, lambda: None))
        service.prepare(large)
        longest = show("update", measured(door, seconds, service.tell))
        wait("the update", lambda: log().count("are in use") == 2)
        print(f"the longest call took {longest - calm:+.2f} ms")
        print(
            f"the update had {size:.1f} MiB and {number} descriptors; "
            f"memory {before:.0f} MiB before, {memory('VmRSS'):.0f} after, {memory('VmHWM'):.0f} at most"
        )


def main():
    if sys.argv[1] == "--client":
        return asyncio.run(steady(int(sys.argv[2]), int(sys.argv[3])))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--mib", type=int, default=50, metavar="N", help="size of the update (default 50)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns of each (default 5)")
    parser.add_argument("--seconds", type=int, default=4, metavar="S", help="length of a turn (default 4)")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    config = xds.messages().RateLimitConfig
    calls(options.program, cores, config, options.rounds, options.seconds)
    os.sched_setaffinity(0, {cores[1]})
    update(options.program, cores, config, options.mib, 4 * options.seconds)


if __name__ == "__main__":
    beds.run_main("xds", main)
