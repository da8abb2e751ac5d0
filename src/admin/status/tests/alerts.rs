//! The rules are those of the alerts, and the documents have a row for each.

use super::*;
use crate::admin::status::rule::{Bound, Rule};
use crate::admin::status::rules::{ENOUGH_DECISIONS, MANY, NAMED, SOME, UNBELIEVED_SHARE, UNUSUAL};

/// The number after the first comparison of an expression, and the comparison.
fn comparison(expression: &str) -> Bound {
    let words: Vec<&str> = expression.split_whitespace().collect();
    let place = words.iter().position(|it| matches!(*it, ">" | "<" | "==")).expect("a comparison");
    let mut bound: f64 = words[place + 1].parse().expect("a number");
    if let [_, _, "*", factor, ..] = words[place..] {
        bound *= factor.parse::<f64>().expect("a number");
    }
    match words[place] {
        ">" => Bound::Above(bound),
        "<" => Bound::Below(bound),
        _ => Bound::Equals(bound),
    }
}

/// The span in square brackets, or that of a recorded rule.
fn span(expression: &str) -> Option<Span> {
    let text = match expression.split_once("[") {
        Some((_, rest)) => rest.split_once("]").expect("a span").0,
        None => {
            // `_ratelimit` is the name of a metric.
            let is_recorded = |it: &&str| it.starts_with(|c: char| c.is_ascii_digit());
            let rest = expression.split("_rate").skip(1).find(is_recorded)?;
            rest.split([' ', ')']).next().expect("a span")
        }
    };
    Some(Span::from_secs(
        60 * text.strip_suffix('m').expect("minutes").parse::<u64>().expect("a number"),
    ))
}

#[test]
fn the_rules_are_those_of_the_alerts() {
    let file = include_str!("../../../../docker/prometheus/alerts.yml");
    let field = |name: &str| {
        let lines = file.lines().map(|line| line.trim_start_matches([' ', '-']));
        lines.filter_map(move |line| Some(line.strip_prefix(name)?.trim())).collect::<Vec<_>>()
    };
    // Each alert has its expression in one line; those of recorded rules are longer.
    let expressions = field("expr:").into_iter().filter(|it| *it != ">-");
    let alerts = field("alert:").into_iter().zip(expressions).zip(field("runbook_url:"));
    let mut found = Vec::new();
    for ((alert, expression), runbook) in alerts {
        // A node that is down says nothing, and a client that uses its budget weakens no promise.
        let elsewhere = match alert {
            "TollgateDown" => Some("docs/operations.md#down"),
            "TollgateBudgetPassed" => Some("docs/budgets.md#warnings"),
            _ => None,
        };
        if let Some(elsewhere) = elsewhere {
            assert_eq!(runbook, elsewhere);
            continue;
        }
        let rule = RULES.iter().find(|rule| rule.alert == Some(alert));
        let Rule { bound, over, code, .. } = rule.unwrap_or_else(|| panic!("no rule {alert}"));
        assert_eq!(runbook, format!("docs/operations.md#{code}"), "{alert}");
        assert_eq!(*bound, comparison(expression), "{alert}");
        // What a reload or a check says is of now.
        assert_eq!(*over, span(expression), "{alert}");
        found.push(*code);
    }
    for number in [
        format!("<= on (instance, policy) {UNUSUAL} * tollgate_refused_before_ratio"),
        format!(
            "(increase(tollgate_decisions_total{{outcome=~\"refused|banned\"}}[5m])) >= {MANY}"
        ),
        format!("[5m])) >= {SOME} unless tollgate:refused"),
        format!("(increase(tollgate_decision_duration_seconds_count[5m])) >= {ENOUGH_DECISIONS}"),
        format!("topk({NAMED}, "),
        format!("more than {UNUSUAL} times"),
        format!("(rate(tollgate_unbelieved_requests_total[5m])) > {UNBELIEVED_SHARE} * sum"),
    ] {
        assert!(file.contains(&number), "{number}");
    }
    assert_eq!(found.len(), RULES.iter().filter(|rule| rule.alert.is_some()).count());
    let docs = include_str!("../../../../docs/admin.md");
    for rule in RULES {
        let alert = rule.alert.map_or_else(|| "–".to_owned(), |alert| format!("`{alert}`"));
        let row = format!("| `{}` | {alert} |", rule.code);
        assert!(docs.contains(&row), "docs/admin.md lacks {row}");
    }
}

/// An operator finds each reason, with the advice of the program.
#[test]
fn each_reason_has_its_row_and_remedy_in_the_document() {
    let docs = include_str!("../../../../docs/operations.md");
    let rows = docs.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect());
    // The first row has the names of the columns.
    let cells: Vec<Vec<&str>> = cells.skip(1).collect();
    for Rule { code, advice, .. } in RULES {
        let status = format!("`{code}`");
        let row = cells.iter().find(|row| row.get(2) == Some(&&*status));
        let row = row.unwrap_or_else(|| panic!("docs/operations.md has no row for {code}"));
        assert_eq!((row.len(), row[4]), (6, *advice), "{code}");
        let anchor = format!("<a id=\"{code}\"></a>");
        assert!(row[0].contains(&anchor), "links of alerts lead to the row of {code}");
    }
}
