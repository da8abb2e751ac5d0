#!/usr/bin/env python3
"""Keeps connections open and idle: idle_connections.py COUNT PORT PID

Each connection gets one response before, and one more at the end. Prints the memory
of the process PID per connection.
"""

import pathlib
import resource
import socket
import sys

REQUEST = b"GET /idle HTTP/1.1\r\nHost: localhost\r\n\r\n"


def resident_bytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) * 1024


def ask(connection):
    connection.sendall(REQUEST)
    answer = connection.recv(4096)
    if not answer.startswith(b"HTTP/1.1 200 "):
        sys.exit(f"idle connections: not answered: {answer[:60]}")


def main():
    count, port, pid = map(int, sys.argv[1:])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 100:
        sys.exit(f"idle connections: {count} need `ulimit -Hn {count + 100}`, it is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before, connections = resident_bytes(pid), []
    for _ in range(count):
        connections.append(socket.create_connection(("127.0.0.1", port), 10))
        ask(connections[-1])
    taken = resident_bytes(pid) - before
    for connection in connections:
        ask(connection)
    print(f"ok  {count} idle connections: {taken / count:.0f} bytes each, all are answered")


main()
