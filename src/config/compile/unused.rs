//! Warnings: what has no effect, or less than it seems, and so is most likely not
//! what was meant.

use std::collections::HashSet;

use super::Compiler;
use crate::config::field::{Entries, Field, Spanned};
use crate::config::model::{Config, Route};
use crate::config::node::Span;
use crate::config::raw::{RawConfig, RawPolicy, RawRoute};
use crate::request::{PathPattern, Segment};
use crate::routes;
use crate::server::{ListenerSettings, TlsSettings};
use crate::snapshot::Action;

/// A route is compared with so many before it: advice is not worth quadratic time.
const MAX_COMPARED: usize = 1000;

impl Compiler<'_> {
    /// To be asked only when there are no errors, so that all that was written is in `config`.
    pub(super) fn warn_unused(&self, raw: &RawConfig, config: &Config) {
        self.warn_covered(raw, config);
        self.warn_lone_paths(raw, config);
        self.warn_unread_overrides(raw);
        self.warn_places(raw, config);
        self.warn_unasked_certificates(raw, config);
        let rules = config.routes.iter().map(|route| &route.rule);
        let used: HashSet<&str> =
            rules.flat_map(|rule| rule.policies.iter().map(|policy| &*policy.name)).collect();
        let off = raw.policies.value().into_iter().flat_map(|entries| &entries.0);
        let off = off.filter(|(_, policy)| policy.value().is_some_and(RawPolicy::is_off));
        let spared = used.into_iter().chain(off.map(|(name, _)| name.value.as_str())).collect();
        self.warn_unnamed(&raw.policies, "policy", &spared);
        let used: HashSet<&str> = config
            .routes
            .iter()
            .filter_map(|route| match route.handling.action {
                Action::Forward(index) => Some(config.upstreams[index].name.as_str()),
                Action::Respond(_) | Action::Redirect(_) => None,
            })
            .collect();
        self.warn_unnamed(&raw.upstreams, "upstream", &used);
    }

    fn warn_covered(&self, raw: &RawConfig, config: &Config) {
        let written: Vec<_> = raw.routes.items().collect();
        let name = |index: usize| name_of(written[index], index);
        for (index, route) in config.routes.iter().enumerate() {
            let mut earlier = config.routes[..index].iter().take(MAX_COMPARED);
            let Some(wider) = earlier.position(|wider| wider.rule.covers(&route.rule)) else {
                continue;
            };
            let place = path_of(written[index]);
            let message = format!(
                "route {} can never match: route {} before it takes all that it would",
                name(index),
                name(wider)
            );
            self.problems.warning(place, &message, "put the narrower route first");
        }
    }

    /// One path is little for an upstream: most likely all below it is meant, too.
    fn warn_lone_paths(&self, raw: &RawConfig, config: &Config) {
        for (index, written) in raw.routes.items().enumerate() {
            if !is_lone_path(index, &config.routes) {
                continue;
            }
            let (name, path) = (name_of(written, index), &config.routes[index].written.path);
            let message = format!("route {name} takes {path} alone, and nothing below it");
            let below = path.trim_end_matches('/');
            let advice = format!("write {below}/*; or name the route's methods, if it is meant so");
            self.problems.warning(path_of(written), &message, &advice);
        }
    }

    /// Nobody shows a certificate who is not asked for one.
    fn warn_unasked_certificates(&self, raw: &RawConfig, config: &Config) {
        let asks = |it: &ListenerSettings| it.tls.as_ref().is_some_and(TlsSettings::asks_clients);
        if config.listeners.iter().any(asks) {
            return;
        }
        let entries = raw.policies.value().map_or(&[][..], |entries| &entries.0);
        for policy in config.policies.iter().filter(|it| it.key.asks_for_certificate()) {
            let written = entries.iter().find(|(name, _)| *name.value == *policy.name);
            let place = written.map_or(Span::FILE, |(name, _)| name.span);
            let message = format!(
                "the policy \"{}\" has the key tls:subject, but no client is asked for a certificate",
                policy.name
            );
            let advice = "name the clients' authority under tls: client_ca of a listener";
            self.problems.warning(place, &message, advice);
        }
    }

    fn warn_unnamed<T>(&self, written: &Field<Entries<T>>, kind: &str, used: &HashSet<&str>) {
        let entries = written.value().map_or(&[][..], |entries| &entries.0);
        for (name, _) in entries.iter().filter(|(name, _)| !used.contains(name.value.as_str())) {
            let message = format!("no route uses the {kind} \"{}\"", name.value);
            self.problems.warning(name.span, &message, "remove it, or name it in a route");
        }
    }
}

fn name_of(route: &Spanned<RawRoute>, index: usize) -> String {
    match route.value.name.given() {
        Some(name) => format!("\"{}\"", name.shown()),
        None => (index + 1).to_string(),
    }
}

fn path_of(route: &Spanned<RawRoute>) -> Span {
    route.value.path.given().map_or(Span::FILE, |path| path.span)
}

/// Whether the route with this index forwards a single path, and the others leave all
/// below it unmatched.
///
/// The path `/` is lone if its upstream is reached by no other route, any other path
/// if no other route has an upstream at all: many files list single paths on purpose.
fn is_lone_path(index: usize, routes: &[Route]) -> bool {
    let upstream_of = |route: &Route| match route.handling.action {
        Action::Forward(upstream) => Some(upstream),
        Action::Respond(_) | Action::Redirect(_) => None,
    };
    let route = &routes[index];
    let Some(upstream) = upstream_of(route) else { return false };
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
        let leads_on = upstream_of(other).is_some_and(|its| !is_root || its == upstream);
        leads_on || !is_root && path.covers(&other.rule.path) || other.rule.covers(&whole)
    })
}
