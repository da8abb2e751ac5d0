//! The policies and upstreams that a route names, and whether they go with the route.

use std::sync::Arc;

use tollgate_core::policy::{AuthMethod, Elastic, KeyExpr};
use tollgate_core::request::PathPattern;

use super::context::Context;
use super::names::{Names, Referrer};
use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::sections::access::ListReferences;
use crate::config::sections::authorizers::routes::Authorizers;
use crate::config::sections::client::RawClient;
use crate::config::sections::policies::{Named, RawPolicy};
use crate::config::sections::upstreams::{RawUpstream, Upstream};
use crate::message::{CompressSettings, Cors};

/// The policies of a route are judged in one decision, which must stay small.
const MAX_POLICIES: usize = 16;

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
    /// How clients are identified.
    pub client: &'a RawClient,
    /// Which responses of every route are compressed that does not say it.
    pub compress: Option<Arc<CompressSettings>>,
    /// The policies of every route that does not refuse them, as indices.
    defaults: Vec<usize>,
    /// The access lists that routes can name.
    pub access: ListReferences<'a>,
    /// The credentials for routes that do not name any.
    pub auth: Box<[AuthMethod]>,
    /// What `defaults` answers to scripts of other origins.
    pub default_cors: Option<Arc<Cors>>,
    /// The authorizers that routes can name.
    pub authorizers: Authorizers<'a>,
}

impl<'a> References<'a> {
    pub fn new(
        raw_policies: &'a Field<Entries<RawPolicy>>,
        policies: &'a [Named],
        upstreams: &'a Field<Entries<RawUpstream>>,
        compiled_upstreams: &'a [Upstream],
        client: &'a RawClient,
        access: ListReferences<'a>,
        authorizers: Authorizers<'a>,
    ) -> Self {
        Self {
            policy_names: Names::of_policies(raw_policies),
            policies,
            upstream_names: Names::of_upstreams(upstreams),
            upstreams,
            compiled_upstreams,
            client,
            compress: None,
            defaults: Vec::new(),
            access,
            auth: Box::default(),
            default_cors: None,
            authorizers,
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

    /// Whether one of these upstreams refuses requests while it has no room.
    pub fn has_bounded(&self, mut upstreams: impl Iterator<Item = usize>) -> bool {
        let entries = self.upstreams.entries();
        let of = |index: usize| entries.get(index)?.1.value();
        upstreams.any(|index| of(index).is_some_and(RawUpstream::is_bounded))
    }

    /// Reports elastic policies if an upstream of the route cannot say whether it has capacity.
    pub fn check_elastic(
        &self,
        route: &Referrer<'_>,
        upstreams: &[usize],
        policies: &[&Named],
        cx: &Context<'_>,
    ) {
        let entries = self.upstreams.entries();
        for policy in policies {
            let compiled = policy.compiled.as_ref();
            let Some(elastic) = compiled.and_then(|compiled| compiled.elastic.as_ref()) else {
                continue;
            };
            if upstreams.is_empty() {
                check_capacity(policy, elastic, route, None, cx);
            }
            for upstream in upstreams.iter().filter_map(|index| entries.get(*index)) {
                check_capacity(policy, elastic, route, Some(upstream), cx);
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
            cx.error(route.span_of(&policy.name), &message, advice);
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
    let span = route.span_of(&policy.name);
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
