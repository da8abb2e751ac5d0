"""A model of Kong's plugin `rate-limiting`, because Kong itself cannot be run here.

Of several instances only the most specific one runs: of the route, of the service, of all. It counts by UTC in days,
months and years, and a request that one of its periods refuses counts in none. Its counters belong to what the instance
is for, and to whom it limits by."""

import collections
import json
import random
import time

BY_HEADER = {"limit_by": "header", "header_name": "X-Tenant"}


def limiting(**config):
    return {"name": "rate-limiting", "config": {"policy": "local", "limit_by": "ip", **config}}


def service(name, routes, backend, plugins=()):
    return {"name": name, "url": f"http://127.0.0.1:{backend}", "routes": routes, "plugins": list(plugins)}


def route(name, *plugins):
    return {"name": name, "paths": [f"/{name}"], "plugins": list(plugins)}


def configuration(backend):
    return {
        "_format_version": "3.0",
        "plugins": [limiting(day=9)],
        "services": [
            service("a", [route("a1"), route("a2"), route("a3", limiting(day=4, month=20))], backend, [limiting(day=6)]),
            service("b", [route("b1"), route("b2")], backend),
            service("c", [route("c1"), route("c2")], backend),
            service("d", [route("d1"), route("d2")], backend, [limiting(day=5, **BY_HEADER)]),
            service("e", [route("e1", limiting(year=3, day=20)), route("e2", limiting(month=2, error_code=503))], backend),
        ],
    }


class Kong:
    def __init__(self, configuration):
        self.used, self.routes = collections.Counter(), {}
        for service in configuration["services"]:
            for route in service["routes"]:
                chosen = [("route", route["name"], it) for it in route["plugins"]]
                chosen += [("service", service["name"], it) for it in service["plugins"]]
                chosen += [("all", "", it) for it in configuration["plugins"]]
                self.routes[route["name"]] = chosen[0]

    def status(self, name, fields, now):
        *scope, plugin = self.routes[name]
        config = plugin["config"]
        client = fields.get(config.get("header_name"), "127.0.0.1")
        begun = {"day": now[:3], "month": now[:2], "year": now[:1]}
        counters = {(*scope, client, period, begun[period]): config[period] for period in begun if period in config}
        if any(self.used[counter] >= limit for counter, limit in counters.items()):
            return config.get("error_code", 429)
        self.used.update(counters.keys())
        return 200


def faults(programs, ask):
    """The differences between the model and Tollgate with what is imported, for requests one after the other."""
    if 86_400 - time.time() % 86_400 < 60:
        time.sleep(60)
    config = configuration(programs.backend)
    model, source = Kong(config), random.Random(7)
    port = programs.ports["tollgate-kong"]
    refused = 0
    for number in range(300):
        name = source.choice(list(model.routes))
        fields = source.choice([{}, {"X-Tenant": "t1"}, {"X-Tenant": "t2"}])
        expected = model.status(name, fields, tuple(time.gmtime()))
        told, _ = ask(port, f"/{name}/", fields)
        refused += told != 200
        if told != expected:
            yield f"kong: request {number} to {name} with {fields}: the model has {expected}, Tollgate {told}"
            return
    print(f"kong: 300 requests, {refused} refused, as by the model")


def text(backend):
    return json.dumps(configuration(backend))
