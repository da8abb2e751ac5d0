#!/usr/bin/env python3
"""Ports of the loopback for servers that a test starts: ports.py COUNT prints some.

A port that is looked up, closed and then given to a server can be taken in between, by another
server or by an outgoing connection. So each port stays bound, by a socket that never listens, as
long as this process lives. Linux lets a server listen on such a port if the server sets
SO_REUSEADDR, as servers do, and gives the port to nothing that asks for any port. Without a
server, connections to the port are refused.

The program prints its ports on one line, and holds them until the reader closes its end.
"""

import select
import socket
import sys

_held = []


def reserve(count):
    """Ports that no other process gets while this one lives."""
    sockets = [socket.socket() for _ in range(count)]
    for holder in sockets:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
    _held.extend(sockets)
    return [holder.getsockname()[1] for holder in sockets]


def main():
    print(*reserve(int(sys.argv[1])), flush=True)
    closed = select.poll()
    closed.register(sys.stdout, select.POLLERR)
    closed.poll()


if __name__ == "__main__":
    main()
