"""The configuration of an Envoy that asks a rate limit service: a listener that limits and passes requests on, one that
answers them, and an admin listener."""

import json
import pathlib

TYPES = "type.googleapis.com/envoy.extensions"
FILTER = "envoy.filters.http.ratelimit"


def address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def listener(name, port, route, filters=()):
    """A listener with one route for all requests."""
    router = {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{TYPES}.filters.http.router.v3.Router"}}
    host = {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, **route}]}
    manager = {
        "@type": f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "http_filters": [*filters, router],
        "route_config": {"virtual_hosts": [host]},
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    return {"name": name, "address": address(port), "filter_chains": [chain]}


def cluster(name, port, **fields):
    endpoint = {"endpoint": {"address": address(port)}}
    return {"name": name, "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]}, **fields}


def with_tls(certs):
    """A socket that shows the certificate in the directory `certs` and checks that of the service, as Envoy Gateway does."""
    certificate = {"certificate_chain": {"filename": str(certs / "tls.crt")}, "private_key": {"filename": str(certs / "tls.key")}}
    context = {
        "@type": f"{TYPES}.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": {
            "tls_certificates": [certificate],
            "validation_context": {"trusted_ca": {"filename": str(certs / "ca.crt")}},
        },
    }
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": context}}


def command(path, front, back, admin, service, rate_limits, settings, certs=None):
    """The command that runs Envoy with these ports. It writes the configuration to `path`. `service` is the port of the
    rate limit service, `rate_limits` what a request counts, and `settings` are further fields of the filter."""
    filter = {
        "@type": f"{TYPES}.filters.http.ratelimit.v3.RateLimit",
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "rate_limit_service": {
            "transport_api_version": "V3",
            "grpc_service": {"envoy_grpc": {"cluster_name": "tollgate"}},
        },
        **settings,
    }
    per_route = {"@type": f"{TYPES}.filters.http.ratelimit.v3.RateLimitPerRoute", "rate_limits": rate_limits}
    limited = {"route": {"cluster": "app"}, "typed_per_filter_config": {FILTER: per_route}}
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    http2 = {"@type": f"type.googleapis.com/{options}", "explicit_http_config": {"http2_protocol_options": {}}}
    over_http2 = {"connect_timeout": "5s", "typed_extension_protocol_options": {options: http2}}
    text = {
        "admin": {"address": address(admin)},
        "static_resources": {
            "listeners": [
                listener("front", front, limited, [{"name": FILTER, "typed_config": filter}]),
                listener("back", back, {"direct_response": {"status": 200}}),
            ],
            "clusters": [
                cluster("app", back),
                cluster("tollgate", service, **over_http2, **(with_tls(certs) if certs else {})),
            ],
        },
    }
    pathlib.Path(path).write_text(json.dumps(text, indent=1))
    return ["envoy", "--config-path", str(path), "--concurrency", "1", "--use-dynamic-base-id"]
