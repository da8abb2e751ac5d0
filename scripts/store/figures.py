"""What a client and a decision cost a store, and which server it is."""

from store.gateways import Load
from store.resp import Refused

CLIENTS = 2048
REQUESTS = CLIENTS // 64  # of each connection, so that each client sends one
UNKNOWN = "unknown"


def version(servers):
    """The name of the server and its version."""
    try:
        info = servers[0].info("server")
    except Refused:
        return greeting(servers[0])
    if "valkey_version" in info:
        return "Valkey", info["valkey_version"]
    return info.get("server_name", "Redis").capitalize(), info.get("redis_version", UNKNOWN)


def greeting(server):
    """The same by HELLO, for a server without INFO."""
    try:
        told = server("HELLO")
    except Refused:
        return UNKNOWN, UNKNOWN
    values = dict(zip(told[::2], told[1::2]))
    return values.get(b"server", b"unknown").decode().capitalize(), values.get(b"version", b"unknown").decode()


def keys(servers, prefix):
    """The keys with a prefix on each server. Fails with `Refused`."""
    found = []
    for server in servers:
        cursor, names = b"0", set()
        while True:
            cursor, some = server("SCAN", cursor, "MATCH", f"{prefix}:*", "COUNT", 1000)
            names.update(some)
            if cursor == b"0":
                break
        found.append((server, sorted(names)))
    return found


def memory(servers, prefix):
    """The bytes of all keys with a prefix, as the servers tell. None if they do not tell."""
    total = 0
    try:
        for server, names in keys(servers, prefix):
            told = server.all([("MEMORY", "USAGE", name, "SAMPLES", 0) for name in names])
            if any(isinstance(it, Refused) for it in told):
                raise next(it for it in told if isinstance(it, Refused))
            total += sum(it or 0 for it in told)
        return total, "MEMORY USAGE"
    except Refused:
        return total_of(servers, "memory", lambda info: int(info["used_memory"])), "used_memory"


def script_time(servers):
    """The microseconds of all scripts so far, and the number of their calls."""

    def told(info):
        values = dict(it.split("=") for it in info["cmdstat_evalsha"].split(","))
        return complex(int(values["usec"]), int(values["calls"]))

    total = total_of(servers, "commandstats", told)
    return total and (total.real, int(total.imag))


def total_of(servers, section, value):
    """The sum of a value of INFO over all servers. None if one does not tell it."""
    try:
        return sum(value(server.info(section)) for server in servers)
    except (Refused, KeyError, ValueError):
        return None


class Costs:
    """Each of 2048 clients sends a request, and then another one: the first creates its state."""

    def __init__(self, servers, running, prefix):
        clients = [f"client-{number}" for number in range(CLIENTS)]
        before, _ = memory(servers, prefix)
        first = Load(running, "/cost", clients, REQUESTS)
        after, self.source = memory(servers, prefix)
        began = script_time(servers)
        second = Load(running, "/cost", clients, REQUESTS)
        ended = script_time(servers)
        self.problems = first.problems() + second.problems()
        self.bytes = self.microseconds = self.each_call = UNKNOWN
        if before is not None and after is not None:
            self.bytes = f"{(after - before) / CLIENTS:.0f}"
        if began and ended and ended[1] > began[1]:
            self.microseconds = f"{(ended[0] - began[0]) / CLIENTS:.1f}"
            self.each_call = f"{CLIENTS / (ended[1] - began[1]):.1f}"

    def __str__(self):
        return (
            f"{self.bytes} bytes of a client ({self.source}), {self.microseconds} µs of the server for a decision "
            f"(INFO commandstats), {self.each_call} decisions in a call"
        )
