"""The picture of a replay's page, and the log that docs/replay.md replays: replay.py PROGRAM DIRECTORY.

Writes a log of two hours into the directory, the same one each time, replays it under the
configuration of docs/replay.md, and writes replay.png. 40 browsers load a page with 30 requests,
and 200 programs send a request now and then. 198.51.100.2 reads all the time, and
203.0.113.9 sends 2 requests a second for a quarter of an hour.
"""

import pathlib
import random
import subprocess
import sys
import time

from browser import Browser

START_S = 1_795_244_400  # 2026-11-21T07:00:00Z
SPAN_S = 2 * 3600
BURST_S = range(3000, 3900)
BROWSERS = [f"192.0.2.{number}" for number in range(1, 41)]
PROGRAMS = [f"198.51.100.{number}" for number in range(3, 203)]
WEIGHTS = [1 / number**0.8 for number in range(1, len(PROGRAMS) + 1)]
PATHS = ["/", "/search?q=lamp", "/products/17", "/products/204", "/cart", "/images/logo.svg"]
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
SIZE = (1000, 1310)
CONFIGURATION = """
listeners: [{ address: "127.0.0.1:8080" }]
policies:
  per-client: { key: ip, limit: 60/minute }
  burst: { key: ip, limit: 2/s, algorithm: token_bucket, burst: 5 }
  per-tenant: { key: "header:x-tenant", limit: 1000/hour, mode: shadow }
routes: [{ path: "/*", policies: [per-client, burst, per-tenant], respond: { body: ok } }]
"""


def requests(draw):
    """The second and the client of each request, in the order of a log."""
    found = []
    for second in range(SPAN_S):
        # More people come until 08:00, and fewer after that.
        rate = 0.85 + 0.45 * (1 - abs(second - SPAN_S / 2) / (SPAN_S / 2))
        found += [(second, client) for client in draw.choices(PROGRAMS, WEIGHTS, k=poisson(draw, rate))]
        found += [(second, "198.51.100.2")] * poisson(draw, 0.35)
        if second in BURST_S:
            found += [(second, "203.0.113.9")] * (14 if second == BURST_S.start else 2)
    for client in BROWSERS:
        begun = draw.randrange(SPAN_S - 20)
        found += [(begun + number * 20 // 30, client) for number in range(30)]
    return sorted(found, key=lambda request: request[0])


def poisson(draw, rate):
    """How many requests of a rate come in one second."""
    count, at = 0, draw.expovariate(rate)
    while at < 1:
        count, at = count + 1, at + draw.expovariate(rate)
    return count


def write_log(path):
    """The log, in the combined format."""
    draw = random.Random(34)
    with open(path, "w", encoding="ascii") as log:
        for second, client in requests(draw):
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(START_S + second))
            request, length = draw.choice(PATHS), draw.randrange(400, 20_000)
            log.write(f'{client} - - [{stamp}] "GET {request} HTTP/1.1" 200 {length} "-" "{AGENT}"\n')


def main():
    program, directory = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    (directory / "gateway.yaml").write_text(CONFIGURATION)
    write_log(directory / "access.log")
    command = [program, "replay", "--html", "report.html", "access.log"]
    subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, check=True)
    with Browser() as browser:
        browser.open((directory / "report.html").as_uri())
        browser.until("document.querySelectorAll('figure svg').length > 2")
        browser.picture(directory / "replay.png", *SIZE, "light")


main()
