//! The counters of one key, and its own limit.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tollgate_core::algorithm::{Algorithm, WindowText};
use tollgate_core::digest::{Counter, Key, Principal, PrincipalId};
use tollgate_core::policy::{Beside, LimitChoice, Plan, Policy};
use tollgate_core::store::overrides::Override;
use tollgate_core::store::{Inspected, Inspection, Source};

use super::forms::{About, Counters, NewLimit, Reset, ShownKey, ShownOverride, Unknown};
use super::principals::principal;
use crate::admin::answer::Answer;
use crate::admin::audit::Change;
use crate::admin::body::read_json;
use crate::admin::call::Call;
use crate::admin::calls::policies;
use crate::admin::node::{Node, View};
use crate::admin::problem::Problem;
use crate::admin::reveal;
use crate::admin::words::{OrUnlimited, Scope, SourceWord, unit};
use crate::engine::{StoreCall, Wait};

/// A key of a policy.
struct Subject {
    policy: Arc<Policy>,
    principal: Principal,
    /// The limit of this key alone.
    own: Option<Override>,
    /// Whether that could not be read.
    is_own_unknown: bool,
}

/// The limit that holds for a key, and where it comes from.
struct Limit {
    algorithm: Algorithm,
    counter: Counter,
    from: String,
}

/// What the counters of a key say.
pub async fn show(node: &Node, view: &View, call: &Call) -> Result<Answer, Problem> {
    let subject = Subject::of(node, view, call).await?;
    let limit = subject.limit(call.parameter("plan"))?;
    let whole_key = call.reveals().then(|| subject.whole_key(node)).flatten();
    let reveal = call.reveals().then(|| {
        let id = PrincipalId::from(subject.principal).to_string();
        reveal::shown(call, usize::from(whole_key.is_some()), Some(id))
    });
    let mut shown = ShownKey {
        key: subject.about(),
        whole_key,
        own: subject.is_own_unknown.then_some(Unknown::Unknown),
        scope: scope(node).await?,
        limit: OrUnlimited::UNLIMITED,
        counters: None,
    };
    let Some(limit) = limit else {
        return Ok(Answer::json(&shown).recorded(reveal));
    };
    let mut counters = vec![subject.counter(limit.counter, &limit.algorithm)];
    counters.extend(subject.beside().filter(|it| matches!(it.algorithm, Algorithm::Ban(_))));
    let Inspection { at, source, verdicts } =
        node.ask(|reply| StoreCall::Inspect(counters, reply)).await?;
    let [verdict, ban @ ..] = &verdicts[..] else {
        return Err(Problem::unavailable("the store says nothing of this key"));
    };
    let is_patched = view.snapshot.patches.has_other_limit(call.value(0));
    let from = if is_patched && limit.from == "policy" { "patch".to_owned() } else { limit.from };
    shown.limit = OrUnlimited::Limited(limit.algorithm.limit());
    shown.counters = Some(Counters {
        at: at.to_string(),
        source: if source == Source::Local { SourceWord::Local } else { SourceWord::Store },
        algorithm: limit.algorithm.name(),
        window_ms: limit.algorithm.window().as_millis_ceil(),
        unit: unit(&subject.policy),
        limit_from: from,
        used: limit.algorithm.capacity().saturating_sub(verdict.remaining),
        remaining: verdict.remaining,
        retry_after_ms: Wait::of(verdict.retry),
        reset_after_ms: verdict.reset_after.as_millis_ceil(),
        banned_for_ms: ban.first().and_then(|ban| Wait::of(ban.retry)),
    });
    Ok(Answer::json(&shown).recorded(reveal))
}

/// Forgets the counters of a key.
pub async fn reset(node: &Node, view: &View, call: &Call) -> Result<Answer, Problem> {
    let subject = Subject::of(node, view, call).await?.knowing_own()?;
    let Some(limit) = subject.limit(None)? else {
        return Err(Problem::conflict("this key has no limit, so nothing is counted"));
    };
    if matches!(limit.algorithm, Algorithm::Concurrency(_)) {
        let detail = "this policy counts requests in progress, which end by themselves; they \
                      cannot be reset";
        return Err(Problem::conflict(detail));
    }
    let mut counters = vec![subject.counter(limit.counter, &limit.algorithm)];
    if limit.counter != subject.policy.counter {
        counters.push(subject.counter(subject.policy.counter, &subject.policy.algorithm));
    }
    counters.extend(subject.beside());
    let before = node.ask(|reply| StoreCall::Inspect(counters.clone(), reply)).await?;
    let remaining = before.verdicts.first().map(|verdict| verdict.remaining);
    let done = node.ask(|reply| StoreCall::Reset(counters, reply)).await?;
    done.map_err(|error| Problem::unavailable(error.to_string()))?;
    let reset = Reset { key: subject.about(), scope: scope(node).await?, reset: true };
    let change = subject.change(json!({ "remaining": remaining }), json!("reset"));
    Ok(Answer::changed(&reset, change))
}

/// The limit of a key alone.
pub async fn show_override(node: &Node, view: &View, call: &Call) -> Result<Answer, Problem> {
    let subject = Subject::of_overridable(node, view, call).await?;
    Ok(Answer::json(&subject.with_limits()))
}

/// Sets the limit of a key alone.
pub async fn set_override(
    node: &Node,
    view: &View,
    call: &Call,
    body: Bytes,
) -> Result<Answer, Problem> {
    let new: NewLimit = read_json(&body)?;
    let subject = Subject::of_overridable(node, view, call).await?;
    let limit = (node.readers.limit)(&new.limit, &subject.policy).map_err(Problem::bad_request)?;
    if let Override::Limited { units, window } = limit {
        let counted = subject.policy.override_limit(units, window);
        counted.map_err(|error| {
            Problem::bad_request(format!("the policy cannot count this limit: {error}"))
        })?;
    }
    put(node, subject, Some(limit)).await
}

/// Removes the limit of a key alone.
pub async fn unset_override(node: &Node, view: &View, call: &Call) -> Result<Answer, Problem> {
    let subject = Subject::of_overridable(node, view, call).await?;
    put(node, subject, None).await
}

async fn put(
    node: &Node,
    mut subject: Subject,
    limit: Option<Override>,
) -> Result<Answer, Problem> {
    let Some(key) = subject.override_key() else {
        return Err(not_overridable(&subject.policy.name));
    };
    match node.overrides.clone() {
        Some(file) => {
            let done = spawn_blocking(move || file.put(key, limit)).await;
            done.map_err(|_| Problem::unavailable("the file of overrides cannot be written"))?
                .map_err(|error| Problem::unavailable(error.to_string()))?;
        }
        None => node
            .ask(|reply| StoreCall::PutOverride(key, limit, reply))
            .await?
            .map_err(Problem::unavailable)?,
    }
    let before = subject.own.map(|limit| limit.to_string());
    subject.own = limit;
    let change = subject.change(json!(before), json!(limit.map(|limit| limit.to_string())));
    Ok(Answer::changed(&subject.with_limits(), change))
}

impl Subject {
    /// The key of the call, as its policy counts by it.
    async fn of(node: &Node, view: &View, call: &Call) -> Result<Self, Problem> {
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

    async fn of_overridable(node: &Node, view: &View, call: &Call) -> Result<Self, Problem> {
        let named = policies::policy(view, call.value(0))?;
        if named.overrides.is_none() {
            return Err(not_overridable(&named.name));
        }
        Self::of(node, view, call).await?.knowing_own()
    }

    /// The subject, if the limit of its key alone could be read.
    fn knowing_own(self) -> Result<Self, Problem> {
        if self.is_own_unknown {
            return Err(Problem::unavailable("the limits of single keys cannot be read now"));
        }
        Ok(self)
    }

    /// The whole key, if a list or a refusal has kept it.
    fn whole_key(&self, node: &Node) -> Option<String> {
        let name = &*self.policy.name;
        let client = self.principal;
        let kept = node.top.whole_key(name, client);
        let kept = kept.or_else(|| node.refusals.whole_key(name, client));
        kept.map(|key| key.as_str().to_owned())
    }

    fn override_key(&self) -> Option<Key> {
        let kept_as = self.policy.overrides?.kept_as;
        Some(Key { principal: self.principal, counter: kept_as })
    }

    /// The limit of the key. None: it has none.
    fn limit(&self, plan: Option<&str>) -> Result<Option<Limit>, Problem> {
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

    fn counter(&self, counter: Counter, algorithm: &Algorithm) -> Inspected {
        let key = Key { principal: self.principal, counter };
        Inspected { key, algorithm: algorithm.clone() }
    }

    /// The counters beside the one of the limit: the ban, the refusals that lead to it, and
    /// what was admitted beyond the limit.
    fn beside(&self) -> impl Iterator<Item = Inspected> {
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

    fn about(&self) -> About {
        let key_id = PrincipalId::from(self.principal).to_string();
        About { policy: self.policy.name.to_string(), key_id }
    }

    /// A limit of this key alone, as it can be set.
    fn written(&self, limit: Override) -> String {
        match (limit, self.policy.unit().denomination()) {
            (Override::Limited { units, window }, Some(money)) => {
                let window = window.map(|window| format!("/{}", WindowText(window)));
                format!("{}{}", money.shown(units), window.unwrap_or_default())
            }
            (limit, _) => limit.to_string(),
        }
    }

    fn with_limits(&self) -> ShownOverride {
        let misfit = match self.own {
            Some(Override::Limited { units, window }) => {
                self.policy.override_limit(units, window).err()
            }
            _ => None,
        };
        ShownOverride {
            key: self.about(),
            own: self.own.map(|limit| self.written(limit)),
            policy_limit: policies::limit(&self.policy),
            ignored_because: misfit.map(|error| format!("the policy cannot count it: {error}")),
        }
    }

    fn change(&self, before: Value, after: Value) -> Change {
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

/// Whether the counters are those of this node alone.
async fn scope(node: &Node) -> Result<Scope, Problem> {
    let standing = node.ask(StoreCall::Standing).await?;
    Ok(if standing.is_some() { Scope::Cluster } else { Scope::Node })
}

fn not_overridable(policy: &str) -> Problem {
    Problem::conflict(format!(
        "the policy {policy:?} has no overrides; write overrides: true under it and start the \
         gateways again"
    ))
}
