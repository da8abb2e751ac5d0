//! Sums over workers, the bound on series, and the text.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http::{Method, StatusCode};
use tollgate_core::time::monotonic;

use super::families::{self, DECISIONS, DECISIONS_BY_SOURCE, OWN_DURATION};
use super::family::{Appears, Kind};
use super::model_families;
use super::*;

fn line<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(start)?.strip_prefix(' '))
}

/// A gateway with the one route `r`.
fn requests(metrics: &Metrics) -> Rc<RequestMetrics> {
    let labels = RouteLabels { name: "r".into(), pattern: "/*".into() };
    Rc::new(RequestMetrics::new(&Rc::new(metrics.worker()), [labels].into(), 1))
}

#[test]
fn a_scrape_sums_all_workers_also_those_that_have_ended() {
    let metrics = Metrics::new(100);
    let workers = [1_u64, 10, 100].map(|amount| {
        let worker = metrics.worker();
        thread::spawn(move || {
            for _ in 0..1000 {
                worker.counter(&DECISIONS, &["p", "", "admitted"]).add(amount);
            }
            worker.histogram(&OWN_DURATION, &[]).observe(amount);
        })
    });
    workers.into_iter().for_each(|worker| worker.join().expect("it counts"));
    let text = metrics.render();
    let name = "tollgate_decisions_total{outcome=\"admitted\",plan=\"\",policy=\"p\"}";
    assert_eq!(line(&text, name), Some("111000"), "{text}");
    let bucket =
        |le: &str| line(&text, &format!("tollgate_own_duration_seconds_bucket{{le=\"{le}\"}}"));
    assert_eq!(
        [bucket("0.00001"), bucket("0.0001"), bucket("+Inf")],
        [Some("2"), Some("3"), Some("3")]
    );
    assert_eq!(line(&text, "tollgate_own_duration_seconds_sum"), Some("0.000111"));
    assert_eq!(line(&text, "tollgate_own_duration_seconds_count"), Some("3"));
}

/// Clients that begin many series hid what policies decide, and failures of upstreams.
#[test]
fn series_beyond_the_bound_count_in_one_without_what_others_choose() {
    let metrics = Metrics::new(3);
    let [first, second] = [metrics.worker(), metrics.worker()];
    let full =
        |metrics: &Metrics| line(&metrics.render(), "tollgate_series_full").map(str::to_owned);
    for status in 200..203 {
        let labels = ["GET", &status.to_string(), "/*", "r", ""];
        first.histogram(&families::REQUEST_DURATION, &labels).observe(1);
    }
    assert_eq!(full(&metrics).as_deref(), Some("0"), "there is room for three");
    let count = |method: &str, status: &str, route: &str, error: &str| {
        let labels = [method, status, "/*", route, error];
        second.histogram(&families::REQUEST_DURATION, &labels).observe(1);
    };
    for status in 200..300 {
        count("GET", &status.to_string(), "r", "");
        count("_OTHER", &(status + 300).to_string(), "r", &(status + 300).to_string());
    }
    count("GET", "", "other", "client_closed");
    assert_eq!(full(&metrics).as_deref(), Some("1"));
    for number in 0..50 {
        let policy = format!("p{number}");
        first.counter(&DECISIONS, &[&policy, "", "refused"]).increment();
        second.counter(&DECISIONS, &[&policy, "", "refused"]).increment();
        second.counter(&families::RATE_LIMIT_OVER, &["edge", &policy, ""]).increment();
    }
    let text = metrics.render();
    let of = |method: &str, status: &str, route: &str, error: &str| {
        let labels = format!(
            "{{error_type=\"{error}\",http_request_method=\"{method}\",\
             http_response_status_code=\"{status}\",http_route=\"/*\",route=\"{route}\"}}"
        );
        line(&text, &format!("http_server_request_duration_seconds_count{labels}"))
    };
    assert_eq!(of("GET", "200", "r", ""), Some("2"), "a known series keeps its place: {text}");
    assert_eq!(of("_overflow", "2xx", "r", ""), Some("97"));
    assert_eq!(of("_overflow", "5xx", "r", "_overflow"), Some("100"));
    assert_eq!(of("_overflow", "", "other", "_overflow"), Some("1"));
    let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(series("http_server_request_duration_seconds_count{"), 6, "{text}");
    assert_eq!(series("tollgate_decisions_total{"), 50, "clients do not begin these");
    let over = "{domain=\"edge\",key1=\"_overflow\",key2=\"\"}";
    let name = format!("ratelimit_service_rate_limit_over_limit{over}");
    assert_eq!(line(&text, &name), Some("50"));
    let totals = metrics.totals();
    assert_eq!(totals.node.by_class.numbers(), [0, 103, 0, 0, 100, 1, 0]);
}

#[test]
fn a_request_is_counted_when_it_ends_however_it_ends() {
    let metrics = Metrics::new(100);
    let requests = requests(&metrics);
    let mut answered = requests.begin(&Method::GET, monotonic());
    answered.set_route(0);
    answered.waited().set(Duration::from_secs(3600));
    answered.answered(StatusCode::OK, None);
    let mut faulty = requests.begin(&"BREW".parse().expect("a method"), monotonic());
    faulty.set_route(0);
    faulty.answered(StatusCode::BAD_GATEWAY, None);
    let left = requests.begin(&Method::POST, monotonic());
    let active = |metrics: &Metrics| {
        line(&metrics.render(), "http_server_active_requests").map(str::to_owned)
    };
    assert_eq!(active(&metrics).as_deref(), Some("3"));
    drop((answered, faulty, left));
    assert_eq!(active(&metrics).as_deref(), Some("0"));
    let text = metrics.render();
    let count = |error: &str, method: &str, status: &str, pattern: &str, route: &str| {
        let labels = format!(
            "{{error_type=\"{error}\",http_request_method=\"{method}\",\
             http_response_status_code=\"{status}\",http_route=\"{pattern}\",route=\"{route}\"}}"
        );
        line(&text, &format!("http_server_request_duration_seconds_count{labels}"))
    };
    assert_eq!(count("", "GET", "200", "/*", "r"), Some("1"), "{text}");
    assert_eq!(count("502", "_OTHER", "502", "/*", "r"), Some("1"));
    assert_eq!(count("client_closed", "POST", "", "", ""), Some("1"));
    // The upstream's time is no time of the gateway's own.
    let own = line(&text, "tollgate_own_duration_seconds_sum").expect("it is there");
    assert!(own.parse::<f64>().expect("a number") < 60.0, "{own}");
    assert_eq!(line(&text, "tollgate_own_duration_seconds_count"), Some("2"));
}

#[test]
fn a_configuration_that_is_renewed_continues_the_series() {
    let metrics = Metrics::new(100);
    let worker = Rc::new(metrics.worker());
    for _ in 0..2 {
        let labels = RouteLabels { name: "r".into(), pattern: "/*".into() };
        let requests = Rc::new(RequestMetrics::new(&worker, [labels].into(), 0));
        let mut request = requests.begin(&Method::GET, monotonic());
        request.set_route(0);
        request.answered(StatusCode::OK, None);
    }
    let text = metrics.render();
    let counts: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("http_server_request_duration_seconds_count"))
        .collect();
    assert_eq!(counts.len(), 1, "{text}");
    assert!(counts[0].ends_with(" 2"), "{}", counts[0]);
}

/// A status that an upstream invents must not let another route's series be found.
#[test]
fn no_two_requests_with_different_labels_share_a_series() {
    let metrics = Metrics::new(100_000);
    let labels = (0..20)
        .map(|number| RouteLabels { name: format!("r{number}").into(), pattern: "/*".into() });
    let requests = Rc::new(RequestMetrics::new(&Rc::new(metrics.worker()), labels.collect(), 0));
    let mut expected = 0;
    for route in 0..20 {
        for status in 100..1000 {
            let mut request = requests.begin(&Method::GET, monotonic());
            request.set_route(route);
            request.answered(StatusCode::from_u16(status).expect("a status"), None);
            expected += 1;
        }
    }
    let text = metrics.render();
    let counts =
        text.lines().filter(|line| line.starts_with("http_server_request_duration_seconds_count"));
    let counts: Vec<&str> = counts.collect();
    assert_eq!(counts.len(), expected);
    assert!(counts.iter().all(|line| line.ends_with(" 1")));
}

/// A scrape of a gateway with 100 policies on each of 10 routes and four workers. The time is
/// printed: docs/metrics.md names it.
#[test]
fn a_scrape_of_many_policies_is_fast() {
    let metrics = Metrics::new(10_000);
    for _ in 0..4 {
        let worker = metrics.worker();
        for policy in 0..100 {
            let policy = format!("policy-{policy}");
            for (plan, outcome) in
                [("", "admitted"), ("", "refused"), ("pro", "admitted"), ("pro", "refused")]
            {
                worker.counter(&DECISIONS, &[&policy, plan, outcome]).increment();
            }
            worker.counter(&DECISIONS_BY_SOURCE, &[&policy, "store"]).increment();
            worker.histogram(&families::UTILISATION, &[&policy]).observe(7);
            worker.histogram(&families::WAIT_TOLD, &[&policy]).observe(7);
        }
        for route in 0..10 {
            let route = format!("route-{route}");
            for method in ["GET", "POST", "PUT"] {
                for status in ["200", "404", "429", "502"] {
                    let labels = [method, status, "/x/*", &route, ""];
                    worker.histogram(&families::REQUEST_DURATION, &labels).observe(7);
                }
            }
        }
    }
    let started = tollgate_core::time::monotonic();
    let text = metrics.render();
    let took = started.elapsed();
    println!("a scrape of {} lines, {} KiB: {took:?}", text.lines().count(), text.len() / 1024);
    assert!(text.lines().count() > 4_000);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn names_and_labels_follow_the_rules_of_prometheus() {
    let mut names = BTreeSet::new();
    let all = families::ALL.iter().chain(families::OF_RATE_LIMITS).chain(model_families::ALL);
    for family in all {
        let name = family.name;
        assert!(names.insert(name), "{name} stands twice");
        assert!(name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_'), "{name}");
        assert!(!family.help.is_empty() && family.help.ends_with('.'), "{name}: {}", family.help);
        if name.starts_with("ratelimit_service_") {
            // These names and labels are those of another program.
            continue;
        }
        assert_eq!(matches!(family.kind, Kind::Counter { .. }), name.ends_with("_total"), "{name}");
        if family.unit == "seconds" {
            assert!(name.trim_end_matches("_total").ends_with("_seconds"), "{name}");
        }
        for label in family.labels {
            assert!(label.bytes().all(|it| it.is_ascii_lowercase() || it == b'_'), "{label}");
            assert!(!["le", "quantile", "client", "path", "host"].contains(label), "{label}");
        }
        assert!(family.chosen.iter().all(|it| family.labels.contains(it)), "{name}");
        assert!(!family.labels.contains(&"http_request_method") || !family.chosen.is_empty());
        if let Kind::Histogram(bounds) = family.kind {
            assert!(bounds.upper.is_sorted_by(|a, b| a < b), "{name}");
        }
    }
}

/// `docs/metrics.md` has one line for each metric.
#[test]
fn the_documentation_lists_all_metrics() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    let page = std::fs::read_to_string(path).expect("docs/metrics.md is part of the project");
    let (before, rest) = page.split_once("\n| name |").expect("it has a table");
    let table_end = rest.find("\n\n").unwrap_or(rest.len());
    let mut table =
        String::from("\n| name | type | labels | unit | meaning |\n|---|---|---|---|---|\n");
    let all = families::ALL.iter().chain(families::OF_RATE_LIMITS).chain(model_families::ALL);
    for family in all {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let event = if family.appears == Appears::OnEvent { " *" } else { "" };
        table += &format!(
            "| `{}`{event} | {} | {} | {} | {} |\n",
            family.name,
            family.type_name(),
            labels.join(", "),
            family.unit,
            family.help
        );
    }
    let expected = format!("{before}{}{}", table.trim_end(), &rest[table_end..]);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &expected).expect("docs/metrics.md can be written");
        return;
    }
    assert!(page == expected, "docs/metrics.md differs: UPDATE_GOLDEN=1 writes its table anew");
}

struct Fixed;

impl Source for Fixed {
    fn collect(&self, samples: &mut Samples) {
        samples.set_whole(&families::NODES, &[], 3);
    }
}

#[test]
fn a_source_is_read_at_each_scrape() {
    let metrics = Metrics::new(10);
    metrics.add_source(Arc::new(Fixed));
    let text = metrics.render();
    assert_eq!(line(&text, "tollgate_nodes"), Some("3"));
    assert!(text.contains("# TYPE tollgate_nodes gauge\n"), "{text}");
    assert_eq!(text.matches("# TYPE tollgate_nodes ").count(), 1);
}
