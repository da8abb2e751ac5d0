"""The scenarios of bench/race."""

import dataclasses

from gateways import Work
from load import BROWSER_PATH

ALL = ["tollgate", "nginx", "haproxy", "envoy", "traefik", "caddy"]
LIMITED = ["tollgate", "nginx", "haproxy", "envoy", "traefik"]


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What is sent, and what the gateways do with it."""

    name: str
    title: str
    families: list
    # What each gateway does, under an own label if there are several. All are compared with
    # the rival, or the others with the first if `own_rival` is set.
    works: dict
    own_rival: bool = False
    path: str = "/small"
    http2: bool = False
    kind: str = "keep"  # of requests, see keys.lua
    clients: int = 1000  # each with a key
    status: int = 200
    at_fixed_rate: bool = True
    # A handshake of TLS for each request: "new", or "resumed" with the session of the connection before.
    handshakes: str = ""
    rsa: bool = False  # the key of the certificate, which else is of P-256


SCENARIOS = [
    Scenario("plain", "forwarded without a limit, 1 KiB", ALL, {"": Work(limit="none")}),
    Scenario("limited", "forwarded under one policy, 1,000 keys in memory, 1 KiB", LIMITED, {"": Work()}),
    Scenario(
        "browser",
        "limited, with the fields that a browser sends, 1 KiB",
        LIMITED,
        {"": Work()},
        path=BROWSER_PATH,
        kind="browser",
        at_fixed_rate=False,
    ),
    Scenario("refused", "refused by that policy", LIMITED, {"": Work(limit="low")}, status=429),
    Scenario("refused-tls", "refused, TLS and HTTP/1.1", LIMITED, {"": Work(limit="low", tls=True)}, status=429, at_fixed_rate=False),
    Scenario(
        "refused-http2",
        "refused, TLS and HTTP/2, one key, 10 streams a connection",
        LIMITED,
        {"": Work(limit="low", tls=True)},
        http2=True,
        status=429,
        at_fixed_rate=False,
    ),
    Scenario(
        "refused-new",
        "refused, a connection for each request",
        LIMITED,
        {"": Work(limit="low")},
        kind="close",
        status=429,
        at_fixed_rate=False,
    ),
    Scenario(
        "banned",
        "refused by a ban; nginx answers 429 to every request",
        ["tollgate", "nginx"],
        {"": Work(limit="banned")},
        status=429,
        at_fixed_rate=False,
    ),
    Scenario(
        "redis-refused",
        "ten clients that flood, refused by counters in Redis, against counters in memory",
        ["tollgate"],
        {mode or "memory": Work(limit="low", store=mode) for mode in ["", "exact", "leased"]},
        own_rival=True,
        clients=10,
        status=429,
        at_fixed_rate=False,
    ),
    Scenario("redis-exact", "limited, exact counters in Redis; nginx with Lua", ["tollgate", "nginx"], {"exact": Work(store="exact")}),
    Scenario(
        "redis-leased",
        "limited, leases from Redis, against counters in memory",
        ["tollgate"],
        {"memory": Work(), "leased": Work(store="leased")},
        own_rival=True,
    ),
    Scenario("tls-http1", "limited, TLS and HTTP/1.1", LIMITED, {"": Work(tls=True)}, at_fixed_rate=False),
    Scenario("tls-http2", "limited, TLS and HTTP/2, one key, 10 streams a connection", LIMITED, {"": Work(tls=True)}, http2=True, at_fixed_rate=False),
    Scenario("large", "limited, 100 KiB", LIMITED, {"": Work()}, path="/large", at_fixed_rate=False),
    Scenario("connections", "limited, a connection for each request", LIMITED, {"": Work()}, kind="close", at_fixed_rate=False),
    *[
        Scenario(
            f"handshakes-{handshakes}{'-rsa' * rsa}",
            f"limited, a connection with a {handshakes} handshake of TLS for each request, {'RSA' if rsa else 'P-256'}",
            LIMITED,
            {"": Work(tls=True)},
            at_fixed_rate=False,
            handshakes=handshakes,
            rsa=rsa,
        )
        for rsa in (False, True)
        for handshakes in ("new", "resumed")
    ],
    Scenario(
        "access-log",
        "limited, with an access log in a file, against none",
        ["tollgate", "nginx"],
        {"without": Work(), "with log": Work(access_log=True)},
        own_rival=True,
        at_fixed_rate=False,
    ),
]
MEMORY = "memory"
NAMES = [scenario.name for scenario in SCENARIOS] + [MEMORY]
