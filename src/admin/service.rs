//! The life of a call, on one screen: see `Admin::handle`.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tollgate_core::request::Malformed;
use tollgate_core::time::Clock;
use tower::Service;

use super::answer::{AdminBody, Answer, HealthWord};
use super::audit::{AuditLog, Change, Entry};
use super::body::{check_content_type, read};
use super::bounds::Bounds;
use super::browser::{Foreign, Own};
use super::call::{Action, Call, CallSpec};
use super::candidates::CandidateCounts;
use super::client::{Access, Client};
use super::cluster;
use super::configuration;
use super::credentials::{Actor, Denied, Session, Token, authenticate};
use super::events::{Events, MayRead};
use super::explain;
use super::figures::{self, Figures};
use super::keys;
use super::node::{Node, Phase, View};
use super::nodes;
use super::openapi;
use super::page;
use super::patches;
use super::problem::Problem;
use super::refusals;
use super::reveal;
use super::status::{self, Known, Status, StatusAnswer};
use super::top;
use crate::engine::StoreCall;
use crate::patches::Requested;
use crate::server::{ClientBody, Peer};
use crate::telemetry::AdminMetrics;

/// The longest time of a call.
const CALL: Duration = Duration::from_secs(5);
/// The longest time of a reload, which reads all files again and may fetch a key set.
const RELOAD: Duration = Duration::from_secs(30);
/// The interval at which the status is updated.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// The admin listener.
#[derive(Debug)]
pub(crate) struct Admin {
    node: Node,
    clock: Clock,
    /// The user of this process.
    own_uid: u32,
    bounds: Bounds,
    audit: AuditLog,
    status: Status,
    events: Events,
    candidates: CandidateCounts,
    /// Checks of configurations that run, of which there is one at a time.
    checks: Semaphore,
    metrics: AdminMetrics,
}

impl Admin {
    /// Serves what `node` tells. `own_uid` is the user of this process.
    pub(crate) fn new(node: Node, clock: Clock, own_uid: u32) -> Self {
        Self {
            events: Events::new(),
            metrics: AdminMetrics::new(&node.metrics),
            status: Status::new(&node.metrics),
            node,
            clock,
            own_uid,
            bounds: Bounds::new(),
            audit: AuditLog::default(),
            candidates: CandidateCounts::default(),
            checks: Semaphore::new(1),
        }
    }

    /// The service for one connection from `peer`.
    pub(crate) fn service(
        self: &Rc<Self>,
        peer: Peer,
        access: Access,
    ) -> impl Service<Request<ClientBody>, Response = Response<AdminBody>, Error = Infallible>
    + Clone
    + use<> {
        let admin = Rc::clone(self);
        let client = Rc::new(Client::new(peer, access));
        tower::service_fn(move |request: Request<ClientBody>| {
            let (admin, client) = (Rc::clone(&admin), Rc::clone(&client));
            Box::pin(async move {
                let name = Call::name(request.method(), request.uri().path());
                let response = admin.handle(&client, request).await;
                admin.metrics.answered(&name, response.status());
                Ok(response)
            })
        })
    }

    /// Updates the status for ever.
    pub(crate) async fn watch(self: Rc<Self>) {
        loop {
            let asked = timeout(STATUS_INTERVAL, self.node.ask(StoreCall::Standing)).await;
            let standing = asked.ok().and_then(Result::ok);
            let learn = |known: &mut Known| {
                // What was known of the store stays if no worker answers.
                known.store = standing.unwrap_or_else(|| known.store.take());
                known.forwarders = self.node.forwarders.all();
                known.other_listeners = (self.node.other_listeners)();
            };
            let samples = || self.node.metrics.samples();
            self.status.update(&self.node.view(), learn, samples, self.clock.wall());
            self.candidates.update(&self.node.metrics, &self.node.view());
            sleep(STATUS_INTERVAL).await;
        }
    }

    /// Reads the counters once a second for ever, and tells the streams of events.
    pub(crate) async fn observe(self: Rc<Self>) {
        let mut seconds = interval(STATUS_INTERVAL);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        seconds.tick().await;
        loop {
            seconds.tick().await;
            self.node.history.add(self.node.metrics.totals(), self.clock.now(), self.clock.wall());
            let Some(second) = self.node.history.latest() else { continue };
            let view = self.node.view();
            let (summary, state) = (Figures::of(&second), self.status.answer(&view));
            self.events.publish(&summary, &state, view.phase);
        }
    }

    /// The life of a call: find it, admit its caller, perform it, and record what it changes.
    async fn handle(
        self: &Rc<Self>,
        client: &Rc<Client>,
        request: Request<ClientBody>,
    ) -> Response<AdminBody> {
        let (head, body) = request.into_parts();
        let view = self.node.view();
        let (call, actor) = match self.admit(client, &view, &head) {
            Ok(admitted) => admitted,
            Err(problem) => return problem.into_response(),
        };
        if call.spec.action == Action::Events {
            let stream =
                self.events.stream(&call, &self.node.refusals, self.may_read(client, &head));
            return stream.map_or_else(Problem::into_response, Answer::events);
        }
        let answered = match call.is_recorded() {
            false => self.answer(&view, &call, body).await,
            true => {
                // A task of its own: a client that disconnects leaves nothing unrecorded.
                let (admin, client) = (Rc::clone(self), Rc::clone(client));
                let recorded = spawn_local(async move {
                    let answered = admin.answer(&view, &call, body).await;
                    admin.record(&client, &call, actor, &answered);
                    answered
                });
                let failed = |_| Err(Problem::unavailable("the call failed; see the log"));
                recorded.await.unwrap_or_else(failed)
            }
        };
        answered.map_or_else(Problem::into_response, Answer::into_response)
    }

    /// Performs a call within its time.
    async fn answer(&self, view: &View, call: &Call, body: ClientBody) -> Result<Answer, Problem> {
        let late = |_| Err(Problem::unavailable("the call took too long; it may still be done"));
        let limit = if call.spec.action == Action::Reload { RELOAD } else { CALL };
        timeout(limit, self.perform(view, call, body)).await.unwrap_or_else(late)
    }

    /// The call, if its caller may make it, and the caller.
    fn admit(
        &self,
        client: &Client,
        view: &View,
        head: &Parts,
    ) -> Result<(Call, Option<Actor>), Problem> {
        if let Some(malformed) = head.extensions.get::<Malformed>() {
            return Err(Problem::bad_request(malformed.to_string()));
        }
        let call = Call::parse(&head.method, head.uri.path(), head.uri.query());
        // A mistake in the parameters does not change whose call it is.
        let spec = Call::spec(&head.method, head.uri.path());
        let is_public = spec.is_some_and(CallSpec::is_public);
        let own = Own {
            hosts: &view.settings.hosts,
            local: client.local.ip(),
            is_encrypted: client.is_encrypted,
        };
        let foreign = |foreign: Foreign| Problem::new(StatusCode::FORBIDDEN, foreign.to_string());
        if client.access == Access::Full && is_public {
            own.check_host(&head.uri, &head.headers).map_err(foreign)?;
            return Ok((call?, None));
        }
        let needs = spec.map_or(Some(super::Role::Metrics), |spec| spec.role);
        match (client.access, needs) {
            (_, None) if !is_public => return Ok((call?, None)),
            (Access::Probe(true), Some(super::Role::Metrics)) => return Ok((call?, None)),
            (Access::Probe(_), _) => {
                return Err(Problem::not_found("this listener serves /healthz and /readyz"));
            }
            (Access::Full, _) => own.check(&head.uri, &head.headers).map_err(foreign)?,
        }
        let actor = self.login(client, view, head)?;
        let call = call?.by(&actor.name, &head.headers);
        self.bounds.count_call(&actor.name, self.clock.now()).map_err(|wait| {
            Problem::too_many("this credential has made too many calls in this second", wait)
        })?;
        if let Some(role) = call.role().filter(|role| actor.role < *role) {
            let with = if call.reveals() { "with reveal=true " } else { "" };
            let detail = format!("{with}this call needs the role {}", role.as_str());
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        check_content_type(&call, &head.headers)?;
        Ok((call, Some(actor)))
    }

    /// Whether a client of a stream may still read.
    fn may_read(&self, client: &Client, head: &Parts) -> MayRead {
        let session = Session::of(client.shown(&head.headers));
        let (view, own_uid, clock) = (self.node.view.clone(), self.own_uid, self.clock.clone());
        Box::new(move || {
            let role = session.role(&view.borrow().settings, own_uid, clock.wall());
            role.is_some_and(|role| role >= super::Role::Read)
        })
    }

    /// Identifies the caller.
    fn login(&self, client: &Client, view: &View, head: &Parts) -> Result<Actor, Problem> {
        let shown = client.shown(&head.headers);
        let now = self.clock.now();
        let is_login = client.uid.is_none() && shown.token != Token::Absent;
        if is_login && let Err(wait) = self.bounds.may_try(client.address.ip(), now) {
            let detail = "there were too many wrong tokens from this address";
            return Err(Problem::too_many(detail, wait));
        }
        authenticate(&view.settings, self.own_uid, shown, self.clock.wall()).map_err(|denied| {
            self.metrics.denied();
            if denied == Denied::Wrong && self.bounds.count_wrong_token(client.address.ip(), now) {
                self.audit.failed_login(client.entry(&head.method, "", 401, self.clock.wall()));
            }
            let status = match denied {
                Denied::User(_) => StatusCode::FORBIDDEN,
                _ => StatusCode::UNAUTHORIZED,
            };
            Problem::new(status, denied.to_string())
        })
    }

    async fn perform(&self, view: &View, call: &Call, body: ClientBody) -> Result<Answer, Problem> {
        let node = &self.node;
        if call.reveals() {
            reveal::check(view, call)?;
        }
        match call.spec.action {
            Action::Alive => Ok(Answer::health(HealthWord::Alive)),
            Action::Ready => Ok(match view.phase {
                Phase::Serving => {
                    Answer::health_without(HealthWord::Ready, self.status.store_causes())
                }
                Phase::Draining => Answer::health(HealthWord::Draining),
            }),
            Action::Metrics => Ok(Answer::metrics(node.metrics.render())),
            Action::Status => {
                let rates = figures::rates(&node.history);
                Ok(Answer::json(&StatusAnswer { state: self.status.answer(view), rates }))
            }
            Action::Config => Ok(configuration::show(view, call)),
            Action::CheckConfig => {
                configuration::check(node, view, &self.checks, read(body).await?).await
            }
            Action::PutConfig => configuration::put(node, view, call, read(body).await?).await,
            Action::Reload => configuration::reload(node, view, call).await,
            Action::Policies | Action::Policy => self.show_policies(view, call).await,
            Action::PatchPolicy => {
                let patch = patches::read_body(&read(body).await?)?;
                self.change(call, Requested::Patch(patch)).await
            }
            Action::UnpatchPolicy => self.change(call, Requested::RemovePatch).await,
            Action::SetCandidate => {
                let candidate = patches::read_body(&read(body).await?)?;
                self.change(call, Requested::Candidate(candidate)).await
            }
            Action::UnsetCandidate => self.change(call, Requested::RemoveCandidate).await,
            Action::Nodes => nodes::list(node, call).await,
            Action::Key => keys::show(node, view, call).await,
            Action::ResetKey => keys::reset(node, view, call).await,
            Action::Override => keys::show_override(node, view, call).await,
            Action::SetOverride => keys::set_override(node, view, call, &read(body).await?).await,
            Action::UnsetOverride => keys::unset_override(node, view, call).await,
            Action::Top => top::show(node, self.clock.wall(), call).await,
            Action::Explain => explain::explain(node, view, &read(body).await?).await,
            Action::Refusals => refusals::list(&node.refusals, call),
            Action::Refusal => refusals::of_request(&node.refusals, call),
            Action::Upstreams => Answer::page(status::upstreams(view), call),
            Action::Audit => {
                let entries = self.audit.entries().into_iter();
                let named = entries.map(|entry| (entry.number.to_string(), entry));
                Answer::page(named.collect(), call)
            }
            Action::History => Ok(figures::history(&self.node.history, call)),
            Action::OpenApi => Ok(Answer::api_document(openapi::text())),
            Action::Page => page::file("index.html").map(Answer::page_file),
            Action::PageFile => page::file(call.value(0)).map(Answer::page_file),
            Action::Events => {
                Err(Problem::bad_request("a stream of events is not a single answer"))
            }
        }
    }

    /// One policy or all of them, with the outcomes of this node or of all nodes.
    async fn show_policies(&self, view: &View, call: &Call) -> Result<Answer, Problem> {
        let cluster = match cluster::is_cluster(call) {
            true => Some(self.node.cluster(self.clock.wall()).await),
            false => None,
        };
        let (node, counts) = (&self.node, &self.candidates);
        match call.spec.action {
            Action::Policy => patches::show(node, counts, view, call.value(0), cluster.as_deref()),
            _ => patches::list(node, counts, view, call, cluster.as_deref()),
        }
    }

    /// Changes a policy.
    async fn change(&self, call: &Call, requested: Requested) -> Result<Answer, Problem> {
        let answer = patches::change(&self.node, &self.candidates, call, requested).await;
        self.candidates.update(&self.node.metrics, &self.node.view());
        answer
    }

    fn record(
        &self,
        client: &Client,
        call: &Call,
        actor: Option<Actor>,
        answered: &Result<Answer, Problem>,
    ) {
        let (status, change) = match answered {
            Ok(answer) => (answer.status(), answer.change.clone().unwrap_or_default()),
            Err(problem) => {
                let policy = reveal::policy(call).map(str::to_owned);
                (problem.status, Change { policy, ..Change::default() })
            }
        };
        let method = &http::Method::from_bytes(call.spec.method.as_bytes()).unwrap_or_default();
        let query = if call.reveals() { "?reveal=true" } else { "" };
        let path = format!("{}{query}", call.spec.path);
        let entry = client.entry(method, &path, status.as_u16(), self.clock.wall());
        let actor = actor.map_or_else(String::new, |actor| actor.name);
        let entry = Entry { actor, change, ..entry };
        if call.reveals() { self.audit.reveal(entry) } else { self.audit.change(entry) }
    }
}
