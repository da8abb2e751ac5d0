//! The heaviest clients, and the last refusals.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use super::super::figures::{Figures, Node, items, number as count, word};
use super::super::form::percent;
use super::super::table::{About, Client, Row, Table, number, text};
use super::super::texts::wait;
use super::asked::Asked;
use super::by_node::{ByNode, by_node};

/// The sums of one client.
#[derive(Default)]
struct Sums {
    text: String,
    /// The plan that it had at its largest use.
    plan: Option<String>,
    requests: u64,
    refused: u64,
    error: u64,
    /// The largest share of its limit that it had used.
    used: Option<f64>,
    /// Its requests by gateway.
    by_node: ByNode,
    /// The lists that it is in.
    lists: Vec<usize>,
}

impl Sums {
    /// What is certain of its admitted requests.
    fn admitted(&self) -> u64 {
        self.requests.saturating_sub(self.refused)
    }
}

/// The policies' clients, by policy and id.
type ByClient = BTreeMap<(String, String), Sums>;

/// One row for each client. Counts are never too low: a list that a client is not in may have
/// counted its `unlisted` requests of it.
pub(super) fn table(figures: &Figures, asked: &Asked<'_>) -> Table {
    let mut rows: Vec<_> = sums(figures, asked).into_iter().collect();
    rows.sort_by_key(|(_, it)| match asked.order {
        0 => (Reverse(it.refused), Reverse(it.requests)),
        1 => (Reverse(it.admitted()), Reverse(it.requests)),
        _ => (Reverse(it.requests), Reverse(it.refused)),
    });
    let mut columns = vec![
        text("POLICY", 6),
        text("KEY", 9),
        number("REFUSED", 8),
        number("REQUESTS", 7),
        number("ERROR", 4),
        number("USED", 5),
        text("ID", 3),
    ];
    let add_cells = by_node(&mut columns, figures, str::to_owned);
    let row = |((policy, id), sums): ((String, String), Sums)| {
        let mut cells = vec![
            policy.clone(),
            sums.text.clone(),
            sums.refused.to_string(),
            sums.requests.to_string(),
            sums.error.to_string(),
            percent(sums.used),
            id.clone(),
        ];
        add_cells(&mut cells, &sums.by_node);
        let about = About::Key(Client { policy, id, text: sums.text, plan: sums.plan });
        Row { is_refusing: sums.refused > 0, ..Row::about(cells, about) }
    };
    Table { columns, rows: rows.into_iter().map(row).collect() }
}

fn sums(figures: &Figures, asked: &Asked<'_>) -> ByClient {
    let mut all = ByClient::new();
    // Of each policy: the lists, and how much each may have counted of other clients.
    let mut unlisted: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (index, told) in figures.told() {
        let lists = told.clients.iter().flat_map(|it| it["policies"].as_array()).flatten();
        for list in lists {
            let policy = word(&list["policy"]);
            if !asked.shows(&policy) {
                continue;
            }
            let rests = unlisted.entry(policy.clone()).or_default();
            let number = rests.len();
            rests.push(count(&list["unlisted"]));
            for client in list["clients"].as_array().into_iter().flatten() {
                let sums = all.entry((policy.clone(), word(&client["id"]))).or_default();
                sums.text = word(&client["text"]);
                sums.requests += count(&client["requests"]);
                sums.refused += count(&client["refused"]);
                sums.error += count(&client["error"]);
                let used = client["use"].as_f64();
                if used >= sums.used {
                    sums.plan = client["plan"].as_str().map(str::to_owned);
                }
                sums.used = match (sums.used, used) {
                    (Some(one), Some(other)) => Some(one.max(other)),
                    (one, other) => one.or(other),
                };
                *sums.by_node.entry(index).or_default() += count(&client["requests"]);
                sums.lists.push(number);
            }
        }
    }
    for ((policy, _), sums) in &mut all {
        let rests = unlisted.get(policy).into_iter().flatten().enumerate();
        let others = rests.filter(|(number, _)| !sums.lists.contains(number));
        let rest: u64 = others.map(|(_, rest)| *rest).sum();
        sums.requests += rest;
        sums.error += rest;
    }
    all
}

/// One row for each refusal, the newest first.
pub(super) fn refusals(figures: &Figures, asked: &Asked<'_>) -> Table {
    let mut all: Vec<(usize, &Value)> = figures
        .told()
        .flat_map(|(index, told)| items(&told.refusals).iter().map(move |it| (index, it)))
        .filter(|(_, it)| asked.shows(&word(&it["policy"])))
        .collect();
    all.sort_by_key(|(_, it)| Reverse(word(&it["time"])));
    let mut columns = vec![
        text("TIME", 8),
        text("POLICY", 6),
        text("KEY", 9),
        number("WAIT", 5),
        text("REQUEST", 4),
        text("ROUTE", 3),
        text("REQUEST ID", 2),
    ];
    if figures.nodes.len() > 1 {
        columns.push(text("NODE", 3));
    }
    let row = |(index, it): (usize, &Value)| {
        let of = |name: &str| word(&it[name]);
        let client = Client {
            policy: of("policy"),
            id: word(&it["key"]["id"]),
            text: word(&it["key"]["text"]),
            plan: it["plan"].as_str().map(str::to_owned),
        };
        let time = of("time");
        let wait = match &it["wait_ms"] {
            Value::Number(ms) => wait(ms.as_u64().unwrap_or(0)),
            other => word(other),
        };
        let cells = vec![
            time.get(11..19).unwrap_or(&time).to_owned(),
            client.policy.clone(),
            client.text.clone(),
            wait,
            format!("{} {}", of("method"), of("path")),
            of("route"),
            of("request_id"),
            Node::label(index),
        ];
        Row::about(cells, About::Refusal(client, Box::new(it.clone())))
    };
    Table { columns, rows: all.into_iter().map(row).collect() }
}
