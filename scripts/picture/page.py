"""Pictures of the page of the admin listener: page.py PROGRAM DIRECTORY.

Starts two upstreams and a gateway on free ports of the loopback, sends seeded traffic for less than
a minute, so that the charts have a step for each second, and writes PNG files of the page into the
directory.
"""

import asyncio
import contextlib
import http.server
import math
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

from browser import Browser

TOKEN = "pictures-0123456789abcdef"
TRAFFIC_S = 58
CONFIGURATION = """
listeners: [{{ address: "127.0.0.1:{gateway}" }}]
store: {{ overrides: {{ path: "{directory}/overrides.redb" }} }}
client: {{ trusted_proxies: ["127.0.0.1/32"] }}
upstreams:
  orders: {{ endpoints: ["http://127.0.0.1:{orders}", "http://127.0.0.1:{search}"] }}
  search: {{ endpoints: ["http://127.0.0.1:{search}"] }}
policies:
  per-address: {{ key: ip, limit: 300/1m }}
  per-api-key:
    key: "header:x-api-key"
    limit: 240/1m
    overrides: true
    plans: {{ from: "header:x-plan", limits: {{ free: 60/1m, pro: 1200/1m }} }}
  bursts: {{ key: "header:x-api-key", limit: 90/10s, algorithm: token_bucket, burst: 120 }}
  logins: {{ key: ip, limit: 60/1m }}
  search-new: {{ key: "header:x-api-key", limit: 30/1m, mode: shadow }}
  uploads: {{ key: "header:x-api-key", algorithm: concurrency, limit: 4 }}
  per-tenant: {{ key: "header:x-tenant", limit: 20_000/1m }}
routes:
  - {{ name: login, path: /login, policies: [logins, per-address], respond: {{ body: ok }} }}
  - {{ name: search, path: /search, policies: [per-api-key, search-new, per-tenant], upstream: search }}
  - {{ name: uploads, path: /uploads, policies: [uploads, per-api-key], upstream: orders }}
  - {{ name: api, path: "/v1/*", policies: [per-api-key, bursts, per-tenant], upstream: orders }}
admin:
  address: "127.0.0.1:{admin}"
  reveal_keys: true
  tokens: [{{ name: oncall, role: operate, token: {token} }}]
"""
KEYS = [f"{random.Random(number).getrandbits(40):010x}" for number in range(30)]
WEIGHTS = [26, 14, 9, 6, 4] + [1.3] * 25
PLANS = {0: "pro", 1: "free", 2: "pro", 3: "free"}


def ports(names):
    """A free port for each name."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {name: each.getsockname()[1] for name, each in zip(names, sockets)}


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers after some milliseconds, and now and then with 500."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(random.choice([0.001, 0.002, 0.003, 0.02]) + (0.2 if "uploads" in self.path else 0))
        self.send_response(500 if random.random() < 0.003 else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


async def request(port, draw):
    """One request of a client that is drawn."""
    client = draw.choices(range(len(KEYS)), WEIGHTS)[0]
    path = draw.choices(["/v1/orders", "/search", "/uploads", "/login"], [70, 18, 2, 10])[0]
    address = f"198.51.100.{draw.randrange(1, 30)}"
    if path == "/login" and draw.random() < 0.6:
        address = "203.0.113.7"
    lines = [
        f"GET {path} HTTP/1.1", "Host: api.example.com", "Connection: close", f"X-Forwarded-For: {address}",
        f"X-Api-Key: {KEYS[client]}", "X-Tenant: acme", f"X-Plan: {PLANS.get(client, '')}", "", "",
    ]
    with contextlib.suppress(OSError, asyncio.TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write("\r\n".join(lines).encode())
        await asyncio.wait_for(reader.read(), 5)
        writer.close()


async def traffic(port, seconds):
    """Seeded traffic with a wave and a burst."""
    draw = random.Random(34)
    begun = time.monotonic()
    tasks = set()
    while (at := time.monotonic() - begun) < seconds:
        rate = 90 * (1 + 0.3 * math.sin(at / 6) + (1.1 if 24 < at < 34 else 0))
        task = asyncio.ensure_future(request(port, draw))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await asyncio.sleep(draw.expovariate(rate))


def pictures(url, directory):
    """Writes the pictures."""
    with Browser() as browser:
        browser.sign_in(url, TOKEN)
        browser.until("document.querySelectorAll('#top-table tbody tr').length > 5")
        browser.until("document.querySelectorAll('#policy-table .spark .area2').length > 2")
        browser.picture(directory / "dashboard.png", 1280, 630, "light")
        browser.picture(directory / "dashboard-narrow.png", 360, 760, "dark")
        browser.resize(1280, 520, "light")
        browser.value("document.querySelector('tr[data-row=per-api-key] [data-opens]').click()")
        browser.value("document.activeElement.blur(), document.querySelector('#policies').scrollIntoView({ behavior: 'instant' })")
        browser.picture(directory / "dashboard-change.png", 1280, 520, "light")
        browser.value("document.querySelector('#policy-table .close').click()")
        browser.value("document.querySelectorAll('#top-table [data-opens]')[1].click()")
        browser.until("document.querySelector('#top-table .panel h4') !== null")
        browser.value("document.querySelector('#top-table [data-do=own]').click()")
        browser.until("document.querySelector('#top-table [data-field=own]')?.value")
        browser.value("document.activeElement.blur(), document.querySelector('#clients').scrollIntoView({ behavior: 'instant' })")
        browser.picture(directory / "dashboard-client.png", 1280, 520, "dark")


def main():
    program, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    at = ports(["gateway", "orders", "search", "admin"])
    for name in ("orders", "search"):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", at[name]), Upstream)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    configuration = directory / "gateway.yaml"
    configuration.write_text(CONFIGURATION.format(**at, directory=directory, token=TOKEN))
    with contextlib.ExitStack() as stack:
        command = [program, "run", "-c", str(configuration)]
        gateway = stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        stack.callback(gateway.terminate)
        time.sleep(1)
        sending = threading.Thread(target=lambda: asyncio.run(traffic(at["gateway"], TRAFFIC_S)))
        sending.start()
        time.sleep(TRAFFIC_S - 12)
        pictures(f"http://127.0.0.1:{at['admin']}/", directory)
        sending.join()


main()
