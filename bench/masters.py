"""Redis servers of a measurement: one, a cluster of masters without replicas, or shards; and their cost."""

import dataclasses
import re
import socket
import subprocess
import time

import bed as beds

SLOTS = 16384
CLUSTER_TIMEOUT_S = 30


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a server has spent so far."""

    cpu_us: float  # of its main thread: user and system time
    calls: int  # of the script

    def __sub__(self, before):
        return Cost(self.cpu_us - before.cpu_us, self.calls - before.calls)


def command(*words):
    """A command in the protocol of Redis."""
    pieces = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(pieces) + b"".join(b"$%d\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


@dataclasses.dataclass(frozen=True)
class Server:
    """A redis-server that a measurement has started."""

    port: int
    process: subprocess.Popen

    def ask(self, *words):
        """Sends a command. Returns its reply: a text of one line, or of many."""
        try:
            first, rest = self.exchange(command(*words))
        except OSError as error:
            raise beds.Failure(f"redis-server on port {self.port} does not answer {words[0]}: {error}")
        if first.startswith("-"):
            raise beds.Failure(f"redis-server on port {self.port} refuses {words[0]}: {first[1:]}")
        return rest if first.startswith("$") else first[1:]

    def exchange(self, content):
        """The first line of a reply, and the text that it announces."""
        with socket.create_connection(("127.0.0.1", self.port), beds.START_TIMEOUT_S) as connection:
            connection.sendall(content)
            replies = connection.makefile("rb")
            first = replies.readline().decode().rstrip()
            return first, replies.read(int(first[1:])).decode() if first.startswith("$") else ""

    def cost(self):
        report = self.ask("INFO", "everything")
        of = lambda name: float(re.search(rf"^{name}:([\d.]+)", report, re.MULTILINE)[1])
        # Threads for input, output and memory are not what decides. Redis 6.2 has the sum only.
        thread = "_main_thread" if "used_cpu_user_main_thread" in report else ""
        cpu_s = of(f"used_cpu_user{thread}") + of(f"used_cpu_sys{thread}")
        calls = re.search(r"cmdstat_evalsha:calls=(\d+)", report)
        return Cost(cpu_s * 1e6, int(calls[1]) if calls else 0)


def recorded_call(server, ask):
    """The call of the script that a gateway sends while `ask` runs, as bytes."""
    with socket.create_connection(("127.0.0.1", server.port), beds.START_TIMEOUT_S) as connection:
        connection.sendall(command("MONITOR"))
        lines = connection.makefile("rb")
        lines.readline()
        ask()
        for line in lines:
            if b'"EVALSHA"' in line:
                words = re.findall(rb'"((?:[^"\\]|\\.)*)"', line)
                # MONITOR writes bytes as Python does.
                return command(*(word.decode().encode("latin-1").decode("unicode_escape").encode("latin-1") for word in words))
    raise beds.Failure(f"no call reaches the redis-server on port {server.port}")


def replay(server, call, connections, seconds):
    """Sends a call on all connections at once, and again when all are answered. Returns how many were answered."""
    ends = [socket.create_connection(("127.0.0.1", server.port), beds.START_TIMEOUT_S) for _ in range(connections)]
    answered, begun = 0, time.monotonic()
    try:
        while time.monotonic() < begun + seconds:
            for end in ends:
                end.sendall(call)
            for end in ends:
                reply = end.recv(4096)
                if not reply.startswith(b"*1\r\n$"):
                    raise beds.Failure(f"a call that is replayed fails: {reply[:200]!r}")
            answered += connections
    finally:
        for end in ends:
            end.close()
    return answered


@dataclasses.dataclass(frozen=True)
class Masters:
    """One server, the masters of one cluster, or independent servers."""

    name: str
    servers: list
    is_cluster: bool

    def setting(self):
        """The servers in the words of Tollgate's configuration."""
        addresses = [f"127.0.0.1:{server.port}" for server in self.servers]
        if self.is_cluster:
            return f'url: "redis+cluster://{",".join(addresses)}"'
        urls = ", ".join(f'"redis://{address}"' for address in addresses)
        return f"shards: [{urls}]" if len(addresses) > 1 else f"url: {urls}"

    def costs(self):
        return [server.cost() for server in self.servers]


def number_of(name):
    """The number of servers by the name of a topology: 1, cluster-3 or shards-3. 0 if it is no name."""
    number = 1 if name == "1" else int((re.fullmatch(r"(?:cluster|shards)-(\d+)", name) or [0, 0])[1])
    smallest = 3 if name.startswith("cluster") else 1 if name == "1" else 2
    return number if number >= smallest else 0


def start(bed, name):
    """Starts servers without persistence on the core of the program that is measured."""
    number, is_cluster = number_of(name), name.startswith("cluster")
    members = [start_server(bed, is_cluster) for _ in range(number)]
    servers = [server for server, _ in members]
    if is_cluster:
        for place, server in enumerate(servers):
            first, end = SLOTS * place // number, SLOTS * (place + 1) // number
            server.ask("CLUSTER", "ADDSLOTS", *range(first, end))
        for server, bus_port in members[1:]:
            servers[0].ask("CLUSTER", "MEET", "127.0.0.1", server.port, bus_port)
        wait_for_cluster(servers)
    return Masters(name, servers, is_cluster)


def start_server(bed, is_member, program="redis-server"):
    port, bus_port = beds.free_port(), beds.free_port()
    directory = bed.directory / f"redis-{port}"
    directory.mkdir()
    line = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory)]
    line += ["--save", "", "--appendonly", "no", "--logfile", "log"]
    if is_member:
        line += ["--cluster-enabled", "yes", "--cluster-port", str(bus_port)]
    server = Server(port, bed.start(bed.proxy_core, *line))
    beds.wait_for_port(program, port, server.process)
    return server, bus_port


def wait_for_cluster(servers):
    """Waits until each node knows all others, and that all slots are served."""
    deadline = time.monotonic() + CLUSTER_TIMEOUT_S
    known = f"cluster_known_nodes:{len(servers)}"
    while time.monotonic() < deadline:
        reports = [server.ask("CLUSTER", "INFO") for server in servers]
        if all("cluster_state:ok" in report and known in report for report in reports):
            return
        time.sleep(0.1)
    raise beds.Failure(f"the cluster is not complete after {CLUSTER_TIMEOUT_S} s")
