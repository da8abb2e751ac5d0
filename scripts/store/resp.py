"""A client of Redis and Valkey: what a test needs to look at a store and to clean it up.

It speaks RESP2 over TCP or TLS. A URL is one of those that `store.redis.url` of the gateway takes:
redis://, rediss://, redis+cluster:// and rediss+cluster://. No error has the password in its text.
"""

import dataclasses
import ipaddress
import socket
import ssl
import urllib.parse

TIMEOUT_S = 10
SCHEMES = ("redis", "rediss", "redis+cluster", "rediss+cluster")


class Refused(Exception):
    """The server has answered a command with an error."""


class Unreachable(Exception):
    """There is no connection to a server."""


@dataclasses.dataclass
class Access:
    """Where a store is, and how a client is let in."""

    scheme: str
    hosts: list  # pairs of a host and a port
    database: int = 0
    username: str = ""
    password: str = dataclasses.field(default="", repr=False)
    ca: str = ""  # a file in PEM; empty for the authorities of the system
    server_name: str = ""  # the name in certificates, if it is not the host

    @classmethod
    def parse(cls, url):
        """Fails with ValueError, whose text does not have the URL."""
        scheme, separator, rest = url.partition("://")
        scheme = scheme.lower()
        if not separator or scheme not in SCHEMES:
            raise ValueError(f"the URL must begin with one of {', '.join(f'{it}://' for it in SCHEMES)}")
        place, _, path = rest.partition("/")
        user, at, hosts = place.rpartition("@")
        username, _, password = user.partition(":") if at else ("", "", "")
        if path and not path.isdigit():
            raise ValueError("what follows the hosts must be the number of a database")
        access = cls(scheme, [host_and_port(it) for it in hosts.split(",")], int(path or 0))
        access.username, access.password = map(urllib.parse.unquote, (username, password))
        return access

    def is_cluster(self):
        return self.scheme.endswith("+cluster")

    def has_tls(self):
        return self.scheme.startswith("rediss")

    def url(self):
        """The URL without user and password."""
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return f"{self.scheme}://{hosts}" + (f"/{self.database}" if self.database else "")


def host_and_port(text):
    parsed = urllib.parse.urlsplit(f"//{text}")
    if not parsed.hostname:
        raise ValueError("the URL has no host")
    return parsed.hostname, parsed.port or 6379


class Connection:
    """A connection to one server, which has let the user in."""

    def __init__(self, access, host, port):
        self.place = f"{host}:{port}"
        try:
            self.socket = socket.create_connection((host, port), TIMEOUT_S)
            if access.has_tls():
                self.socket = self.encrypted(access, host)
        except OSError as error:
            raise Unreachable(f"{self.place}: {error}") from None
        self.reader = self.socket.makefile("rb")
        if access.password:
            self("AUTH", *filter(None, [access.username, access.password]))
        if access.database:
            self("SELECT", access.database)

    def encrypted(self, access, host):
        context = ssl.create_default_context(cafile=access.ca or None)
        # A node of a cluster that is known by its address has the name of the service.
        name = access.server_name or (access.hosts[0][0] if is_address(host) else host)
        return context.wrap_socket(self.socket, server_hostname=name)

    def __call__(self, *words):
        """The reply to a command. Texts are bytes."""
        [reply] = self.all([words])
        if isinstance(reply, Refused):
            raise reply
        return reply

    def all(self, commands):
        """The replies to commands that are sent together. An error is a `Refused` among them."""
        try:
            self.socket.sendall(b"".join(map(encoded, commands)))
            return [self.reply() for _ in commands]
        except OSError as error:
            raise Unreachable(f"{self.place}: {error}") from None

    def reply(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise Unreachable(f"{self.place}: the connection was closed")
        kind, text = line[:1], line[1:-2]
        if kind == b"-":
            return Refused(text.decode(errors="replace"))
        if kind == b"+":
            return text
        if kind == b":":
            return int(text)
        if kind not in (b"$", b"*"):
            raise Unreachable(f"{self.place}: this is not Redis: it answers {line[:40]!r}")
        length = int(text)
        if length < 0:
            return None
        if kind == b"*":
            return [self.reply() for _ in range(length)]
        return self.reader.read(length + 2)[:-2]

    def info(self, section):
        """The values of a section of INFO. Fails with `Refused`."""
        lines = self("INFO", section).decode(errors="replace").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def close(self):
        self.socket.close()


def is_address(host):
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def encoded(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def connect(access):
    """A connection to each server that has keys: the masters of a cluster, or the one server."""
    problem = None
    for host, port in access.hosts:
        try:
            first = Connection(access, host, port)
            break
        except Unreachable as error:
            problem = error
    else:
        raise problem
    if not access.is_cluster():
        return [first]
    masters = {(master[0].decode() if master[0] else host, master[1]) for _, _, master, *_ in first("CLUSTER", "SLOTS")}
    first.close()
    return [Connection(access, *master) for master in sorted(masters)]
