//! A key of a policy, and the limit that holds for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::digest::{Counter, Key, Principal, PrincipalId};
use tollgate_core::policy::{
    Beside, KeyExpr, Limit as PolicyLimit, LimitChoice, LimitOwner, OverrideLimit, Plan, Policy,
    UnfitLimit,
};
use tollgate_core::store::Inspected;
use tollgate_core::store::overrides::Override;

use super::forms::About;
use super::holder::{Holder, of_file};
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
    /// The API key or the team of its requests, if it was looked up.
    pub holder: Holder,
}

/// The limit that holds for a client, and where it comes from.
pub struct Limit {
    /// The limit that responses name.
    pub algorithm: Algorithm,
    /// The limit that decides, if it is a soft one.
    soft: Option<Algorithm>,
    pub counter: Counter,
    pub from: String,
}

/// Which limit a client has.
pub enum Held {
    Limited(Limit),
    /// It has none.
    Unlimited,
    /// The policy limits only clients with a plan, or with a limit of their own.
    OfOthers,
}

impl Limit {
    /// The limit and the soft limit.
    pub const fn of_policy(&self) -> PolicyLimit<'_> {
        PolicyLimit { algorithm: &self.algorithm, soft: self.soft.as_ref() }
    }
}

impl Held {
    /// The limit that holds instead of the policy's.
    fn by(made: OverrideLimit) -> Self {
        let OverrideLimit { algorithm, soft, counter, owner } = made;
        let from = match owner {
            LimitOwner::Override => "override",
            LimitOwner::Key => "key",
            LimitOwner::Team => "team",
        };
        Self::Limited(Limit { algorithm, soft, counter, from: from.to_owned() })
    }
}

impl Subject {
    /// The key of the call, as its policy counts by it.
    pub async fn of(node: &Node, view: &View, call: &Call) -> Result<Self, Problem> {
        let policy = policies::policy(view, call.value(0))?;
        let principal = principal(node, view, &policy, call.value(1)).await?;
        let holder = Holder::Absent;
        let mut subject = Self { policy, principal, own: None, is_own_unknown: false, holder };
        if let Some(key) = subject.override_key() {
            match stored_override(node, key).await {
                Ok(own) => subject.own = own,
                Err(_) => subject.is_own_unknown = true,
            }
        }
        Ok(subject)
    }

    /// The same with the API key or the team of its requests, whose limit may hold.
    pub async fn with_holder(self, node: &Node, view: &View, call: &Call) -> Result<Self, Problem> {
        let holder = Holder::of(node, view, call, &self.policy, self.principal).await?;
        Ok(Self { holder, ..self })
    }

    /// The subject, if the limit of its key alone could be read.
    pub fn knowing_own(self) -> Result<Self, Problem> {
        if self.is_own_unknown {
            return Err(Problem::unavailable("the limits of single keys cannot be read now"));
        }
        Ok(self)
    }

    /// The subject, if all that its limit depends on could be read.
    pub fn knowing_all(self) -> Result<Self, Problem> {
        if self.holder == Holder::Unreadable {
            return Err(Problem::unavailable("the API key of the client cannot be read now"));
        }
        self.knowing_own()
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

    /// The limit of the client, whose plan this is.
    ///
    /// # Errors
    /// If there is no such plan, or requests of the client are refused because its limit cannot be
    /// counted.
    pub fn limit(&self, plan: Option<&str>) -> Result<Held, Problem> {
        let of_holder = self.limit_of_holder()?;
        match self.own {
            Some(Override::Unlimited) => return Ok(Held::Unlimited),
            Some(Override::Limited { units, window }) => {
                // One that the policy cannot count is not in force.
                if let Ok(limit) = self.policy.override_limit(units, window) {
                    return Ok(Held::by(limit));
                }
            }
            None => {}
        }
        match of_holder {
            Some(held) => Ok(held),
            None => self.limit_of_policy(plan),
        }
    }

    /// The counter under the limit of the API key or the team, whichever limit is in force.
    ///
    /// # Errors
    /// If the limit cannot be counted.
    pub fn of_holder(&self) -> Result<Option<Inspected>, Problem> {
        Ok(match self.limit_of_holder()? {
            Some(Held::Limited(limit)) => {
                Some(self.counter(limit.counter, limit.of_policy().widest()))
            }
            _ => None,
        })
    }

    /// The limit of the API key or the team. None: it has none that is in force.
    fn limit_of_holder(&self) -> Result<Option<Held>, Problem> {
        let Some((limit, owner)) = self.holder.limit(&self.policy) else { return Ok(None) };
        match self.policy.key_limit(limit) {
            Ok(None) => Ok(Some(Held::Unlimited)),
            Ok(Some(made)) => Ok(Some(Held::by(OverrideLimit { owner, ..made }))),
            Err(UnfitLimit::Ignored(_)) => Ok(None),
            Err(UnfitLimit::Refused(error)) => Err(Problem::conflict(format!(
                "requests with this API key are refused, because its limit cannot be counted: \
                 {error}"
            ))),
        }
    }

    /// The limit of this plan, or the policy's own.
    fn limit_of_policy(&self, plan: Option<&str>) -> Result<Held, Problem> {
        let policy = &self.policy;
        let own = |choice, from| {
            let PolicyLimit { algorithm, soft } = policy.limit(choice);
            let algorithm = algorithm.clone();
            Held::Limited(Limit { algorithm, soft: soft.cloned(), counter: policy.counter, from })
        };
        let without_plan = || match policy.is_unlimited {
            true => Held::OfOthers,
            false => own(LimitChoice::Own, "policy".to_owned()),
        };
        let Some(name) = plan.or_else(|| self.plan_of_key()) else { return Ok(without_plan()) };
        let plans = policy.plans.iter().flat_map(|plans| plans.limits.iter().enumerate());
        match plans.clone().find(|(_, (it, _))| **it == *name) {
            Some((_, (_, Plan::Unlimited))) => Ok(Held::Unlimited),
            Some((index, _)) => Ok(own(LimitChoice::Plan(index), format!("plan {name}"))),
            // The policy has limits for some plans only.
            None if plan.is_none() => Ok(without_plan()),
            None => Err(Problem::bad_request(format!("the policy has no plan {name:?}"))),
        }
    }

    /// The plan that the API key names, if the policy finds plans by it.
    fn plan_of_key(&self) -> Option<&str> {
        match (&self.policy.plans.as_ref()?.from, &self.holder) {
            (KeyExpr::ApiKeyPart(part), Holder::Key(entry)) => entry.part(part),
            _ => None,
        }
    }

    /// The counters of the client under the limits of the API keys of the file.
    pub fn of_file(&self, view: &View) -> Vec<Inspected> {
        let limits = of_file(view, &self.policy);
        let counters = limits.map(|limit| (limit.counter, limit.algorithm));
        let counters: BTreeMap<Counter, Algorithm> = counters.collect();
        let others = counters.iter().filter(|(counter, _)| **counter != self.policy.counter);
        others.map(|(counter, algorithm)| self.counter(*counter, algorithm)).collect()
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
