//! One row for each section of a file, field of an entry point or a router, and middleware of Traefik.

use crate::table::{Row, harmless, needless, read, severe};

const STATIC: &str = "it is about the process of Traefik";
const AUTH: &str = "see auth, authorizers and client.user";
const PATHS: &str = "paths are not changed by expressions: write routes";

/// The sections of a file.
pub const FILE: &[Row] = &[
    read("http"),
    read("entryPoints"),
    severe("tcp", "only HTTP is forwarded"),
    severe("udp", "only HTTP is forwarded"),
    read("tls"),
    needless("global", STATIC),
    needless("log", STATIC),
    needless("accessLog", STATIC),
    needless("api", STATIC),
    needless("ping", STATIC),
    needless("metrics", STATIC),
    needless("tracing", STATIC),
    needless("providers", STATIC),
    needless("certificatesResolvers", STATIC),
    needless("experimental", STATIC),
    needless("serversTransport", "see timeouts and tls of an upstream"),
];

/// The sections of `http`.
pub const HTTP: &[Row] = &[
    read("routers"),
    read("services"),
    read("middlewares"),
    harmless("serversTransports", "see timeouts and tls of an upstream"),
    needless("models", STATIC),
];

/// The fields of an entry point.
pub const ENTRY_POINT: &[Row] = &[
    read("address"),
    read("asDefault"),
    read("forwardedHeaders"),
    read("http"),
    severe("proxyProtocol", "see proxy_protocol of a listener, and client.trusted_proxies"),
    needless("transport", "see listeners[].timeouts"),
    needless("http2", "see listeners[].http2"),
    harmless("http3", "HTTP/3 is not served"),
    needless("udp", "only HTTP is forwarded"),
    needless("observability", "see telemetry"),
    needless("reusePort", STATIC),
    needless("allowACMEByPass", STATIC),
];

/// The fields of `http` of an entry point.
pub const ENTRY_POINT_HTTP: &[Row] = &[
    read("middlewares"),
    read("redirections"),
    harmless("tls", "write a listener with tls"),
    harmless("encodeQuerySemicolons", "queries pass as they are"),
    needless("maxHeaderBytes", "see listeners[].max_head_size"),
];

/// The fields of `forwardedHeaders` of an entry point.
pub const FORWARDED_HEADERS: &[Row] = &[
    read("insecure"),
    read("trustedIPs"),
    harmless("connection", "fields that Connection names are removed"),
];

/// The fields of a router.
pub const ROUTER: &[Row] = &[
    read("rule"),
    read("service"),
    read("middlewares"),
    read("priority"),
    read("entryPoints"),
    needless("ruleSyntax", "both forms are read"),
    needless("observability", "see telemetry"),
    harmless("tls", "write a listener with tls"),
];

/// The middlewares.
pub const MIDDLEWARES: &[Row] = &[
    read("rateLimit"),
    read("inFlightReq"),
    read("chain"),
    read("stripPrefix"),
    read("addPrefix"),
    read("headers"),
    read("ipAllowList"),
    read("ipWhiteList"),
    read("forwardAuth"),
    read("buffering"),
    read("compress"),
    read("retry"),
    read("redirectScheme"),
    severe("redirectRegex", "write a route with a redirect"),
    severe("replacePath", PATHS),
    severe("replacePathRegex", PATHS),
    severe("stripPrefixRegex", PATHS),
    severe("basicAuth", "see client.user.basic, whose file has hashes of bcrypt"),
    severe("digestAuth", AUTH),
    severe("plugin", "code is not run"),
    harmless("circuitBreaker", "see eject of an upstream"),
    harmless("errors", "responses of endpoints pass as they are"),
    harmless("passTLSClientCert", "see tls:subject in docs/keys.md"),
    harmless("grpcWeb", "calls pass as they are"),
    needless("contentType", "types pass as they are"),
];

/// The fields of a middleware. None if its own code looks at each of them.
pub fn fields_of(middleware: &str) -> Option<&'static [Row]> {
    Some(match middleware {
        "rateLimit" => RATE_LIMIT,
        "inFlightReq" => IN_FLIGHT,
        "stripPrefix" => STRIP_PREFIX,
        "addPrefix" => ADD_PREFIX,
        "ipAllowList" | "ipWhiteList" => ALLOW_LIST,
        "forwardAuth" => FORWARD_AUTH,
        "buffering" => BUFFERING,
        "compress" => COMPRESS,
        "retry" => RETRY,
        "redirectScheme" => REDIRECT,
        _ => return None,
    })
}

/// Those of `rateLimit`.
pub const RATE_LIMIT: &[Row] =
    &[read("average"), read("period"), read("burst"), read("sourceCriterion"), read("redis")];

/// Those of `inFlightReq`.
pub const IN_FLIGHT: &[Row] = &[read("amount"), read("sourceCriterion")];

/// Those of `stripPrefix`.
pub const STRIP_PREFIX: &[Row] =
    &[read("prefixes"), needless("forceSlash", "a path begins with a slash")];

/// Those of `addPrefix`.
pub const ADD_PREFIX: &[Row] = &[read("prefix")];

/// Those of `ipAllowList`.
pub const ALLOW_LIST: &[Row] = &[read("sourceRange"), read("ipStrategy"), read("rejectStatusCode")];

/// Those of `forwardAuth`.
pub const FORWARD_AUTH: &[Row] = &[
    read("address"),
    read("authResponseHeaders"),
    harmless("authResponseHeadersRegex", "name the fields in take of the authorizer"),
    harmless("authRequestHeaders", "see authorizers"),
    harmless("addAuthCookiesToResponse", "see authorizers"),
    harmless("headerField", "see take of the authorizer"),
    harmless("trustForwardHeader", "see client.trusted_proxies"),
    harmless("forwardBody", "an authorizer gets no body"),
    harmless("preserveLocationHeader", "see authorizers"),
    harmless("preserveRequestMethod", "see authorizers"),
    severe("tls", "see authorizers"),
    needless("maxBodySize", "an authorizer gets no body"),
    needless("maxResponseBodySize", "the answer of an authorizer is bounded"),
];

/// Those of `buffering`.
pub const BUFFERING: &[Row] = &[
    read("maxRequestBodyBytes"),
    needless("memRequestBodyBytes", "bodies pass as they come"),
    needless("memResponseBodyBytes", "bodies pass as they come"),
    harmless("maxResponseBodyBytes", "bodies of responses have no bound"),
    harmless("retryExpression", "see retries of a route"),
];

/// Those of `compress`.
pub const COMPRESS: &[Row] = &[
    harmless("encodings", "see compress of a route"),
    harmless("defaultEncoding", "see compress of a route"),
    harmless("excludedContentTypes", "see compress of a route"),
    harmless("includedContentTypes", "see compress of a route"),
    harmless("minResponseBodyBytes", "see compress of a route"),
];

/// Those of `retry`.
pub const RETRY: &[Row] = &[
    read("attempts"),
    harmless("initialInterval", "see retries of a route"),
    harmless("timeout", "see timeouts of a route"),
    harmless("status", "see retries of a route"),
    harmless("disableRetryOnNetworkError", "see retries of a route"),
    harmless("retryNonIdempotentMethod", "see retries of a route"),
    harmless("maxRequestBodyBytes", "see retries of a route"),
];

/// Those of `redirectScheme`.
pub const REDIRECT: &[Row] = &[read("scheme"), read("port"), read("permanent")];

/// The fields of `loadBalancer` of a service.
pub const LOAD_BALANCER: &[Row] = &[
    read("servers"),
    read("healthCheck"),
    read("passHostHeader"),
    harmless("sticky", POOL),
    harmless("serversTransport", POOL),
    harmless("responseForwarding", POOL),
    harmless("strategy", POOL),
    harmless("passiveHealthCheck", "see eject of an upstream"),
];

const POOL: &str = "see balance, timeouts and tls of an upstream";

/// The fields of a server of a service.
pub const SERVER: &[Row] = &[
    read("url"),
    read("weight"),
    harmless("preservePath", "the path of a server is not taken"),
    harmless("fenced", "each server gets requests"),
];

const CHECKS: &str = "a check is a GET at the address of the endpoint";

/// The fields of `healthCheck`. Those that change what is asked are read, because a check of another
/// address may take all endpoints out.
pub const HEALTH_CHECK: &[Row] = &[
    read("path"),
    read("interval"),
    read("timeout"),
    read("scheme"),
    read("port"),
    read("hostname"),
    read("method"),
    read("mode"),
    read("headers"),
    read("status"),
    harmless("unhealthyInterval", CHECKS),
    harmless("followRedirects", CHECKS),
];

/// The fields of `weighted`, `mirroring` and `failover`.
pub const COMBINED: &[Row] = &[
    read("services"),
    read("service"),
    read("mirrors"),
    read("fallback"),
    harmless("sticky", "see split of a route"),
    harmless("healthCheck", "see health of an upstream"),
    harmless("errors", "see fallback of a route"),
    harmless("mirrorBody", "a copy of GET or HEAD has no body"),
    harmless("maxBodySize", "a copy of GET or HEAD has no body"),
];
