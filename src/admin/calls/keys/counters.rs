//! The counters of one key.

use std::iter;

use serde_json::json;
use tollgate_core::algorithm::{Algorithm, Retry, Verdict};
use tollgate_core::decision::Reading;
use tollgate_core::digest::PrincipalId;
use tollgate_core::store::{Inspection, Source};

use super::forms::{Counters, Reset, ShownKey, Unknown};
use super::holder::Holder;
use super::subject::{Held, Limit, Subject};
use crate::admin::answer::Answer;
use crate::admin::call::Call;
use crate::admin::node::{Node, View};
use crate::admin::parameter::{Parameter, Values};
use crate::admin::problem::Problem;
use crate::admin::reveal;
use crate::admin::words::{OrUnlimited, Scope, SourceWord, unit};
use crate::engine::{StoreCall, Wait};

/// The plan of the client, which is in its requests.
pub const PLAN: Parameter =
    Parameter { name: "plan", about: "the plan of the client", values: Values::Text };
/// The most counters that the store forgets in one call.
const MAX_FORGOTTEN: usize = 64;

/// What the counters of a key say.
pub async fn show(node: &Node, view: &View, call: &Call) -> Result<Answer, Problem> {
    let subject = Subject::of(node, view, call).await?.with_holder(node, view, call).await?;
    let held = subject.limit(call.parameter(PLAN.name))?;
    let whole_key = call.reveals().then(|| subject.whole_key(node)).flatten();
    let reveal = call.reveals().then(|| {
        let id = PrincipalId::from(subject.principal).to_string();
        reveal::shown(call, usize::from(whole_key.is_some()), Some(id))
    });
    let mut shown = ShownKey {
        key: subject.about(),
        whole_key,
        own: subject.is_own_unknown.then_some(Unknown::Unknown),
        api_key: subject.holder.looked_at(),
        scope: scope(node).await?,
        limit: OrUnlimited::UNLIMITED,
        counters: None,
    };
    if let Held::Limited(limit) = held {
        shown.limit = OrUnlimited::Limited(limit.algorithm.limit());
        let mut counters = counters(node, &subject, limit).await?;
        let is_patched = view.snapshot.patches.has_other_limit(call.value(0));
        if is_patched && counters.limit_from == "policy" {
            counters.limit_from = "patch".to_owned();
        }
        shown.counters = Some(counters);
    }
    Ok(Answer::json(&shown).recorded(reveal))
}

/// What the counters under this limit say, with the numbers that responses would have.
async fn counters(node: &Node, subject: &Subject, limit: Limit) -> Result<Counters, Problem> {
    let counted = limit.of_policy();
    let mut counters = vec![subject.counter(limit.counter, counted.widest())];
    counters.extend(subject.beside().filter(|it| matches!(it.algorithm, Algorithm::Ban(_))));
    let Inspection { at, source, verdicts } =
        node.ask(|reply| StoreCall::Inspect(counters, reply)).await?;
    let [verdict, ban @ ..] = &verdicts[..] else {
        return Err(Problem::unavailable("the store says nothing of this key"));
    };
    let Reading { used, remaining, .. } = Reading::of(counted, verdict, source);
    let told = Verdict { remaining, ..*verdict };
    let ban = ban.first().filter(|ban| ban.retry != Retry::Now);
    let told = ban.map_or(told, |ban| told.under_ban(ban));
    Ok(Counters {
        at: at.to_string(),
        source: if source == Source::Local { SourceWord::Local } else { SourceWord::Store },
        algorithm: limit.algorithm.name(),
        window_ms: limit.algorithm.window().as_millis_ceil(),
        unit: unit(&subject.policy),
        limit_from: limit.from,
        used,
        remaining: told.remaining,
        retry_after_ms: Wait::of(told.retry),
        reset_after_ms: told.reset_after.as_millis_ceil(),
        banned_for_ms: ban.and_then(|ban| Wait::of(ban.retry)),
    })
}

/// Forgets the counters of a key: that of its limit, that of the policy, those of limits of API keys
/// that have another window, and those beside them.
pub async fn reset(node: &Node, view: &View, call: &Call) -> Result<Answer, Problem> {
    let subject = Subject::of(node, view, call).await?.with_holder(node, view, call).await?;
    let subject = subject.knowing_all()?;
    let policy = &subject.policy;
    if matches!(policy.algorithm, Algorithm::Concurrency(_)) {
        let detail = "this policy counts requests in progress, which end by themselves; they \
                      cannot be reset";
        return Err(Problem::conflict(detail));
    }
    let mut counters = Vec::new();
    let mut before = None;
    let others = subject.of_file(view);
    match subject.limit(call.parameter(PLAN.name))? {
        Held::Limited(limit) => {
            let counted = limit.of_policy();
            counters.push(subject.counter(limit.counter, counted.widest()));
            let asked = counters.clone();
            let seen = node.ask(|reply| StoreCall::Inspect(asked, reply)).await?;
            let reading = seen.verdicts.first().map(|it| Reading::of(counted, it, seen.source));
            before = reading.map(|reading| subject.amount(reading.remaining));
        }
        // Plans count in the counter of the policy, whichever plan the client has.
        Held::OfOthers if policy.plans.is_some() || !others.is_empty() => {}
        Held::OfOthers if subject.holder == Holder::Unknown => {
            let detail = "the policy has no limit of its own; name the API key of the client with \
                          ?api_key=ID";
            return Err(Problem::conflict(detail));
        }
        Held::OfOthers | Held::Unlimited => {
            return Err(Problem::conflict("this key has no limit, so nothing is counted"));
        }
    }
    let own = subject.counter(policy.counter, &policy.algorithm);
    let of_holder = subject.of_holder()?;
    for counter in iter::once(own).chain(of_holder).chain(others).chain(subject.beside()) {
        if counters.iter().all(|it| it.key != counter.key) {
            counters.push(counter);
        }
    }
    let change = subject.change(json!({ "remaining": before }), json!("reset"));
    for part in counters.chunks(MAX_FORGOTTEN) {
        let done = node.ask(|reply| StoreCall::Reset(part.to_vec(), reply)).await?;
        // Some of them may be forgotten.
        done.map_err(|error| Problem::unavailable(error.to_string()).after(change.clone()))?;
    }
    let api_key = subject.holder.forgotten(view);
    let reset = Reset { key: subject.about(), api_key, scope: scope(node).await?, reset: true };
    Ok(Answer::changed(&reset, change))
}

/// Whether the counters are those of this node alone.
async fn scope(node: &Node) -> Result<Scope, Problem> {
    let standing = node.ask(StoreCall::Standing).await?;
    Ok(if standing.is_some() { Scope::Cluster } else { Scope::Node })
}
