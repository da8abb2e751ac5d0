//! The counters of one key.

use serde_json::json;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::digest::PrincipalId;
use tollgate_core::store::{Inspection, Source};

use super::forms::{Counters, Reset, ShownKey, Unknown};
use super::subject::Subject;
use crate::admin::answer::Answer;
use crate::admin::call::Call;
use crate::admin::node::{Node, View};
use crate::admin::problem::Problem;
use crate::admin::reveal;
use crate::admin::words::{OrUnlimited, Scope, SourceWord, unit};
use crate::engine::{StoreCall, Wait};

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
    let remaining = before.verdicts.first().map(|verdict| subject.amount(verdict.remaining));
    let done = node.ask(|reply| StoreCall::Reset(counters, reply)).await?;
    done.map_err(|error| Problem::unavailable(error.to_string()))?;
    let reset = Reset { key: subject.about(), scope: scope(node).await?, reset: true };
    let change = subject.change(json!({ "remaining": remaining }), json!("reset"));
    Ok(Answer::changed(&reset, change))
}

/// Whether the counters are those of this node alone.
async fn scope(node: &Node) -> Result<Scope, Problem> {
    let standing = node.ask(StoreCall::Standing).await?;
    Ok(if standing.is_some() { Scope::Cluster } else { Scope::Node })
}
