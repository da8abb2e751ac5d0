//! The choice of a client's limit: its plan's, or the policy's own.

use super::fields::Lack;
use super::value::Single;
use super::{KeyExpr, Limit, Plan, Plans, Policy, Subject};
use crate::digest::Counter;

/// The choice among a policy's limits for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitChoice {
    /// The policy's own.
    Own,
    /// That of the plan with this index.
    Plan(usize),
    /// The client has no limit.
    Unlimited,
}

/// A plan by its name: a digest, which is the same on all nodes and whatever other plans there
/// are. An index is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanId(u64);

impl PlanId {
    /// The plan with this name.
    pub fn of(name: &str) -> Self {
        Self(Counter::of(|digest| digest.value(name.as_bytes())).bits())
    }

    /// From its number.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its number.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl Plans {
    /// The plan that a choice means.
    pub fn chosen(&self, choice: LimitChoice) -> Option<PlanId> {
        let LimitChoice::Plan(index) = choice else { return None };
        self.limits.get(index).map(|(name, _)| PlanId::of(name))
    }

    /// The choice of a plan. [`Own`](LimitChoice::Own) if there is no such plan.
    pub fn choice(&self, plan: PlanId) -> LimitChoice {
        let index = self.limits.iter().position(|(name, _)| PlanId::of(name) == plan);
        index.map_or(LimitChoice::Own, LimitChoice::Plan)
    }
}

impl Policy {
    /// The limit that is chosen for a client: the policy's own if the client has no plan.
    pub fn limit(&self, choice: LimitChoice) -> Limit<'_> {
        if let (LimitChoice::Plan(index), Some(plans)) = (choice, &self.plans) {
            if let Some((_, Plan::Limited { algorithm, soft })) = plans.limits.get(index) {
                return Limit { algorithm, soft: soft.as_ref() };
            }
        }
        Limit { algorithm: &self.algorithm, soft: self.soft.as_ref() }
    }
}

impl Subject<'_, '_> {
    /// The limit of `policy` that holds for this client.
    pub fn limit(&self, policy: &Policy) -> LimitChoice {
        match policy.plans.as_ref().and_then(|plans| self.plan(plans)) {
            None if policy.is_unlimited => LimitChoice::Unlimited,
            None => LimitChoice::Own,
            Some((_, Plan::Unlimited)) => LimitChoice::Unlimited,
            Some((index, Plan::Limited { .. })) => LimitChoice::Plan(index),
        }
    }

    /// The name of the client's plan, if `policy` has a limit for it, or none by it.
    pub fn plan_in<'p>(&self, policy: &'p Policy) -> Option<&'p str> {
        let plans = policy.plans.as_ref()?;
        let (index, _) = self.plan(plans)?;
        plans.limits.get(index).map(|(name, _)| &**name)
    }

    fn plan<'p>(&self, plans: &'p Plans) -> Option<(usize, &'p Plan)> {
        let named = self.plan_name(&plans.from).ok()?;
        let mut limits = plans.limits.iter().enumerate();
        limits.find(|(_, (name, _))| named.is(name)).map(|(index, (_, plan))| (index, plan))
    }

    /// Whether backends may read different plans, and so different limits.
    pub(super) fn is_plan_ambiguous(&self, policy: &Policy) -> bool {
        let plans = policy.plans.as_ref();
        plans.is_some_and(|it| matches!(self.plan_name(&it.from), Err(Lack::Ambiguous)))
    }

    /// The value that names the plan. If there are trusted proxies, only their fields
    /// count. Otherwise a client that connects directly to the gateway could choose its own
    /// limit.
    fn plan_name<'a>(&'a self, from: &'a KeyExpr) -> Result<Single<'a>, Lack> {
        let is_exposed =
            !self.clients.settings.trusted_proxies.is_empty() && !self.is_from_trusted_peer();
        match from.unfolded() {
            KeyExpr::First(keys) => self.first(keys, |key| self.plan_name(key)),
            KeyExpr::Header(_) | KeyExpr::Cookie(_) | KeyExpr::Query(_) if is_exposed => {
                Err(Lack::Absent)
            }
            _ => self.single(from),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::algorithm::Algorithm;
    use crate::policy::KeyFor;
    use crate::policy::tests::{Case, bearer, policy, users_by_token, with};
    use crate::policy::value::Tag;

    /// The limits for `case`, own and soft, if any holds.
    fn limits(case: &Case, from: &str) -> Option<(u64, Option<u64>)> {
        let plain = policy("ip");
        let of = |limit| plain.algorithm.with_limit(limit).unwrap();
        let pro = Plan::Limited { algorithm: of(1000), soft: Some(of(1100)) };
        let limits = vec![("pro".into(), pro), ("internal".into(), Plan::Unlimited)];
        let plans = Some(Plans { from: from.parse().unwrap(), limits });
        let policy = Policy { plans, soft: Some(of(105)), ..plain };
        case.ask(&policy, |subject| {
            let choice = subject.limit(&policy);
            let limit = policy.limit(choice);
            assert_eq!(limit.widest(), limit.soft.unwrap_or(limit.algorithm));
            let has_limit = choice != LimitChoice::Unlimited;
            has_limit.then_some((limit.algorithm.limit(), limit.soft.map(Algorithm::limit)))
        })
    }

    #[test]
    fn the_plans_limit_holds_and_otherwise_the_policys_own() {
        let limits = |plan| {
            let mut case = with(&[("x-plan", plan)]);
            case.client.trusted_proxies.clear();
            limits(&case, "header:x-plan")
        };
        assert_eq!(limits("pro"), Some((1000, Some(1100))));
        assert_eq!(limits("internal"), None);
        for other in ["", "Pro", "free"] {
            assert_eq!(limits(other), Some((100, Some(105))), "{other}");
        }
    }

    #[test]
    fn an_unlimited_policy_limits_only_clients_with_a_plan() {
        let key = "header:x-key".parse().unwrap();
        let unlimited = Policy::unlimited("p", key);
        assert!(
            with(&[])
                .ask(&unlimited, |subject| subject.limit(&unlimited) == LimitChoice::Unlimited)
        );
        let algorithm = policy("ip").algorithm;
        let limits = vec![("free".into(), Plan::Limited { algorithm, soft: None })];
        let plans = Some(Plans { from: "header:x-plan".parse().unwrap(), limits });
        let policy = Policy { plans, ..unlimited };
        let limit = |plan| {
            let mut case = with(&[("x-plan", plan)]);
            case.client.trusted_proxies.clear();
            case.ask(&policy, |subject| subject.limit(&policy))
        };
        assert_eq!([limit("free"), limit("other")], [LimitChoice::Plan(0), LimitChoice::Unlimited]);
        assert_eq!(policy.limit(LimitChoice::Plan(0)).algorithm.limit(), 100);
    }

    #[test]
    fn if_proxies_are_trusted_only_they_may_name_a_plan_in_a_field() {
        let limits = |proxies: &str| {
            let mut case = with(&[("x-plan", "pro")]);
            case.client.trusted_proxies = vec![proxies.parse().unwrap()];
            limits(&case, "header:x-plan")
        };
        assert_eq!(limits("0.0.0.0/0"), Some((1000, Some(1100))));
        assert_eq!(limits("233.252.0.0/24"), Some((100, Some(105))));
    }

    #[test]
    fn a_request_with_two_plans_is_ambiguous() {
        let mut case = with(&[("x-plan", "free"), ("x-plan", "internal")]);
        case.client.trusted_proxies.clear();
        assert_eq!(limits(&case, "header:x-plan"), Some((100, Some(105))));
        let plans = Some(Plans { from: "header:x-plan".parse().unwrap(), limits: vec![] });
        assert_eq!(case.key(&Policy { plans, ..policy("ip") }), KeyFor::Ambiguous);
    }

    #[test]
    fn a_plan_may_have_a_space_in_its_name() {
        let single = Single::named(Tag::Query, "plan", &b"very+free"[..]);
        assert!(single.is("very free") && !single.is("very-free"));
        assert!(!Single::named(Tag::Header, "plan", &b"very+free"[..]).is("very free"));
    }

    #[test]
    fn a_claim_that_names_only_a_plan_counts_only_if_signed() {
        let secret = [5; 32];
        let limits = |signed_with: &[u8]| {
            let token = bearer(signed_with, &json!({ "sub": "ann", "org": { "plan": "pro" } }));
            let mut case = with(&[("authorization", &token)]);
            case.client.user = Some(users_by_token(&secret));
            limits(&case, "jwt:org.plan")
        };
        assert_eq!(limits(&secret), Some((1000, Some(1100))));
        assert_eq!(limits(&[6; 32]), Some((100, Some(105))));
    }

    #[test]
    fn every_plan_of_a_client_has_the_same_counter() {
        let plain = policy("ip");
        let pro = Plan::Limited { algorithm: plain.algorithm.clone(), soft: None };
        let plans =
            Plans { from: "header:x-plan".parse().unwrap(), limits: vec![("pro".into(), pro)] };
        let policy = Policy { plans: Some(plans), ..plain };
        assert_eq!(with(&[("x-plan", "pro")]).key(&policy), with(&[]).key(&policy));
    }
}
