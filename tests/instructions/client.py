"""A client and a backend that do the same in every run: one request at a time.

Each message is sent by one call, so that the gateway reads it at once.
"""

import contextlib
import json
import socket
import ssl
import threading
import time

FIELDS = {
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "accept": "application/json",
    "accept-language": "en-US,en;q=0.5",
    "accept-encoding": "gzip, deflate",
    "x-api-key": "key-of-the-one-client",
}
# What a browser sends with a click on a link.
BROWSER_FIELDS = {
    "sec-ch-ua": '"Chromium";v="130", "Google Chrome";v="130", "Not?A_Brand";v="99"',
    "sec-ch-ua-mobile": "?0",
    "sec-ch-ua-platform": '"Linux"',
    "upgrade-insecure-requests": "1",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
    "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
    "sec-fetch-site": "same-origin",
    "sec-fetch-mode": "navigate",
    "sec-fetch-user": "?1",
    "sec-fetch-dest": "document",
    "referer": "https://shop.example.com/catalogue/shoes?page=2",
    "accept-encoding": "gzip, deflate, br, zstd",
    "accept-language": "en-US,en;q=0.9,de;q=0.8",
    "cookie": "_ga=GA1.1.1234567890.1700000000; session=eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.abcdefghijklmnop; theme=dark",
    "x-api-key": "key-of-the-one-client",
}
AUTHORITY, PATH = "gateway.test", "/orders/1234?expand=items"
BODY = b"0123456789abcdef" * 64
# A call of a language model, with 2 KiB.
MESSAGES = [{"role": "user", "content": f"Question {number}: \u00bfwhat is \"{number}\"? " + "Some words. " * 21} for number in range(6)]
QUESTION = json.dumps({"model": "gpt-5", "messages": MESSAGES, "max_tokens": 100, "user": "u" * 57, "temperature": 0.5}).encode()
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
TIMEOUT_S = 60
# What the gateway does after an answer is done after this time.
SETTLED_S = 0.2


class Backend:
    """Answers every request."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        received = b""
        with contextlib.suppress(OSError), connection:
            while data := connection.recv(65536):
                received += data
                while b"\r\n\r\n" in received:
                    head, _, rest = received.partition(b"\r\n\r\n")
                    _, found, after = head.lower().partition(b"\r\ncontent-length:")
                    length = int(after.split(b"\r\n")[0]) if found else 0
                    if len(rest) < length:
                        break
                    received = rest[length:]
                    connection.sendall(RESPONSE)


class Client:
    """One connection to the gateway."""

    protocol = "http/1.1"

    def __init__(self, port, tls, fields):
        self.port = port
        self.tls = tls
        self.fields = fields
        self.connect()

    def connect(self):
        self.connection = socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls:
            context = ssl._create_unverified_context()
            context.set_alpn_protocols([self.protocol])
            self.connection = context.wrap_socket(self.connection, server_hostname="localhost")
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def receive(self):
        data = self.connection.recv(65536)
        if not data:
            raise ConnectionError("the gateway has closed the connection")
        self.received += data

    def take(self, length):
        """The next `length` bytes."""
        while len(self.received) < length:
            self.receive()
        taken, self.received = self.received[:length], self.received[length:]
        return taken

    def ask_often(self, times, status):
        """Sends as many requests; each answer must have this status."""
        for _ in range(times):
            found = self.ask()
            if found != status:
                raise ConnectionError(f"status {found} instead of {status}")
        time.sleep(SETTLED_S)


class Http1(Client):
    """HTTP/1.1, with or without TLS."""

    def __init__(self, port, tls, fields):
        super().__init__(port, tls, fields)
        lines = [f"GET {PATH} HTTP/1.1", f"Host: {AUTHORITY}", *(f"{name.title()}: {value}" for name, value in fields.items())]
        self.request = "\r\n".join([*lines, "", ""]).encode()

    def ask(self):
        self.connection.sendall(self.request)
        while b"\r\n\r\n" not in self.received:
            self.receive()
        head, _, self.received = self.received.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
        self.take(length)
        return int(lines[0].split()[1])


class Http1Posts(Http1):
    """HTTP/1.1, with a body in JSON."""

    def __init__(self, port, tls, fields):
        super().__init__(port, tls, {**fields, "content-type": "application/json", "content-length": str(len(QUESTION))})
        self.request = self.request.replace(b"GET ", b"POST ", 1) + QUESTION


class Http1Connections(Http1):
    """HTTP/1.1, with a new connection for each request, which the gateway closes."""

    def __init__(self, port, tls, fields):
        super().__init__(port, tls, {**fields, "connection": "close"})

    def ask(self):
        self.connection.close()
        self.connect()
        status = super().ask()
        if self.received or self.connection.recv(1):
            raise ConnectionError("bytes follow the response")
        return status


# Frames of RFC 9113, and representations of RFC 7541.
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
ACK = END_STREAM = 1
END_HEADERS = 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GET, SCHEME_HTTP, SCHEME_HTTPS, STATUS_200 = 0x82, 0x86, 0x87, 0x88
# Names in the static table: :authority and :path. The first added field has index 62.
NAMES, FIRST_ADDED = {":authority": 1, ":path": 4}, 62


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def text(value):
    assert len(value) < 127
    return bytes([len(value)]) + value.encode()


class Http2(Client):
    """HTTP/2. The fields are added to the dynamic table by the first request, as browsers do it."""

    protocol = "h2"

    def __init__(self, port, tls, fields):
        super().__init__(port, tls, {":authority": AUTHORITY, ":path": PATH, **fields})
        self.scheme = SCHEME_HTTPS if tls else SCHEME_HTTP
        self.stream = -1
        window = frame(WINDOW_UPDATE, 0, 0, (1 << 30).to_bytes(4))
        self.connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + window)

    def head(self):
        block = bytes([GET, self.scheme])
        if self.stream == 1:
            for name, value in self.fields.items():
                index = NAMES.get(name, 0)
                block += bytes([0x40 | index]) + (b"" if index else text(name)) + text(value)
            return block
        # The last that was added has the lowest index.
        return block + bytes(0x80 | (FIRST_ADDED + at) for at in reversed(range(len(self.fields))))

    def ask(self):
        self.stream += 2
        self.connection.sendall(frame(HEADERS, END_HEADERS | END_STREAM, self.stream, self.head()))
        status = None
        while True:
            header = self.take(9)
            kind, flags, stream = header[3], header[4], int.from_bytes(header[5:9])
            payload = self.take(int.from_bytes(header[:3]))
            if kind in (SETTINGS, PING) and not flags & ACK:
                self.connection.sendall(frame(kind, ACK, 0, payload if kind == PING else b""))
            if kind == HEADERS:
                # The status is first. Only 200 has an index that is looked for.
                status = 200 if payload[0] == STATUS_200 else None
            if stream == self.stream and flags & END_STREAM and kind in (HEADERS, DATA):
                return status
