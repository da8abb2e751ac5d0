"""How each gateway is started for a measurement: the same work, in the words of each."""

import dataclasses
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import bed as beds

HIGH_PER_MINUTE = 100_000_000
LUA_MODULES = """
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
env REDIS_PORT={port};
"""
FAIR_PER_SECOND = 1000
TOLLGATE_LIMITS = {
    "high": f"{HIGH_PER_MINUTE}/minute",
    "low": "1/day",
    "banned": "1/day, penalty: { after: 1/day, ban: 1d }",
    "fair": f"{FAIR_PER_SECOND}/second",
    "bans": f"{FAIR_PER_SECOND}/second, penalty: {{ after: 1000/second, ban: 1h, delay: 1s }}",
}
# Without a burst nginx refuses the second request of a millisecond.
NGINX_LIMITS = {
    "high": ("rate=1000000r/s", "burst=1000000 nodelay", "limit_req_status 429;"),
    "fair": (f"rate={FAIR_PER_SECOND}r/s", f"burst={FAIR_PER_SECOND} nodelay", "limit_req_status 429; limit_req_log_level info;"),
    "low": ("rate=1r/m", "", "limit_req_status 429; limit_req_log_level info;"),
    # Without a limit: the cheapest answer that it has.
    "banned": ("rate=1r/m", "", "return 429;"),
}
NGINX_KEY_BYTES = 160  # of a zone, for each key, with some room
TRAEFIK_RATES = {"high": "average: 1000000, burst: 1000000", "low": "average: 1, period: 24h, burst: 1"}
HAPROXY_LIMIT = """http-request track-sc{number} req.hdr(x-api-key) table per_key_{number}
  http-request deny deny_status 429 if {{ sc_http_req_rate({number},per_key_{number}) gt {most} }}"""
HAPROXY_TABLE = """backend per_key_{number}
  stick-table type string len 32 size {size} expire 10m store http_req_rate(60s)
"""
HAPROXY_POLICIES = 3  # as many counters it has for a connection
ENVOY_TLS = """transport_socket:
            name: envoy.transport_sockets.tls
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
              common_tls_context:
                alpn_protocols: [h2, http/1.1]
                tls_certificates:
                  - certificate_chain: {{ filename: {directory}/cert.pem }}
                    private_key: {{ filename: {directory}/key.pem }}"""
# The descriptor without a value has a bucket for each value of the field.
ENVOY_LIMIT = """- name: envoy.filters.http.local_ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
                      stat_prefix: per_key
                      filter_enabled: {{ default_value: {{ numerator: 100, denominator: HUNDRED }} }}
                      filter_enforced: {{ default_value: {{ numerator: 100, denominator: HUNDRED }} }}
                      token_bucket: {{ max_tokens: 4000000000, tokens_per_fill: 4000000000, fill_interval: {interval} }}
                      max_dynamic_descriptors: 2000
                      rate_limits: [{{ actions: [{{ request_headers: {{ header_name: x-api-key, descriptor_key: client }} }}] }}]
                      descriptors:
                        - entries: [{{ key: client }}]
                          token_bucket: {{ max_tokens: {most}, tokens_per_fill: {most}, fill_interval: {interval} }}"""


@dataclasses.dataclass(frozen=True)
class Work:
    """What a gateway has to do beside forwarding."""

    # none; high, which refuses nothing; low, which refuses nearly everything; banned, the same by a ban; fair, which
    # refuses a key that floods; bans, which also bans it and holds back the responses
    limit: str = "high"
    store: str = ""  # empty for memory, or a mode of Tollgate's store in Redis
    tls: bool = False
    access_log: bool = False
    connections: int = 2000  # as many can be open
    all_fields: bool = False  # nginx writes the fields that Tollgate writes by default
    policies: int = 1  # limits of the same key, if there is a limit
    routes: int = 1  # each has a path; requests for other paths have one route more
    keys: int = 1000  # so many are counted at the same time
    streams: bool = False  # of events, and tunnels


@dataclasses.dataclass(frozen=True)
class Redis:
    """The Redis server of one proxy."""

    port: int
    process: subprocess.Popen

    def cpu_us(self):
        return beds.cpu_us([self.process.pid])

    def scripts_run(self):
        """The number of EVALSHA calls so far."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"INFO commandstats\r\nQUIT\r\n")
            report = connection.makefile().read()
        calls = re.search(r"cmdstat_evalsha:calls=(\d+)", report)
        return int(calls[1]) if calls else 0


@dataclasses.dataclass(frozen=True)
class Proxy:
    """A proxy under test. `process` is the parent of all its other processes."""

    label: str
    port: int
    process: subprocess.Popen
    redis: Redis | None = None

    def processes(self):
        return beds.process_tree(self.process.pid)

    def resident_mib(self):
        return sum(map(beds.resident_mib, self.processes()))


def route(number):
    """The path of a route, if there are several."""
    return f"/route-{number:05}"


# --- To add a gateway, add a function that starts it on the core and returns its port.


def start_tollgate(bed, label, work, program=None):
    port, redis, store = beds.free_port(), None, ""
    if work.store:
        redis = start_redis(bed)
        store = f"store: {{ redis: {{ url: 'redis://127.0.0.1:{redis.port}', mode: {work.store} }} }}"
    tls = ""
    if work.tls:
        tls = f"tls: {{ certificates: [{{ cert: {bed.directory}/cert.pem, key: {bed.directory}/key.pem }}] }}"
    names = [] if work.limit == "none" else [f"per-key-{number}" for number in range(work.policies)]
    policy = "{{ key: api_key, limit: {limit}, algorithm: sliding_window }}".format(limit=TOLLGATE_LIMITS.get(work.limit))
    routes = [f"  - {{ path: {route(number)}/*, policies: [{', '.join(names)}], upstream: backend }}" for number in range(1, work.routes)]
    path = bed.fill_in(
        "tollgate.yaml",
        proxy_port=port,
        store=store or f"store: {{ memory: {{ max_keys: {max(1_000_000, 2 * work.keys * work.policies)} }} }}",
        tls=tls,
        connections=work.connections,
        policies="policies:\n" + "\n".join(f"  {name}: {policy}" for name in names) if names else "",
        routes="\n".join(routes),
        names=", ".join(names),
        access_log=f"{{ path: {bed.directory}/access-{port}.log }}" if work.access_log else "false",
    )
    process = bed.start(bed.proxy_core, program or str(beds.tollgate_program()), "run", "-c", path)
    return Proxy(label, port, process, redis)


def start_nginx(bed, label, work, _program=None):
    port, redis, modules = beds.free_port(), None, ""
    counters = limit = ""
    if work.limit != "none":
        rate, burst, settings = NGINX_LIMITS[work.limit]
        zones, size = range(work.policies), max(10, work.keys * NGINX_KEY_BYTES // 1_000_000)
        counters = "".join(f"limit_req_zone $http_x_api_key zone=per_key_{it}:{size}m {rate};" for it in zones)
        limit = "".join(f"limit_req zone=per_key_{it} {burst};" for it in zones) + settings
    if work.store:
        redis = start_redis(bed)
        modules = LUA_MODULES.format(port=redis.port)
        counters = f'lua_package_path "{beds.BENCH}/?.lua;{bed.lua}/?.lua;;";'
        limit = 'access_by_lua_block { require("limit").check() }'
    tls, certificate = "", ""
    if work.tls:
        tls = " ssl http2"
        certificate = f"ssl_certificate {bed.directory}/cert.pem; ssl_certificate_key {bed.directory}/key.pem;"
    fields = f"include {beds.BENCH}/nginx-fields.conf;" if work.all_fields else ""
    if work.streams:
        fields += "proxy_buffering off; proxy_set_header Upgrade $http_upgrade;"
    path = bed.fill_in(
        "nginx-proxy.conf",
        proxy_port=port,
        modules=modules,
        user=beds.nginx_user(),
        connections=work.connections,
        counters=counters,
        limit=limit,
        fields=fields,
        connection="$http_connection" if work.streams else '""',
        locations="".join(f"location {route(number)}/ {{ proxy_pass http://backend; }}\n" for number in range(1, work.routes)),
        tls=tls,
        certificate=certificate,
        access_log=f"{bed.directory}/access-{port}.log" if work.access_log else "off",
    )
    process = bed.start(bed.proxy_core, *beds.nginx_command(bed, path))
    return Proxy(label, port, process, redis)


def start_haproxy(bed, label, work, _program=None):
    port, limit, tables, routes = beds.free_port(), "", "", ""
    if work.limit != "none":
        most = {"high": HIGH_PER_MINUTE, "low": 1, "fair": 60 * FAIR_PER_SECOND}[work.limit]
        size = max(100_000, 2 * work.keys)
        policies = range(min(work.policies, HAPROXY_POLICIES))
        limit = "\n  ".join(HAPROXY_LIMIT.format(number=number, most=most) for number in policies)
        tables = "".join(HAPROXY_TABLE.format(number=number, size=size) for number in policies)
    if work.routes > 1:
        (bed.directory / f"routes-{port}").write_text("".join(f"{route(number)}/ servers\n" for number in range(1, work.routes)))
        routes = f"use_backend %[path,map_beg({bed.directory}/routes-{port},servers)]"
    tls = f"ssl crt {bed.directory}/both.pem alpn h2,http/1.1" if work.tls else ""
    path = bed.fill_in("haproxy.cfg", proxy_port=port, connections=work.connections, limit=limit, routes=routes, tables=tables, tls=tls)
    return Proxy(label, port, bed.start(bed.proxy_core, "haproxy", "-db", "-f", path))


def start_envoy(bed, label, work, _program=None):
    port, limit = beds.free_port(), ""
    if work.limit != "none":
        limits = {"high": (HIGH_PER_MINUTE, "1s"), "low": (1, "86400s"), "fair": (FAIR_PER_SECOND, "1s")}
        most, interval = limits[work.limit]
        limit = ENVOY_LIMIT.format(most=most, interval=interval)
    tls = ENVOY_TLS.format(directory=bed.directory) if work.tls else ""
    path = bed.fill_in("envoy.yaml", proxy_port=port, limit=limit, tls=tls)
    command = ["envoy", "-c", path, "--concurrency", "1", "--disable-hot-restart", "-l", "error"]
    return Proxy(label, port, bed.start(bed.proxy_core, *command))


def start_caddy(bed, label, work, _program=None):
    port = beds.free_port()
    tls = f"tls {bed.directory}/cert.pem {bed.directory}/key.pem" if work.tls else ""
    path = bed.fill_in("Caddyfile", proxy_port=port, site="https://" if work.tls else "http://", tls=tls)
    command = ["env", f"HOME={bed.directory}", f"XDG_DATA_HOME={bed.directory}", f"XDG_CONFIG_HOME={bed.directory}"]
    command += ["caddy", "run", "--adapter", "caddyfile", "--config", path]
    return Proxy(label, port, bed.start(bed.proxy_core, *command))


def start_traefik(bed, label, work, _program=None):
    port, middlewares, definitions = beds.free_port(), "", ""
    if work.limit != "none":
        middlewares, rate = "middlewares: [per-key]", TRAEFIK_RATES[work.limit]
        definitions = f"middlewares: {{ per-key: {{ rateLimit: {{ {rate}, sourceCriterion: {{ requestHeaderName: X-Api-Key }} }} }} }}"
    tls, certificates = "", ""
    if work.tls:
        tls = "tls: {}"
        certificates = f"tls: {{ certificates: [{{ certFile: {bed.directory}/cert.pem, keyFile: {bed.directory}/key.pem }}] }}"
    path = bed.fill_in("traefik.yaml", middlewares=middlewares, definitions=definitions, tls=tls, certificates=certificates)
    command = ["traefik", f"--entryPoints.proxy.address=127.0.0.1:{port}", f"--providers.file.filename={path}"]
    command += ["--log.level=ERROR", "--global.checkNewVersion=false", "--global.sendAnonymousUsage=false"]
    return Proxy(label, port, bed.start(bed.proxy_core, *command))


STARTS = {
    "tollgate": start_tollgate,
    "nginx": start_nginx,
    "haproxy": start_haproxy,
    "envoy": start_envoy,
    "caddy": start_caddy,
    "traefik": start_traefik,
}


def start(bed, label, gateway, work):
    """Starts a gateway. After an @ comes the path of another build of Tollgate."""
    family, _, program = gateway.partition("@")
    return STARTS[family](bed, label, work, program or None)


def is_known(gateway):
    family, at, program = gateway.partition("@")
    return family in STARTS and (not at or (family == "tollgate" and bool(program)))


def add_newest():
    """Takes nginx and HAProxy of Debian's unstable suite in the place of those of the system."""
    found = subprocess.run([beds.BENCH / "peers"], capture_output=True, text=True)
    if found.returncode != 0:
        raise beds.Failure(f"bench/peers failed: {found.stderr}")
    os.environ["PATH"] = f"{found.stdout.strip()}:{os.environ['PATH']}"


def choose(names, families, must_be_present):
    """The label and the program of each gateway of these names that is installed."""
    chosen = {}
    for name in names:
        before, at, program = name.partition("@")
        label, _, family = before.rpartition("=")
        if family not in families or not is_known(family + at + program):
            raise beds.Failure(f"the gateways are {', '.join(families)}, or LABEL=tollgate@PROGRAM")
        if family + at == "tollgate":
            at, program = "@", str(beds.tollgate_program())
        if at or shutil.which(family):
            chosen[label or name] = family + at + program
        elif must_be_present:
            raise beds.Failure(f"{family} is not installed")
        else:
            print(f"without {family}, which is not installed", file=sys.stderr)
    return chosen


def versions(chosen):
    """One line with the machine and the versions of these gateways."""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    commands = {"nginx": ["-v"], "haproxy": ["-v"], "envoy": ["--version"], "caddy": ["version"], "traefik": ["version"]}
    found = [f"{model[1] if model else 'unknown processor'}, {os.cpu_count()} cores"]
    for name in commands.keys() & set(chosen.values()):
        run = subprocess.run([name, *commands[name]], capture_output=True, text=True)
        number = re.search(r"\d+\.\d+\.\d+", run.stdout + run.stderr)
        found.append(f"{name} {number[0] if number else '?'}")
    return ", ".join(found)


def start_redis(bed):
    """Starts a Redis without persistence, on the core of the programs that are not measured."""
    port = beds.free_port()
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(bed.directory)]
    command += ["--save", "", "--appendonly", "no", "--logfile", f"redis-{port}.log"]
    redis = Redis(port, bed.start(bed.load_core, *command))
    beds.wait_for_port("Redis", port, redis.process)
    return redis
