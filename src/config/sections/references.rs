//! The policies and upstreams that a route names, and whether they go with the route.

use std::collections::HashMap;

use tollgate_core::policy::{Elastic, KeyExpr};
use tollgate_core::request::PathPattern;

use super::context::Context;
use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::sections::policies::{Named, RawPolicy};
use crate::config::sections::upstreams::{RawUpstream, Upstream};
use crate::config::suggest;

/// The policies of a route are judged in one decision, which must stay small.
const MAX_POLICIES: usize = 16;

/// The names that a section defines, and the index of each in the section.
struct Names<'a> {
    kind: &'static str,
    /// The beginning of a list of all names, in messages.
    listed: &'static str,
    known: Vec<&'a str>,
    index: HashMap<&'a str, usize>,
    /// The section is broken, so its names are not known.
    is_broken: bool,
}

impl<'a> Names<'a> {
    /// The names under `policies`.
    fn of_policies<T>(section: &'a Field<Entries<T>>) -> Self {
        Self::of("policy", "the policies are", section)
    }

    /// The names under `upstreams`.
    fn of_upstreams<T>(section: &'a Field<Entries<T>>) -> Self {
        Self::of("upstream", "the upstreams are", section)
    }

    fn of<T>(kind: &'static str, listed: &'static str, section: &'a Field<Entries<T>>) -> Self {
        let known: Vec<&str> =
            section.entries().iter().map(|(name, _)| name.value.as_str()).collect();
        let index = known.iter().enumerate().map(|(index, name)| (*name, index)).collect();
        Self { kind, listed, known, index, is_broken: section.is_broken() }
    }

    /// The index of the entry that `owner` names. There is an error if it does not exist.
    fn find(&self, name: &Spanned<String>, owner: &str, cx: &Context<'_>) -> Option<usize> {
        let index = self.index.get(name.value.as_str());
        if index.is_none() && !self.is_broken {
            let (kind, shown) = (self.kind, name.shown());
            let message = format!("{owner} names the {kind} \"{shown}\", which does not exist");
            let known = self.known.iter().copied();
            let advice = suggest::advice(shown, known, self.listed, cx.problems);
            cx.error(name.span, &message, &advice);
        }
        index.copied()
    }
}

/// The policies and upstreams that routes can name.
pub struct References<'a> {
    policy_names: Names<'a>,
    /// In the order of their names.
    policies: &'a [Named],
    upstream_names: Names<'a>,
    /// In the order of their names.
    upstreams: &'a Field<Entries<RawUpstream>>,
    /// In the same order.
    compiled_upstreams: &'a [Upstream],
    /// The policies of every route that does not refuse them, as indices.
    defaults: Vec<usize>,
}

/// A route, as far as its references are checked.
pub struct Referrer<'a> {
    /// The name of the route in messages.
    pub shown: &'a str,
    pub span: TextSpan,
    pub path_span: Option<TextSpan>,
    pub policies: &'a List<String>,
}

impl Referrer<'_> {
    /// Where the route names a policy. The route does not name a default, so then it is the path.
    fn span_of(&self, policy: &Named) -> TextSpan {
        let own = self.policies.items().find(|name| name.value == policy.name);
        own.map(|name| name.span).or(self.path_span).unwrap_or(self.span)
    }
}

impl<'a> References<'a> {
    pub fn new(
        raw_policies: &'a Field<Entries<RawPolicy>>,
        policies: &'a [Named],
        upstreams: &'a Field<Entries<RawUpstream>>,
        compiled_upstreams: &'a [Upstream],
    ) -> Self {
        Self {
            policy_names: Names::of_policies(raw_policies),
            policies,
            upstream_names: Names::of_upstreams(upstreams),
            upstreams,
            compiled_upstreams,
            defaults: Vec::new(),
        }
    }

    /// Sets the policies of `defaults`.
    pub fn set_defaults(&mut self, names: &List<String>, cx: &Context<'_>) {
        self.defaults = self.indices(names, "\"defaults\"", cx);
    }

    /// The index of the upstream that the route names.
    pub fn upstream(&self, name: &Spanned<String>, shown: &str, cx: &Context<'_>) -> Option<usize> {
        self.upstream_names.find(name, shown, cx)
    }

    /// The policy that judges what `owner` stands for.
    pub fn judge(
        &self,
        name: &Spanned<String>,
        owner: &str,
        cx: &Context<'_>,
    ) -> Option<&'a Named> {
        Some(&self.policies[self.policy_names.find(name, owner, cx)?])
    }

    /// The policies of the route, then the defaults that it does not name itself.
    pub fn policies(
        &self,
        route: &Referrer<'_>,
        with_defaults: bool,
        cx: &Context<'_>,
    ) -> Vec<&'a Named> {
        let shown = route.shown;
        let mut policies = self.indices(route.policies, shown, cx);
        for default in self.defaults.iter().filter(|_| with_defaults) {
            if !policies.contains(default) {
                policies.push(*default);
            }
        }
        if policies.len() > MAX_POLICIES {
            let span = route.policies.span().unwrap_or(route.span);
            let message = format!("{shown} has more than {MAX_POLICIES} policies");
            let advice = "one decision covers all of them: remove some";
            cx.error(span, &message, advice);
        }
        policies.into_iter().map(|index| &self.policies[index]).collect()
    }

    fn indices(&self, list: &List<String>, owner: &str, cx: &Context<'_>) -> Vec<usize> {
        let mut indices = Vec::new();
        for name in list.items() {
            // One too many is enough to refuse the route.
            if indices.len() > MAX_POLICIES {
                break;
            }
            match self.policy_names.find(name, owner, cx) {
                Some(index) if indices.contains(&index) => {
                    let message = format!("{owner} names the policy \"{}\" twice", name.shown());
                    cx.error(name.span, &message, "remove one of them");
                }
                found => indices.extend(found),
            }
        }
        indices
    }

    /// The key by which the upstream of a route chooses the endpoint, if it does.
    pub fn affinity(
        &self,
        upstream: Option<usize>,
        path: &PathPattern,
        shown: &str,
        cx: &Context<'_>,
    ) -> Option<KeyExpr> {
        let (name, raw) = self.upstreams.entries().get(upstream?)?;
        for param in raw.value().map(RawUpstream::affinity_params).unwrap_or_default() {
            // Without the parameter, no request of the route would have the key.
            if param.is_in(path) {
                continue;
            }
            let message = format!(
                "the upstream \"{}\" hashes \"{}\", which the path of {shown} does not have",
                name.value, param.shown
            );
            let advice = "put the parameter into the path, or hash another key";
            cx.error(name.span, &message, advice);
        }
        self.compiled_upstreams.get(upstream?)?.affinity.clone()
    }

    /// Reports elastic policies if the upstream of the route cannot say whether it has capacity.
    pub fn check_elastic(
        &self,
        route: &Referrer<'_>,
        upstream: Option<usize>,
        policies: &[&Named],
        cx: &Context<'_>,
    ) {
        let upstream = upstream.and_then(|index| self.upstreams.entries().get(index));
        for policy in policies {
            let compiled = policy.compiled.as_ref();
            if let Some(elastic) = compiled.and_then(|compiled| compiled.elastic.as_ref()) {
                check_capacity(policy, elastic, route, upstream, cx);
            }
        }
    }
}

/// If the path does not have a parameter that a key needs, every request would lack the key.
pub fn check_params(
    route: &Referrer<'_>,
    path: &PathPattern,
    policies: &[&Named],
    cx: &Context<'_>,
) {
    for policy in policies {
        for param in policy.params.iter().filter(|param| !param.is_in(path)) {
            let message = format!(
                "the policy \"{}\" needs \"{}\", which the path of {} does not have",
                policy.name, param.shown, route.shown
            );
            let advice = "put the parameter into the path, or use another policy";
            cx.error(route.span_of(policy), &message, advice);
        }
    }
}

fn check_capacity(
    policy: &Named,
    elastic: &Elastic,
    route: &Referrer<'_>,
    upstream: Option<&(Spanned<String>, Field<RawUpstream>)>,
    cx: &Context<'_>,
) {
    let span = route.span_of(policy);
    let Some((name, upstream)) = upstream else {
        let message = format!(
            "the policy \"{}\" is elastic, but {} has no upstream",
            policy.name, route.shown
        );
        let advice = "give it an upstream, or use another policy";
        cx.error(span, &message, advice);
        return;
    };
    let is_unbounded = upstream.value().is_some_and(|raw| !raw.limits_in_flight());
    if elastic.in_flight_below_percent.is_some() && is_unbounded {
        let message = format!(
            "the policy \"{}\" asks for a share of \"max_in_flight\", which the upstream \
             \"{}\" does not have",
            policy.name, name.value
        );
        let advice = "write it under the upstream, or leave out upstream_in_flight_below";
        cx.error(span, &message, advice);
    }
}
