//! The variables of the service itself, and the sections `check`, `admin` and `telemetry`.

use std::path::Path;

use super::environment::Environment;
use super::forms::pairs;
use super::yaml::{Text, flow, quoted};

/// Every peer may ask, as in envoyproxy/ratelimit.
const ALL: &str = "[\"0.0.0.0/0\", \"::/0\"]";
/// The names of statistics for which Tollgate has the same metrics.
const KNOWN_STATISTICS: &str = "ratelimit_service_";

/// Writes the section `check`.
pub fn write(env: &mut Environment, yaml: &mut Text) {
    yaml.map(0, "check");
    let http = listen(env, "HOST", "PORT", "8080");
    yaml.map(1, "http");
    yaml.text(2, "address", &http);
    yaml.field(2, "trust", ALL);
    yaml.map(1, "grpc");
    let grpc = match env.text("GRPC_UDS") {
        Some(path) => format!("unix:{path}"),
        None => listen(env, "GRPC_HOST", "GRPC_PORT", "8081"),
    };
    yaml.text(2, "address", &grpc);
    yaml.field(2, "trust", ALL);
    yaml.field(2, "services", "[ratelimit]");
    if let Some(age) = env.duration("GRPC_MAX_CONNECTION_AGE") {
        yaml.field(2, "max_connection_age", &format!("{}ms", age.as_millis()));
    }
    write_tls(env, yaml);
    write_headers(env, yaml);
    match env.word("CONFIG_TYPE", &["file", "grpc_xds_sotw"]).as_deref() {
        Some("grpc_xds_sotw") => write_xds(env, yaml),
        _ => {
            let directory = Path::new(&env.text_or("RUNTIME_ROOT", "/srv/runtime_data/current"))
                .join(env.text_or("RUNTIME_SUBDIRECTORY", ""))
                .join(env.text_or("RUNTIME_APPDIRECTORY", "config"));
            yaml.text(2, "envoy_config", &directory.to_string_lossy());
        }
    }
    write_rules(env, yaml);
}

/// The address of a listener.
fn listen(env: &Environment, host: &str, port: &str, usual_port: &str) -> String {
    let host = env.text_or(host, "0.0.0.0");
    let port = env.text_or(port, usual_port);
    if host.contains(':') && !host.starts_with('[') {
        return format!("[{host}]:{port}");
    }
    format!("{host}:{port}")
}

fn write_tls(env: &mut Environment, yaml: &mut Text) {
    if env.text("GRPC_CLIENT_TLS_SAN").is_some() {
        let what = "GRPC_CLIENT_TLS_SAN is not supported: every client with a certificate of \
                    GRPC_CLIENT_TLS_CACERT may ask; leave it out if that is enough";
        env.mistake(what);
    }
    if !env.is_set("GRPC_SERVER_USE_TLS") {
        return;
    }
    let cert = env.text("GRPC_SERVER_TLS_CERT");
    let key = env.text("GRPC_SERVER_TLS_KEY");
    let (Some(cert), Some(key)) = (cert, key) else {
        env.mistake("GRPC_SERVER_USE_TLS needs GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY");
        return;
    };
    yaml.map(2, "tls");
    let certificate = flow([("cert", &*cert), ("key", &*key)]);
    yaml.field(3, "certificates", &format!("[{certificate}]"));
    if let Some(authority) = env.text("GRPC_CLIENT_TLS_CACERT") {
        yaml.text(3, "client_ca", &authority);
    }
}

fn write_headers(env: &mut Environment, yaml: &mut Text) {
    if !env.is_set("LIMIT_RESPONSE_HEADERS_ENABLED") {
        yaml.field(2, "headers", "[]");
        return;
    }
    yaml.field(2, "headers", "[erl]");
    for (name, usual) in [
        ("LIMIT_LIMIT_HEADER", "RateLimit-Limit"),
        ("LIMIT_REMAINING_HEADER", "RateLimit-Remaining"),
        ("LIMIT_RESET_HEADER", "RateLimit-Reset"),
    ] {
        if env.text(name).is_some_and(|it| !it.eq_ignore_ascii_case(usual)) {
            env.note(format!("{name} has no effect: the field is {usual}"));
        }
    }
}

fn write_xds(env: &mut Environment, yaml: &mut Text) {
    let has_tls = env.is_set("CONFIG_GRPC_XDS_SERVER_USE_TLS");
    let server = env.text_or("CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000");
    let server = server.strip_prefix("dns:///").unwrap_or(&server);
    let scheme = if has_tls { "https" } else { "h2c" };
    yaml.map(2, "xds");
    yaml.text(3, "server", &format!("{scheme}://{server}"));
    yaml.text(3, "node", &env.text_or("CONFIG_GRPC_XDS_NODE_ID", "default"));
    let metadata = pairs(&env.text_or("CONFIG_GRPC_XDS_NODE_METADATA", ""));
    if !metadata.is_empty() {
        let named =
            metadata.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)));
        yaml.field(3, "metadata", &format!("{{ {} }}", named.collect::<Vec<_>>().join(", ")));
    }
    if has_tls {
        let fields = [
            ("ca", env.text("CONFIG_GRPC_XDS_SERVER_TLS_CACERT")),
            ("cert", env.text("CONFIG_GRPC_XDS_CLIENT_TLS_CERT")),
            ("key", env.text("CONFIG_GRPC_XDS_CLIENT_TLS_KEY")),
            ("server_name", env.text("CONFIG_GRPC_XDS_SERVER_TLS_SAN")),
        ];
        let given = fields.iter().filter_map(|(name, it)| Some((*name, it.as_deref()?)));
        let given: Vec<(&str, &str)> = given.collect();
        if !given.is_empty() {
            yaml.field(3, "tls", &flow(given));
        }
    }
    if let Some(bytes) = env.number("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES") {
        yaml.field(3, "max_message", &bytes.to_string());
    }
    let starts_without = env.is_set("FORCE_START_WITHOUT_INITIAL_CONFIG");
    let waits = !starts_without || env.is_set("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED");
    yaml.field(3, "wait", &waits.to_string());
}

fn write_rules(env: &mut Environment, yaml: &mut Text) {
    if env.text("NEAR_LIMIT_RATIO").and_then(|it| it.parse().ok()).is_some_and(|it: f64| it != 0.8)
    {
        env.note("NEAR_LIMIT_RATIO has no effect: it is always 0.8");
    }
    let word = |env: &mut Environment, name, words: &[&str]| {
        env.word(name, words).unwrap_or_else(|| words[0].to_owned())
    };
    yaml.map(2, "envoy");
    for (field, name, words) in [
        ("algorithm", "TOLLGATE_ALGORITHM", &["fixed_window", "sliding_window"][..]),
        ("counting", "TOLLGATE_COUNTING", &["each", "together"]),
        ("store_mode", "TOLLGATE_STORE_MODE", &["exact", "leased", "write_back"]),
        ("on_store_failure", "TOLLGATE_ON_STORE_FAILURE", &["local", "allow", "deny"]),
    ] {
        let chosen = word(env, name, words);
        yaml.field(3, field, &chosen);
    }
    for (field, name) in [
        ("merge_domains", "MERGE_DOMAIN_CONFIG"),
        ("shadow", "SHADOW_MODE"),
        ("quota", "QUOTA_MODE"),
        ("metadata", "RESPONSE_DYNAMIC_METADATA"),
    ] {
        if env.is_set(name) {
            yaml.field(3, field, "true");
        }
    }
}

/// Writes the sections `admin` and `telemetry`.
pub fn write_process(env: &mut Environment, yaml: &mut Text) {
    if env.is_set("USE_PROMETHEUS") {
        let address = env.text_or("PROMETHEUS_ADDR", ":9090");
        yaml.map(0, "admin");
        yaml.map(1, "probe");
        yaml.text(2, "address", &address);
        yaml.field(2, "metrics", "true");
        if env.text("PROMETHEUS_PATH").is_some_and(|it| it != "/metrics") {
            env.note("PROMETHEUS_PATH has no effect: the metrics are at /metrics");
        }
        note_mapper(env);
    }
    let levels = ["panic", "fatal", "error", "warning", "warn", "info", "debug", "trace"];
    let level = match env.word("LOG_LEVEL", &levels).as_deref() {
        Some("panic" | "fatal" | "error") => "error",
        Some("info") => "info",
        Some("debug") => "debug",
        Some("trace") => "trace",
        _ => "warn",
    };
    let format = env.word("LOG_FORMAT", &["text", "json"]).unwrap_or_else(|| "text".to_owned());
    yaml.map(0, "telemetry");
    yaml.field(1, "log", &format!("{{ level: {level}, format: {format} }}"));
    yaml.field(1, "access_log", "false");
}

/// Notes a mapper with other names than those that the metrics have.
fn note_mapper(env: &mut Environment) {
    let Some(path) = env.text("PROMETHEUS_MAPPER_YAML") else { return };
    // EG mounts the file only if it has one.
    let Ok(text) = std::fs::read_to_string(&path) else { return };
    let names =
        text.lines().filter_map(|line| line.trim_start_matches(['-', ' ']).strip_prefix("name:"));
    let names = names.map(|name| name.trim().trim_matches(['"', '\'']));
    let others: Vec<&str> = names.filter(|it| !it.starts_with(KNOWN_STATISTICS)).take(5).collect();
    if !others.is_empty() {
        env.note(format!(
            "PROMETHEUS_MAPPER_YAML has no effect: there are no metrics of the names {}",
            others.join(", ")
        ));
    }
}
