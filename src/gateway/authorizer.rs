//! Asks authorizers whether requests may pass, over connections like those to upstreams.
//!
//! Every question ends within the time of its authorizer, and the answer has a bound. With a
//! cache, an answer is used for equal questions, and equal questions that are asked at the same
//! time share one answer, unless it is for one client. Each worker has its own answers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, WeakShared};
use tokio::time::timeout;
use tollgate_core::digest::Secret;
use tollgate_core::time::monotonic;
use tracing::warn;

use super::asking::{Answer, NoAnswer, ask};
use crate::message::{
    Answered, AuthorizerQuestion as Question, AuthorizerSettings, KeptAnswers, MAX_KEPT_BYTES,
    QuestionKey, Reuse,
};
use crate::proxy::{Proxy, UpstreamShared};
use crate::snapshot::Snapshot;
use crate::telemetry::{AuthorizerMetrics, Warnings, WorkerMetrics};

/// An authorizer as one worker sees it.
#[derive(Debug)]
pub struct Authorizer {
    settings: Arc<AuthorizerSettings>,
    upstream: Arc<UpstreamShared>,
    metrics: AuthorizerMetrics,
    warnings: Warnings,
    has_warned_of_more: Cell<bool>,
    /// Under which questions are digested.
    secret: Secret,
    kept: RefCell<KeptAnswers<Rc<Answered>>>,
    /// The questions that are asked now.
    calls: RefCell<HashMap<QuestionKey, WeakShared<Call>>>,
}

type Call = LocalBoxFuture<'static, Result<Given, NoAnswer>>;

/// The answer of a call.
#[derive(Clone, Debug)]
struct Given {
    answered: Rc<Answered>,
    reuse: Reuse,
}

impl Authorizer {
    /// The authorizers of a configuration. Those of `before` that have not changed are kept,
    /// with their answers.
    pub fn all(
        snapshot: &Snapshot,
        before: &[Rc<Self>],
        metrics: &Rc<WorkerMetrics>,
    ) -> Box<[Rc<Self>]> {
        let authorizers = snapshot.authorizers.iter().map(|settings| {
            let upstream = &snapshot.upstreams[settings.upstream];
            let is_same =
                |it: &&Rc<Self>| it.settings == *settings && Arc::ptr_eq(&it.upstream, upstream);
            let new = || Rc::new(Self::new(settings, upstream, metrics));
            before.iter().find(is_same).cloned().unwrap_or_else(new)
        });
        authorizers.collect()
    }

    fn new(
        settings: &Arc<AuthorizerSettings>,
        upstream: &Arc<UpstreamShared>,
        metrics: &Rc<WorkerMetrics>,
    ) -> Self {
        let max = settings.cache.as_ref().map_or(0, |cache| cache.max);
        Self {
            settings: Arc::clone(settings),
            upstream: Arc::clone(upstream),
            metrics: AuthorizerMetrics::new(metrics, &settings.name),
            warnings: Warnings::default(),
            has_warned_of_more: Cell::new(false),
            secret: Secret::random(),
            kept: RefCell::new(KeptAnswers::new(max)),
            calls: RefCell::default(),
        }
    }

    /// The settings.
    pub const fn settings(&self) -> &Arc<AuthorizerSettings> {
        &self.settings
    }

    /// The answer to a question, which `proxy` sends.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn ask(
        self: &Rc<Self>,
        proxy: &Rc<Proxy>,
        question: Question,
    ) -> Result<Rc<Answered>, NoAnswer> {
        let Some(cache) = &self.settings.cache else {
            let answer = self.send(proxy, question).await?;
            return Ok(Rc::new(answer.answered));
        };
        let key = QuestionKey::of(cache, &question, &self.secret);
        if let Some(kept) = self.kept.borrow().get(key, monotonic()) {
            self.metrics.used_kept();
            return Ok(kept);
        }
        let current = self.calls.borrow().get(&key).and_then(WeakShared::upgrade);
        // It is dropped after the call.
        let _listed = Listed { authorizer: self, key };
        if let Some(call) = current.filter(|call| call.peek().is_none()) {
            let given = call.await?;
            if given.reuse != Reuse::Never {
                self.metrics.used_shared();
                return Ok(given.answered);
            }
            return Ok(self.send_and_keep(proxy, key, question).await?.answered);
        }
        let authorizer = Rc::clone(self);
        let sender = Rc::clone(proxy);
        let call = async move { authorizer.send_and_keep(&sender, key, question).await };
        let call = call.boxed_local().shared();
        if let Some(weak) = call.downgrade() {
            self.calls.borrow_mut().insert(key, weak);
        }
        call.await.map(|given| given.answered)
    }

    async fn send_and_keep(
        &self,
        proxy: &Proxy,
        key: QuestionKey,
        question: Question,
    ) -> Result<Given, NoAnswer> {
        let Answer { answered, reuse, .. } = self.send(proxy, question).await?;
        let is_small = answered.size() <= MAX_KEPT_BYTES;
        let answered = Rc::new(answered);
        if let Reuse::Within(time) = reuse
            && is_small
        {
            self.kept.borrow_mut().keep(key, Rc::clone(&answered), monotonic(), time);
        }
        Ok(Given { answered, reuse })
    }

    /// Sends a question, and measures how long its answer takes.
    async fn send(&self, proxy: &Proxy, question: Question) -> Result<Answer, NoAnswer> {
        let begun = monotonic();
        let asked = timeout(self.settings.timeout, ask(&self.settings, proxy, question)).await;
        let asked = asked.unwrap_or(Err(NoAnswer("timeout")));
        let took = monotonic().duration_since(begun);
        match &asked {
            Ok(answer) => {
                let passes = matches!(answer.answered, Answered::Passed(_));
                self.metrics.answered(passes, took);
                if answer.has_more {
                    self.metrics.ignored();
                    self.warn_of_more();
                }
            }
            Err(no_answer) => {
                self.metrics.failed(no_answer.0, took);
                self.warn(*no_answer);
            }
        }
        asked
    }

    /// Tells once that answers demand changes that are not made.
    fn warn_of_more(&self) {
        if !self.has_warned_of_more.replace(true) {
            let authorizer = &*self.settings.name;
            warn!(
                authorizer,
                "an answer of an authorizer demands changes that are not made: a request gets only \
                 the fields of \"take\", and its client only Set-Cookie"
            );
        }
    }

    fn warn(&self, NoAnswer(reason): NoAnswer) {
        if !self.warnings.is_due(monotonic()) {
            return;
        }
        let authorizer = &*self.settings.name;
        match self.settings.allows_on_failure {
            true => warn!(
                authorizer,
                reason,
                "an authorizer gives no answer: requests pass without it (on_failure: allow)"
            ),
            false => warn!(
                authorizer,
                reason, "an authorizer gives no answer: requests get 503 (on_failure: deny)"
            ),
        }
    }
}

/// A request that awaits the answer to a question of `calls`. The last one removes the question,
/// and so does the first one that has the answer.
struct Listed<'a> {
    authorizer: &'a Authorizer,
    key: QuestionKey,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let mut calls = self.authorizer.calls.borrow_mut();
        let is_over =
            |call: &WeakShared<Call>| call.upgrade().is_none_or(|call| call.peek().is_some());
        if calls.get(&self.key).is_some_and(is_over) {
            calls.remove(&self.key);
        }
    }
}
