"""Removes all that a test wrote."""

from store import figures
from store.resp import Refused, Unreachable, connect

# Keys without an expiry. Without SCAN they are removed by their names.
KEPT = ("secret", "buckets", "overrides", "patches")
ROUNDS = 5


def clean(access, prefixes):
    """Removes all keys of the prefixes from all servers. Returns what is left, or None."""
    try:
        servers = connect(access)
        left = [it for prefix in prefixes if (it := clean_prefix(servers, prefix))]
        for server in servers:
            server.close()
    except (Refused, Unreachable) as error:
        left = [f"the servers cannot be cleaned up: {error}; keys with the prefix {', '.join(prefixes)} stay"]
    return "; ".join(left) or None


def clean_prefix(servers, prefix):
    try:
        # A slot that moves meanwhile can hide a key from one look.
        for _ in range(ROUNDS):
            found = figures.keys(servers, prefix)
            if not any(names for _, names in found):
                return None
            for server, names in found:
                remove(server, names)
        return f"keys with the prefix {prefix} were found again and again"
    except Refused as error:
        refused = str(error)
    for server in servers:
        # A master without the slot of a key refuses it, and another one has it.
        remove(server, [f"{prefix}:meta:{name}" for name in KEPT], is_certain=False)
    return f"not cleaned up: {refused}; keys with the prefix {prefix} end by their expiry within three hours"


def remove(server, names, is_certain=True):
    """Removes keys, each by a command of its own, because a command may have keys of one slot only."""
    for verb in ("UNLINK", "DEL"):
        refused = [it for it in server.all([(verb, name) for name in names]) if isinstance(it, Refused)]
        if not refused:
            return
    if is_certain:
        raise refused[0]
