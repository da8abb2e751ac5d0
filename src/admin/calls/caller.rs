//! What the credential of a caller allows, so that a page shows only what its user may do.

use schemars::JsonSchema;
use serde::Serialize;

use crate::admin::answer::Answer;
use crate::admin::openapi::of;
use crate::admin::spec::{Asked, CallSpec, Content, Group, KEYS, Run};
use crate::api_keys::Teams;

pub const GROUP: Group =
    Group { tag: "caller", about: "the credential of the caller", calls: &CALLS };

const CALLS: [CallSpec; 1] = [CallSpec {
    id: "getCaller",
    summary: "what the credential of this call allows",
    answer: Content::Json(of::<Caller>),
    ..CallSpec::get("/v1/caller", KEYS, Run::Now(|it| Ok(Answer::json(&Caller::of(&it)))))
}];

/// What a credential allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Caller {
    /// Its name in the audit log.
    name: String,
    /// Its role: `keys`, `read` or `operate`.
    role: &'static str,
    /// The teams whose API keys it may see and change. Null: all of them.
    teams: Option<Vec<String>>,
    /// Whether this node has a store for API keys.
    has_key_store: bool,
}

impl Caller {
    fn of(asked: &Asked<'_>) -> Self {
        let call = asked.call;
        let teams = match &call.teams {
            Teams::All => None,
            Teams::Only(teams) => Some(teams.clone()),
        };
        let role = call.role.map_or("", |role| role.as_str());
        let has_key_store = asked.node.keys.is_some();
        Self { name: call.actor.clone(), role, teams, has_key_store }
    }
}
