"""Servers on this machine, for a test of the test itself: see `local` of scripts/test-store."""

import contextlib
import subprocess
import time

import ports
from store.gateways import Failure
from store.resp import Access, Connection, Refused, Unreachable

SLOTS = 16384
START_TIMEOUT_S = 10
PASSWORD = "p@ss:w/ord"


@contextlib.contextmanager
def server(directory, has_slots):
    """The access to a server without persistence. With slots, it is one that has all slots of a
    cluster, as services with a cluster behind one address, and asks for a password."""
    directory.mkdir()
    access = Access("redis", [("127.0.0.1", free_port())])
    lines = ["bind 127.0.0.1", f"port {access.hosts[0][1]}", f"dir {directory}", 'save ""', "appendonly no"]
    if has_slots:
        access.password = PASSWORD
        lines += ["cluster-enabled yes", f'requirepass "{PASSWORD}"']
    (directory / "redis.conf").write_text("\n".join(lines) + "\n")
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(["redis-server", directory / "redis.conf"], stdout=log, stderr=log)
    try:
        wait(access, process, directory / "log", has_slots)
        yield access
    finally:
        process.terminate()
        process.wait()


def free_port():
    """A port with room for the bus of a cluster, which is 10000 above it."""
    return next(port for port in ports.reserve(50) if port < 55000)


def wait(access, process, log, has_slots):
    end = time.monotonic() + START_TIMEOUT_S
    problem = "no answer"
    while time.monotonic() < end and process.poll() is None:
        try:
            connection = Connection(access, *access.hosts[0])
            if has_slots and b"cluster_slots_assigned:0" in connection("CLUSTER", "INFO"):
                connection("CLUSTER", "ADDSLOTS", *range(SLOTS))
            if not has_slots or b"cluster_state:ok" in connection("CLUSTER", "INFO"):
                return connection.close()
        except (Refused, Unreachable) as error:
            problem = str(error)
        time.sleep(0.05)
    raise Failure(f"redis-server does not start: {problem}\n{log.read_text(errors='replace')}")
