//! One row for each entity, field and plugin of Kong.

use crate::table::{Row, harmless, needless, read, severe};

const LOGS: &str = "see telemetry";
const AUTH: &str = "see auth, authorizers and client.user";
const CODE: &str = "code is not run";
const FOR_PEOPLE: &str = "it is for people and tools";

/// The fields of a file.
pub const FILE: &[Row] = &[
    read("_format_version"),
    read("services"),
    read("routes"),
    read("upstreams"),
    read("targets"),
    read("plugins"),
    read("consumers"),
    needless("_comment", FOR_PEOPLE),
    needless("_transform", "secrets are not read"),
    needless("_info", FOR_PEOPLE),
    needless("_workspace", FOR_PEOPLE),
    needless("_ignore", FOR_PEOPLE),
    needless("_plugin_configs", "write the configurations in the plugins"),
    severe("consumer_groups", "see plans of a policy"),
    harmless("certificates", "write a listener with tls"),
    harmless("ca_certificates", "see tls of an upstream"),
    harmless("snis", "write a listener with tls"),
    harmless("vaults", "see ${file:...}"),
    needless("keyauth_credentials", "see key-auth"),
    needless("acls", "see acl"),
    needless("jwt_secrets", "see jwt"),
    needless("basicauth_credentials", "see basic-auth"),
    needless("hmacauth_credentials", "see hmac-auth"),
    needless("oauth2_credentials", "see oauth2"),
];

/// The fields of a service.
pub const SERVICE: &[Row] = &[
    read("name"),
    read("url"),
    read("host"),
    read("port"),
    read("path"),
    read("protocol"),
    read("connect_timeout"),
    read("read_timeout"),
    read("routes"),
    read("plugins"),
    read("enabled"),
    needless("id", FOR_PEOPLE),
    needless("tags", FOR_PEOPLE),
    needless("write_timeout", "see listeners[].timeouts"),
    needless("retries", "another endpoint is tried if none can be connected"),
    needless("created_at", FOR_PEOPLE),
    needless("updated_at", FOR_PEOPLE),
    read("tls_verify"),
    needless("tls_verify_depth", "the library verifies chains"),
    harmless("client_certificate", "see tls of an upstream"),
    harmless("ca_certificates", "see tls of an upstream"),
];

/// The fields of a route.
pub const ROUTE: &[Row] = &[
    read("name"),
    read("paths"),
    read("hosts"),
    read("methods"),
    read("headers"),
    read("strip_path"),
    read("preserve_host"),
    read("protocols"),
    read("service"),
    read("plugins"),
    needless("id", FOR_PEOPLE),
    needless("tags", FOR_PEOPLE),
    needless("created_at", FOR_PEOPLE),
    needless("updated_at", FOR_PEOPLE),
    needless("regex_priority", "there are no regular expressions"),
    needless("request_buffering", "bodies pass as they come"),
    needless("response_buffering", "bodies pass as they come"),
    needless("https_redirect_status_code", "see protocols"),
    harmless("path_handling", "the path of the service and the rest are joined by one slash"),
    severe("snis", "routes do not know the name in TLS: see hosts"),
    severe("sources", "see access lists"),
    severe("destinations", "see listeners"),
    severe("expression", "write a route"),
    severe("priority", "see expression"),
];

/// The fields of an upstream.
pub const UPSTREAM: &[Row] = &[
    read("name"),
    read("algorithm"),
    read("targets"),
    read("hash_on"),
    read("hash_on_header"),
    read("hash_on_cookie"),
    read("host_header"),
    needless("id", FOR_PEOPLE),
    needless("tags", FOR_PEOPLE),
    needless("slots", "the ring has no size of its own"),
    needless(
        "hash_fallback*",
        "a request without the key goes to the endpoint with the fewest requests",
    ),
    needless("hash_on_cookie_path", "no cookie is written"),
    harmless("hash_on_*", "see balance: { hash: ... }"),
    harmless("healthchecks", "see health and eject of an upstream"),
    harmless("client_certificate", "see tls of an upstream"),
    harmless("use_srv_name", "names are looked up by the system"),
];

/// The fields of a plugin.
pub const PLUGIN: &[Row] = &[
    read("name"),
    read("config"),
    read("enabled"),
    read("service"),
    read("route"),
    read("consumer"),
    read("consumer_group"),
    read("protocols"),
    severe("condition", "write a route for the requests that it is for"),
    severe("partials", "write the configuration in the plugin"),
    severe("_config", "write the configuration in the plugin"),
    harmless("ordering", "access rules come before limits"),
    needless("id", FOR_PEOPLE),
    needless("tags", FOR_PEOPLE),
    needless("instance_name", FOR_PEOPLE),
    needless("created_at", FOR_PEOPLE),
    needless("updated_at", FOR_PEOPLE),
    needless("run_on", "there is one gateway"),
];

/// The plugins.
pub const PLUGINS: &[Row] = &[
    read("rate-limiting"),
    read("rate-limiting-advanced"),
    severe("response-ratelimiting", "see cost: { settle: { header: ... } }, which reads a number"),
    severe("graphql-rate-limiting-advanced", "see cost of a policy"),
    severe("service-protection", "see max_in_flight of an upstream, and a policy with key: global"),
    read("key-auth"),
    severe("key-auth-enc", "see client.keys"),
    severe("jwt", "see client.user.jwt, and auth: [user]"),
    severe("jwt-signer", "see client.user.jwt"),
    severe("openid-connect", "see client.user.jwt"),
    severe("basic-auth", "see client.user.basic, whose file has hashes of bcrypt"),
    severe("oauth2*", AUTH),
    severe("hmac-auth", AUTH),
    severe("ldap-auth*", AUTH),
    severe("mtls-auth", "see client_ca of a listener, and auth: [tls]"),
    severe("session", AUTH),
    severe("acl", "see access lists with values"),
    severe("opa", "write an authorizer"),
    severe("forward-auth", "write an authorizer"),
    read("ip-restriction"),
    severe("bot-detection", "see client.classes and access lists"),
    severe("injection-protection", "a firewall is not here: keep one in front"),
    read("cors"),
    read("request-size-limiting"),
    read("request-termination"),
    read("redirect"),
    read("request-transformer"),
    read("response-transformer"),
    harmless("request-transformer-advanced", "see request_headers of a route"),
    harmless("response-transformer-advanced", "see response_headers of a route"),
    severe("request-validator", "bodies are not validated"),
    severe("oas-validation", "bodies are not validated"),
    severe("route-by-header", "write routes with headers"),
    severe("canary", "see split of a route"),
    severe("aws-lambda", "only HTTP is forwarded"),
    severe("azure-functions", "only HTTP is forwarded"),
    severe("kafka-*", "only HTTP is forwarded"),
    severe("pre-function", CODE),
    severe("post-function", CODE),
    severe("serverless-functions", CODE),
    severe("ai-*", "see docs/ai.md"),
    harmless("proxy-cache*", "responses are not cached: keep a cache behind Tollgate"),
    harmless("grpc-web", "calls pass as they are"),
    harmless("grpc-gateway", "calls pass as they are"),
    needless("prometheus", LOGS),
    needless("datadog", LOGS),
    needless("statsd*", LOGS),
    needless("zipkin", LOGS),
    needless("opentelemetry", LOGS),
    needless("http-log", LOGS),
    needless("file-log", LOGS),
    needless("tcp-log", LOGS),
    needless("udp-log", LOGS),
    needless("syslog", LOGS),
    needless("loggly", LOGS),
    needless("correlation-id", "each request has an identifier"),
];

/// The fields of the configuration of `rate-limiting`.
pub const RATE_LIMITING: &[Row] = &[
    read("second"),
    read("minute"),
    read("hour"),
    read("day"),
    read("month"),
    read("year"),
    read("limit_by"),
    read("header_name"),
    read("policy"),
    read("fault_tolerant"),
    read("error_code"),
    read("error_message"),
    read("redis"),
    read("redis_*"),
    read("path"),
    harmless("hide_client_headers", "see headers.dialects"),
    needless("sync_rate", "see store.redis.mode"),
];

/// The fields of the configuration of `rate-limiting-advanced`.
pub const ADVANCED: &[Row] = &[
    read("limit"),
    read("window_size"),
    read("window_type"),
    read("identifier"),
    read("header_name"),
    read("strategy"),
    read("redis"),
    read("error_code"),
    read("error_message"),
    read("path"),
    needless("sync_rate", "see store.redis.mode"),
    needless("namespace", "the name of a policy names its counters"),
    needless("dictionary_name", "counters are in memory or in Redis"),
    harmless("hide_client_headers", "see headers.dialects"),
    harmless("retry_after_jitter_max", "Retry-After is exact"),
    severe("consumer_groups", "see plans of a policy"),
    severe("enforce_consumer_groups", "see plans of a policy"),
    severe("disable_penalty", "a refused request uses no limit here"),
];

/// The fields of the configuration of a plugin that becomes fields of a route.
pub fn config_of(plugin: &str) -> Option<&'static [Row]> {
    Some(match plugin {
        "ip-restriction" => IP_RESTRICTION,
        "cors" => CORS,
        "request-size-limiting" => SIZE,
        "request-termination" => TERMINATION,
        "redirect" => REDIRECT,
        "key-auth" => KEY_AUTH,
        "request-transformer" | "response-transformer" => TRANSFORMER,
        _ => return None,
    })
}

/// Those of `ip-restriction`.
pub const IP_RESTRICTION: &[Row] = &[
    read("allow"),
    read("deny"),
    read("whitelist"),
    read("blacklist"),
    read("status"),
    harmless("message", "a refusal has the text of the gateway"),
];

/// Those of `cors`.
pub const CORS: &[Row] = &[
    read("origins"),
    read("methods"),
    read("headers"),
    read("exposed_headers"),
    read("credentials"),
    read("max_age"),
    harmless("preflight_continue", "the gateway answers preflights"),
    harmless("private_network", "see response_headers of a route"),
    needless("allow_origin_absent", "requests without Origin pass"),
];

/// Those of `request-size-limiting`.
pub const SIZE: &[Row] = &[
    read("allowed_payload_size"),
    read("size_unit"),
    harmless("require_content_length", "a body without a length is counted while it comes"),
];

/// Those of `request-termination`.
pub const TERMINATION: &[Row] = &[
    read("status_code"),
    read("message"),
    read("body"),
    read("content_type"),
    read("trigger"),
    harmless("echo", "requests are not sent back"),
];

/// Those of `redirect`.
pub const REDIRECT: &[Row] = &[read("status_code"), read("location"), read("keep_incoming_path")];

/// Those of `key-auth`.
pub const KEY_AUTH: &[Row] = &[
    read("key_names"),
    read("key_in_header"),
    read("key_in_query"),
    read("key_in_body"),
    harmless("hide_credentials", "see request_headers of a route"),
    severe("anonymous", "see auth"),
    needless("run_on_preflight", "preflights are counted apart"),
    needless("realm", "see auth"),
    needless("identity_realms", "see client.keys"),
];

/// Those of `request-transformer` and `response-transformer`.
pub const TRANSFORMER: &[Row] = &[
    read("add"),
    read("append"),
    read("remove"),
    read("rename"),
    read("replace"),
    severe("http_method", "methods are not changed"),
];
