#!/usr/bin/env python3
"""An echo of mixed messages through the gateway: websocket_echo.py BACKEND_PORT URL

Sends text, binary, fragmented and empty messages of many sizes, and pings. All of
them must come back unchanged and in order.
"""

import asyncio
import random
import sys

import websockets

MESSAGES = 10_000
AHEAD = 50  # messages that are sent before their echo is read


async def echo(connection):
    async for message in connection:
        await connection.send(message)


def messages():
    """The same messages in each run."""
    chance = random.Random(6455)
    for _ in range(MESSAGES):
        size = chance.choice([0, 1, 125, 126, 1000, 70_000])
        kind = chance.choice(["text", "binary", "fragments", "ping"])
        match kind:
            case "text":
                yield kind, "é" * (size // 2)
            case "fragments":
                yield kind, [chance.randbytes(size // 3) for _ in range(3)]
            case _:
                yield kind, chance.randbytes(size if kind == "binary" else min(size, 125))


async def send(connection, expected, room):
    pongs = []
    for kind, message in messages():
        await room.acquire()
        if kind == "ping":
            pongs.append(await connection.ping(message + b"-%d" % len(pongs) if len(message) < 100 else None))
            room.release()
            continue
        await connection.send(message)
        await expected.put(b"".join(message) if kind == "fragments" else message)
    await asyncio.gather(*pongs)
    await expected.put(None)
    return len(pongs)


async def receive(connection, expected, room):
    count = 0
    while (message := await expected.get()) is not None:
        if await connection.recv() != message:
            sys.exit(f"WebSocket: message {count} came back changed")
        count += 1
        room.release()
    return count


async def main():
    backend_port, url = sys.argv[1:]
    expected, room = asyncio.Queue(), asyncio.Semaphore(AHEAD)
    async with websockets.serve(echo, "127.0.0.1", int(backend_port)):
        async with websockets.connect(url) as connection:
            pongs, echoes = await asyncio.wait_for(
                asyncio.gather(send(connection, expected, room), receive(connection, expected, room)), 120
            )
        if connection.close_code != 1000:
            sys.exit(f"WebSocket: closed with {connection.close_code}")
    print(f"ok  WebSocket: {echoes} messages came back, {pongs} pings were answered, the close too")


asyncio.run(main())
