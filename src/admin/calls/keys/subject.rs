//! A key of a policy, and the limit that holds for it.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::digest::{Counter, Key, Principal, PrincipalId};
use tollgate_core::policy::{Beside, LimitChoice, Plan, Policy};
use tollgate_core::store::Inspected;
use tollgate_core::store::overrides::Override;

use super::forms::About;
use super::principals::principal;
use crate::admin::audit::Change;
use crate::admin::call::Call;
use crate::admin::calls::policies;
use crate::admin::node::{Node, View};
use crate::admin::problem::Problem;
use crate::engine::StoreCall;

/// A key of a policy.
pub struct Subject {
    pub policy: Arc<Policy>,
    pub principal: Principal,
    /// The limit of this key alone.
    pub own: Option<Override>,
    /// Whether that could not be read.
    pub is_own_unknown: bool,
}

/// The limit that holds for a key, and where it comes from.
pub struct Limit {
    pub algorithm: Algorithm,
    pub counter: Counter,
    pub from: String,
}

impl Subject {
    /// The key of the call, as its policy counts by it.
    pub async fn of(node: &Node, view: &View, call: &Call) -> Result<Self, Problem> {
        let policy = policies::policy(view, call.value(0))?;
        let principal = principal(node, view, &policy, call.value(1)).await?;
        let mut subject = Self { policy, principal, own: None, is_own_unknown: false };
        if let Some(key) = subject.override_key() {
            match stored_override(node, key).await {
                Ok(own) => subject.own = own,
                Err(_) => subject.is_own_unknown = true,
            }
        }
        Ok(subject)
    }

    /// The subject, if the limit of its key alone could be read.
    pub fn knowing_own(self) -> Result<Self, Problem> {
        if self.is_own_unknown {
            return Err(Problem::unavailable("the limits of single keys cannot be read now"));
        }
        Ok(self)
    }

    /// The whole key, if a list or a refusal has kept it.
    pub fn whole_key(&self, node: &Node) -> Option<String> {
        let name = &*self.policy.name;
        let client = self.principal;
        let kept = node.top.whole_key(name, client);
        let kept = kept.or_else(|| node.refusals.whole_key(name, client));
        kept.map(|key| key.as_str().to_owned())
    }

    pub fn override_key(&self) -> Option<Key> {
        let kept_as = self.policy.overrides?.kept_as;
        Some(Key { principal: self.principal, counter: kept_as })
    }

    /// The limit of the key. None: it has none.
    pub fn limit(&self, plan: Option<&str>) -> Result<Option<Limit>, Problem> {
        let policy = &self.policy;
        let own = |algorithm: &Algorithm, from: String| {
            Some(Limit { algorithm: algorithm.clone(), counter: policy.counter, from })
        };
        match self.own {
            Some(Override::Unlimited) => return Ok(None),
            Some(Override::Limited { units, window }) => {
                // One that the policy cannot count is not in force.
                if let Ok(limit) = policy.override_limit(units, window) {
                    let algorithm = limit.algorithm;
                    let counter = limit.counter;
                    return Ok(Some(Limit { algorithm, counter, from: "override".to_owned() }));
                }
            }
            None => {}
        }
        let Some(name) = plan else {
            let own = own(&policy.algorithm, "policy".to_owned());
            return Ok(own.filter(|_| !policy.is_unlimited));
        };
        let plans = policy.plans.iter().flat_map(|plans| plans.limits.iter().enumerate());
        match plans.clone().find(|(_, (it, _))| **it == *name) {
            Some((_, (_, Plan::Unlimited))) => Ok(None),
            Some((index, _)) => {
                let limit = policy.limit(LimitChoice::Plan(index));
                Ok(own(limit.algorithm, format!("plan {name}")))
            }
            None => Err(Problem::bad_request(format!("the policy has no plan {name:?}"))),
        }
    }

    /// This many units as an operator reads them: of money, the amount.
    pub fn amount(&self, units: u64) -> Value {
        match self.policy.unit().denomination() {
            Some(money) => json!(money.shown(units).to_string()),
            None => json!(units),
        }
    }

    pub fn counter(&self, counter: Counter, algorithm: &Algorithm) -> Inspected {
        let key = Key { principal: self.principal, counter };
        Inspected { key, algorithm: algorithm.clone() }
    }

    /// The counters beside the one of the limit: the ban, the refusals that lead to it, and
    /// what was admitted beyond the limit.
    pub fn beside(&self) -> impl Iterator<Item = Inspected> {
        let own = Key { principal: self.principal, counter: self.policy.counter };
        let beside = move |beside: Beside, algorithm: &Algorithm| Inspected {
            key: beside.key(own, algorithm),
            algorithm: algorithm.clone(),
        };
        let penalty = self.policy.penalty.iter().flat_map(move |it| {
            [beside(Beside::Ban, &it.ban), beside(Beside::Refusals, &it.after)]
        });
        let elastic = self.policy.elastic.iter();
        penalty.chain(elastic.map(move |it| beside(Beside::Beyond, &it.beyond)))
    }

    pub fn about(&self) -> About {
        let key_id = PrincipalId::from(self.principal).to_string();
        About { policy: self.policy.name.to_string(), key_id }
    }

    pub fn change(&self, before: Value, after: Value) -> Change {
        Change {
            policy: Some(self.policy.name.to_string()),
            list: None,
            key_id: Some(PrincipalId::from(self.principal).to_string()),
            before,
            after,
        }
    }
}

async fn stored_override(node: &Node, key: Key) -> Result<Option<Override>, Problem> {
    match node.overrides.clone() {
        Some(file) => {
            let read = spawn_blocking(move || file.get(key)).await;
            read.map_err(|_| Problem::unavailable("the file of overrides cannot be read"))?
                .map_err(|error| Problem::unavailable(error.to_string()))
        }
        None => {
            let answer = node.ask(|reply| StoreCall::GetOverride(key, reply)).await?;
            answer.map_err(Problem::unavailable)
        }
    }
}
