#!/usr/bin/env python3
"""Counts the instructions of a request: run.py DIRECTORY [--show] [--runs N] [--requests N] PROGRAM...

The gateway runs under callgrind, and a client sends the same requests, one after the other, on one
connection, or on a new one each. Counting begins when the gateway is warm. So the count depends on the program:
other programs, the speed of the cores and the sizes of caches have no part in it.

Without --show the counts are compared with those that tests/instructions/counts.json has for this
platform. Exit code 1 means that a count is more than the tolerance above or below the recorded one,
or that none is recorded. Another compiler than that of the counts makes other programs, so its
tolerance is wider. UPDATE_GOLDEN=1 records the counts of this platform. With --show the counts of
each PROGRAM are only printed. With --requests 3000, those of a release build differ by less than 0.5 %
between two runs. With the 300 of the tests it is more, because a release build serves them in less
time than what it does at fixed times.

DIRECTORY is for files. Needs valgrind, redis-server and openssl.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import client as clients

RECORDED = pathlib.Path(__file__).with_name("counts.json")
WARMING, COUNTED = 30, 300
IDLE_S = 3
TIMEOUT_S = 60


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What the gateway is set up for, and how the client asks."""

    limit: str = "100000000/minute"
    status: int = 200
    store: str = ""
    tls: bool = False
    client: type = clients.Http1
    as_browser: bool = False
    known_key: bool = False
    key: str = "api_key"


# The text of a key and its entry. Only tests know it, so it is not a secret.
KEY = "tg_hn6j8z2pga8j_3nBVdR5VCGqWCxZhcnx9GzqlWeBnBMk9OHjlqJF4zxv0JGHkg"
KEY_FILE = 'keys: [{ id: hn6j8z2pga8j, sha256: "6ccae51b0337c296baafa59a0ae39cda6b8c916f59ffd460c70e12618479bc1f" }]\n'


# Leases are left out: when they are renewed depends on the time, and that is up to 15 % of the count.
SCENARIOS = {
    "forwarded": Scenario(),
    "a known key": Scenario(known_key=True),
    "browser": Scenario(as_browser=True),
    "refused": Scenario(limit="1/day", status=429),
    "redis exact": Scenario(store="exact"),
    "tls": Scenario(tls=True),
    "http/2": Scenario(client=clients.Http2),
    "a connection each": Scenario(client=clients.Http1Connections),
    "a body": Scenario(client=clients.Http1Posts),
    "a key of the body": Scenario(client=clients.Http1Posts, key='"json:/model"'),
}


class Failure(Exception):
    """An error that ends the run, with a message for the user."""


def configuration(scenario, backend_port, directory, files):
    tls = f", tls: {{ certificates: [{{ cert: {directory}/cert.pem, key: {directory}/key.pem }}] }}" if scenario.tls else ""
    store = f"store: {{ redis: {{ url: 'redis+unix://{files}/redis.sock', mode: {scenario.store} }} }}" if scenario.store else ""
    client = f"client: {{ keys: {{ file: {files}/keys.yaml }} }}" if scenario.known_key else ""
    auth = "auth: api_key, " if scenario.known_key else ""
    return f"""
listeners: [{{ address: "127.0.0.1:0"{tls} }}]
{store}
{client}
upstreams: {{ backend: {{ endpoints: ["http://127.0.0.1:{backend_port}"] }} }}
policies: {{ per-key: {{ key: {scenario.key}, limit: {scenario.limit} }} }}
routes: [{{ path: /*, {auth}policies: [per-key], upstream: backend }}]
telemetry: {{ log: {{ level: info }}, access_log: false }}
runtime: {{ workers: 1 }}
"""


def stop(process):
    process.terminate()
    try:
        process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def start(stack, log, *command, **settings):
    process = subprocess.Popen(command, stdout=log, stderr=log, **settings)
    stack.callback(stop, process)
    return process


def eventually(what, condition, process, log):
    end = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        if process.poll() is not None or time.monotonic() > end:
            raise Failure(f"{what}:\n{pathlib.Path(log.name).read_text()}")
        time.sleep(0.05)
    return found


def port_in(log):
    """The port on which the gateway says that it listens."""
    found = re.search(r" serves 127\.0\.0\.1:(\d+)", log.read_text())
    return found and int(found[1])


def monitor(process, *words):
    """A command to callgrind inside the process."""
    done = subprocess.run(["vgdb", f"--pid={process.pid}", *words], capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise Failure(f"callgrind does not do `{' '.join(words)}`: {done.stderr}")


def counted(process, files, work):
    """The instructions while this is done, and how long it takes.

    The first thread controls the others, from time to time and not for a request: it does not count.
    """
    start_s = time.monotonic()
    monitor(process, "zero")
    work()
    duration_s = time.monotonic() - start_s
    for old in files.glob("counts.*"):
        old.unlink()
    monitor(process, "dump")
    threads = {path.name.rpartition("-")[2]: path.read_text() for path in files.glob("counts.*-*")}
    totals = [re.search(r"^totals: (\d+)", text, re.MULTILINE)[1] for thread, text in threads.items() if thread != "01"]
    return sum(map(int, totals)), duration_s


def count(program, name, directory, requests):
    """The instructions of a request in this scenario, as the mean of so many."""
    scenario = SCENARIOS[name]
    files = directory / name.replace("/", "-").replace(" ", "-")
    files.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(files / "log", "w"))
        backend = stack.enter_context(clients.Backend())
        if scenario.store:
            redis = ["redis-server", "--port", "0", "--unixsocket", "redis.sock", "--save", "", "--dir", str(files)]
            server = start(stack, log, *redis)
            eventually("Redis does not listen", (files / "redis.sock").exists, server, log)
        (files / "keys.yaml").write_text(KEY_FILE)
        (files / "gateway.yaml").write_text(configuration(scenario, backend.port, directory, files))
        counting = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes"]
        counting += [f"--callgrind-out-file={files}/counts"]
        gateway = start(stack, log, *counting, program, "run", "-c", str(files / "gateway.yaml"))
        port = eventually("the gateway does not listen", lambda: port_in(files / "log"), gateway, log)
        fields = clients.BROWSER_FIELDS if scenario.as_browser else clients.FIELDS
        if scenario.known_key:
            fields = {**fields, "x-api-key": KEY}
        client = stack.enter_context(scenario.client(port, scenario.tls, fields))
        # The first request of a key that may do one a day passes.
        client.ask()
        monitor(gateway, "instrumentation", "on")
        client.ask_often(WARMING, scenario.status)
        total, duration_s = counted(gateway, files, lambda: client.ask_often(requests, scenario.status))
        # A worker has some work at fixed times too, of which a slow machine does more for each request.
        idle, idle_s = counted(gateway, files, lambda: time.sleep(IDLE_S))
        return round((total - idle * duration_s / idle_s) / requests)


def counts(program, directory, requests=COUNTED):
    """The counts of all scenarios, two at a time."""
    directory.mkdir(parents=True)
    certificate = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    certificate += ["-subj", "/CN=localhost", "-days", "1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(certificate, cwd=directory, check=True, capture_output=True)
    with concurrent.futures.ThreadPoolExecutor(min(2, len(os.sched_getaffinity(0)))) as pool:
        return dict(zip(SCENARIOS, pool.map(lambda name: count(program, name, directory, requests), SCENARIOS)))


def compiler():
    """The version of the compiler and the platform, which the counts belong to."""
    text = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    facts = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return f"{facts['release']} {facts['commit-hash'][:9]}", facts["host"]


def show(programs, runs, directory, requests):
    for program in programs:
        for run in range(runs):
            start_s = time.monotonic()
            found = counts(program, directory / f"{programs.index(program)}-{run}", requests)
            line = "  ".join(f"{name} {it:,}" for name, it in found.items())
            print(f"{program}: {line}  ({time.monotonic() - start_s:.0f} s)", flush=True)


def record(found):
    recorded = json.loads(RECORDED.read_text())
    version, host = compiler()
    recorded["hosts"][host] = {"compiler": version, "instructions": found}
    RECORDED.write_text(json.dumps(recorded, indent=2) + "\n")
    print(f"{RECORDED.name} is written: {found}")


def compare(found, expectation, tolerance):
    """Prints a line for each scenario; whether all are within the tolerance."""
    good = True
    for name, expected in expectation.items():
        change = 100 * (found[name] - expected) / expected
        verdict = "ok" if abs(change) <= tolerance else "FAILED"
        good = good and verdict == "ok"
        print(f"{verdict}  {name}: {found[name]:,} instructions a request, recorded {expected:,} ({change:+.1f} %)")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--requests", type=int, default=COUNTED)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    options = parser.parse_args()
    directory = options.directory.resolve()
    if options.show:
        return show(options.programs, options.runs, directory, options.requests)
    if os.environ.get("UPDATE_GOLDEN"):
        return record(counts(options.programs[0], directory / "counting"))
    recorded = json.loads(RECORDED.read_text())
    version, host = compiler()
    own = recorded["hosts"].get(host)
    if own is None:
        raise Failure(f"no counts are recorded for {host}: UPDATE_GOLDEN=1 scripts/test-instructions records them")
    tolerance = recorded["tolerance_percent"]
    if own["compiler"] != version:
        tolerance = recorded["other_compiler_tolerance_percent"]
        print(f"the counts belong to the compiler {own['compiler']}, and this is {version}: within {tolerance} %")
    if compare(counts(options.programs[0], directory / "counting"), own["instructions"], tolerance):
        return None
    return (
        f"A count differs by more than {tolerance} %. If it rose, find out why: `callgrind_annotate` on two builds "
        "shows where.\nIf it fell, or if the rise is worth it, UPDATE_GOLDEN=1 scripts/test-instructions records the "
        "counts. Say why in the commit."
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"FAILED  {failure}")
