//! The policies: how many requests each refuses, and how near its clients are to their limits.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_core::algorithm::WindowText;
use tollgate_core::decision::REFUSING;
use tollgate_core::time::Span;

use super::super::figures::{Figures, items, number as count, word};
use super::super::form::{percent, share};
use super::super::table::{About, Row, Table, number, text};
use super::super::texts::amount;
use super::asked::Asked;
use super::by_node::{ByNode, by_node};

/// The sums of one policy.
#[derive(Default)]
struct Sums {
    limit: String,
    mode: String,
    judged: u64,
    refused: u64,
    measured: u64,
    near: f64,
    unsettled: u64,
    /// The refusals by gateway.
    by_node: ByNode,
}

impl Sums {
    fn refused_share(&self) -> Option<f64> {
        share(self.refused, self.judged)
    }

    #[expect(clippy::cast_precision_loss, reason = "a share is shown with one decimal")]
    fn use_share(&self) -> Option<f64> {
        (self.measured > 0).then(|| self.near / self.measured as f64)
    }
}

/// One row for each policy, over the last minute.
pub(super) fn table(figures: &Figures, asked: &Asked<'_>) -> Table {
    let mut rows: Vec<(String, Sums)> = sums(figures, asked).into_iter().collect();
    let thousandths = |share: Option<f64>| {
        Reverse(share.map_or(-1, |it| format!("{:.0}", it * 1e6).parse::<i64>().unwrap_or(0)))
    };
    match asked.order {
        0 => rows.sort_by_key(|(_, it)| (thousandths(it.refused_share()), Reverse(it.refused))),
        1 => rows.sort_by_key(|(_, it)| Reverse(it.refused)),
        2 => rows.sort_by_key(|(_, it)| thousandths(it.use_share())),
        _ => {}
    }
    let mut columns = vec![
        text("POLICY", 9),
        number("REFUSED %", 8),
        number("REFUSED", 7),
        number("JUDGED", 6),
        number("NEAR LIMIT", 5),
        text("LIMIT", 4),
        text("MODE", 3),
        number("UNSETTLED", 2),
    ];
    let add_cells = by_node(&mut columns, figures, |label| format!("{label} REFUSED"));
    let row = |(name, sums): (String, Sums)| {
        let mut cells = vec![
            name.clone(),
            percent(sums.refused_share()),
            sums.refused.to_string(),
            sums.judged.to_string(),
            percent(sums.use_share()),
            sums.limit.clone(),
            sums.mode.clone(),
            sums.unsettled.to_string(),
        ];
        add_cells(&mut cells, &sums.by_node);
        Row { is_refusing: sums.refused > 0, ..Row::about(cells, About::Policy(name)) }
    };
    Table { columns, rows: rows.into_iter().map(row).collect() }
}

fn sums(figures: &Figures, asked: &Asked<'_>) -> BTreeMap<String, Sums> {
    let mut all: BTreeMap<String, Sums> = BTreeMap::new();
    for (index, told) in figures.told() {
        for policy in items(&told.policies) {
            let name = word(&policy["name"]);
            if !asked.shows(&name) {
                continue;
            }
            let sums = all.entry(name).or_default();
            let outcomes = &policy["outcomes"]["1m"];
            let refused: u64 = REFUSING.iter().map(|it| count(&outcomes[it])).sum();
            let fields = outcomes.as_object().into_iter().flatten();
            let judged: u64 = fields.filter(|(it, _)| *it != "seconds").map(|it| count(it.1)).sum();
            sums.judged += judged;
            sums.refused += refused;
            let measured = count(&policy["use"]["measured"]);
            let near = policy["use"]["near"].as_f64().unwrap_or(0.0);
            sums.measured += measured;
            #[expect(clippy::cast_precision_loss, reason = "a share is shown with one decimal")]
            let weighed = near * measured as f64;
            sums.near += weighed;
            let unsettled = policy["unsettled"].as_object().into_iter().flatten();
            sums.unsettled += unsettled.map(|(_, requests)| count(requests)).sum::<u64>();
            sums.limit = limit(&policy["limit"]);
            let patched = if policy["patch"].is_null() { "" } else { ", patched" };
            sums.mode = format!("{}{patched}", word(&policy["mode"]));
            sums.by_node.insert(index, refused);
        }
    }
    all
}

fn limit(limit: &Value) -> String {
    let Some(units) = limit["units"].as_u64() else { return word(limit) };
    let units = amount(units, limit["unit"].as_str());
    match count(&limit["window_ms"]) {
        0 => units,
        ms => format!("{units}/{}", WindowText(Span::from_millis(ms))),
    }
}
