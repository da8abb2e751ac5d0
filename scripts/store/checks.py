"""What two gateways that share a store must do. Each check is a mode of the matrix in docs/stores.md.

Each of four clients sends 192 requests by 64 connections, half of them to each gateway, so that
gateways that do not share its counter admit twice its limit.
"""

import dataclasses
import fractions
import math
import subprocess
import time

from store import gateways
from store.gateways import LIMIT, Failure, Load

CLIENTS, REQUESTS = 4, 12
# From docs/overrides.md and docs/redis.md: a change is in effect, and gateways know each other.
IN_EFFECT_S, ACQUAINTED_S = 2, 6
OVERRIDE = 20
LEASE_SHARE = fractions.Fraction(2, 100)
COMMAND_TIMEOUT_S = 20


@dataclasses.dataclass
class Mode:
    """A mode, its policy, and the bounds of the units that all gateways together admit."""

    name: str
    policy: str
    least: int
    most: int


# The bounds are those of docs/redis.md, "The promises". The modes that are not exact may refuse
# some requests wrongly, while units are at the other gateway.
EXACT = [
    Mode("exact", "exact", LIMIT, LIMIT),
    Mode("token_bucket", "bucket", LIMIT, LIMIT),
    Mode("sliding_log", "log", LIMIT, LIMIT),
]
OTHERS = [
    Mode("leased", "leased", LIMIT // 2, LIMIT),
    Mode("leased token_bucket", "leased-bucket", LIMIT // 2, LIMIT + math.ceil(LIMIT * LEASE_SHARE)),
    Mode("write_back", "write-back", LIMIT // 2, LIMIT + LIMIT // 2),
]


class Checks:
    """The checks of one store, and the modes that work."""

    def __init__(self, running, access):
        self.running, self.access, self.began = running, access, time.monotonic()
        self.works, self.failed = [], []

    def all(self):
        self.modes(EXACT)
        self.overrides()
        time.sleep(max(0, ACQUAINTED_S - (time.monotonic() - self.began)))
        self.modes(OTHERS)

    def modes(self, modes):
        for mode in modes:
            self.judge(mode.name, mode.policy, [(mode.least, mode.most)] * CLIENTS)

    def judge(self, name, policy, bounds):
        """Sends the requests of all clients. Each has a lower and an upper bound."""
        clients = [f"{policy}-{number}" for number in range(CLIENTS)]
        load = Load(self.running, f"/{policy}", clients, REQUESTS)
        admitted = list(load.admitted.values())
        problems = load.problems()
        if not all(least <= it <= most for it, (least, most) in zip(admitted, bounds)):
            problems.append("out of bounds")
        within = " ".join(f"{least}" if least == most else f"{least} to {most}" for least, most in bounds)
        self.note(name, f"admitted {' '.join(map(str, admitted))} of {within}", problems)

    def note(self, name, what, problems):
        print(f"  {'FAILED' if problems else 'ok':<7} {name}: {'; '.join([what, *problems])}", flush=True)
        (self.failed if problems else self.works).append(name)

    def overrides(self):
        """A limit of one client is set and removed while the gateways run."""
        self.command("set", str(OVERRIDE))
        if f"{OVERRIDE}/" not in (said := self.command("get")):
            self.note("override get", said, ["it has not what was set"])
        time.sleep(IN_EFFECT_S)
        others = [(LIMIT, LIMIT)] * (CLIENTS - 1)
        self.judge("override set", "single", [(OVERRIDE, OVERRIDE), *others])
        self.command("unset")
        time.sleep(IN_EFFECT_S)
        rest = LIMIT - OVERRIDE
        self.judge("override unset", "single", [(rest, rest), *[(0, 0)] * (CLIENTS - 1)])

    def command(self, verb, *limit):
        """Runs `tollgate override` for the first client."""
        gateway = self.running[0]
        command = [gateway.process.args[0], "override", "-c", gateway.configuration, verb, "single", "single-0", *limit]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, env=gateways.environment(self.access)
        )
        if done.returncode != 0:
            raise Failure(f"tollgate override {verb}: {done.stderr.strip()}")
        return done.stdout
