//! `tollgate check --routes`: the routes as a table.

use std::fmt::Display;

use tollgate_core::policy::{AccessList, AccessMode, AccessStep, Mode, Policy};
use tollgate_core::request::PathPattern;
use tollgate_core::routes::{Part, Split};

use crate::config::{Config, Route};
use crate::snapshot::Action;

/// The content of a cell that stands for all values.
const ANY: &str = "any";

/// All routes in their order, and the handling of other requests.
pub fn table(config: &Config) -> String {
    let heads =
        ["ORDER", "NAME", "HOSTS", "METHODS", "FIELDS", "PATH", "ACCESS", "POLICIES", "ACTION"];
    let mut rows = vec![heads.map(str::to_owned)];
    let routes = config.routes.iter().enumerate();
    rows.extend(routes.map(|(index, route)| row(index + 1, route, config)));
    // A column that is the same for all routes is left out.
    let is_shown = |column: usize| rows[1..].iter().any(|row| row[column] != ANY);
    let columns: Vec<usize> = (0..heads.len()).filter(|&column| is_shown(column)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = columns.iter().map(|&at| width(at).unwrap_or_default()).collect();
    let mut table = String::new();
    for row in &rows {
        let cells = columns.iter().zip(&widths).map(|(&at, &width)| format!("{:width$}", row[at]));
        table.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        table.push('\n');
    }
    table.push_str(rest(config));
    table
}

fn row(number: usize, route: &Route, config: &Config) -> [String; 9] {
    let rule = &route.rule;
    let name = if *rule.name == *number.to_string() { "-" } else { &rule.name };
    let policies = rule.policies.iter().map(|policy| limit(policy));
    let policies = list(policies);
    [
        number.to_string(),
        name.to_owned(),
        list_or_any(route.written.hosts.iter()),
        list_or_any(rule.methods.iter()),
        // Their values may be secrets.
        list_or_any(rule.parts.iter().map(|it| part(&it.part))),
        route.written.path.clone(),
        list_or_any(rule.access.iter().map(|list| access(list))),
        if policies.is_empty() { "-".to_owned() } else { policies },
        handling(route, config),
    ]
}

/// A list with its status, its mode if it does not refuse, and whether it waits for credentials.
fn access(list: &AccessList) -> String {
    let step = match list.step() {
        AccessStep::BeforeAuth => "before auth",
        AccessStep::AfterAuth => "after auth",
    };
    let mode = match list.mode {
        AccessMode::Enforce => String::new(),
        other => format!(", {}", other.as_str()),
    };
    format!("{} ({} {step}{mode})", list.name, list.answer.status())
}

/// The name of a field, or the kind and the name of another part.
fn part(part: &Part) -> String {
    match part {
        Part::Header(name) => name.to_string(),
        Part::Query(_) | Part::Cookie(_) => part.to_string(),
    }
}

fn limit(policy: &Policy) -> String {
    let plans = if policy.plans.is_some() { ", plans" } else { "" };
    let shadow = if policy.mode == Mode::Shadow { ", shadow" } else { "" };
    let own = if policy.is_unlimited {
        "unlimited".to_owned()
    } else {
        policy.written(&policy.algorithm)
    };
    format!("{} ({own}{plans}{shadow})", policy.name)
}

/// What becomes of a request.
fn handling(route: &Route, config: &Config) -> String {
    let action = action(route, config);
    match route.handling.authorizer {
        Some(index) => format!("authorizer {}, {action}", config.authorizers[index].name),
        None => action,
    }
}

fn action(route: &Route, config: &Config) -> String {
    match &route.handling.action {
        Action::Forward(upstream) => format!("upstream {}", config.upstreams[*upstream].name),
        Action::Split(_) => route.rule.split.as_deref().map(split).unwrap_or_default(),
        Action::Respond(fixed) => format!("respond {}", fixed.status.as_u16()),
        Action::Redirect(redirect) => format!("redirect {}", redirect.status.as_u16()),
    }
}

fn split(split: &Split) -> String {
    let shares = split.branches().iter().map(|it| format!("{} {}%", it.name, it.percent));
    let by = split.by().map(|key| format!(" by {}", key.form())).unwrap_or_default();
    format!("split {}{by}", list(shares))
}

fn rest(config: &Config) -> &'static str {
    let takes_all = |route: &Route| {
        let rule = &route.rule;
        let everything = PathPattern { segments: Vec::new(), tail: true };
        let conditions = [rule.hosts.len(), rule.methods.len(), rule.parts.len()];
        rule.path == everything && conditions == [0; 3]
    };
    if config.routes.iter().any(takes_all) {
        "\nThe first route that matches is taken. Every request matches one.\n"
    } else {
        "\nThe first route that matches is taken. A request that matches none gets 404.\n"
    }
}

fn list_or_any(items: impl ExactSizeIterator<Item: Display>) -> String {
    if items.len() == 0 { ANY.to_owned() } else { list(items) }
}

fn list(items: impl Iterator<Item: Display>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}
