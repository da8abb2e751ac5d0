//! Limits of API keys that their policies cannot count, and warnings of credentials that do not limit
//! what a client can do.

use std::collections::HashSet;

use tollgate_core::policy::{AuthMethod, KeyExpr, Policy, UnfitLimit};

use super::client::RawClient;
use super::context::Context;
use super::routes::RawRoute;
use crate::config::api_keys::WrittenLimit;
use crate::config::field::List;
use crate::config::model::{Config, Route};
use crate::config::node::TextSpan;
use crate::server::{ListenerSettings, TlsSettings};

/// The most keys of a file whose limits are reported.
const MAX_TOLD: usize = 20;

/// Warns of routes whose clients can invent API keys, of certificates that no client is asked for,
/// and of limits of keys that no policy has or can count.
pub fn warn(
    routes: &List<RawRoute>,
    client: Option<&RawClient>,
    config: &Config,
    cx: &Context<'_>,
) {
    if config.client.keys.is_none() {
        warn_invented(routes, config, cx);
    }
    warn_certificates(routes, config, cx);
    if let Some(span) = client.and_then(RawClient::keys_span) {
        warn_limits(span, config, cx);
    }
}

/// Reports limits in the file of keys that are not in the units of their policies.
pub fn check(client: Option<&RawClient>, config: &Config, cx: &Context<'_>) {
    let span = client.and_then(RawClient::key_file_span);
    let (Some(span), Some(file)) = (span, &config.files.api_keys) else { return };
    let unfit = file.limits.iter().filter_map(|written| {
        let policy = config.policies.iter().find(|it| it.name == written.policy)?;
        match policy.key_limit(written.limit) {
            Err(UnfitLimit::Refused(error)) => Some((written, error)),
            _ => None,
        }
    });
    for (written, error) in unfit.take(MAX_TOLD) {
        let WrittenLimit { owner, limit, span: place, further, .. } = written;
        let others = match further {
            0 => String::new(),
            1 => ", and such a limit is in one more place".to_owned(),
            more => format!(", and such a limit is in {more} more places"),
        };
        let message = format!(
            "{}:{}:{}: {owner} has the limit {limit}, but {}{others}",
            file.name, place.line, place.column, error.message
        );
        cx.error(span, &message, error.advice);
    }
}

/// A client that sends another key with each request has another counter each time.
fn warn_invented(raw: &List<RawRoute>, config: &Config, cx: &Context<'_>) {
    let mut told: HashSet<&str> = HashSet::new();
    for (index, (raw, route)) in raw.items().zip(&config.routes).enumerate() {
        let policies = &route.rule.policies;
        let by_key = policies.iter().find(|policy| can_be_invented(&policy.key));
        let Some(by_key) = by_key.filter(|_| !policies.iter().any(|it| is_bounded(it))) else {
            continue;
        };
        // One route of a policy is enough to find the others.
        if !told.insert(&by_key.name) {
            continue;
        }
        let name = raw.value.shown_name(index);
        let message = format!(
            "the policy \"{}\" counts by API keys, which clients can invent, and route {name} has no \
             limit by ip",
            by_key.name
        );
        let advice =
            "add a policy with key: ip, or known keys: client: { keys: { file: keys.yaml } }";
        cx.warning(raw.value.path_span(), &message, advice);
    }
}

/// Whether a client can choose the counter by an API key.
fn can_be_invented(key: &KeyExpr) -> bool {
    match key {
        KeyExpr::ApiKey => true,
        KeyExpr::First(keys) | KeyExpr::All(keys) => keys.iter().any(can_be_invented),
        _ => false,
    }
}

/// Whether a policy limits a client whatever it sends.
fn is_bounded(policy: &Policy) -> bool {
    fn is_fixed(key: &KeyExpr) -> bool {
        match key {
            KeyExpr::Ip
            | KeyExpr::Global
            | KeyExpr::Route
            | KeyExpr::Country
            | KeyExpr::Region
            | KeyExpr::Asn => true,
            KeyExpr::All(keys) => keys.iter().all(is_fixed),
            _ => false,
        }
    }
    is_fixed(&policy.key)
}

/// Clients send certificates only on request.
fn warn_certificates(raw: &List<RawRoute>, config: &Config, cx: &Context<'_>) {
    let asks = |it: &ListenerSettings| it.tls.as_ref().is_some_and(TlsSettings::asks_clients);
    if config.listeners.iter().any(asks) {
        return;
    }
    let wants = |route: &Route| route.rule.auth.contains(&AuthMethod::Tls);
    for (index, (raw, _)) in
        raw.items().zip(&config.routes).enumerate().filter(|(_, (_, route))| wants(route))
    {
        let name = raw.value.shown_name(index);
        let message =
            format!("route {name} asks for a certificate, but no listener asks clients for one");
        let advice = "name the clients' authority under tls: client_ca of a listener";
        let span = raw.value.auth_span().unwrap_or_else(|| raw.value.path_span());
        cx.warning(span, &message, advice);
    }
}

/// Warns of limits in the file of keys that have no effect.
fn warn_limits(span: TextSpan, config: &Config, cx: &Context<'_>) {
    let Some(keys) = &config.client.keys else { return };
    let mut told = 0;
    let mut tell = |message: String| {
        told += 1;
        if told <= MAX_TOLD {
            cx.warning(span, &message, "correct the file of the keys");
        }
    };
    let mut entries: Vec<_> = keys.table.entries().collect();
    entries.sort_by_key(|entry| entry.key.id);
    for entry in entries {
        let of_team = entry.team.iter().flat_map(|team| &team.limits);
        for (policy, limit) in entry.key.limits.iter().chain(of_team) {
            let id = entry.key.id;
            match config.policies.iter().find(|it| it.name == *policy) {
                None => tell(format!(
                    "the key {id} has a limit of the policy \"{policy}\", which does not exist"
                )),
                Some(known) => {
                    if let Err(UnfitLimit::Ignored(why)) = known.key_limit(*limit) {
                        tell(format!(
                            "the key {id} has a limit that \"{policy}\" cannot count: {why}"
                        ));
                    }
                }
            }
        }
    }
}
