//! The alerts and the dashboard that are shipped in `docker/`, and a real Prometheus.

mod load;
mod prometheus;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{PATIENCE, now};
use load::Load;
use prometheus::Prometheus;

/// The range of rates in the dashboard, which Grafana chooses by the interval of scrapes.
const RANGE: &str = "5s";

fn shipped(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docker").join(file)
}

/// Runs `promtool` in the folder of the alerts.
fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(shipped("prometheus"))
        .output()
        .expect("promtool is installed: scripts/test installs the package prometheus");
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success(), "{}", said.concat());
}

#[test]
fn the_alerts_fire_when_they_should_and_not_before() {
    promtool(&["check", "config", "prometheus.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
    // What the rules of the status say of the same series: see src/admin/status/tests.
    promtool(&["test", "rules", "refusals_test.yml"]);
}

#[test]
fn each_alert_has_a_test_and_a_summary() {
    let read = |file: &str| std::fs::read_to_string(shipped(file)).expect("it is shipped");
    let alerts = read("prometheus/alerts.yml");
    let tests = read("prometheus/alerts_test.yml");
    let after = |text: &str, start: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.trim().strip_prefix(start));
        names.map(|name| name.trim_matches(|it| "'\"}".contains(it)).to_owned()).collect()
    };
    let names = after(&alerts, "- alert: ");
    let fired = after(&tests, "- labels: '{alertname=\"");
    assert_eq!(BTreeSet::from_iter(&names), BTreeSet::from_iter(&fired));
    let listed = documented().into_iter().filter(|name| name.starts_with("Tollgate"));
    assert_eq!(BTreeSet::from_iter(names.iter().cloned()), listed.collect());
    assert_eq!(after(&alerts, "summary: ").len(), names.len());
}

/// The names of all metrics and alerts, as docs/metrics.md lists them.
fn documented() -> BTreeSet<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let page = std::fs::read_to_string(page).expect("it is part of the project");
    let names = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    names.map(str::to_owned).collect()
}

/// The metrics that an expression names.
fn metrics(expression: &str) -> impl Iterator<Item = &str> {
    let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == ':';
    let words = expression.split(move |it: char| !is_name(it));
    let prefixes = ["tollgate_", "http_server_", "http_client_", "process_"];
    words.filter(move |word| {
        let is_label = ["http_response_status_code", "http_route", "http_request_method"];
        prefixes.iter().any(|prefix| word.starts_with(prefix)) && !is_label.contains(word)
    })
}

#[test]
fn each_metric_that_is_queried_is_documented() {
    let documented = documented();
    let alerts = std::fs::read_to_string(shipped("prometheus/alerts.yml")).expect("it is shipped");
    let queries = dashboard().into_iter().map(|(_, query)| query).collect::<Vec<_>>().concat();
    for name in metrics(&alerts).chain(metrics(&queries)) {
        let family = ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
        let is_known =
            documented.contains(name) || family.is_some_and(|it| documented.contains(it));
        assert!(is_known, "{name}");
    }
}

/// The dashboard as it is shipped.
fn shipped_dashboard() -> Value {
    let path = shipped("grafana/dashboards/tollgate.json");
    let text = std::fs::read_to_string(path).expect("it is shipped");
    serde_json::from_str(&text).expect("it is JSON")
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// All values of this field, at any depth.
fn all<'a>(value: &'a Value, field: &str) -> Vec<&'a Value> {
    match value {
        Value::Object(fields) => {
            let below = fields.values().flat_map(|it| all(it, field));
            fields.get(field).into_iter().chain(below).collect()
        }
        Value::Array(values) => values.iter().flat_map(|it| all(it, field)).collect(),
        _ => Vec::new(),
    }
}

/// A Grafana that has another name for its Prometheus can import the dashboard. What is shown first
/// are single figures, no panel covers another one, and each has a number of its own.
#[test]
fn the_dashboard_can_be_imported_and_its_panels_have_room() {
    let dashboard = shipped_dashboard();
    let variables = list(&dashboard["templating"]["list"]);
    let source = variables.iter().find(|it| it["type"] == "datasource").expect("it is a variable");
    let name = format!("${{{}}}", source["name"].as_str().expect("a name"));
    let sources = all(&dashboard, "datasource");
    assert!(sources.len() > 100 && sources.iter().all(|it| it["uid"] == *name), "{name}");

    let panels = list(&dashboard["panels"]);
    let numbers: BTreeSet<u64> = panels.iter().filter_map(|it| it["id"].as_u64()).collect();
    assert_eq!(numbers.len(), panels.len(), "each panel has a number of its own");
    let mut taken = BTreeSet::new();
    for panel in &panels {
        let at = |field: &str| panel["gridPos"][field].as_u64().expect("a number");
        assert!(at("w") > 0 && at("h") > 0 && at("x") + at("w") <= 24, "{panel}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "something is above {}", panel["title"]);
            }
        }
    }
    let first = panels.iter().filter(|it| it["gridPos"]["y"] == 1);
    assert!(first.clone().count() > 1 && first.clone().all(|it| it["type"] == "stat"));
}

/// The queries of the dashboard with the title of each panel.
fn dashboard() -> Vec<(String, String)> {
    let dashboard = shipped_dashboard();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let mut queries = Vec::new();
    for panel in list(&dashboard["panels"]) {
        for target in list(&panel["targets"]) {
            queries.push((text(&panel["title"]), text(&target["expr"])));
        }
    }
    for annotation in list(&dashboard["annotations"]["list"]) {
        queries.push((text(&annotation["name"]), compared(&text(&annotation["expr"])).to_owned()));
    }
    assert!(queries.len() > 50, "the dashboard has panels");
    let concrete = |query: &str| query.replace("$__rate_interval", RANGE).replace("$node", ".*");
    queries.into_iter().map(|(title, query)| (title, concrete(&query))).collect()
}

/// What an expression compares: the part before its first comparison.
fn compared(expression: &str) -> &str {
    let comparisons = [" > ", " < ", " == ", " >= ", " <= "];
    let ends = comparisons.iter().filter_map(|it| expression.find(it));
    &expression[..ends.min().unwrap_or(expression.len())]
}

/// Each query of the dashboard and each expression of an alert, without its comparison, has a
/// value while gateways are used.
#[test]
fn all_queries_that_are_shipped_return_series() {
    let mut load = Load::start();
    let prometheus = Prometheus::start(&shipped("prometheus"), &load.scraped());
    let mut queries = dashboard();
    for (name, expression) in prometheus.rules() {
        queries.push((name, compared(&expression).to_owned()));
    }
    assert!(queries.iter().any(|(name, _)| name == "TollgateDown"), "the alerts are loaded");
    // What leases have spent is counted when they end, at the latest with their minute.
    let deadline = now() + 5 * PATIENCE;
    while !queries.is_empty() && now() < deadline {
        load.step();
        queries.retain(|(_, query)| !prometheus.has_value(query));
    }
    let left: Vec<String> =
        queries.iter().map(|(name, query)| format!("{name}: {query}\n")).collect();
    assert!(left.is_empty(), "these queries return nothing:\n{}", left.concat());
}
