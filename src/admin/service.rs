//! The life of a call, on one screen: see `Admin::handle`.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tollgate_core::request::Malformed;
use tollgate_core::time::Clock;
use tower::Service;

use super::answer::{AdminBody, Answer};
use super::audit::{AuditLog, Change, Entry};
use super::body::{check_content_type, read};
use super::bounds::Bounds;
use super::browser::{Foreign, Own};
use super::call::Call;
use super::calls::API;
use super::candidates::CandidateCounts;
use super::client::{Access, Client};
use super::credentials::{Actor, Denied, Session, Token, authenticate};
use super::events::{Events, MayRead};
use super::figures::Figures;
use super::node::{Node, View};
use super::problem::Problem;
use super::reveal;
use super::spec::{Asked, CallSpec, METRICS, READ, Run};
use super::state::AdminState;
use super::status::{Known, Status};
use crate::engine::StoreCall;
use crate::server::{ClientBody, Peer};
use crate::telemetry::AdminMetrics;

/// The interval at which the status is updated.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// The admin listener.
#[derive(Debug)]
pub struct Admin {
    state: AdminState,
    /// The user of this process.
    own_uid: u32,
    bounds: Bounds,
    metrics: AdminMetrics,
}

/// A call that its caller may make.
struct Admitted {
    spec: &'static CallSpec,
    call: Call,
    /// None: the call needs no credential.
    actor: Option<Actor>,
}

impl Admin {
    /// Serves what `node` tells. `own_uid` is the user of this process.
    pub fn new(node: Node, clock: Clock, own_uid: u32) -> Self {
        let metrics = AdminMetrics::new(&node.metrics);
        let state = AdminState {
            events: Events::new(),
            status: Status::new(&node.metrics),
            node,
            clock,
            audit: AuditLog::default(),
            candidates: CandidateCounts::default(),
            checks: Semaphore::new(1),
        };
        Self { state, own_uid, bounds: Bounds::new(), metrics }
    }

    /// The service for one connection from `peer`.
    pub fn service(
        self: &Rc<Self>,
        peer: Peer,
        access: Access,
    ) -> impl Service<Request<ClientBody>, Response = Response<AdminBody>, Error = Infallible>
    + Clone
    + use<> {
        let admin = Rc::clone(self);
        let client = Rc::new(Client::new(peer, access));
        tower::service_fn(move |request: Request<ClientBody>| {
            let admin = Rc::clone(&admin);
            let client = Rc::clone(&client);
            Box::pin(async move {
                let name = API.name(request.method(), request.uri().path());
                let response = admin.handle(&client, request).await;
                admin.metrics.answered(&name, response.status());
                Ok(response)
            })
        })
    }

    /// Updates the status for ever.
    pub async fn watch(self: Rc<Self>) {
        let AdminState { node, clock, status, candidates, .. } = &self.state;
        loop {
            let asked = timeout(STATUS_INTERVAL, node.ask(StoreCall::Standing)).await;
            let standing = asked.ok().and_then(Result::ok);
            let learn = |known: &mut Known| {
                // What was known of the store stays if no worker answers.
                known.store = standing.unwrap_or_else(|| known.store.take());
                known.forwarders = node.forwarders.all();
                known.other_listeners = (node.other_listeners)();
            };
            status.update(&node.view(), learn, || node.metrics.samples(), clock.wall());
            candidates.update(&node.metrics, &node.view());
            sleep(STATUS_INTERVAL).await;
        }
    }

    /// Reads the counters once a second for ever, and tells the streams of events.
    pub async fn observe(self: Rc<Self>) {
        let AdminState { node, clock, status, events, .. } = &self.state;
        let mut seconds = interval(STATUS_INTERVAL);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        seconds.tick().await;
        loop {
            seconds.tick().await;
            node.history.add(node.metrics.totals(), clock.now(), clock.wall());
            let Some(second) = node.history.latest() else { continue };
            let view = node.view();
            events.publish(&Figures::of(&second), &status.answer(&view), view.phase);
        }
    }

    /// The life of a call: find it, admit its caller, perform it, and record what it changes.
    async fn handle(
        self: &Rc<Self>,
        client: &Rc<Client>,
        request: Request<ClientBody>,
    ) -> Response<AdminBody> {
        let (head, body) = request.into_parts();
        let view = self.state.node.view();
        let admitted = match self.admit(client, &view, &head) {
            Ok(admitted) => admitted,
            Err(problem) => return problem.into_response(),
        };
        if let Run::Stream(run) = admitted.spec.run {
            let stream = run(&self.state, &admitted.call, self.may_read(client, &head));
            return stream.map_or_else(Problem::into_response, Answer::events);
        }
        let answered = match admitted.spec.is_recorded(&admitted.call) {
            false => self.answer(&view, &admitted, body).await,
            true => {
                // A task of its own: a client that disconnects leaves nothing unrecorded.
                let admin = Rc::clone(self);
                let client = Rc::clone(client);
                let recorded = spawn_local(async move {
                    let answered = admin.answer(&view, &admitted, body).await;
                    admin.record(&client, admitted, &answered);
                    answered
                });
                let failed = |_| Err(Problem::unavailable("the call failed; see the log"));
                recorded.await.unwrap_or_else(failed)
            }
        };
        answered.map_or_else(Problem::into_response, Answer::into_response)
    }

    /// Performs a call within its time.
    async fn answer(
        &self,
        view: &View,
        admitted: &Admitted,
        body: ClientBody,
    ) -> Result<Answer, Problem> {
        let late = |_| {
            let problem = Problem::unavailable("the call took too long; it may still be done");
            Err(match admitted.call.made() {
                Some(change) => problem.after(change),
                None => problem,
            })
        };
        let answer = self.perform(view, admitted, body);
        timeout(admitted.spec.longest, answer).await.unwrap_or_else(late)
    }

    /// The call, if its caller may make it, and the caller.
    fn admit(&self, client: &Client, view: &View, head: &Parts) -> Result<Admitted, Problem> {
        if let Some(malformed) = head.extensions.get::<Malformed>() {
            return Err(Problem::bad_request(malformed.to_string()));
        }
        let path = head.uri.path();
        let query = head.uri.query();
        let found = API.find(&head.method, path);
        // A mistake in the parameters does not change whose call it is.
        let is_public = found.as_ref().is_ok_and(|spec| spec.is_public);
        let needs = found.as_ref().map_or(METRICS, |spec| spec.role);
        let call = found.and_then(|spec| Ok((spec, spec.read(path, query)?)));
        let open = |(spec, call)| Admitted { spec, call, actor: None };
        let own = Own {
            hosts: &view.settings.hosts,
            local: client.local.ip(),
            is_encrypted: client.is_encrypted,
        };
        let foreign = |foreign: Foreign| Problem::new(StatusCode::FORBIDDEN, foreign.to_string());
        if client.access == Access::Full && is_public {
            own.check_host(&head.uri, &head.headers).map_err(foreign)?;
            return call.map(open);
        }
        match (client.access, needs) {
            (_, None) if !is_public => return call.map(open),
            (Access::Probe(true), METRICS) => return call.map(open),
            (Access::Probe(_), _) => {
                return Err(Problem::not_found("this listener serves /healthz and /readyz"));
            }
            (Access::Full, _) => own.check(&head.uri, &head.headers).map_err(foreign)?,
        }
        let actor = self.login(client, view, head)?;
        let (spec, call) = call?;
        let call = call.by(&actor, &head.headers);
        self.bounds.count_call(&actor.name, self.state.clock.now()).map_err(|wait| {
            Problem::too_many("this credential has made too many calls in this second", wait)
        })?;
        if let Some(role) = spec.role_for(&call).filter(|it| !actor.role.may(*it, spec.is_change)) {
            let with = if call.reveals() { "with reveal=true " } else { "" };
            let detail = format!("{with}this call needs the role {}", role.as_str());
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        check_content_type(spec.body.map(|body| body.types), &head.headers)?;
        Ok(Admitted { spec, call, actor: Some(actor) })
    }

    /// Whether a client of a stream may still read.
    fn may_read(&self, client: &Client, head: &Parts) -> MayRead {
        let session = Session::of(client.shown(&head.headers));
        let view = self.state.node.view.clone();
        let clock = self.state.clock.clone();
        let own_uid = self.own_uid;
        Box::new(move || session.role(&view.borrow().settings, own_uid, clock.wall()) >= READ)
    }

    /// Identifies the caller.
    fn login(&self, client: &Client, view: &View, head: &Parts) -> Result<Actor, Problem> {
        let AdminState { clock, audit, .. } = &self.state;
        let shown = client.shown(&head.headers);
        let now = clock.now();
        let is_login = client.uid.is_none() && shown.token != Token::Absent;
        if is_login && let Err(wait) = self.bounds.may_try(client.address.ip(), now) {
            let detail = "there were too many wrong tokens from this address";
            return Err(Problem::too_many(detail, wait));
        }
        authenticate(&view.settings, self.own_uid, shown, clock.wall()).map_err(|denied| {
            self.metrics.denied();
            if denied == Denied::Wrong && self.bounds.count_wrong_token(client.address.ip(), now) {
                audit.failed_login(client.entry(&head.method, "", 401, clock.wall()));
            }
            let status = match denied {
                Denied::User(_) => StatusCode::FORBIDDEN,
                _ => StatusCode::UNAUTHORIZED,
            };
            Problem::new(status, denied.to_string())
        })
    }

    async fn perform(
        &self,
        view: &View,
        admitted: &Admitted,
        body: ClientBody,
    ) -> Result<Answer, Problem> {
        let Admitted { spec, call, .. } = admitted;
        if call.reveals() {
            reveal::check(view, call)?;
        }
        let (body, _ignored) = match spec.body {
            Some(_) => (read(body).await?, None),
            None => (Bytes::new(), Some(body)),
        };
        let node = &self.state.node;
        let asked = Asked { state: &self.state, api: &API, node, view, call, body };
        match spec.run {
            Run::Now(run) => run(asked),
            Run::Later(run) => run(asked).await,
            Run::Stream(_) => {
                Err(Problem::bad_request("a stream of events is not a single answer"))
            }
        }
    }

    fn record(&self, client: &Client, admitted: Admitted, answered: &Result<Answer, Problem>) {
        let Admitted { call, actor, .. } = admitted;
        let AdminState { clock, audit, .. } = &self.state;
        let (status, change) = match answered {
            Ok(answer) => (answer.status(), answer.change.clone().unwrap_or_default()),
            Err(problem) => {
                let attempt = || {
                    let policy = call.policy().map(str::to_owned);
                    let list = call.list().map(str::to_owned);
                    let key_id = call.api_key_id().map(|id| id.to_string());
                    Change { policy, list, key_id, ..Change::default() }
                };
                (problem.status, problem.change.as_deref().cloned().unwrap_or_else(attempt))
            }
        };
        let method = &http::Method::from_bytes(call.method.as_bytes()).unwrap_or_default();
        let query = if call.reveals() { "?reveal=true" } else { "" };
        let path = format!("{}{query}", call.path);
        let entry = client.entry(method, &path, status.as_u16(), clock.wall());
        let actor = actor.map_or_else(String::new, |actor| actor.name);
        let entry = Entry { actor, change, ..entry };
        if call.reveals() { audit.reveal(entry) } else { audit.change(entry) }
    }
}
