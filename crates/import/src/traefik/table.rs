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
