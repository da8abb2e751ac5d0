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
    status: int = 200
    at_fixed_rate: bool = True


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
