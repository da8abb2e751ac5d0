//! `routes`: which requests, judged by which policies, go where.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Compiler;
use super::checks::TIMEOUT;
use super::names::Names;
use super::policies::Named;
use super::upstreams::Upstream;
use crate::config::field::{Entries, Field, Spanned};
use crate::config::model::{Route, Written};
use crate::config::node::Span;
use crate::config::raw::{List, RawComparison, RawConfig, RawPathMatch, RawRoute, RawUpstream};
use crate::config::scalar::PathText;
use crate::policy::{KeyExpr, Policy};
use crate::proxy::RouteTimeouts;
use crate::request::{PathMatch, PathPattern};
use crate::routes;
use crate::snapshot::{Action, Handling};

/// All policies of a route are judged in one decision, which must stay small.
const MAX_POLICIES: usize = 16;

/// What routes refer to.
struct References<'a> {
    policy_names: Names<'a>,
    /// In the order of their names.
    policies: &'a [Named],
    upstream_names: Names<'a>,
    /// In the order of their names.
    upstreams: &'a Field<Entries<RawUpstream>>,
    /// In the same order.
    compiled_upstreams: &'a [Upstream],
    /// Judged on every route besides its own: places among the policies.
    defaults: Vec<usize>,
}

impl Compiler<'_> {
    /// One item for each route; none for one that is broken.
    pub(super) fn routes(
        &self,
        raw: &RawConfig,
        policies: &[Named],
        upstreams: &[Upstream],
    ) -> Vec<Option<Route>> {
        let advice = "write: routes: [{ path: /*, upstream: app }]";
        self.required(&raw.routes, Span::FILE, "there are no \"routes\"", advice);
        self.not_empty(&raw.routes, "there are no routes", "write - { path: /*, upstream: app }");
        let known = self.references(raw, policies, upstreams);
        let mut taken: HashMap<String, usize> = HashMap::new();
        let routes = raw.routes.value().into_iter().flatten().enumerate();
        let routes = routes.map(|(index, route)| {
            let name = self.route_name(route.given(), index + 1, &mut taken);
            self.route(route.given()?, &name, &known)
        });
        routes.collect()
    }

    fn references<'a>(
        &self,
        raw: &'a RawConfig,
        policies: &'a [Named],
        upstreams: &'a [Upstream],
    ) -> References<'a> {
        let policy_names = Names::of_policies(&raw.policies);
        let defaults = raw
            .defaults
            .value()
            .map(|defaults| self.policy_indices(&defaults.policies, "\"defaults\"", &policy_names));
        References {
            policy_names,
            policies,
            upstream_names: Names::of_upstreams(&raw.upstreams),
            upstreams: &raw.upstreams,
            compiled_upstreams: upstreams,
            defaults: defaults.unwrap_or_default(),
        }
    }

    /// The given name, or the route's number, each of them once.
    fn route_name(
        &self,
        route: Option<&Spanned<RawRoute>>,
        number: usize,
        taken: &mut HashMap<String, usize>,
    ) -> String {
        let given = route.and_then(|route| route.value.name.given());
        if let Some(name) = given {
            self.check_name(name, "route");
        }
        let name = given.map_or_else(|| number.to_string(), |name| name.value.clone());
        if let Some(other) = taken.insert(name.clone(), number) {
            let shown = given.map_or(name.as_str(), |name| name.shown());
            let message = format!("two routes are named \"{shown}\": number {other} and {number}");
            let span = given
                .map_or_else(|| route.map_or(Span::FILE, |route| route.span), |name| name.span);
            self.problems.error(span, &message, "rename one of them");
        }
        name
    }

    fn route(&self, raw: &Spanned<RawRoute>, name: &str, known: &References<'_>) -> Option<Route> {
        let route = &raw.value;
        let shown = match route.name.given() {
            Some(name) => format!("route \"{}\"", name.shown()),
            None => format!("route {name}"),
        };
        let path = self.required(
            &route.path,
            raw.span,
            &format!("{shown} has no \"path\""),
            "like path: /*",
        );
        let policies = self.route_policies(raw, &shown, known);
        if let Some(path) = path {
            self.check_params(raw, &shown, &path.0, &policies, known);
        }
        let path_match = self.path_match(route);
        let action = self.action(raw, &shown, known);
        if let Some(action) = &action {
            self.check_elastic(raw, &shown, action, &policies, known);
        }
        let changes = self.changes(raw, &shown, action.as_ref());
        let judging = policies.iter().map(|index| &known.policies[*index]);
        let judging = judging.filter(|policy| !policy.off);
        let policies: Option<Vec<Arc<Policy>>> =
            judging.map(|policy| policy.compiled.clone()).collect();
        let headers = self.header_values(&route.headers);
        let timeouts = self.route_timeouts(route);
        let retries = route.retries.value().map(|retries| self.retries(retries));
        let affinity = self.affinity(action.as_ref()?, path?, &shown, known);
        Some(Route {
            rule: routes::Route {
                name: name.into(),
                hosts: route.hosts.items().map(|host| host.value.0.clone()).collect(),
                path: path?.0.clone(),
                path_match,
                methods: route.methods.items().map(|method| method.value.0.clone()).collect(),
                headers,
                policies: policies?,
                affinity,
            },
            handling: Handling {
                action: action?,
                timeouts,
                retries,
                max_body_bytes: route.max_body.value().map(|size| size.0),
                changes,
            },
            written: written(route),
        })
    }

    /// By which key the route's upstream spreads its requests, if by one.
    fn affinity(
        &self,
        action: &Action,
        path: &PathText,
        shown: &str,
        known: &References<'_>,
    ) -> Option<KeyExpr> {
        let Action::Forward(upstream) = action else {
            return None;
        };
        let (name, raw) = known.upstreams.value()?.0.get(*upstream)?;
        self.check_affinity(name, raw, &path.0, shown);
        known.compiled_upstreams.get(*upstream)?.affinity.clone()
    }

    /// The route's own policies, then the defaults that are not among them.
    fn route_policies(
        &self,
        raw: &Spanned<RawRoute>,
        shown: &str,
        known: &References<'_>,
    ) -> Vec<usize> {
        let mut policies = self.policy_indices(&raw.value.policies, shown, &known.policy_names);
        if raw.value.defaults.value().copied().unwrap_or(true) {
            for default in &known.defaults {
                if !policies.contains(default) {
                    policies.push(*default);
                }
            }
        }
        if policies.len() > MAX_POLICIES {
            let span = raw.value.policies.given().map_or(raw.span, |list| list.span);
            let message = format!("{shown} has more than {MAX_POLICIES} policies");
            let advice = "all of them are judged at once: remove some";
            self.problems.error(span, &message, advice);
        }
        policies
    }

    fn policy_indices(&self, list: &List<String>, owner: &str, names: &Names<'_>) -> Vec<usize> {
        let mut indices = Vec::new();
        for name in list.items() {
            // One too many is enough to refuse the route.
            if indices.len() > MAX_POLICIES {
                break;
            }
            match self.find(name, owner, names) {
                Some(index) if indices.contains(&index) => {
                    let message = format!("{owner} names the policy \"{}\" twice", name.shown());
                    self.problems.error(name.span, &message, "remove one of them");
                }
                found => indices.extend(found),
            }
        }
        indices
    }

    /// Where a key needs a parameter that the path does not have, every
    /// request would fall back to the policy's `missing_key`.
    fn check_params(
        &self,
        raw: &Spanned<RawRoute>,
        shown: &str,
        path: &PathPattern,
        policies: &[usize],
        known: &References<'_>,
    ) {
        for policy in policies.iter().map(|index| &known.policies[*index]) {
            for param in &policy.params {
                if path.param_names().any(|name| *name == *param.name) {
                    continue;
                }
                let message = format!(
                    "the policy \"{}\" needs \"{}\", which the path of {shown} does not have",
                    policy.name, param.shown
                );
                let advice = "put the parameter into the path, or take another policy";
                self.problems.error(place_of(policy, raw), &message, advice);
            }
        }
    }

    /// An elastic limit asks the route's upstream whether it has room.
    fn check_elastic(
        &self,
        raw: &Spanned<RawRoute>,
        shown: &str,
        action: &Action,
        policies: &[usize],
        known: &References<'_>,
    ) {
        let upstream = match action {
            Action::Respond(_) | Action::Redirect(_) => None,
            Action::Forward(index) => {
                known.upstreams.value().and_then(|entries| entries.0.get(*index))
            }
        };
        for policy in policies.iter().map(|index| &known.policies[*index]) {
            let compiled = policy.compiled.as_ref();
            let Some(elastic) = compiled.and_then(|compiled| compiled.elastic.as_ref()) else {
                continue;
            };
            self.check_room(policy, elastic, shown, upstream, place_of(policy, raw));
        }
    }

    fn action(
        &self,
        raw: &Spanned<RawRoute>,
        shown: &str,
        known: &References<'_>,
    ) -> Option<Action> {
        let route = &raw.value;
        let kinds = [
            ("upstream", route.upstream.is_absent()),
            ("respond", route.respond.is_absent()),
            ("redirect", route.redirect.is_absent()),
        ];
        let mut given = kinds.iter().filter(|(_, is_absent)| !is_absent).map(|(name, _)| *name);
        match (given.next(), given.next()) {
            (None, _) => {
                let message = format!("{shown} leads nowhere");
                let advice = "write upstream: NAME, respond: { ... } or redirect: { ... }";
                self.problems.error(raw.span, &message, advice);
                None
            }
            (Some(one), Some(other)) => {
                let message = format!("{shown} has both \"{one}\" and \"{other}\"");
                let place = route.upstream.given().map_or(raw.span, |name| name.span);
                self.problems.error(place, &message, "remove one of them");
                None
            }
            (Some("respond"), None) => {
                route.respond.value().map(|raw| Action::Respond(self.respond(raw)))
            }
            (Some("redirect"), None) => {
                self.redirect(route.redirect.given()?, route.path.value()).map(Action::Redirect)
            }
            (Some(_), None) => {
                let name = route.upstream.given()?;
                self.find(name, shown, &known.upstream_names).map(Action::Forward)
            }
        }
    }

    fn path_match(&self, route: &RawRoute) -> PathMatch {
        let raw = route.path_match.value();
        let is_exact = |field: fn(&RawPathMatch) -> &Field<RawComparison>| {
            raw.and_then(|raw| field(raw).value()) == Some(&RawComparison::Exact)
        };
        let how = PathMatch {
            exact_case: is_exact(|raw| &raw.case),
            exact_trailing_slash: is_exact(|raw| &raw.trailing_slash),
            exact_parameters: is_exact(|raw| &raw.parameters),
            exact_escaped_slash: is_exact(|raw| &raw.escaped_slash),
        };
        let path = route.path.given();
        if let Some(path) = path.filter(|path| path.value.0.has_parameters())
            && !how.exact_parameters
        {
            let message = "the path has a parameter, and paths are compared without theirs";
            let advice = "remove it, or write path_match: { parameters: exact }";
            self.problems.error(path.span, message, advice);
        }
        how
    }

    fn route_timeouts(&self, raw: &RawRoute) -> RouteTimeouts {
        let usual = RouteTimeouts::default();
        let Some(timeouts) = raw.timeouts.value() else { return usual };
        RouteTimeouts {
            response: self.timeout(&timeouts.response, "response", usual.response),
            idle: self.timeout(&timeouts.idle, "idle", usual.idle),
            request: self.span(&timeouts.request, "request", TIMEOUT).map(Duration::from),
        }
    }
}

fn written(route: &RawRoute) -> Written {
    let path = route.path.given().map(|path| path.shown_as(&path.value.0));
    Written {
        hosts: route.hosts.items().map(|host| host.shown_as(&host.value.0)).collect(),
        path: path.unwrap_or_default(),
    }
}

/// Where a route names a policy; one of the defaults is named by none.
fn place_of(policy: &Named, route: &Spanned<RawRoute>) -> Span {
    let own = route.value.policies.items().find(|name| name.value == policy.name);
    let own = own.map(|name| name.span);
    own.or(route.value.path.given().map(|path| path.span)).unwrap_or(route.span)
}
