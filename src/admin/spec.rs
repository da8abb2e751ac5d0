//! An entry of the table of calls: the method and path of a call, the role that it needs, the
//! function that answers it, and what the OpenAPI document says of it.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use http::{Method, StatusCode};
use schemars::{Schema, SchemaGenerator};

use super::Role;
use super::answer::{Answer, EventBody};
use super::call::Call;
use super::events::MayRead;
use super::node::{Node, View};
use super::parameter::{Parameter, PathName};
use super::problem::Problem;
use super::state::AdminState;
use super::target::is_at;

/// The longest time of a call.
const LONGEST: Duration = Duration::from_secs(5);

/// To read the metrics.
pub const METRICS: Option<Role> = Some(Role::Metrics);
/// To make and change API keys.
pub const KEYS: Option<Role> = Some(Role::Keys);
/// To read everything.
pub const READ: Option<Role> = Some(Role::Read);
/// To change something.
pub const OPERATE: Option<Role> = Some(Role::Operate);

/// The type of most bodies.
pub const JSON: &[&str] = &["application/json"];
/// The types of a configuration.
pub const JSON_OR_YAML: &[&str] = &["application/json", "application/yaml"];

/// The calls of the API.
#[derive(Debug)]
pub struct Api {
    pub groups: &'static [Group],
}

/// Calls about the same things. The order of the methods of a path is that of `Allow`.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The name.
    pub tag: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    pub calls: &'static [CallSpec],
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct CallSpec {
    pub method: &'static str,
    /// Names in braces stand for one segment.
    pub path: &'static str,
    /// What the caller must have. None: no credential.
    pub role: Option<Role>,
    /// What makes the answer.
    pub run: Run,
    /// The longest time of the call.
    pub longest: Duration,
    /// The names in braces of the path.
    pub names: &'static [PathName],
    /// The parameters that the query may have.
    pub query: &'static [Parameter],
    /// The body that it must have. None: a body is ignored.
    pub body: Option<Body>,
    /// Whether it changes something, and so is recorded.
    pub is_change: bool,
    /// Whether it is a part of the program, which contains nothing of this gateway.
    pub is_public: bool,
    /// The name of the operation in the document, which no other call has.
    pub id: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What else a caller should know.
    pub about: &'static str,
    /// The status of an answer that is no problem.
    pub status: StatusCode,
    /// What such an answer means.
    pub done: &'static str,
    pub answer: Content,
    /// Whether an answer can have an entity tag.
    pub has_tag: bool,
    /// Whether it needs `If-Match`.
    pub needs_match: bool,
    /// The statuses of its problems besides those that follow from the rest.
    pub problems: &'static [StatusCode],
    /// Further statuses that are no problems, what each means, and its answer.
    pub others: &'static [(StatusCode, &'static str, SchemaOf)],
}

/// What a function of the table of calls gets.
#[derive(Debug)]
pub struct Asked<'a> {
    pub state: &'a AdminState,
    /// The calls that there are.
    pub api: &'static Api,
    pub node: &'a Node,
    /// The gateway as it was when the call came.
    pub view: &'a View,
    pub call: &'a Call,
    /// The body; empty, if the call has none.
    pub body: Bytes,
}

/// What makes the answer of a call.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// Something that is known.
    Now(fn(Asked<'_>) -> Result<Answer, Problem>),
    /// Something that waits, such as for the store.
    Later(for<'a> fn(Asked<'a>) -> LocalBoxFuture<'a, Result<Answer, Problem>>),
    /// A stream of events, which ends when the caller may no longer read.
    Stream(fn(&AdminState, &Call, MayRead) -> Result<EventBody, Problem>),
}

/// Makes the schema of one type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What an answer contains.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    Json(SchemaOf),
    /// Text of one of these types.
    Text(&'static [&'static str]),
    /// A stream of these events.
    Events(&'static [(&'static str, SchemaOf)]),
}

/// What the body of a request contains.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    /// Its types.
    pub types: &'static [&'static str],
    pub schema: SchemaOf,
    /// Bodies in JSON by name. A test sends each of them.
    pub examples: &'static [(&'static str, &'static str)],
}

impl CallSpec {
    /// A call that `run` answers. The table says its id, its summary and its answer.
    pub const fn new(
        method: &'static str,
        path: &'static str,
        role: Option<Role>,
        run: Run,
    ) -> Self {
        Self {
            method,
            path,
            role,
            run,
            longest: LONGEST,
            names: &[],
            query: &[],
            body: None,
            is_change: matches!(role, Some(Role::Operate)),
            is_public: false,
            id: "",
            summary: "",
            about: "",
            status: StatusCode::OK,
            done: "what was asked for",
            answer: Content::Text(&[]),
            has_tag: false,
            needs_match: false,
            problems: &[],
            others: &[],
        }
    }

    /// A call that reads something.
    pub const fn get(path: &'static str, role: Option<Role>, run: Run) -> Self {
        Self::new("GET", path, role, run)
    }

    /// The call at this path, with this query.
    ///
    /// # Errors
    /// 400, if it cannot be read.
    pub fn read(&self, path: &str, query: Option<&str>) -> Result<Call, Problem> {
        Call::read(self.method, self.path, self.query, path, query)
    }

    /// What the caller must have for this call. None: no credential.
    pub fn role_for(&self, call: &Call) -> Option<Role> {
        if call.reveals() { Some(Role::Operate) } else { self.role }
    }

    /// Whether this call is recorded: it changes something, or shows whole keys.
    pub fn is_recorded(&self, call: &Call) -> bool {
        self.is_change || call.reveals()
    }
}

impl Api {
    /// All calls.
    pub fn calls(&self) -> impl Iterator<Item = &'static CallSpec> + Clone + use<> {
        self.groups.iter().flat_map(|group| group.calls)
    }

    /// The call of this method at this path.
    ///
    /// # Errors
    /// 404, or 405 with the methods of the path, if there is none.
    pub fn find(&self, method: &Method, path: &str) -> Result<&'static CallSpec, Problem> {
        // A response to HEAD is that to GET, without its body.
        let method = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
        // A path of a call is not the value of a parameter: `/v1/keys/find` names no key.
        let is_own = self.calls().any(|it| it.path == path);
        let is_there = |it: &CallSpec| if is_own { it.path == path } else { is_at(it.path, path) };
        let at_path = self.calls().filter(|it| is_there(it));
        if let Some(found) = at_path.clone().find(|it| it.method == method) {
            return Ok(found);
        }
        let allow: Vec<&str> = at_path.map(|it| it.method).collect();
        if allow.is_empty() {
            return Err(Problem::not_found("there is no such call; see docs/admin.md"));
        }
        let allow = allow.join(", ");
        let detail = format!("this path has other methods: {allow}");
        let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail);
        Err(Problem { allow: Some(allow), ..problem })
    }

    /// The name in metrics of a call of this method at this path: never a name that only a
    /// client knows.
    pub fn name(&self, method: &Method, path: &str) -> String {
        match self.find(method, path) {
            Ok(known) => format!("{} {}", known.method, known.path),
            Err(_) => "unknown".to_owned(),
        }
    }
}
