//! A whole gateway in this process: its metrics after requests whose number is known.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};
use tollgate_core::drain;

use super::supervisor::{Outputs, Shutdown, Supervisor};
use super::systemd::InheritedSockets;
use super::{local_runtime, start_echo};
use crate::config::Config;
use crate::telemetry::{Metrics, families};

const PATIENCE: Duration = Duration::from_secs(20);

fn config(socket: &Path) -> Config {
    let text = format!(
        "listeners: [{{ address: \"unix:{}\" }}]\n\
         runtime: {{ workers: 2 }}\n\
         telemetry: {{ access_log: false }}\n\
         upstreams:\n\
         \x20 app: {{ endpoints: [\"builtin:echo\"], max_in_flight: 9 }}\n\
         \x20 away: {{ endpoints: [\"http://127.0.0.1:1\"] }}\n\
         policies:\n\
         \x20 limited: {{ key: \"header:x-key\", limit: 3/day, missing_key: deny, \
            exempt: {{ methods: [OPTIONS] }} }}\n\
         \x20 candidate: {{ key: global, limit: 1/day, mode: shadow }}\n\
         \x20 queue: {{ key: global, limit: 20/second, algorithm: leaky_bucket, max_delay: 2s }}\n\
         \x20 held: {{ key: global, algorithm: concurrency, limit: 9 }}\n\
         \x20 failed: {{ key: global, limit: 900/day, count: {{ status: [401] }} }}\n\
         routes:\n\
         \x20 - {{ name: echo, path: /echo, policies: [limited, candidate], upstream: app }}\n\
         \x20 - {{ name: held, path: /held, policies: [held, failed], upstream: app }}\n\
         \x20 - {{ name: away, path: /away, upstream: away }}\n\
         \x20 - {{ name: queue, path: /queue, policies: [queue], respond: {{ body: ok }} }}\n",
        socket.display()
    );
    parse(&text)
}

fn parse(text: &str) -> Config {
    Config::parse(text, "gateway.yaml", &|_| None).expect("it has no mistakes").config
}

/// The status of the response to a request, which is read to its end.
async fn ask(socket: &Path, request: &str) -> u16 {
    let mut stream = UnixStream::connect(socket).await.expect("it listens");
    let request = format!("{request} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
    let request = request.replacen(" + x-key: a HTTP/1.1", " HTTP/1.1\r\nx-key: a", 1) + "\r\n";
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut response = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut response)).await.expect("in time").expect("text");
    response.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

/// The value of one series, whose labels are given in the order of their names.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[track_caller]
fn assert_values(text: &str, expected: &[(&str, f64)]) {
    for (series, expected) in expected {
        let value = value(text, series);
        assert!(value == Some(*expected), "{series} is {value:?}, not {expected}, in\n{text}");
    }
}

/// Requests and their connections end a moment after their clients have the responses.
async fn ended(metrics: &Metrics) -> String {
    timeout(PATIENCE, async {
        loop {
            let text = metrics.render();
            let open = text.lines().find(|line| line.starts_with("tollgate_connections{"));
            let is_open = open.is_some_and(|line| !line.ends_with(" 0"));
            if value(&text, "http_server_active_requests") == Some(0.0) && !is_open {
                return text;
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("all requests end")
}

/// Runs a gateway, does `during` with it, and stops it.
fn with_gateway<F: Future<Output = Supervisor>>(
    config: Config,
    during: impl FnOnce(Supervisor) -> F,
) {
    let runtime = local_runtime().expect("a runtime");
    runtime.block_on(async {
        let (stop, drain) = drain::channel();
        let (_echo_stop, echo) = start_echo().expect("it listens");
        let inherited = InheritedSockets::take();
        let started = Supervisor::start(config, inherited, echo, Outputs::default(), &drain).await;
        drop(drain);
        let supervisor = during(started.expect("it starts")).await;
        assert_eq!(supervisor.stop(stop).await, Shutdown::Complete);
    });
}

/// Requests of every kind. Returns how many there were.
async fn load(socket: &Path) -> u32 {
    for status in [200, 200, 200, 429, 429] {
        assert_eq!(ask(socket, "GET /echo + x-key: a").await, status);
    }
    assert_eq!(ask(socket, "GET /echo").await, 403);
    assert_eq!(ask(socket, "OPTIONS /echo").await, 200);
    assert_eq!(ask(socket, "BREW /nowhere").await, 404);
    assert_eq!(ask(socket, "get /echo").await, 400);
    assert_eq!(ask(socket, "GET /away").await, 502);
    for _ in 0..2 {
        assert_eq!(ask(socket, "GET /queue").await, 200);
    }
    for _ in 0..2 {
        assert_eq!(ask(socket, "GET /held").await, 200);
    }
    14
}

#[test]
fn the_counts_of_a_scripted_load_are_exact() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("gateway.sock");
    with_gateway(config(&socket), |mut supervisor| async {
        let requests = load(&socket).await;
        let text = ended(&supervisor.metrics()).await;
        if let Some(path) = std::env::var_os("TOLLGATE_METRICS_SAMPLE") {
            std::fs::write(path, &text).expect("a file that can be written");
        }
        assert_requests(&text);
        assert_decisions(&text);
        assert_upstreams(&text);
        assert_state(&text);
        assert_connections(&text, &socket, requests);
        assert_upstream_bytes(&supervisor.metrics()).await;
        for family in families::ALL.iter().filter(|family| family.is_always_in_use()) {
            let is_shown = text.contains(&format!("# TYPE {} ", family.name));
            assert!(is_shown, "{} does not appear in\n{text}", family.name);
        }
        let prepared = supervisor.prepare(config(&socket), None).await.expect("it can run");
        supervisor.reload(prepared).await;
        assert_eq!(ask(&socket, "GET /echo + x-key: a").await, 429);
        let text = ended(&supervisor.metrics()).await;
        let count: f64 = text
            .lines()
            .filter(|line| line.starts_with("http_server_request_duration_seconds_count"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        assert_eq!(count, f64::from(requests + 1), "{text}");
        let refused = "tollgate_decisions_total{outcome=\"refused\",plan=\"\",policy=\"limited\"}";
        assert_values(&text, &[(refused, 3.0), ("tollgate_config_generation", 2.0)]);
        supervisor.reloaded(false);
        let text = supervisor.metrics().render();
        assert_values(&text, &[("tollgate_config_last_reload_successful", 0.0)]);
        assert!(!text.contains("ratelimit_service_"), "none is served:\n{text}");
        supervisor
    });
}

/// Asks for `/echo` as this many clients, beginning with `first`, over one connection.
async fn ask_as(socket: &Path, clients: std::ops::Range<u32>) {
    let stream = UnixStream::connect(socket).await.expect("it listens");
    let (mut responses, mut requests) = stream.into_split();
    let ask = async {
        let last = clients.end - 1;
        for client in clients {
            let close = if client == last { "connection: close\r\n" } else { "" };
            let fields = format!("host: a\r\n{close}x-key: client-{client}");
            let head = format!("GET /echo HTTP/1.1\r\n{fields}\r\n\r\n");
            requests.write_all(head.as_bytes()).await.expect("it reads");
        }
    };
    let mut nowhere = tokio::io::sink();
    let (_, read) = tokio::join!(ask, tokio::io::copy(&mut responses, &mut nowhere));
    assert!(read.expect("it answers to the end") > 0);
}

/// There are 5,000 clients, or as many as `TOLLGATE_FLOOD_CLIENTS` says.
#[test]
fn new_clients_begin_no_series() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("gateway.sock");
    let wanted = std::env::var("TOLLGATE_FLOOD_CLIENTS").ok();
    let clients = wanted.and_then(|it| it.parse().ok()).unwrap_or(5_000);
    with_gateway(config(&socket), |supervisor| async {
        let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        // Each worker begins its own series.
        for _ in 0..20 {
            ask_as(&socket, 0..50).await;
        }
        let before = series(&ended(&supervisor.metrics()).await);
        ask_as(&socket, 50..clients).await;
        let text = ended(&supervisor.metrics()).await;
        assert_eq!(series(&text), before, "{text}");
        assert!(!text.contains("client-"));
        let admitted =
            "tollgate_decisions_total{outcome=\"admitted\",plan=\"\",policy=\"limited\"}";
        // The first clients have three requests each.
        assert_values(&text, &[(admitted, f64::from(clients - 50 + 3 * 50))]);
        supervisor
    });
}

#[test]
fn a_store_that_is_away_is_seen() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("gateway.sock");
    let text = format!(
        "listeners: [{{ address: \"unix:{}\" }}]\n\
         runtime: {{ workers: 2 }}\n\
         telemetry: {{ access_log: false }}\n\
         store: {{ redis: {{ url: \"redis://127.0.0.1:1\" }} }}\n\
         policies:\n\
         \x20 open: {{ key: global, limit: 9/day, on_store_failure: allow }}\n\
         \x20 local: {{ key: global, limit: 9/day, on_store_failure: local }}\n\
         routes: [{{ path: /*, policies: [open, local], respond: {{ body: ok }} }}]\n",
        socket.display()
    );
    with_gateway(parse(&text), |supervisor| async {
        let failed = "tollgate_decisions_total{outcome=\"failed_open\",plan=\"\",policy=\"open\"}";
        let refused = "tollgate_decisions_total{outcome=\"refused\",plan=\"\",policy=\"local\"}";
        // An alert sees the first growth only if the series has begun before.
        assert_values(&supervisor.metrics().render(), &[(failed, 0.0), (refused, 0.0)]);
        for _ in 0..3 {
            assert_eq!(ask(&socket, "GET /").await, 200);
        }
        let source = |policy: &str, source: &str| {
            let labels = format!("policy=\"{policy}\",source=\"{source}\"");
            format!("tollgate_decisions_by_source_total{{{labels}}}")
        };
        let text = ended(&supervisor.metrics()).await;
        assert_values(&text, &[(&source("open", "none"), 3.0), (&source("local", "local"), 3.0)]);
        assert_values(&text, &[(failed, 3.0), ("tollgate_nodes", 1.0)]);
        assert_eq!(value(&text, &source("local", "store")), None, "{text}");
        let open = "tollgate_breaker_open{server=\"127.0.0.1:1\"}";
        let is_seen = async {
            while value(&supervisor.metrics().render(), open) != Some(2.0) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let is_seen = timeout(PATIENCE, is_seen).await.is_ok();
        assert!(is_seen, "the breakers of both workers open:\n{}", supervisor.metrics().render());
        supervisor
    });
}

fn assert_requests(text: &str) {
    let count = |error: &str, method: &str, status: &str, route: &str| {
        let path = if route.is_empty() { String::new() } else { format!("/{route}") };
        let series = format!(
            "http_server_request_duration_seconds_count{{error_type=\"{error}\",\
             http_request_method=\"{method}\",http_response_status_code=\"{status}\",\
             http_route=\"{path}\",route=\"{route}\"}}"
        );
        value(text, &series)
    };
    assert_eq!(count("", "GET", "200", "echo"), Some(3.0), "{text}");
    assert_eq!(count("", "GET", "429", "echo"), Some(2.0), "{text}");
    assert_eq!(count("key_missing", "GET", "403", "echo"), Some(1.0), "{text}");
    assert_eq!(count("", "OPTIONS", "200", "echo"), Some(1.0), "{text}");
    assert_eq!(count("no_route", "_OTHER", "404", ""), Some(1.0), "{text}");
    assert_eq!(count("upstream_unreachable", "GET", "502", "away"), Some(1.0), "{text}");
    assert_eq!(count("", "GET", "200", "queue"), Some(2.0), "{text}");
    assert_values(text, &[("tollgate_own_duration_seconds_count", 14.0)]);
}

fn assert_decisions(text: &str) {
    let decisions = |policy: &str, outcome: &str| {
        let labels = format!("outcome=\"{outcome}\",plan=\"\",policy=\"{policy}\"");
        value(text, &format!("tollgate_decisions_total{{{labels}}}"))
    };
    let limited = ["admitted", "refused", "lacking_key", "exempt"];
    let counts = limited.map(|outcome| decisions("limited", outcome));
    assert_eq!(counts, [Some(3.0), Some(2.0), Some(1.0), Some(1.0)], "{text}");
    assert_eq!(decisions("candidate", "admitted"), Some(1.0), "{text}");
    assert_eq!(decisions("candidate", "shadow_refused"), Some(5.0), "{text}");
    assert_eq!(decisions("queue", "admitted"), Some(2.0), "{text}");
    assert_values(
        text,
        &[
            ("tollgate_decisions_by_source_total{policy=\"limited\",source=\"store\"}", 5.0),
            // Two of the three admitted, and the one that the live policy leaves alone.
            ("tollgate_shadow_disagreements_total{live=\"admitted\",policy=\"candidate\"}", 3.0),
            ("tollgate_wait_told_seconds_count{policy=\"limited\"}", 2.0),
            ("tollgate_held_seconds_count{policy=\"queue\"}", 1.0),
            ("tollgate_in_flight_units{policy=\"held\"}", 0.0),
            ("tollgate_settled_units_total{direction=\"given_back\",policy=\"failed\"}", 2.0),
            ("tollgate_promises_total{kept=\"false\",policy=\"limited\"}", 0.0),
            ("tollgate_limit_units{plan=\"\",policy=\"limited\"}", 3.0),
            ("tollgate_limit_window_seconds{policy=\"limited\"}", 86400.0),
        ],
    );
    let info =
        "algorithm=\"sliding_window\",mode=\"shadow\",patched=\"false\",policy=\"candidate\"";
    assert_values(text, &[(&format!("tollgate_policy_info{{{info}}}"), 1.0)]);
}

fn assert_upstreams(text: &str) {
    let attempts = |error: &str, status: &str, upstream: &str| {
        let labels = format!(
            "error_type=\"{error}\",http_response_status_code=\"{status}\",upstream=\"{upstream}\""
        );
        value(text, &format!("http_client_request_duration_seconds_count{{{labels}}}"))
    };
    assert_eq!(attempts("", "200", "app"), Some(6.0), "{text}");
    assert_eq!(attempts("upstream_unreachable", "", "away"), Some(1.0), "{text}");
    let connections = |kind: &str| {
        let labels = format!("kind=\"{kind}\",upstream=\"app\"");
        value(text, &format!("tollgate_upstream_connections_total{{{labels}}}")).unwrap_or(0.0)
    };
    assert_eq!(connections("new") + connections("reused"), 6.0, "{text}");
    assert!(connections("new") >= 1.0, "{text}");
    assert_values(
        text,
        &[
            ("tollgate_upstream_endpoints{state=\"up\",upstream=\"app\"}", 1.0),
            ("tollgate_upstream_endpoints{state=\"down\",upstream=\"app\"}", 0.0),
            ("tollgate_upstream_in_flight{upstream=\"app\"}", 0.0),
        ],
    );
}

fn assert_connections(text: &str, socket: &Path, requests: u32) {
    let ended = |cause: &str| {
        let listener = format!("unix:{}", socket.display());
        format!("tollgate_connections_ended_total{{cause=\"{cause}\",listener=\"{listener}\"}}")
    };
    // What the library cannot read is answered, and then an error.
    assert_values(text, &[(&ended("closed"), f64::from(requests))]);
    assert_values(text, &[("tollgate_malformed_requests_total{cause=\"bad_method\"}", 1.0)]);
    let bytes = ["received", "sent"].map(|name| {
        let series = format!("tollgate_{name}_bytes_total{{side=\"client\"}}");
        value(text, &series).unwrap_or_default()
    });
    assert!(
        bytes[0] > f64::from(requests) * 40.0 && bytes[1] > f64::from(requests) * 100.0,
        "{bytes:?}"
    );
}

/// Six requests to an upstream and their responses are counted with the next housekeeping.
async fn assert_upstream_bytes(metrics: &Metrics) {
    let bytes = |name: &str| {
        let series = format!("tollgate_{name}_bytes_total{{side=\"upstream\"}}");
        value(&metrics.render(), &series).unwrap_or_default()
    };
    let are_counted = async {
        while bytes("received") < 6.0 * 60.0 || bytes("sent") < 6.0 * 40.0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let are_counted = timeout(PATIENCE, are_counted).await.is_ok();
    assert!(are_counted, "{} received, {} sent", bytes("received"), bytes("sent"));
}

fn assert_state(text: &str) {
    assert_values(
        text,
        &[
            ("tollgate_body_memory_bytes", 0.0),
            ("tollgate_config_generation", 1.0),
            ("tollgate_config_last_reload_successful", 1.0),
            ("tollgate_store_keys_max", 1_000_000.0),
            ("tollgate_store_evictions_total{in_debt=\"true\"}", 0.0),
            (&format!("tollgate_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0),
        ],
    );
    for worker in 0..2 {
        let series = format!("tollgate_worker_busy_seconds_total{{worker=\"{worker}\"}}");
        assert!(value(text, &series).is_some_and(|busy| busy > 0.0), "{text}");
    }
}
