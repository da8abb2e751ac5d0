//! The life of a call, on one screen: see `Admin::handle`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::{spawn_blocking, spawn_local};
use tokio::time::{sleep, timeout};
use tollgate_limiter::request::Malformed;
use tollgate_limiter::time::{Clock, Timestamp};
use tower::Service;

use super::answer::Answer;
use super::audit::{AuditLog, Change, Entry};
use super::bounds::Bounds;
use super::browser::Own;
use super::call::{Action, Call};
use super::credentials::{Actor, Denied, Shown, Token, authenticate};
use super::explain;
use super::keys;
use super::node::{Checked, Node, Phase, View};
use super::policies;
use super::problem::Problem;
use super::refusals;
use super::status::{self, Status};
use super::top;
use crate::engine::StoreCall;
use crate::server::{ClientBody, Peer};

/// The longest time of a call.
const CALL: Duration = Duration::from_secs(5);
/// The largest body.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
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
    /// Checks of configurations that run, of which there is one at a time.
    checks: Arc<Semaphore>,
}

/// What all calls of one connection have in common.
#[derive(Debug)]
struct Client {
    address: SocketAddr,
    local: SocketAddr,
    is_encrypted: bool,
    uid: Option<u32>,
    subject: Option<Arc<str>>,
    access: Access,
}

/// Which calls a listener serves to which clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// All calls, to clients with a credential.
    Full,
    /// Health, and the metrics if this is true, to all clients.
    Probe(bool),
}

impl Admin {
    /// Serves what `node` tells. `own_uid` is the user of this process.
    pub(crate) fn new(node: Node, clock: Clock, own_uid: u32) -> Self {
        Self {
            node,
            clock,
            own_uid,
            bounds: Bounds::new(),
            audit: AuditLog::default(),
            status: Status::default(),
            checks: Arc::new(Semaphore::new(1)),
        }
    }

    /// The service for one connection from `peer`.
    pub(crate) fn service(
        self: &Rc<Self>,
        peer: Peer,
        access: Access,
    ) -> impl Service<Request<ClientBody>, Response = Response<Full<Bytes>>, Error = Infallible>
    + Clone
    + use<> {
        let admin = Rc::clone(self);
        let client = Rc::new(Client {
            address: peer.address,
            local: peer.local,
            is_encrypted: peer.is_encrypted,
            uid: peer.uid,
            subject: peer.identity,
            access,
        });
        tower::service_fn(move |request| {
            let (admin, client) = (Rc::clone(&admin), Rc::clone(&client));
            Box::pin(async move { Ok(admin.handle(&client, request).await) })
        })
    }

    /// Updates the status for ever.
    pub(crate) async fn watch(self: Rc<Self>) {
        loop {
            let asked = timeout(STATUS_INTERVAL, self.node.ask(StoreCall::Standing)).await;
            let standing = asked.ok().and_then(Result::ok);
            self.status.update(&self.node.view(), standing, self.clock.wall());
            sleep(STATUS_INTERVAL).await;
        }
    }

    /// The life of a call: find it, admit its caller, perform it, and record what it changes.
    async fn handle(
        self: &Rc<Self>,
        client: &Rc<Client>,
        request: Request<ClientBody>,
    ) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let view = self.node.view();
        let (call, actor) = match self.admit(client, &view, &head) {
            Ok(admitted) => admitted,
            Err(problem) => return problem.into_response(),
        };
        let answered = match call.is_change() {
            false => self.answer(&view, &call, body).await,
            true => {
                // A task of its own: a client that disconnects leaves no change unrecorded.
                let (admin, client) = (Rc::clone(self), Rc::clone(client));
                let change = spawn_local(async move {
                    let answered = admin.answer(&view, &call, body).await;
                    admin.record(&client, &call, actor, &answered);
                    answered
                });
                let failed = |_| Err(Problem::unavailable("the call failed; see the log"));
                change.await.unwrap_or_else(failed)
            }
        };
        answered.map_or_else(Problem::into_response, Answer::into_response)
    }

    /// Performs a call within its time.
    async fn answer(&self, view: &View, call: &Call, body: ClientBody) -> Result<Answer, Problem> {
        let late = |_| Err(Problem::unavailable("the call took too long; it may still be done"));
        timeout(CALL, self.perform(view, call, body)).await.unwrap_or_else(late)
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
        let needs = call.as_ref().map_or(Some(super::Role::Metrics), |call| call.spec.role);
        match (client.access, needs) {
            (_, None) => return Ok((call?, None)),
            (Access::Probe(true), Some(super::Role::Metrics)) => return Ok((call?, None)),
            (Access::Probe(_), Some(_)) => {
                return Err(Problem::not_found("this listener serves /healthz and /readyz"));
            }
            (Access::Full, Some(_)) => {}
        }
        let own = Own {
            hosts: &view.settings.hosts,
            local: client.local.ip(),
            is_encrypted: client.is_encrypted,
        };
        own.check(&head.uri, &head.headers)
            .map_err(|foreign| Problem::new(StatusCode::FORBIDDEN, foreign.to_string()))?;
        let actor = self.login(client, view, head)?;
        let call = call?;
        self.bounds.count_call(&actor.name, self.clock.now()).map_err(|wait| {
            Problem::too_many("this credential has made too many calls in this second", wait)
        })?;
        if call.spec.role.is_some_and(|role| actor.role < role) {
            let role = call.spec.role.map_or("", super::Role::as_str);
            let detail = format!("this call needs the role {role}");
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        check_content_type(&call, &head.headers)?;
        Ok((call, Some(actor)))
    }

    /// Identifies the caller.
    fn login(&self, client: &Client, view: &View, head: &Parts) -> Result<Actor, Problem> {
        let shown = Shown {
            uid: client.uid,
            subject: client.subject.as_deref(),
            token: Token::of(&head.headers),
        };
        let now = self.clock.now();
        let is_login = client.uid.is_none() && shown.token != Token::Absent;
        if is_login && let Err(wait) = self.bounds.may_try(client.address.ip(), now) {
            let detail = "there were too many wrong tokens from this address";
            return Err(Problem::too_many(detail, wait));
        }
        authenticate(&view.settings, self.own_uid, shown, self.clock.wall()).map_err(|denied| {
            if denied == Denied::Wrong && self.bounds.count_wrong_token(client.address.ip(), now) {
                self.audit.failed_login(self.entry(client, &head.method, "", 401));
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
        match call.spec.action {
            Action::Alive => Ok(Answer::health(true, "alive")),
            Action::Ready => Ok(match view.phase {
                Phase::Serving => Answer::health(true, "ready"),
                Phase::Draining => Answer::health(false, "draining"),
            }),
            Action::Metrics => Ok(Answer::metrics(node.metrics.render())),
            Action::Status => Ok(Answer::json(&self.status.answer(view))),
            Action::Config => config(view, call),
            Action::CheckConfig => self.check(read(body).await?).await,
            Action::Policies => Answer::page(policies::all(view), call),
            Action::Policy => {
                let policy = policies::policy(view, call.value(0))?;
                Ok(Answer::json(&policies::definition(&policy)))
            }
            Action::Key => keys::show(node, view, call).await,
            Action::ResetKey => keys::reset(node, view, call).await,
            Action::Override => keys::show_override(node, view, call).await,
            Action::SetOverride => keys::set_override(node, view, call, &read(body).await?).await,
            Action::UnsetOverride => keys::unset_override(node, view, call).await,
            Action::Top => top::show(&node.top, self.clock.wall(), call).await,
            Action::Explain => explain::explain(node, view, &read(body).await?).await,
            Action::Refusals => refusals::list(&node.refusals, call),
            Action::Refusal => refusals::of_request(&node.refusals, call),
            Action::Upstreams => Answer::page(status::upstreams(view), call),
            Action::Audit => {
                let entries = self.audit.entries().into_iter();
                let named = entries.map(|entry| (entry.number.to_string(), json!(entry)));
                Answer::page(named.collect(), call)
            }
        }
    }

    /// Checks a configuration, on another thread.
    async fn check(&self, body: Bytes) -> Result<Answer, Problem> {
        let text = String::from_utf8(body.into())
            .map_err(|_| Problem::bad_request("the configuration is not UTF-8 text"))?;
        let busy = || Problem::unavailable("another configuration is being checked; try again");
        // Held by the check itself, which goes on if the call takes too long.
        let permit = Arc::clone(&self.checks).try_acquire_owned().map_err(|_| busy())?;
        let check = Arc::clone(&self.node.readers.check);
        let checked = spawn_blocking(move || {
            let checked = check(&text);
            drop(permit);
            checked
        });
        let failed = |_| Problem::unavailable("the configuration could not be checked");
        let Checked { is_valid, problems } = checked.await.map_err(failed)?;
        let (warnings, errors): (Vec<_>, Vec<_>) =
            problems.into_iter().partition(|problem| problem.is_warning);
        if is_valid {
            return Ok(Answer::json(&json!({ "valid": true, "warnings": warnings })));
        }
        let detail = "the configuration has mistakes";
        let errors = errors.iter().map(|error| json!(error)).collect();
        Err(Problem { errors, ..Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail) })
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
                let policy = Some(call.value(0).to_owned());
                (problem.status, Change { policy, ..Change::default() })
            }
        };
        let method = &http::Method::from_bytes(call.spec.method.as_bytes()).unwrap_or_default();
        let entry = self.entry(client, method, call.spec.path, status.as_u16());
        let actor = actor.map_or_else(String::new, |actor| actor.name);
        self.audit.change(Entry { actor, change, ..entry });
    }

    fn entry(&self, client: &Client, method: &http::Method, path: &str, status: u16) -> Entry {
        let peer = match client.uid {
            Some(uid) => format!("uid {uid}"),
            None => client.address.ip().to_string(),
        };
        let time: Timestamp = self.clock.wall();
        Entry {
            time: time.to_string(),
            peer,
            call: format!("{method} {path}").trim_end().to_owned(),
            status,
            ..Entry::default()
        }
    }
}

fn config(view: &View, call: &Call) -> Result<Answer, Problem> {
    match call.parameter("view") {
        None | Some("file") => {}
        Some(_) => return Err(Problem::bad_request("view is file")),
    }
    Ok(Answer::json(&json!({
        "generation": view.generation,
        "loaded": view.loaded.to_string(),
        "file": view.document.as_deref(),
    })))
}

/// Bodies have a type that no HTML form can send.
fn check_content_type(call: &Call, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(allowed) = call.spec.body else { return Ok(()) };
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let given = types.next().and_then(|it| it.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    let is_allowed = allowed.iter().any(|it| it.eq_ignore_ascii_case(essence));
    if is_allowed && types.next().is_none() {
        return Ok(());
    }
    let detail = format!("send the body with Content-Type: {}", allowed.join(" or "));
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// The whole body.
async fn read(body: ClientBody) -> Result<Bytes, Problem> {
    match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "a body has at most 4 MiB"))
        }
        Err(_) => Err(Problem::bad_request("the body is not complete")),
    }
}
