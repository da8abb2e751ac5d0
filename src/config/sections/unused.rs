//! Warnings of what has no effect, or less effect than it seems to have.
//!
//! They compare whole sections with each other, and only in a configuration without mistakes.

use std::collections::HashSet;

use tollgate_core::policy::{KeyExpr, Policy};
use tollgate_core::request::{PathPattern, Segment};
use tollgate_core::routes;

use super::context::Context;
use crate::config::field::{Entries, Field, List};
use crate::config::model::{Config, Route};
use crate::config::node::TextSpan;
use crate::config::sections::access::places;
use crate::config::sections::policies::RawPolicy;
use crate::config::sections::policies::counters::span_of;
use crate::config::sections::routes::RawRoute;
use crate::server::{ListenerSettings, TlsSettings};

/// Each route is compared with at most this many earlier routes, because the time is quadratic.
const MAX_COMPARED: usize = 1000;

/// Warns of routes that never match, and that no other route overflows into.
pub fn warn_covered(raw: &List<RawRoute>, config: &Config, cx: &Context<'_>) {
    let written: Vec<_> = raw.items().collect();
    let name = |index: usize| written[index].value.shown_name(index);
    let overflows = config.routes.iter().filter_map(|route| route.rule.overflow.as_ref());
    let targets: HashSet<usize> = overflows.map(|overflow| overflow.route).collect();
    for (index, route) in config.routes.iter().enumerate() {
        if targets.contains(&index) {
            continue;
        }
        let mut earlier = config.routes[..index].iter().take(MAX_COMPARED);
        let Some(wider) = earlier.position(|wider| wider.rule.covers(&route.rule)) else {
            continue;
        };
        let message = format!(
            "route {} can never match: route {} before it matches all of its requests",
            name(index),
            name(wider)
        );
        cx.warning(written[index].value.path_span(), &message, "put the narrower route first");
    }
}

/// Warns of routes that read larger bodies than there is memory for.
pub fn warn_large_bodies(raw: &List<RawRoute>, config: &Config, cx: &Context<'_>) {
    let memory = config.runtime.body_memory;
    for (index, (raw, route)) in raw.items().zip(&config.routes).enumerate() {
        if route.handling.read_body.as_ref().is_some_and(|read| read.max > memory) {
            let name = raw.value.shown_name(index);
            let message = format!(
                "route {name} reads bodies that are larger than all bodies together may be"
            );
            let advice = "write a smaller read_body.max, or a larger runtime.body_memory";
            cx.warning(raw.value.read_body_span(), &message, advice);
        }
    }
}

/// Warns of routes that match a single path. Most likely all paths below it are meant too.
pub fn warn_lone_paths(raw: &List<RawRoute>, config: &Config, cx: &Context<'_>) {
    for (index, route) in raw.items().enumerate() {
        if !is_lone_path(index, &config.routes) {
            continue;
        }
        let name = route.value.shown_name(index);
        let path = &config.routes[index].written.path;
        let message = format!("route {name} matches {path} alone, and nothing below it");
        let below = path.trim_end_matches('/');
        let advice = format!("write {below}/*; or name the route's methods, if it is meant so");
        cx.warning(route.value.path_span(), &message, &advice);
    }
}

/// Whether the route with this index forwards a single path, and no other route matches the paths
/// below it.
///
/// The path `/` is lone if no other route uses its upstream. Any other path is lone if no other
/// route has an upstream at all, because many files list single paths on purpose.
fn is_lone_path(index: usize, routes: &[Route]) -> bool {
    let route = &routes[index];
    let own = route.handling.action.upstreams();
    if own.is_empty() {
        return false;
    }
    let mut segments = route.rule.path.segments.clone();
    let is_exact = segments.iter().all(|it| matches!(it, Segment::Literal(_)));
    let is_meant = !route.rule.methods.is_empty() || routes.len() > MAX_COMPARED;
    if route.rule.path.tail || !is_exact || is_meant {
        return false;
    }
    segments.retain(|it| !matches!(it, Segment::Literal(text) if text.is_empty()));
    let is_root = segments.is_empty();
    let path = PathPattern { segments, tail: true };
    let whole = routes::Route { path: path.clone(), ..route.rule.clone() };
    let mut others = routes[..index].iter().chain(&routes[index + 1..]);
    !others.any(|other| {
        let its = other.handling.action.upstreams();
        let forwards = its.iter().any(|it| !is_root || own.contains(it));
        forwards || !is_root && path.covers(&other.rule.path) || other.rule.covers(&whole)
    })
}

/// Warns of keys by certificate. Clients send certificates only on request.
pub fn warn_certificates(raw: &Field<Entries<RawPolicy>>, config: &Config, cx: &Context<'_>) {
    let asks = |it: &ListenerSettings| it.tls.as_ref().is_some_and(TlsSettings::asks_clients);
    if config.listeners.iter().any(asks) {
        return;
    }
    for policy in config.policies.iter().filter(|it| it.key.asks_for_certificate()) {
        let message = format!(
            "the policy \"{}\" has the key tls:subject, but no listener asks clients for a \
             certificate",
            policy.name
        );
        let advice = "name the clients' authority under tls: client_ca of a listener";
        cx.warning(span_of(raw, policy), &message, advice);
    }
}

/// Warns of a file for overrides, written at `file`, that no policy uses.
pub fn warn_overrides(
    file: Option<TextSpan>,
    policies: &Field<Entries<RawPolicy>>,
    cx: &Context<'_>,
) {
    let uses =
        |policy: &Field<RawPolicy>| policy.value().is_some_and(|it| it.overrides_span().is_some());
    if let Some(file) = file
        && !policies.entries().iter().any(|(_, policy)| uses(policy))
    {
        cx.warning(file, "no policy has overrides", "write overrides: true under one");
    }
}

/// Warns of locations that no database contains, and of databases, named at `geo`, that no key
/// needs.
pub fn warn_locations(
    geo: Option<TextSpan>,
    raw: &Field<Entries<RawPolicy>>,
    config: &Config,
    cx: &Context<'_>,
) {
    let Some(geo) = geo else { return };
    let databases = &config.client.geo;
    for policy in &config.policies {
        let missing = location_keys(policy)
            .find(|key| !databases.iter().any(|database| database.may_have(key)));
        if let Some(key) = missing {
            let kinds: Vec<&str> = databases.iter().map(|it| it.kind()).collect();
            let message = format!(
                "the policy \"{}\" needs the {}, which is not in a database of the kind {}",
                policy.name,
                location_noun(key),
                kinds.join(" or ")
            );
            let advice = "add one to client.geo: database: [city.mmdb, asn.mmdb]";
            cx.warning(span_of(raw, policy), &message, advice);
        }
    }
    let mut affinities = config.routes.iter().flat_map(|route| route.rule.own_keys());
    let is_used = config.policies.iter().any(|policy| location_keys(policy).next().is_some())
        || config.access.iter().any(|list| places(list).next().is_some())
        || config.client.classes.as_ref().is_some_and(|classes| classes.has_asns())
        || affinities.any(|key| !key.places().is_empty());
    if !is_used {
        let message = "no key needs a location: these databases have no effect";
        cx.warning(geo, message, "leave them out, or use the key country");
    }
}

/// The keys of a policy that need a database.
fn location_keys(policy: &Policy) -> impl Iterator<Item = &KeyExpr> {
    let plans = policy.plans.as_ref().map(|plans| plans.from.places());
    let exempt = policy.exempt.places.iter().map(|code| match code {
        code if code.is_country() => &KeyExpr::Country,
        code if code.is_region() => &KeyExpr::Region,
        _ => &KeyExpr::Asn,
    });
    policy.key.places().into_iter().chain(plans.into_iter().flatten()).chain(exempt)
}

fn location_noun(key: &KeyExpr) -> &'static str {
    match key {
        KeyExpr::Country => "country",
        KeyExpr::Region => "region",
        _ => "network (asn)",
    }
}

/// Warns of policies that neither a route nor a rule for descriptors uses.
pub fn warn_policies(raw: &Field<Entries<RawPolicy>>, config: &Config, cx: &Context<'_>) {
    let rules = config.routes.iter().map(|route| &route.rule);
    let used = rules.flat_map(|rule| rule.policies.iter().map(|policy| &*policy.name));
    let domains = config.check.grpc.iter().flat_map(|grpc| grpc.rate_limits.native.values());
    let used = used.chain(domains.flatten().map(|rule| &*rule.policy));
    let is_off = |policy: &Field<RawPolicy>| policy.value().is_some_and(RawPolicy::is_off);
    let off = raw.entries().iter().filter(|(_, policy)| is_off(policy));
    let used = used.chain(off.map(|(name, _)| name.value.as_str())).collect();
    warn_unnamed(raw, "policy", &used, cx);
}

/// Warns of access lists that no route uses.
pub fn warn_lists<T>(raw: &Field<Entries<T>>, config: &Config, cx: &Context<'_>) {
    let lists = config.routes.iter().flat_map(|route| &route.rule.access);
    warn_unnamed(raw, "access list", &lists.map(|list| &*list.name).collect(), cx);
}

/// Warns of upstreams that no route uses.
pub fn warn_upstreams<T>(raw: &Field<Entries<T>>, config: &Config, cx: &Context<'_>) {
    let used = config.routes.iter().flat_map(|route| route.handling.upstreams());
    let used = used.map(|index| config.upstreams[index].name.as_str()).collect();
    warn_unnamed(raw, "upstream", &used, cx);
}

/// Warns of authorizers that no route names.
pub fn warn_authorizers<T>(raw: &Field<Entries<T>>, config: &Config, cx: &Context<'_>) {
    let used = config.routes.iter().filter_map(|route| route.handling.authorizer);
    let used = used.map(|index| &*config.authorizers[index].name).collect();
    warn_unnamed(raw, "authorizer", &used, cx);
}

fn warn_unnamed<T>(raw: &Field<Entries<T>>, kind: &str, used: &HashSet<&str>, cx: &Context<'_>) {
    for (name, _) in raw.entries().iter().filter(|(name, _)| !used.contains(name.value.as_str())) {
        let message = format!("no route uses the {kind} \"{}\"", name.value);
        cx.warning(name.span, &message, "remove it, or name it in a route");
    }
}
