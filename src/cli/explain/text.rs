//! An explanation for people.

use std::fmt::Write as _;

use serde_json::Value;

use crate::engine::{Explanation, PolicyVerdict, Reason, Wait};

/// The explanation in lines: the decision first.
pub(super) fn text(explanation: &Explanation) -> String {
    let mut text = format!("{}\n", headline(explanation));
    let mut part = |title: &str, lines: Vec<String>| {
        for (index, line) in lines.iter().enumerate() {
            let title = if index == 0 { title } else { "" };
            let _ = writeln!(text, "{}", format!("{title:<10}{line}").trim_end());
        }
    };
    part("Route", route(explanation));
    let client = &explanation.client;
    let because = Some(&client.because).filter(|it| !it.is_empty());
    let because = because.map(|it| format!(" ({it})")).unwrap_or_default();
    part("Client", vec![format!("{}{because}", client.ip)]);
    part("Policies", explanation.policies.iter().flat_map(policy).collect());
    part("Skipped", reasons(&explanation.skipped));
    let header = |(name, value): (&String, &String)| format!("{name}: {value}");
    part("Headers", explanation.headers.iter().map(header).collect());
    part("Source", explanation.source.iter().map(source).collect());
    part("Note", explanation.warnings.clone());
    text
}

/// One refusal of the past.
pub(in crate::cli) fn refusal(it: &Value) -> String {
    let of = |name: &str| it[name].as_str().unwrap_or("?").to_owned();
    let number = |name: &str| it[name].as_u64().unwrap_or(0);
    let fits = match &it["wait_ms"] {
        Value::Number(ms) => format!(", fitted in {}", wait(ms.as_u64().unwrap_or(0))),
        Value::String(_) => ", would never have fitted".to_owned(),
        _ => String::new(),
    };
    let key = |name: &str| it["key"][name].as_str().unwrap_or("?").to_owned();
    let lines = [
        format!(
            "Refused by {} at {}: {} of {} used{fits}",
            of("policy"),
            of("time"),
            number("used"),
            number("limit")
        ),
        format!("{:<10}{} {} on route {}", "Request", of("method"), of("path"), of("route")),
        format!("{:<10}{} ({})", "Key", key("text"), key("id")),
        format!("{:<10}{}", "Source", source(of("source"))),
    ];
    lines.join("\n") + "\n"
}

fn headline(explanation: &Explanation) -> String {
    let Explanation { reason, status, detail, .. } = explanation;
    let status = status.map(|it| format!(" ({it})")).unwrap_or_default();
    let binding = explanation.binding.as_deref();
    let verdict = explanation.policies.iter().find(|it| Some(&*it.name) == binding);
    if let Some(detail) = detail {
        let by = binding.map(|it| format!(" by {it}")).unwrap_or_default();
        return format!("Refused{by}{status}: {reason}: {detail}");
    }
    let used = verdict.map(|it| format!("{} of {} used", it.used, it.limit)).unwrap_or_default();
    if !explanation.is_admitted() {
        let by = binding.unwrap_or("?");
        let banned = if reason == "banned" { ", banned" } else { "" };
        let fits = match &explanation.retry_after_ms {
            Some(Wait::Ms(ms)) => format!(", fits in {}", wait(*ms)),
            Some(Wait::Never(_)) => ", fits never: it costs more than the limit".to_owned(),
            None => String::new(),
        };
        return format!("Refused by {by}{status}: {used}{banned}{fits}");
    }
    let delay = match explanation.delay_ms {
        0 => String::new(),
        ms => format!(" after a delay of {}", wait(ms)),
    };
    match verdict {
        None => format!("Admitted{delay}: no policy limits it"),
        Some(PolicyVerdict { name, remaining, .. }) => {
            let over = if reason == "admitted" || reason == "delayed" { "" } else { reason };
            let over = if over.is_empty() { String::new() } else { format!(" ({over})") };
            format!("Admitted{delay}{over}: {used} under {name}, {remaining} left")
        }
    }
}

fn route(explanation: &Explanation) -> Vec<String> {
    let route = &explanation.route;
    let path = route.path.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    let name = route.name.as_deref().unwrap_or("none");
    let mut lines = vec![format!("{name}{path}")];
    let passed = |it: &Reason| format!("not {}: {}", it.name, it.because);
    lines.extend(route.passed_over.iter().map(passed));
    match route.others_passed_over {
        0 => {}
        others => lines.push(format!("and not {others} others")),
    }
    lines
}

fn policy(it: &PolicyVerdict) -> Vec<String> {
    let PolicyVerdict { name, verdict, limit, used, remaining, cost, limit_from, key, .. } = it;
    let window = it.window_s.as_ref().map(|it| format!(" in {it} s")).unwrap_or_default();
    let shadow = if it.mode == "shadow" { ", in shadow mode" } else { "" };
    let fits = match it.earliest.as_deref() {
        None => String::new(),
        Some("never") => ", fits never".to_owned(),
        Some(at) => format!(", fits at {at}"),
    };
    let from = match key.text.split(' ').next() {
        // A text begins with its kind, so usually it says where it comes from.
        Some(kind) if key.from.split(':').next() == Some(kind) => String::new(),
        _ => format!(", from {}", key.from),
    };
    vec![
        format!(
            "{name}: {verdict}{shadow}, {used} of {limit}{window} used ({limit_from}), {remaining} \
             left, costs {cost}{fits}"
        ),
        format!("  key {} ({}){from}", key.text, key.id),
    ]
}

fn reasons(reasons: &[Reason]) -> Vec<String> {
    reasons.iter().map(|it| format!("{}: {}", it.name, it.because)).collect()
}

fn source(source: impl AsRef<str>) -> String {
    match source.as_ref() {
        "store" => "store".to_owned(),
        "local" => "local: this node alone, because the store does not answer".to_owned(),
        "policy" => "policy: its on_store_failure, because the store does not answer".to_owned(),
        other => other.to_owned(),
    }
}

/// A wait, rounded up to what matters of it.
pub(in crate::cli) fn wait(ms: u64) -> String {
    let secs = ms.div_ceil(1000);
    match secs {
        _ if ms < 1000 => format!("{ms} ms"),
        _ if ms < 60_000 => {
            let tenths = ms.div_ceil(100);
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        0..3600 => format!("{} min {} s", secs / 60, secs % 60),
        3600..86_400 => format!("{} h {} min", secs / 3600, (secs % 3600).div_ceil(60)),
        _ => format!("{} d {} h", secs / 86_400, (secs % 86_400).div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_never_shown_too_short() {
        let shown = [
            (1, "1 ms"),
            (999, "999 ms"),
            (1000, "1.0 s"),
            (14_202, "14.3 s"),
            (60_000, "1 min 0 s"),
            (3_599_001, "1 h 0 min"),
            (90_000_000, "1 d 1 h"),
        ];
        for (ms, text) in shown {
            assert_eq!(wait(ms), text);
        }
    }

    #[test]
    fn a_past_refusal_has_its_policy_and_its_key() {
        let it = serde_json::json!({
            "time": "2026-11-22T03:00:00.000Z", "policy": "per-client", "limit": 100, "used": 100,
            "wait_ms": 14_200, "route": "orders", "source": "store", "method": "GET",
            "path": "/v1/orders", "key": { "id": "k7f2m9qd0v3x", "text": "header x-api-key 4f…" },
        });
        assert_eq!(
            refusal(&it),
            "Refused by per-client at 2026-11-22T03:00:00.000Z: 100 of 100 used, fitted in 14.2 s\n\
             Request   GET /v1/orders on route orders\n\
             Key       header x-api-key 4f… (k7f2m9qd0v3x)\n\
             Source    store\n"
        );
    }
}
