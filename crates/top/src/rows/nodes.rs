//! The gateways, their upstreams, and the nodes that share the store.

use serde_json::Value;
use tollgate_core::time::Timestamp;

use super::super::figures::{Figures, Node, items, number as count, rate as rate_of, word};
use super::super::form::{bucket, percent, rate, seconds, share as share_of};
use super::super::table::{Row, Table, number, text};

/// One row for each gateway that is asked, and their sum.
pub(super) fn overview(figures: &Figures, now: Timestamp) -> Table {
    let columns = vec![
        text("NODE", 8),
        text("STATE", 9),
        number("REQ/S", 8),
        number("REFUSED/S", 7),
        number("ERRORS/S", 6),
        number("P50", 4),
        number("P99", 5),
        number("BUSY", 3),
        number("AGE", 3),
        text("ADMIN", 2),
    ];
    let mut rows: Vec<Row> = figures.nodes.iter().enumerate().map(|it| node(it, now)).collect();
    if rows.len() > 1 {
        let of = |name| rate(figures.rate(name));
        // Quantiles of several gateways have no sum.
        let sums = [figures.state(), of("requests"), of("refused"), of("errors")];
        let mut cells = vec!["all".to_owned()];
        cells.extend(sums);
        cells.resize(columns.len(), String::new());
        rows.push(Row::of(cells));
    }
    Table { columns, rows }
}

fn node((index, node): (usize, &Node), now: Timestamp) -> Row {
    let status = node.told.as_ref().map_or(&Value::Null, |(_, told)| &told.status);
    let state = match (&node.lost, &node.told) {
        (Some(_), _) => "lost".to_owned(),
        (None, None) => "waiting".to_owned(),
        (None, Some(_)) => word(&status["state"]),
    };
    let rates = &status["rates"];
    let of = |name| rate(rate_of(status, name));
    let age = node.told.as_ref().map(|(at, _)| seconds(now.since(*at).as_micros()));
    let is_bad = !matches!(&*state, "ok" | "waiting");
    let cells = vec![
        Node::label(index),
        state,
        of("requests"),
        of("refused"),
        of("errors"),
        bucket(&rates["duration_us"]["p50"]),
        bucket(&rates["duration_us"]["p99"]),
        percent(rates["busy"]["busiest"].as_f64()),
        age.unwrap_or_else(|| "-".to_owned()),
        node.url.clone(),
    ];
    Row { is_bad, ..Row::of(cells) }
}

/// One row for each endpoint.
pub(super) fn upstreams(figures: &Figures) -> Table {
    let mut columns = vec![
        text("UPSTREAM", 8),
        text("STATE", 9),
        text("ENDPOINT", 7),
        number("FOR", 3),
        number("IN FLIGHT", 5),
    ];
    if figures.nodes.len() > 1 {
        columns.push(text("NODE", 4));
    }
    let mut rows = Vec::new();
    for (index, told) in figures.told() {
        for upstream in items(&told.upstreams) {
            for endpoint in upstream["endpoints"].as_array().into_iter().flatten() {
                let state = word(&endpoint["state"]);
                let for_us = endpoint["for_ms"].as_u64().map(|ms| ms.saturating_mul(1000));
                let is_bad = matches!(&*state, "down" | "ejected");
                let cells = vec![
                    word(&upstream["name"]),
                    state,
                    word(&endpoint["address"]),
                    for_us.map_or_else(|| "-".to_owned(), seconds),
                    count(&upstream["in_flight"]).to_string(),
                    Node::label(index),
                ];
                rows.push(Row { is_bad, ..Row::of(cells) });
            }
        }
    }
    rows.sort_by(|one, other| one.cells[0].cmp(&other.cells[0]));
    Table { columns, rows }
}

/// One row for each node that shares a store, as the gateways list them.
pub(super) fn store(figures: &Figures) -> Table {
    let columns = vec![
        text("NODE", 9),
        number("REQ/S", 8),
        number("REFUSED/S", 7),
        number("BREAKERS", 6),
        number("PATCHES", 4),
        number("MEMORY", 3),
        text("CONFIG", 5),
        text("VERSION", 2),
        text("ADMIN", 1),
    ];
    let mut rows: Vec<Row> = Vec::new();
    for node in figures.told().flat_map(|(_, told)| items(&told.nodes)) {
        let id = word(&node["id"]);
        // Several gateways list the same nodes, if they share a store.
        if node["scope"] == "cluster" && rows.iter().any(|row| row.cells[0] == id) {
            continue;
        }
        let memory = node["memory_bytes"].as_u64();
        let cells = vec![
            id,
            rate(node["requests_per_s"].as_f64()),
            rate(node["refusals_per_s"].as_f64()),
            count(&node["breakers_open"]).to_string(),
            count(&node["patches"]).to_string(),
            memory.map_or_else(|| "-".to_owned(), |it| format!("{} MB", it / 1_000_000)),
            configuration(node),
            word(&node["version"]),
            word(&node["admin"]),
        ];
        let is_bad = count(&node["breakers_open"]) > 0 || !sections(node).is_empty();
        rows.push(Row { is_bad, ..Row::of(cells) });
    }
    Table { columns, rows }
}

/// The sections in which the configuration of a node is not that of the gateway that lists it.
fn sections(node: &Value) -> &[Value] {
    node["differs_in"].as_array().map_or(&[], Vec::as_slice)
}

fn configuration(node: &Value) -> String {
    match sections(node) {
        _ if node["differs_in"].is_null() => "not compared".to_owned(),
        [] => "same".to_owned(),
        sections => {
            let sections: Vec<String> = sections.iter().map(word).collect();
            format!("differs: {}", sections.join(", "))
        }
    }
}

/// What has decided in the last minute: the store, the node alone, nothing, or no question was needed.
pub(crate) fn sources(figures: &Figures) -> String {
    let mut sums = [("store", 0), ("local", 0), ("none", 0), ("unasked", 0)];
    for (_, told) in figures.told() {
        for (name, sum) in &mut sums {
            *sum += count(&told.status["rates"]["sources"][*name]);
        }
    }
    let all: u64 = sums.iter().map(|it| it.1).sum();
    let share = |(name, sum): &(&str, u64)| format!("{name} {}", percent(share_of(*sum, all)));
    let shares: Vec<String> = sums.iter().map(share).collect();
    format!("Decisions of the last minute: {}", shares.join(", "))
}
