//! Why a node is not well: the rules of docker/prometheus/alerts.yml, judged on one node.
//!
//! A test holds the thresholds and times of both equal. One rule has no alert. An alert waits until its condition has
//! lasted for some time (`for`). Here a reason begins at once, and `since` says how long it has
//! lasted. The alert `TollgateDown` has no rule: a node that does not run says nothing.

use std::collections::BTreeMap;

use tollgate_core::store::{Outage, OutageCause};
use tollgate_core::time::Span;

use super::key_rules;
use super::present::Present;
pub use super::rule::{Bound, Rule};
use super::traffic_rules;
use super::window::Counted;
use super::xds_rules;
use crate::proxy::{EndpointState, UpstreamShared};

const FIVE_MINUTES: Span = Span::from_secs(300);
const QUARTER_OF_AN_HOUR: Span = Span::from_secs(900);
/// A policy refuses unusually many if it refuses so many times what it did before.
pub const UNUSUAL: f64 = 4.0;
/// So many refusals in five minutes can be too many.
pub const MANY: f64 = 100.0;
/// So many refusals of one policy in five minutes can be unusual.
pub const SOME: f64 = 20.0;
/// Of fewer decisions in five minutes, one alone can be a hundredth.
pub const ENOUGH_DECISIONS: f64 = 100.0;
/// Peers that are not trusted matter if this part of all requests names clients.
pub const UNBELIEVED_SHARE: f64 = 0.1;
/// How many policies the text about many refusals names.
pub const NAMED: usize = 3;

/// A share with four digits, as `humanizePercentage` of Prometheus writes it: a reason and its
/// alert have one text.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = 3.0 - if percent > 0.0 { percent.log10().floor() } else { 0.0 };
    let scale = 10_f64.powf(digits);
    format!("{}%", (percent * scale).round() / scale)
}

/// A time in days, or in hours if it is short.
fn rough(seconds: f64) -> String {
    match seconds / 3600.0 {
        hours if hours < 48.0 => format!("{} hours", hours.floor()),
        hours => format!("{} days", (hours / 24.0).floor()),
    }
}

/// All rules, in the order in which answers list them: the worst first.
pub const RULES: &[Rule] = &[
    Rule {
        code: "upstream_down",
        alert: Some("TollgateUpstreamDown"),
        over: None,
        bound: Bound::Equals(0.0),
        values: |it| it.upstreams.iter().map(|it| endpoints_up(it)).collect(),
        text: |_, about, _| format!("no endpoint of the upstream {about:?} is in service"),
        advice: "see in GET /v1/upstreams whether checks fail or requests",
    },
    Rule {
        code: "store_away",
        alert: Some("TollgateStoreUnavailable"),
        over: None,
        bound: Bound::Above(0.0),
        values: stores_away,
        text: |it, about, _| store_away(it, about),
        advice: "see the cause in the text; until it ends, policies decide as their \
                 on_store_failure says",
    },
    Rule {
        code: "store_credentials_refused",
        alert: Some("TollgateStoreCredentialsRefused"),
        over: None,
        bound: Bound::Above(0.0),
        values: |it| renewals_refused(it).map(|it| (it.server.clone(), 1.0)).collect(),
        text: |it, server, _| {
            let refused = renewals_refused(it).find(|it| it.server == server);
            let refused = refused.map(ToString::to_string).unwrap_or_default();
            format!("new credentials or certificates for the store cannot be used: {refused}")
        },
        advice: "see the cause in the text; the connections with the old ones stay in use until \
                 the server ends them",
    },
    traffic_rules::UPSTREAM_SENDS_EXCESS,
    traffic_rules::UPSTREAM_QUEUE_REFUSES,
    traffic_rules::BANS_NOT_HELD,
    Rule {
        code: "costs_not_known",
        alert: Some("TollgateCostsNotKnown"),
        over: Some(QUARTER_OF_AN_HOUR),
        bound: Bound::Above(0.0),
        values: |it| it.window.has_grown(Counted::Unsettled, QUARTER_OF_AN_HOUR),
        text: |_, about, _| {
            format!(
                "responses do not state what requests under the policy {about:?} have cost, so \
                 these count only what was reserved"
            )
        },
        advice: "compare settle of the policy with a response; the log and \
                 tollgate_unsettled_requests_total have the cause",
    },
    Rule {
        code: "authorizer_fails",
        alert: Some("TollgateAuthorizerFails"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.0),
        values: |it| it.window.has_grown(Counted::AuthorizerFailures, FIVE_MINUTES),
        text: |_, about, _| {
            format!(
                "the authorizer {about:?} has given no answer: its requests were refused with 503, \
                 or passed if it has on_failure: allow"
            )
        },
        advice: "the log and tollgate_authorizer_failures_total have the cause: bring the \
                 authorizer back",
    },
    Rule {
        code: "failed_open",
        alert: Some("TollgateFailedOpen"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.0),
        values: |it| it.window.has_grown(Counted::FailedOpen, FIVE_MINUTES),
        text: |_, about, _| {
            format!("requests were admitted that the policy {about:?} could not judge")
        },
        advice: "bring the store back, or set on_store_failure to local or deny",
    },
    Rule {
        code: "requests_fail",
        alert: Some("TollgateFails"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.02),
        values: |it| it.window.shares(Counted::Failed, Counted::Requests),
        text: |_, about, share| {
            let share = percent(share);
            format!("{share} of the requests of the route {about:?} end with 500 or more")
        },
        advice: "http_client_request_duration_seconds shows whether the upstream sends them, and \
                 error_type why the gateway does",
    },
    Rule {
        code: "many_refusals",
        alert: Some("TollgateManyRefusals"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.2),
        values: |it| it.window.refusals(MANY).map(|it| (String::new(), it)).into_iter().collect(),
        text: |it, _, share| {
            let share = percent(share);
            let policies = it.window.refusing_most(NAMED);
            let named = policies.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join(", ");
            format!(
                "{share} of all decisions in 5 minutes are refusals; the policies that refuse \
                 most are {named}"
            )
        },
        advice: "see their clients in GET /v1/top; if they are legitimate, raise the limits or \
                 give them a plan",
    },
    Rule {
        code: "refuses_unusually_many",
        alert: Some("TollgateRefusesUnusuallyMany"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.05),
        values: |it| it.window.unusual_shares(UNUSUAL, SOME),
        text: |it, about, share| {
            let share = percent(share);
            let refuses = format!("the policy {about:?} refuses {share} of its requests");
            match it.window.refused_before(about).map(percent) {
                Some(before) => {
                    format!("{refuses}, more than {UNUSUAL} times as many as before ({before})")
                }
                None => refuses,
            }
        },
        advice: "see its clients in GET /v1/top; if they are legitimate, raise the limit or give \
                 them a plan",
    },
    Rule {
        code: "proxy_not_trusted",
        alert: Some("TollgateProxyNotTrusted"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(1.0),
        values: untrusted_proxies,
        text: |it, about, _| {
            let forwarders = it.known.forwarders.iter();
            let named = forwarders.filter(|it| it.peer.to_string() == about);
            named.map(ToString::to_string).collect()
        },
        advice: "do so only if it is a proxy of yours, because a client can forge the field; \
                 without it, all clients behind the proxy count as one",
    },
    Rule {
        code: "decides_locally",
        alert: Some("TollgateDecidesLocally"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.01),
        values: |it| it.window.shares(Counted::LocalDecisions, Counted::Decisions),
        text: |_, _, share| {
            let share = percent(share);
            format!(
                "{share} of the decisions were made without the store: limits hold for this node only"
            )
        },
        advice: "see tollgate_store_calls_total{result=\"failed\"} and the latency of Redis",
    },
    Rule {
        code: "store_overloaded",
        alert: Some("TollgateStoreOverloaded"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.0),
        values: |it| it.window.has_grown(Counted::Overloads, FIVE_MINUTES),
        text: |_, server, _| {
            format!(
                "questions to the store {server} take too much memory, and further ones were \
                 answered by 503"
            )
        },
        advice: "see tollgate_store_call_duration_seconds and tollgate_worker_busy_seconds_total: \
                 add shards or workers, or use store_mode leased",
    },
    Rule {
        code: "store_calls_fail",
        alert: Some("TollgateStoreCallsFail"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.0),
        values: |it| it.window.has_grown(Counted::CallErrors, FIVE_MINUTES),
        text: |_, cause, _| {
            let found = OutageCause::ALL.iter().find(|it| it.code() == cause);
            let error = found.map_or("an error", |it| it.text());
            format!("the store fails to decide for some clients (cause: {cause}): {error}")
        },
        advice: "the log has the server, the key, the error and the remedy; until then policies do \
                 what their on_store_failure says for these clients",
    },
    Rule {
        code: "descriptors_alone",
        alert: Some("TollgateDescriptorsAlone"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.0),
        values: |it| it.window.has_grown(Counted::Alone, FIVE_MINUTES),
        text: |_, about, _| {
            format!(
                "descriptors have values that cannot be the key of the policy {about:?}, and do \
                 not share the counter of the gateway"
            )
        },
        advice: "the log has the cause: correct what the proxy sends, or key of the rule in \
                 check.grpc.domains",
    },
    Rule {
        code: "slow_decisions",
        alert: Some("TollgateSlowDecisions"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.02),
        values: |it| {
            let slow = it.window.slow_decision(ENOUGH_DECISIONS);
            slow.map(|it| (String::new(), it)).into_iter().collect()
        },
        text: |_, _, s| format!("one decision of 100 takes longer than about {:.0} ms", s * 1000.0),
        advice: "see tollgate_store_call_duration_seconds for Redis, and \
                 tollgate_worker_busy_seconds_total for the gateway",
    },
    Rule {
        code: "worker_busy",
        alert: Some("TollgateWorkerBusy"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.85),
        values: |it| {
            // The start of a process says little.
            let seconds = it.window.seconds();
            let busy = it.window.growth(Counted::Busy).into_iter().filter(|_| seconds >= 60.0);
            busy.map(|(about, us)| (about.to_owned(), us / 1_000_000.0 / seconds)).collect()
        },
        text: |_, about, share| format!("the worker {about} uses {} of a core", percent(share)),
        advice: "add a node or cores; if other workers are idle, few connections carry the load",
    },
    Rule {
        code: "forgets_limits",
        alert: Some("TollgateForgetsLimits"),
        over: Some(QUARTER_OF_AN_HOUR),
        bound: Bound::Above(0.0),
        values: |it| it.window.has_grown(Counted::Forgotten, QUARTER_OF_AN_HOUR),
        text: |_, _, _| {
            "clients that have used a part of their limits are forgotten: the memory is full"
                .to_owned()
        },
        advice: "raise store.memory.max_keys, or use keys with fewer values",
    },
    Rule {
        code: "broken_promise",
        alert: Some("TollgateBrokenPromise"),
        over: Some(QUARTER_OF_AN_HOUR),
        bound: Bound::Above(0.0),
        values: |it| it.window.has_grown(Counted::Broken, QUARTER_OF_AN_HOUR),
        text: |_, about, _| {
            format!(
                "a client that waited as long as the policy {about:?} had told was refused again"
            )
        },
        advice: "this is a defect of the gateway: report it with the policy and the version",
    },
    Rule {
        code: "reload_failed",
        alert: Some("TollgateReloadFailed"),
        over: None,
        bound: Bound::Equals(0.0),
        values: |it| vec![(String::new(), f64::from(it.failure.is_none()))],
        text: |it, _, _| match it.failure {
            Some((at, why)) => {
                format!("the reload at {at} failed, and the configuration before it stays: {why}")
            }
            None => String::new(),
        },
        advice: "mend the file: `tollgate check` shows the same; a restart would fail",
    },
    Rule {
        code: "config_not_from_file",
        // Where nodes share a store, the alert about differing configurations fires.
        alert: None,
        over: None,
        bound: Bound::Above(0.0),
        values: |it| vec![(String::new(), f64::from(it.origin.is_some()))],
        text: |it, _, _| match it.origin {
            Some(by) => format!(
                "since {} this node runs a configuration that {} gave by a call",
                by.at, by.actor
            ),
            None => String::new(),
        },
        advice: "write it into the file; a change of the file, SIGHUP or a restart ends it",
    },
    Rule {
        code: "port_shared",
        alert: Some("TollgatePortShared"),
        over: None,
        bound: Bound::Above(0.0),
        values: |it| it.known.other_listeners.iter().map(|it| (it.to_string(), 1.0)).collect(),
        text: |_, other, _| other.to_owned(),
        advice: "that is expected while one process takes over from the other; otherwise stop one \
                 of them",
    },
    Rule {
        code: "configurations_differ",
        alert: Some("TollgateConfigurationsDiffer"),
        over: None,
        bound: Bound::Above(0.0),
        values: |it| it.window.gauges.other_configs.clone(),
        text: |_, section, nodes| {
            let nodes = match nodes < 2.0 {
                true => "1 node that shares".to_owned(),
                false => format!("{nodes} nodes that share"),
            };
            format!("the section {section:?} of the configuration differs on {nodes} the store")
        },
        advice: "see in GET /v1/nodes which; finish or undo the rollout",
    },
    key_rules::KEY_SET_NOT_FETCHED,
    key_rules::KEY_FILE_BROKEN,
    key_rules::CLASS_FILE_BROKEN,
    key_rules::PRICE_FILE_BROKEN,
    key_rules::PASSWORD_FILE_BROKEN,
    key_rules::KEY_STORE_AWAY,
    key_rules::KEY_IN_FILE_AND_STORE,
    key_rules::KEY_LIMIT_UNFIT,
    key_rules::LIMITS_IGNORED,
    key_rules::KEY_LEFT_OUT,
    xds_rules::XDS_AWAY,
    xds_rules::XDS_REJECTED,
    Rule {
        code: "replica_away",
        alert: Some("TollgateReplicaAway"),
        over: None,
        bound: Bound::Above(0.0),
        values: |it| vec![(String::new(), it.window.gauges.replicas_away)],
        text: |_, _, replicas| {
            format!(
                "the store has replicas that are not read ({replicas}): the master has more load"
            )
        },
        advice: "the log names them, with the cause and its remedy",
    },
    Rule {
        code: "certificate_expires",
        alert: Some("TollgateCertificateExpires"),
        over: None,
        bound: Bound::Below(14.0 * 86_400.0),
        values: |it| {
            let left = |(name, expires_s): &(String, f64)| (name.clone(), expires_s - it.now_s());
            it.window.gauges.certificates.iter().map(left).collect()
        },
        text: |_, about, left_s| match left_s < 0.0 {
            true => format!("the certificate {about} has expired {} ago", rough(-left_s)),
            false => format!("the certificate {about} expires in {}", rough(left_s)),
        },
        advice: "renew it; a reload is enough",
    },
    Rule {
        code: "certificate_not_yet_valid",
        alert: Some("TollgateCertificateNotYetValid"),
        over: None,
        bound: Bound::Above(0.0),
        values: |it| {
            let until = |(name, from_s): &(String, f64)| (name.clone(), from_s - it.now_s());
            it.window.gauges.certificate_starts.iter().map(until).collect()
        },
        text: |_, about, s| {
            format!("the certificate {about} is not valid yet, but will be in {}", rough(s))
        },
        advice: "compare the clocks of this machine and of the authority",
    },
    Rule {
        code: "few_files_left",
        alert: Some("TollgateFewFilesLeft"),
        over: None,
        bound: Bound::Above(0.8),
        values: |it| vec![(String::new(), it.window.gauges.open_files)],
        text: |_, _, share| format!("{} of the file descriptors are in use", percent(share)),
        advice: "raise LimitNOFILE, or see tollgate_connections for clients that keep connections open",
    },
    Rule {
        code: "loses_log_lines",
        alert: Some("TollgateLosesLogLines"),
        over: Some(FIVE_MINUTES),
        bound: Bound::Above(0.0),
        values: |it| it.window.has_grown(Counted::LostLines, FIVE_MINUTES),
        text: |_, about, _| {
            format!("lines of the {about} log were dropped, because its output is too slow")
        },
        advice: "see what reads it, or lower telemetry.access_log.sample",
    },
    traffic_rules::SERIES_FULL,
];

/// The peers that name clients and are not trusted, if a part of all requests says so that one
/// client does not have. A client that forges the field is then no reason.
fn untrusted_proxies(it: &Present<'_>) -> Vec<(String, f64)> {
    if it.window.unbelieved_share() <= UNBELIEVED_SHARE {
        return Vec::new();
    }
    let clients = |clients: usize| f64::from(u32::try_from(clients).unwrap_or(u32::MAX));
    let forwarders = it.known.forwarders.iter();
    forwarders.map(|it| (it.peer.to_string(), clients(it.clients))).collect()
}

/// The servers of the store that are not used: those that the node knows now, and those of which
/// a worker has said so in the metrics.
fn stores_away(it: &Present<'_>) -> Vec<(String, f64)> {
    let outages = it.known.store.iter().flat_map(|standing| &standing.outages);
    let mut away: BTreeMap<String, f64> = outages.map(|it| (it.server.clone(), 1.0)).collect();
    for (server, open) in &it.window.gauges.breakers {
        away.entry(server.clone()).or_insert(*open);
    }
    away.into_iter().collect()
}

fn renewals_refused<'p>(it: &'p Present<'_>) -> impl Iterator<Item = &'p Outage> {
    it.known.store.iter().flat_map(|standing| &standing.renewals_refused)
}

fn store_away(it: &Present<'_>, server: &str) -> String {
    let mut outages = it.known.store.iter().flat_map(|standing| &standing.outages);
    match outages.find(|outage| outage.server == server) {
        Some(outage) => format!("the store {outage}"),
        None => format!("the store {server} is not used"),
    }
}

fn endpoints_up(upstream: &UpstreamShared) -> (String, f64) {
    let is_up = |state| matches!(state, EndpointState::InService | EndpointState::Starting);
    let is_any = upstream.health().into_iter().any(|endpoint| is_up(endpoint.state));
    (upstream.settings().name.clone(), f64::from(is_any))
}
