"""How each gateway is started for a measurement: the same work, in the words of each."""

import dataclasses
import re
import socket
import subprocess

import bed as beds

HIGH_PER_MINUTE = 100_000_000
LUA_MODULES = """
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
env REDIS_PORT={port};
"""
TOLLGATE_POLICIES = {
    "none": "",
    "high": f"policies: {{ per-key: {{ key: api_key, limit: {HIGH_PER_MINUTE}/minute, algorithm: sliding_window }} }}",
    "low": "policies: { per-key: { key: api_key, limit: 1/day, algorithm: sliding_window } }",
}
# Without a burst nginx refuses the second request of a millisecond.
NGINX_LIMITS = {
    "none": ("", ""),
    "high": (
        "limit_req_zone $http_x_api_key zone=per_key:10m rate=1000000r/s;",
        "limit_req zone=per_key burst=1000000 nodelay; limit_req_status 429;",
    ),
    "low": (
        "limit_req_zone $http_x_api_key zone=per_key:10m rate=1r/m;",
        "limit_req zone=per_key; limit_req_status 429; limit_req_log_level info;",
    ),
}
HAPROXY_LIMIT = """http-request track-sc0 req.hdr(x-api-key) table per_key
  http-request deny deny_status 429 if {{ sc_http_req_rate(0,per_key) gt {most} }}"""
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

    limit: str = "high"  # none; high, which refuses nothing; low, which refuses nearly everything
    store: str = ""  # empty for memory, or a mode of Tollgate's store in Redis
    tls: bool = False
    access_log: bool = False
    connections: int = 2000  # as many can be open
    all_fields: bool = False  # nginx writes the fields that Tollgate writes by default


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


# --- To add a gateway, add a function that starts it on the core and returns its port.


def start_tollgate(bed, label, work, program=None):
    port, redis, store = beds.free_port(), None, ""
    if work.store:
        redis = start_redis(bed)
        store = f"store: {{ redis: {{ url: 'redis://127.0.0.1:{redis.port}', mode: {work.store} }} }}"
    tls = ""
    if work.tls:
        tls = f"tls: {{ certificates: [{{ cert: {bed.directory}/cert.pem, key: {bed.directory}/key.pem }}] }}"
    path = bed.fill_in(
        "tollgate.yaml",
        proxy_port=port,
        store=store,
        tls=tls,
        connections=work.connections,
        policy=TOLLGATE_POLICIES[work.limit],
        names="" if work.limit == "none" else "per-key",
        access_log=f"{{ path: {bed.directory}/access-{port}.log }}" if work.access_log else "false",
    )
    process = bed.start(bed.proxy_core, program or str(beds.tollgate_program()), "run", "-c", path)
    return Proxy(label, port, process, redis)


def start_nginx(bed, label, work, _program=None):
    port, redis, modules = beds.free_port(), None, ""
    counters, limit = NGINX_LIMITS[work.limit]
    if work.store:
        redis = start_redis(bed)
        modules = LUA_MODULES.format(port=redis.port)
        counters = f'lua_package_path "{beds.BENCH}/?.lua;{bed.lua}/?.lua;;";'
        limit = 'access_by_lua_block { require("limit").check() }'
    tls, certificate = "", ""
    if work.tls:
        tls = " ssl http2"
        certificate = f"ssl_certificate {bed.directory}/cert.pem; ssl_certificate_key {bed.directory}/key.pem;"
    path = bed.fill_in(
        "nginx-proxy.conf",
        proxy_port=port,
        modules=modules,
        user=beds.nginx_user(),
        connections=work.connections,
        counters=counters,
        limit=limit,
        fields=f"include {beds.BENCH}/nginx-fields.conf;" if work.all_fields else "",
        tls=tls,
        certificate=certificate,
        access_log=f"{bed.directory}/access-{port}.log" if work.access_log else "off",
    )
    process = bed.start(bed.proxy_core, *beds.nginx_command(bed, path))
    return Proxy(label, port, process, redis)


def start_haproxy(bed, label, work, _program=None):
    port, limit = beds.free_port(), ""
    if work.limit != "none":
        limit = HAPROXY_LIMIT.format(most=HIGH_PER_MINUTE if work.limit == "high" else 1)
    tls = f"ssl crt {bed.directory}/both.pem alpn h2,http/1.1" if work.tls else ""
    path = bed.fill_in("haproxy.cfg", proxy_port=port, connections=work.connections, limit=limit, tls=tls)
    return Proxy(label, port, bed.start(bed.proxy_core, "haproxy", "-db", "-f", path))


def start_envoy(bed, label, work, _program=None):
    port, limit = beds.free_port(), ""
    if work.limit != "none":
        most, interval = (HIGH_PER_MINUTE, "1s") if work.limit == "high" else (1, "86400s")
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


STARTS = {
    "tollgate": start_tollgate,
    "nginx": start_nginx,
    "haproxy": start_haproxy,
    "envoy": start_envoy,
    "caddy": start_caddy,
}


def start(bed, label, gateway, work):
    """Starts a gateway. After an @ comes the path of another build of Tollgate."""
    family, _, program = gateway.partition("@")
    return STARTS[family](bed, label, work, program or None)


def is_known(gateway):
    family, at, program = gateway.partition("@")
    return family in STARTS and (not at or (family == "tollgate" and bool(program)))


def start_redis(bed):
    """Starts a Redis without persistence, on the core of the programs that are not measured."""
    port = beds.free_port()
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(bed.directory)]
    command += ["--save", "", "--appendonly", "no", "--logfile", f"redis-{port}.log"]
    redis = Redis(port, bed.start(bed.load_core, *command))
    beds.wait_for_port("Redis", port, redis.process)
    return redis
