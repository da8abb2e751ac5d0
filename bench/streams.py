#!/usr/bin/env python3
"""A backend for what nginx as a backend cannot do, and the clients for it.

    streams.py PORT     serves uploads, events and WebSockets

A POST is read to its end and answered. A GET gets an event of 20 bytes each EVENT_GAP_S, until the
client leaves. A handshake of a WebSocket opens a tunnel that sends all bytes back.
"""

import asyncio
import base64
import contextlib
import hashlib
import sys
import time

EVENT = b"data: 0123456789ab\n\n"  # 20 bytes
EVENT_GAP_S = 0.01
MESSAGE = b"\x82\xe4" + b"mask" + b"x" * 100  # a frame of a WebSocket with 100 bytes
READ = 256 * 1024
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)
ACCEPT_SALT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
KEY = base64.b64encode(b"0123456789abcdef")
ENDED = (ConnectionError, asyncio.IncompleteReadError)


def fields_of(head):
    """The fields of a message, by names in lower case."""
    lines = head.split(b"\r\n")[1:-2]
    return {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}


async def serve_connection(reader, writer):
    with contextlib.suppress(*ENDED):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            fields = fields_of(head)
            if b"sec-websocket-key" in fields:
                await echo(reader, writer, fields[b"sec-websocket-key"])
                break
            if head.startswith(b"POST "):
                await read_body(reader, fields)
                writer.write(OK)
            elif head.startswith(b"GET /events"):
                await send_events(writer)
            else:
                writer.write(OK)
    writer.close()


async def read_body(reader, fields):
    """A gateway may forward a body with a length in chunks."""
    if b"content-length" not in fields:
        while length := int(await reader.readline(), 16):
            await reader.readexactly(length + 2)
        await reader.readline()
        return
    left = int(fields[b"content-length"])
    while left:
        piece = await reader.read(min(left, READ))
        if not piece:
            raise ConnectionError("a body ends too early")
        left -= len(piece)


async def send_events(writer):
    writer.write(EVENTS)
    due = time.monotonic()
    while True:
        writer.write(CHUNK)
        await writer.drain()
        due += EVENT_GAP_S
        await asyncio.sleep(due - time.monotonic())


async def echo(reader, writer, key):
    accept = base64.b64encode(hashlib.sha1(key + ACCEPT_SALT).digest())
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )
    while piece := await reader.read(READ):
        writer.write(piece)
        await writer.drain()


async def serve(port):
    server = await asyncio.start_server(serve_connection, "127.0.0.1", port, limit=READ)
    await server.serve_forever()


# --- The clients. Each counts what it has received while `window` is open.


class Window:
    """The time in which received units count."""

    def __init__(self):
        self.is_open, self.units = False, 0

    def count(self, units=1):
        if self.is_open:
            self.units += units


async def receive_events(port, window):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: client-00001\r\n\r\n")
    await head_of(reader, b" 200 ")
    while piece := await reader.read(READ):
        window.count(piece.count(b"data:"))


async def send_messages(port, window):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET /tunnel HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Api-Key: client-00001\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY + b"\r\n\r\n"
    )
    await head_of(reader, b" 101 ")
    while True:
        writer.write(MESSAGE)
        await reader.readexactly(len(MESSAGE))
        window.count()


async def head_of(reader, status):
    head = await reader.readuntil(b"\r\n\r\n")
    if status not in head.split(b"\r\n")[0]:
        raise ConnectionError(f"answered with {head[:80]!r}")


async def measured(client, port, number, seconds, cost):
    """The units that clients receive in some seconds, and what `cost` has grown by meanwhile."""
    window = Window()
    clients = [asyncio.create_task(client(port, window)) for _ in range(number)]
    await asyncio.sleep(1)
    before, window.is_open = cost(), True
    await asyncio.sleep(seconds)
    window.is_open, spent = False, cost() - before
    ended = [task.exception() or ConnectionError("a stream has ended") for task in clients if task.done()]
    for task in clients:
        task.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    if ended:
        raise ended[0]
    return window.units, spent


def main():
    asyncio.run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
