//! An explanation for people.

use std::fmt::Write as _;

use tollgate_top::texts::{amount, source, wait};

use crate::engine::{EstimatedTokens, Explanation, ListVerdict, PolicyVerdict, Reason, Wait};

/// The explanation in lines: the decision first.
pub fn text(explanation: &Explanation) -> String {
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
    let class = client.class.iter().map(|class| format!("class {class}"));
    let agent = client.agent.iter().map(|agent| format!("agent {agent}"));
    let names = class.chain(agent);
    part("Client", [format!("{}{because}", client.ip)].into_iter().chain(names).collect());
    part("Access", explanation.access.iter().map(list).collect());
    part("Policies", explanation.policies.iter().flat_map(policy).collect());
    part("Skipped", reasons(&explanation.skipped));
    let header = |(name, value): (&String, &String)| format!("{name}: {value}");
    part("Headers", explanation.headers.iter().map(header).collect());
    part("Source", explanation.source.iter().map(source).collect());
    part("Note", explanation.warnings.clone());
    text
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
    let used = |it: &PolicyVerdict| {
        let shown = |units| amount(units, it.unit.as_deref());
        format!("{} of {} used", shown(it.used), shown(it.limit))
    };
    let used = verdict.map(used).unwrap_or_default();
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
        Some(PolicyVerdict { name, remaining, unit, .. }) => {
            let over = if reason == "admitted" || reason == "delayed" { "" } else { reason };
            let over = if over.is_empty() { String::new() } else { format!(" ({over})") };
            let remaining = amount(*remaining, unit.as_deref());
            format!("Admitted{delay}{over}: {used} under {name}, {remaining} left")
        }
    }
}

fn route(explanation: &Explanation) -> Vec<String> {
    let route = &explanation.route;
    let path = route.path.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    let name = route.name.as_deref().unwrap_or("none");
    let mut lines = vec![format!("{name}{path}")];
    lines.extend(route.upstream.iter().map(|it| {
        let name = it.name.as_deref().unwrap_or("any");
        format!("to {name}: {}", it.because)
    }));
    let passed = |it: &Reason| format!("not {}: {}", it.name, it.because);
    lines.extend(route.passed_over.iter().map(passed));
    match route.others_passed_over {
        0 => {}
        others => lines.push(format!("and not {others} others")),
    }
    lines
}

fn list(it: &ListVerdict) -> String {
    let ListVerdict { name, step, verdict } = it;
    let step = if step == "after_auth" { "after auth" } else { "before auth" };
    format!("{name}: {} ({step})", verdict.replace('_', " "))
}

/// The estimated tokens, from which the cost was calculated.
fn tokens(EstimatedTokens { input, output, model, price }: &EstimatedTokens) -> String {
    let of = model.as_deref().map(|model| format!(" of {model:?}")).unwrap_or_default();
    let at = price.as_deref().map(|entry| format!(", at the price of {entry:?}"));
    let at = at.unwrap_or_default();
    match (input, output) {
        (Some(input), Some(output)) => {
            format!("  reserves {input} tokens of input and {output} of output{of}{at}")
        }
        _ => format!("  reserves the most{of}{at}, because the size of the body is not known"),
    }
}

fn policy(it: &PolicyVerdict) -> Vec<String> {
    let PolicyVerdict { name, verdict, limit_from, key, .. } = it;
    let [limit, used, remaining, cost] =
        [it.limit, it.used, it.remaining, it.cost].map(|units| amount(units, it.unit.as_deref()));
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
    let lines = [
        format!(
            "{name}: {verdict}{shadow}, {used} of {limit}{window} used ({limit_from}), {remaining} \
             left, costs {cost}{fits}"
        ),
        format!("  key {} ({}){from}", key.text, key.id),
    ];
    lines.into_iter().chain(it.estimate.as_ref().map(tokens)).collect()
}

fn reasons(reasons: &[Reason]) -> Vec<String> {
    reasons.iter().map(|it| format!("{}: {}", it.name, it.because)).collect()
}
