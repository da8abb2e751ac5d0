//! Words and forms of other gateways, with what is written in their place.
//!
//! Envoy, Traefik, nginx, Kong, Caddy, HAProxy and APISIX have other names for the same things. A
//! list of all names that exist here would not help their users.

/// What to write instead of a field that a section of this name does not have.
pub fn field(section: &str, name: &str) -> Option<&'static str> {
    match section {
        "policy" => policy(name),
        "route" => route(name),
        _ => None,
    }
}

/// What to write instead of a field of a policy.
pub fn policy(name: &str) -> Option<&'static str> {
    Some(match name {
        "average"
        | "rate"
        | "rates"
        | "period"
        | "unit"
        | "units"
        | "requests"
        | "rps"
        | "rpm"
        | "requests_per_unit"
        | "requests_per_second"
        | "requests_per_minute"
        | "max_requests"
        | "max_events"
        | "events"
        | "window"
        | "window_size"
        | "window_ms"
        | "time_window"
        | "time_interval"
        | "interval"
        | "duration"
        | "per"
        | "second"
        | "minute"
        | "hour"
        | "day"
        | "week"
        | "month"
        | "seconds"
        | "minutes"
        | "tokens_per_fill"
        | "fill_interval"
        | "rate_limit"
        | "ratelimit"
        | "limit_req"
        | "zone"
        | "quota"
        | "max" => "write limit: 100/minute",
        "max_tokens" | "token_bucket" => {
            "write limit: 100/minute, algorithm: token_bucket, burst: 20"
        }
        "nodelay" | "delay" => {
            "write algorithm: leaky_bucket, max_delay: 2s; or nothing, to refuse"
        }
        "limit_by" | "key_type" | "source_criterion" | "sourceCriterion" | "descriptors"
        | "descriptor" | "generic_key" | "by" | "identifier" | "consumer" => {
            "write key: ip, or key: api_key, or key: header:x-tenant"
        }
        "dry_run" | "limit_req_dry_run" => "write mode: shadow",
        "rejected_code" | "error_code" | "status" | "limit_req_status" => {
            "write response: { status: 429 }"
        }
        _ => return None,
    })
}

/// What to write instead of a field of a route.
fn route(name: &str) -> Option<&'static str> {
    Some(match name {
        "limit" | "limits" | "rate" | "rate_limit" | "rate_limits" | "ratelimit" | "limit_req"
        | "key" | "policy" | "plugins" | "middlewares" | "filters" => {
            "write policies: [{ key: ip, limit: 100/minute }]"
        }
        "backend" | "proxy_pass" | "proxy" | "service" | "services" | "cluster" | "to" | "url"
        | "target" | "reverse_proxy" => "write upstream: NAME, and upstreams: { NAME: http://... }",
        "prefix" | "location" | "paths" | "uri" | "match" | "rule" => "write path: /v1/*",
        "host" | "domain" | "domains" => "write hosts: [api.example.com]",
        _ => return None,
    })
}

/// What to write instead of a key of another gateway.
pub fn key(word: &str) -> Option<&'static str> {
    Some(match word {
        "$binary_remote_addr" | "$remote_addr" => "write key: ip, with limit: 100/minute",
        "remote_address"
        | "remote_addr"
        | "client_ip"
        | "client.ip"
        | "source_ip"
        | "source.ip"
        | "src"
        | "ip_address"
        | "address"
        | "{remote_host}"
        | "{remote.ip}"
        | "{client_ip}"
        | "{http.request.remote.host}"
        | "$proxy_protocol_addr"
        | "request.ip" => "write key: ip",
        "consumer" | "credential" | "apikey" | "api-key" | "$http_x_api_key" => {
            "write key: api_key"
        }
        "$host" | "$http_host" | "$server_name" | "{host}" => "write key: host",
        "$uri" | "$request_uri" | "{uri}" | "{path}" => "write key: path",
        "service" => "write key: global",
        "$http_authorization" => "write key: header:authorization",
        _ if word.starts_with("$http_") => "write key: header:NAME, like header:x-tenant",
        _ if word.starts_with("$cookie_") => "write key: cookie:NAME, like cookie:session",
        _ if word.starts_with("$arg_") => "write key: query:NAME, like query:tenant",
        _ => return None,
    })
}

/// The name of the variable, if a text is a reference to one as Caddy, Kubernetes or a shell
/// writes it: `$NAME`, `$(NAME)`, `{$NAME}` or `{env.NAME}`.
pub fn variable(text: &str) -> Option<&str> {
    let within = |begin: &str, end: &str| text.strip_prefix(begin)?.strip_suffix(end);
    let of_shell = || text.strip_prefix('$');
    let name = within("{env.", "}")
        .or_else(|| within("{$", "}"))
        .or_else(|| within("$(", ")"))
        .or_else(of_shell)?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_known_in_the_forms_of_others() {
        for text in ["$NAME_1", "$(NAME_1)", "{$NAME_1}", "{env.NAME_1}"] {
            assert_eq!(variable(text), Some("NAME_1"), "{text}");
        }
        for text in ["${NAME}", "NAME", "$", "$1", "$$NAME", "{NAME}", "{env.}", "x$NAME", "$A B"] {
            assert_eq!(variable(text), None, "{text}");
        }
    }

    #[test]
    fn words_of_other_gateways_have_an_advice() {
        for name in ["requests_per_unit", "average", "window", "minute"] {
            assert_eq!(field("policy", name), Some("write limit: 100/minute"), "{name}");
        }
        assert!(key("$binary_remote_addr").is_some_and(|it| it.contains("limit: 100/minute")));
        assert!(field("route", "limit").is_some_and(|it| it.contains("limit: 100/minute")));
        assert_eq!(
            (field("policy", "lmit"), field("redis", "rate"), key("ip")),
            (None, None, None)
        );
    }
}
