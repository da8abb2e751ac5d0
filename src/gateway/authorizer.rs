//! Asks authorizers whether requests may pass, over connections like those to upstreams.
//!
//! Every question ends within the time of its authorizer, and the answer has a bound. With a
//! cache, an answer is used for equal questions, and equal questions that are asked at the same
//! time share one answer. Each worker has its own answers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, WeakShared};
use http::{HeaderMap, Request, Uri};
use tokio::time::timeout;
use tollgate_core::digest::Secret;
use tollgate_core::time::monotonic;
use tracing::warn;

use crate::message::{
    Answered, AuthorizerSettings, BodyError, KeptAnswers, MAX_KEPT_BYTES, QuestionKey, holds_for,
    read_body,
};
use crate::proxy::{ForwardOptions, Proxy, RequestBody, RouteTimeouts, UpstreamShared, Warnings};
use crate::snapshot::Snapshot;
use crate::telemetry::{AuthorizerMetrics, WorkerMetrics};

/// An authorizer as one worker sees it.
#[derive(Debug)]
pub struct Authorizer {
    settings: Arc<AuthorizerSettings>,
    upstream: Arc<UpstreamShared>,
    metrics: AuthorizerMetrics,
    warnings: Warnings,
    /// Under which questions are digested.
    secret: Secret,
    kept: RefCell<KeptAnswers<Rc<Answered>>>,
    /// The questions that are asked now.
    calls: RefCell<HashMap<QuestionKey, WeakShared<Call>>>,
}

type Call = LocalBoxFuture<'static, Result<Rc<Answered>, NoAnswer>>;

/// Why there is no answer, in one word for logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAnswer(&'static str);

/// An answer, and for how long it holds for equal questions.
type Answer = (Answered, Option<Duration>);

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
            secret: Secret::random(),
            kept: RefCell::new(KeptAnswers::new(max)),
            calls: RefCell::default(),
        }
    }

    /// The settings.
    pub const fn settings(&self) -> &Arc<AuthorizerSettings> {
        &self.settings
    }

    /// The answer to a question with these fields, which `proxy` sends.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn ask(
        self: &Rc<Self>,
        proxy: &Rc<Proxy>,
        fields: HeaderMap,
    ) -> Result<Rc<Answered>, NoAnswer> {
        let Some(cache) = &self.settings.cache else {
            return self.send(proxy, fields).await.map(|(answered, _)| Rc::new(answered));
        };
        let key = QuestionKey::of(cache, &fields, &self.secret);
        if let Some(kept) = self.kept.borrow().get(key, monotonic()) {
            self.metrics.used_kept();
            return Ok(kept);
        }
        let current = self.calls.borrow().get(&key).and_then(WeakShared::upgrade);
        // It is dropped after the call.
        let _listed = Listed { authorizer: self, key };
        if let Some(call) = current.filter(|call| call.peek().is_none()) {
            self.metrics.used_shared();
            return call.await;
        }
        let authorizer = Rc::clone(self);
        let sender = Rc::clone(proxy);
        let call = async move { authorizer.send_and_keep(&sender, key, fields).await };
        let call = call.boxed_local().shared();
        if let Some(weak) = call.downgrade() {
            self.calls.borrow_mut().insert(key, weak);
        }
        call.await
    }

    async fn send_and_keep(
        &self,
        proxy: &Proxy,
        key: QuestionKey,
        fields: HeaderMap,
    ) -> Result<Rc<Answered>, NoAnswer> {
        let (answered, time) = self.send(proxy, fields).await?;
        let is_small = answered.size() <= MAX_KEPT_BYTES;
        let answered = Rc::new(answered);
        if let Some(time) = time.filter(|_| is_small) {
            self.kept.borrow_mut().keep(key, Rc::clone(&answered), monotonic(), time);
        }
        Ok(answered)
    }

    /// Sends a question, and measures how long its answer takes.
    async fn send(&self, proxy: &Proxy, fields: HeaderMap) -> Result<Answer, NoAnswer> {
        let begun = monotonic();
        let answered = timeout(self.settings.timeout, self.exchange(proxy, fields)).await;
        let answered = answered.unwrap_or(Err(NoAnswer("timeout")));
        let took = monotonic().duration_since(begun);
        match &answered {
            Ok((answered, _)) => {
                self.metrics.answered(matches!(answered, Answered::Passed(_)), took);
            }
            Err(no_answer) => {
                self.metrics.failed(no_answer.0, took);
                self.warn(*no_answer);
            }
        }
        answered
    }

    async fn exchange(&self, proxy: &Proxy, fields: HeaderMap) -> Result<Answer, NoAnswer> {
        let settings = &*self.settings;
        let mut request = Box::new(Request::new(RequestBody::EMPTY));
        *request.uri_mut() = Uri::from(settings.target.clone());
        *request.headers_mut() = fields;
        let waited = Cell::default();
        let options = options(settings.timeout, &waited);
        let response = proxy.forward(settings.upstream, request, None, &options).await;
        let response = response.map_err(|failure| NoAnswer(failure.reason()))?;
        let (head, body) = response.into_parts();
        if head.status.is_server_error() || head.status.is_informational() {
            return Err(NoAnswer("status"));
        }
        let body = read_body(body, settings.max_response_bytes).await;
        let body = body.map_err(|error| match error {
            BodyError::TooLarge => NoAnswer("too_large"),
            BodyError::Incomplete => NoAnswer("upstream_broke_off"),
        })?;
        let limit = settings.cache.as_ref().map(|cache| cache.time);
        let time = limit.and_then(|limit| holds_for(head.status, &head.headers, limit));
        let answered = Answered::of(settings, head.status, &head.headers, body);
        answered.map(|answered| (answered, time)).ok_or(NoAnswer("status"))
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

/// How a question is sent.
fn options(limit: Duration, waited: &Cell<Duration>) -> ForwardOptions<'_> {
    ForwardOptions {
        timeouts: RouteTimeouts { response: limit, idle: limit, request: None },
        retries: None,
        fallback: None,
        affinity: None,
        interim: None,
        forwarding: None,
        attempts: None,
        waited,
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
