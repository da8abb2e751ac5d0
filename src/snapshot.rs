//! The snapshot of the configuration that one request uses. A reload replaces it as a
//! whole.

use std::iter;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use tollgate_core::decision::HeaderWriter;
use tollgate_core::policy::{AccessList, Policy};
use tollgate_core::refusal::Offer;
use tollgate_core::routes::{Route, Rules};

use crate::message::{
    AuthorizerSettings, CompressSettings, Cors, FieldEdits, ReadBodySettings, Redirect,
    RefusalSettings, Rewrite,
};
use crate::patches::{Definitions, Resolved};
use crate::proxy::{
    FallbackSettings, MirrorSettings, RetrySettings, RouteTimeouts, UpstreamShared,
};

/// The configuration that one request uses. All workers share it.
#[derive(Debug)]
pub struct Snapshot {
    /// The routes with their policies.
    pub rules: Rules,
    /// How the requests of each route are handled, by the route's index.
    pub routes: Vec<Handling>,
    /// All policies with an effect, in the order of the file.
    pub policies: Vec<Arc<Policy>>,
    /// All access lists, in the order of the file.
    pub access: Vec<Arc<AccessList>>,
    /// The policies and access lists as the file defines them.
    pub definitions: Arc<Definitions>,
    /// The changes of policies and access lists at run time that are in force.
    pub patches: Arc<Resolved>,
    /// The authorizers by their index.
    pub authorizers: Vec<Arc<AuthorizerSettings>>,
    /// The upstreams by their index. Those of the authorizers come last.
    pub upstreams: Vec<Arc<UpstreamShared>>,
    /// Writes the fields that inform clients about their limits.
    pub headers: HeaderWriter,
    /// The formats of the gateway's own responses.
    pub offer: Offer,
}

impl Snapshot {
    /// The names of the policies of each route.
    pub fn policy_names(&self) -> Vec<Vec<Arc<str>>> {
        let routes = (0..self.routes.len()).map(|index| self.rules.route(index));
        let names = |it: &Route| it.policies.iter().map(|it| Arc::clone(&it.name)).collect();
        routes.map(names).collect()
    }

    /// Goes on counting the copies in flight of `before`: those of a route with the same name to an
    /// upstream with the same name.
    pub fn continue_mirrors(&mut self, before: &Self) {
        let Self { rules, routes, upstreams, .. } = self;
        for (index, handling) in routes.iter_mut().enumerate() {
            let Some(mirror) = &mut handling.mirror else { continue };
            let route = &rules.route(index).name;
            let upstream = &upstreams[mirror.upstream];
            let is_same = |(old, known): &(usize, &MirrorSettings)| {
                let goes_to = before.upstreams[known.upstream].settings();
                before.rules.route(*old).name == *route && goes_to.name == upstream.settings().name
            };
            let known = before.routes.iter().enumerate();
            let known = known.filter_map(|(old, it)| Some((old, it.mirror.as_deref()?)));
            if let Some((_, known)) = known.into_iter().find(is_same) {
                mirror.in_flight = Arc::clone(&known.in_flight);
            }
        }
    }

    /// This configuration, which is that of the file, with changed policies and access lists.
    pub fn patched(&self, patches: Arc<Resolved>) -> Self {
        let changed = |policy: &Policy| patches.changed.get(&*policy.name);
        let in_mode = |list: &Arc<AccessList>| match patches.lists.get(&*list.name) {
            Some((_, mode)) => Arc::new(list.in_mode(*mode)),
            None => Arc::clone(list),
        };
        let live = |policy: &Arc<Policy>| {
            let patch = changed(policy).and_then(|it| it.patch.as_ref());
            Arc::clone(patch.map_or(policy, |(_, patched)| patched))
        };
        let access: Vec<Arc<AccessList>> = self.access.iter().map(in_mode).collect();
        let live_list = |list: &Arc<AccessList>| {
            let live = access.iter().find(|live| live.name == list.name);
            Arc::clone(live.unwrap_or(list))
        };
        let rules = self.rules.changing(
            |policy| {
                let candidate = changed(policy).and_then(|it| it.candidate.as_ref());
                let candidate = candidate.map(|(_, candidate)| Arc::clone(candidate));
                iter::once(live(policy)).chain(candidate).collect()
            },
            live_list,
        );
        Self {
            rules,
            routes: self.routes.clone(),
            policies: self.policies.iter().map(live).collect(),
            access,
            definitions: Arc::clone(&self.definitions),
            authorizers: self.authorizers.clone(),
            upstreams: self.upstreams.clone(),
            headers: self.headers.clone(),
            offer: self.offer,
            patches,
        }
    }
}

/// How the requests of one route are handled.
#[derive(Clone, Debug)]
pub struct Handling {
    /// The action for admitted requests.
    pub action: Action,
    /// The time limit of a request.
    pub timeouts: RouteTimeouts,
    /// When a request is retried. None: once, if its method is idempotent.
    pub retries: Option<RetrySettings>,
    /// The second upstream for requests whose first one fails, if there is one.
    pub fallback: Option<Box<FallbackSettings>>,
    /// Which requests are copied to another upstream, if some are.
    pub mirror: Option<Box<MirrorSettings>>,
    /// Which responses are compressed, if some are.
    pub compress: Option<Arc<CompressSettings>>,
    /// The largest request body in bytes. None: no bound.
    pub max_body_bytes: Option<u64>,
    /// The largest body of a response of the upstream in bytes. None: no bound.
    pub max_response_bytes: Option<u64>,
    /// What is read of the bodies of requests, if a policy needs them.
    pub read_body: Option<Box<ReadBodySettings>>,
    /// The changes of messages. Boxed, because most routes change nothing.
    pub changes: Option<Box<Changes>>,
    /// What it answers to scripts of other origins. None: the upstream decides that.
    pub cors: Option<Arc<Cors>>,
    /// The form of the responses of the gateway itself. None: that of the node.
    pub refusals: Option<Box<RefusalSettings>>,
    /// The index of the authorizer that is asked about its requests. None: none is asked.
    pub authorizer: Option<usize>,
}

impl Handling {
    /// The indices of all upstreams that its requests, or copies of them, may go to.
    pub fn upstreams(&self) -> impl Iterator<Item = usize> {
        let fallback = self.fallback.iter().map(|fallback| fallback.upstream);
        let mirror = self.mirror.iter().map(|mirror| mirror.upstream);
        self.action.upstreams().iter().copied().chain(fallback).chain(mirror)
    }
}

/// The changes that a route makes in messages.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Changes of the request's target.
    pub rewrite: Rewrite,
    /// Changes of the request's fields for the upstream. They can also replace the fields
    /// with which the gateway tells the upstream about the client.
    pub request: FieldEdits,
    /// Changes of the response's fields. The fields about limits and the request's id are
    /// written later, so they cannot be removed.
    pub response: FieldEdits,
}

/// The action for an admitted request.
#[derive(Clone, Debug)]
pub enum Action {
    /// It is forwarded to the upstream with this index.
    Forward(usize),
    /// It is forwarded to one of these upstreams: the index of each branch of the route's split.
    Split(Box<[usize]>),
    /// It gets a fixed response.
    Respond(FixedResponse),
    /// It is redirected.
    Redirect(Redirect),
}

impl Action {
    /// The index of the upstream of the branch with this index, if the request goes to one.
    pub fn upstream(&self, branch: usize) -> Option<usize> {
        match self {
            Self::Forward(upstream) => Some(*upstream),
            Self::Split(upstreams) => upstreams.get(branch).copied(),
            Self::Respond(_) | Self::Redirect(_) => None,
        }
    }

    /// The indices of the upstreams that its requests may go to.
    pub fn upstreams(&self) -> &[usize] {
        match self {
            Self::Forward(upstream) => std::slice::from_ref(upstream),
            Self::Split(upstreams) => upstreams,
            Self::Respond(_) | Self::Redirect(_) => &[],
        }
    }
}

/// A response that never changes.
#[derive(Clone, Debug)]
pub struct FixedResponse {
    /// Its status.
    pub status: StatusCode,
    /// `Content-Type` of the body.
    pub content_type: HeaderValue,
    /// The body.
    pub body: Bytes,
}

impl FixedResponse {
    /// The response.
    pub fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(self.body.clone());
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, self.content_type.clone());
        response
    }
}
