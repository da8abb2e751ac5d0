//! What a replay cannot know, because the log does not say it. This is said before the
//! results.

use std::collections::HashSet;
use std::sync::Arc;

use http::HeaderName;
use http::header::COOKIE;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::meter::MeterSpec;
use tollgate_core::policy::{AccessList, AccessMode, Cost, MissingKey, Policy};
use tollgate_core::routes::{Part, PartMatch, Wanted};
use tollgate_core::time::{Span, Timestamp};

use super::facts::Facts;
use super::lacking::{lacking, lacking_of_list, masked};
use super::trial::{Setup, Trial};

/// One sentence for each thing that the log lacks, whatever the rules are.
pub(super) fn notes(facts: &Facts) -> Vec<String> {
    let mut notes = of_log(facts);
    notes.extend(of_keys(facts));
    notes
}

/// One sentence for each thing that these rules need and the log lacks. `trial` has tried them.
pub(super) fn notes_of_rules(facts: &Facts, setup: &Setup, trial: &Trial) -> Vec<String> {
    let mut notes = of_trial(trial);
    notes.extend(of_months(facts, setup));
    if facts.has_keys() {
        return notes;
    }
    notes.extend(of_access(facts, setup));
    notes.extend(of_lists(facts, setup, trial));
    notes.extend(of_credentials(setup, trial));
    notes.extend(of_routes(facts, setup));
    let used: HashSet<&str> = setup
        .routes
        .iter()
        .flat_map(|route| route.policies.iter().map(|policy| &*policy.name))
        .collect();
    for policy in setup.policies.iter().filter(|policy| used.contains(&*policy.name)) {
        notes.extend(of_policy(facts, setup, policy));
    }
    notes
}

/// What has kept a trial from counting as the gateway does.
fn of_trial(trial: &Trial) -> Vec<String> {
    let mut notes = Vec::new();
    let forgotten = trial.forgotten();
    if forgotten > 0 {
        notes.push(format!(
            "{forgotten} counters were forgotten, because the store holds too few keys (max_keys)"
        ));
    }
    let unfit = trial.counts.totals.unfit_limits;
    if unfit > 0 {
        notes.push(format!(
            "{unfit} decisions of the log are by limits of single keys that a policy cannot \
             count: its other limits were applied"
        ));
    }
    notes
}

/// What budgets per month have counted before the log begins.
fn of_months(facts: &Facts, setup: &Setup) -> Vec<String> {
    let Some(first) = facts.first_us.map(Timestamp::from_micros) else { return Vec::new() };
    let has_begun = |policy: &&Arc<Policy>| match &policy.algorithm {
        Algorithm::FixedWindow(months) if months.is_monthly() => {
            months.window_at(first) == months.window_at(first.minus(Span::SECOND))
        }
        _ => false,
    };
    let begun = setup.policies.iter().filter(has_begun);
    let note = |policy: &Arc<Policy>| {
        let name = &policy.name;
        format!("{name}: the log begins within a month; what was counted before it is not known")
    };
    begun.map(note).collect()
}

/// What keeps access lists from being applied.
fn of_access(facts: &Facts, setup: &Setup) -> Option<String> {
    let Facts { no_client, masked, .. } = facts;
    let unknown = no_client + masked;
    let has_lists = setup.routes.iter().any(|route| !route.access.is_empty());
    (has_lists && unknown > 0).then(|| {
        format!("access lists are not applied to {unknown} requests without a whole address")
    })
}

/// The access lists that are not applied, because they compare what the log lacks.
fn of_lists(facts: &Facts, setup: &Setup, trial: &Trial) -> Vec<String> {
    let lists = setup.routes.iter().flat_map(|route| &route.access);
    let mut seen = HashSet::new();
    let lists = lists.filter(|list| list.mode == AccessMode::Enforce && seen.insert(&*list.name));
    let note = |list: &Arc<AccessList>| {
        let lacking = lacking_of_list(facts, &setup.client, list);
        (!lacking.is_empty()).then(|| {
            format!(
                "access list {}: the log lacks {}; the list is not applied",
                list.name,
                lacking.join(", ")
            )
        })
    };
    let mut notes: Vec<String> = lists.filter_map(note).collect();
    let unlisted = trial.counts.totals.unlisted;
    if notes.is_empty() && unlisted > 0 {
        notes.push(format!(
            "{unlisted} requests come before the first one with the fields that access lists \
             compare: the lists are not applied to them"
        ));
    }
    notes
}

/// How requests without credentials are told, which the gateway refuses before policies judge them.
fn of_credentials(setup: &Setup, trial: &Trial) -> Option<String> {
    let asking = setup.routes.iter().filter(|route| !route.auth.is_empty()).count();
    let unauthorized = trial.counts.totals.unauthorized;
    (asking > 0).then(|| {
        format!(
            "{asking} routes ask for credentials (auth), which the replay cannot check: \
             {unauthorized} of their requests have the status 401 and are not judged, all others are"
        )
    })
}

fn of_log(facts: &Facts) -> Vec<String> {
    let Facts { unread, lines, no_client, masked, dropped, late, lists, trusted, .. } = facts;
    let mut notes = Vec::new();
    if let Some(first) = &facts.first_unread {
        notes.push(format!("{unread} of {lines} lines could not be read; the first is {first}"));
    }
    if *dropped > 0 {
        notes.push(format!("the log says that {dropped} lines were dropped"));
    }
    if *no_client > 0 && !facts.has_keys() {
        notes.push(format!("{no_client} requests name no client address and count as one client"));
    }
    if *masked > 0 && !facts.has_keys() {
        notes.push(format!(
            "{masked} requests have a masked address: all clients of a network count as one"
        ));
    }
    if *lists > 0 && *trusted == 0 {
        notes.push(format!(
            "{lists} requests name a list of addresses: the last one is the client, because client.trusted_proxies does not name it"
        ));
    }
    let forwarded = ["x-forwarded-for", "forwarded"];
    let has_forwarded = facts.headers.iter().any(|name| forwarded.contains(&name.as_str()));
    if *trusted > 0 && !has_forwarded && !facts.has_keys() {
        notes.push(format!(
            "{trusted} requests come from trusted proxies, and the log does not name the clients behind them"
        ));
    }
    if *late > 0 {
        notes.push(format!(
            "{late} requests are out of order by more than 60 s; they were judged at a later time"
        ));
    }
    notes
}

/// What keeps the decisions of our own log from being repeated exactly.
fn of_keys(facts: &Facts) -> Vec<String> {
    let Facts { requests, with_keys, by_server, sampled, .. } = facts;
    let mut notes = Vec::new();
    if *sampled > 0 {
        let ordinary = match facts.least_sample {
            Some(percent @ 0..100) => format!("{percent} %"),
            _ => "none".to_owned(),
        };
        notes.push(format!(
            "the log is a sample: of ordinary requests it has {ordinary}, so the replay is not exact and refuses too little"
        ));
    }
    if *with_keys == 0 {
        return notes;
    }
    let without = requests - with_keys;
    if without > 0 {
        notes.push(format!(
            "{without} of {requests} requests have no keys (keys: true), so the replay is not exact"
        ));
    }
    if *by_server > 0 {
        notes.push(format!(
            "for {by_server} requests Redis has decided by its own clock and the counts of all nodes, so the replay is not exact"
        ));
    }
    notes
}

fn of_routes(facts: &Facts, setup: &Setup) -> Vec<String> {
    let mut notes = Vec::new();
    let by_host = setup.routes.iter().filter(|route| !route.hosts.is_empty()).count();
    if by_host > 0 && facts.with_host == 0 {
        notes.push(format!(
            "{by_host} routes name hosts, and the log has none: name the host with --host"
        ));
    }
    for name in &setup.overflowing {
        notes.push(format!(
            "the route {name} hands requests that its policies refuse to a later route (overflow): \
             the replay counts them as refused, and the later route does not judge them"
        ));
    }
    for route in &setup.routes {
        let names = route.parts.iter().filter_map(field_of);
        for name in names.filter(|name| !facts.has(name)) {
            notes.push(format!(
                "the log lacks the field {name}, so the route {} matches no request",
                route.name
            ));
        }
    }
    notes
}

/// The field without which no request meets this condition of a route.
fn field_of(matched: &PartMatch) -> Option<&HeaderName> {
    match (&matched.part, &matched.wanted) {
        (_, Wanted::Present(false)) | (Part::Query(_), _) => None,
        (Part::Header(name), _) => Some(name),
        (Part::Cookie(_), _) => Some(&COOKIE),
    }
}

fn of_policy(facts: &Facts, setup: &Setup, policy: &Policy) -> Vec<String> {
    let name = &policy.name;
    let mut notes = Vec::new();
    let of_key = lacking(facts, &setup.client, &policy.key);
    if !of_key.is_empty() {
        let treatment = match policy.missing_key {
            MissingKey::Ip => "requests without the key count by address (missing_key: ip)",
            MissingKey::Skip => "requests without the key are not judged (missing_key: skip)",
            MissingKey::Deny => "requests without the key are refused (missing_key: deny)",
            MissingKey::Unauthorized => {
                "requests without the key are refused (missing_key: unauthorized)"
            }
        };
        notes.push(format!("{name}: the log lacks {}; {treatment}", of_key.join(", ")));
    }
    if let Some(plans) = &policy.plans
        && let of_plan = lacking(facts, &setup.client, &plans.from)
        && !of_plan.is_empty()
    {
        notes.push(format!(
            "{name}: the log lacks {}, which names the plan; the policy's own limit applies",
            of_plan.join(", ")
        ));
    }
    let of_path = masked(facts, &policy.key);
    if !of_path.is_empty() {
        notes.push(format!(
            "{name}: the log has the names of path parameters and not their values; all values of \
             {} count as one key",
            of_path.join(", ")
        ));
    }
    notes.extend(of_cost(facts, policy).map(|note| format!("{name}: {note}")));
    let is_concurrency = matches!(policy.algorithm, Algorithm::Concurrency(_));
    if is_concurrency && facts.with_duration == 0 {
        notes.push(format!(
            "{name}: the log lacks durations, so no two requests are in flight at the same time"
        ));
    }
    if policy.elastic.is_some() {
        notes.push(format!(
            "{name}: the load of upstreams is not known, so nothing is admitted beyond the limit"
        ));
    }
    if policy.overrides.is_some() {
        notes.push(format!("{name}: limits of single keys (overrides) are not replayed"));
    }
    notes
}

fn of_cost(facts: &Facts, policy: &Policy) -> Option<String> {
    match &policy.cost {
        Cost::Fixed(_) | Cost::Metered { meter: MeterSpec::Bytes { .. }, .. } => None,
        Cost::Field { name, default, .. } => (!facts.has(name))
            .then(|| format!("the log lacks the field {name}; each request costs {default}")),
        Cost::Body { .. } => (facts.with_body == 0)
            .then(|| "the log lacks the sizes of requests; each request costs one unit".to_owned()),
        Cost::Calls => Some(
            "the log does not contain the messages in bodies; each request costs one".to_owned(),
        ),
        Cost::Metered { estimate: Some(_), .. } => Some(
            "the log contains neither bodies nor the costs in responses; a request is estimated by \
             its length"
                .to_owned(),
        ),
        Cost::Metered { reserve, .. } => Some(format!(
            "the log does not contain the costs in responses; each request costs the reserve of {reserve}"
        )),
    }
}
