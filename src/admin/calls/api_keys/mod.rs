//! API keys and teams in the store.

mod answers;

use http::StatusCode;

use crate::admin::openapi::of;
use crate::admin::parameter::{AFTER, LIMIT, Parameter, PathName, Values};
use crate::admin::spec::{Body, CallSpec, Content, Group, JSON, KEYS, Run};
use crate::api_keys::{
    CreatedKey, FoundKey, Import, Imported, KeyPage, KeyPatch, NewKeyForm, Rotation, ShownKey,
    ShownTeam, TeamForm, Unique,
};
use answers::AllTeams;

pub const GROUP: Group =
    Group { tag: "API keys", about: "API keys and teams in the store", calls: &CALLS };

const ID: PathName =
    PathName { name: "id", about: "the id of a key", example: "7f2m9qd0v3xk", known: None };
const TEAM: PathName =
    PathName { name: "name", about: "the name of a team", example: "acme", known: None };
const OF_TEAM: Parameter =
    Parameter { name: "team", about: "only those of this team", values: Values::Text };
const IN_STATE: Parameter = Parameter {
    name: "state",
    about: "only those in this state",
    values: Values::Word(&["active", "expired", "disabled", "revoked"]),
};
const NEW_KEY: Body = Body {
    types: JSON,
    schema: of::<NewKeyForm>,
    examples: &[(
        "for a customer",
        r#"{"name": "acme-prod", "team": "acme", "plan": "pro", "labels": {"env": "prod"}}"#,
    )],
};

const CALLS: [CallSpec; 12] = [
    CallSpec {
        id: "getApiKeys",
        summary: "the API keys of the store",
        about: "A page can have fewer keys than were asked for: go on until `next` is null.",
        query: &[OF_TEAM, IN_STATE, LIMIT, AFTER],
        answer: Content::Json(of::<KeyPage>),
        problems: &[StatusCode::CONFLICT],
        ..CallSpec::get("/v1/keys", KEYS, Run::Later(|it| Box::pin(answers::list(it))))
    },
    CallSpec {
        id: "createApiKey",
        summary: "make an API key",
        about: "The answer has the text of the key, which no other call shows.",
        body: Some(NEW_KEY),
        status: StatusCode::CREATED,
        done: "the key, with its text",
        answer: Content::Json(of::<CreatedKey>),
        has_tag: true,
        ..change("POST", "/v1/keys", Run::Later(|it| Box::pin(answers::create(it))))
    },
    CallSpec {
        id: "findApiKey",
        summary: "find the key that a text belongs to",
        about: "It is for a key that was found somewhere. The text is not logged.",
        body: Some(Body {
            types: JSON,
            schema: of::<Unique>,
            examples: &[("a key", r#"{"key": "tg_7f2m9qd0v3xk_..."}"#)],
        }),
        done: "the id of the key",
        answer: Content::Json(of::<FoundKey>),
        problems: &[StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY],
        ..change("POST", "/v1/keys/find", Run::Later(|it| Box::pin(answers::find(it))))
    },
    CallSpec {
        id: "importApiKeys",
        summary: "store keys of another program",
        about: "A key that cannot be stored is in `refused`, and the others are stored.",
        body: Some(Body {
            types: JSON,
            schema: of::<Import>,
            examples: &[("a text", r#"{"keys": [{"key": "an-old-key-of-another-program"}]}"#)],
        }),
        done: "what became of the keys",
        answer: Content::Json(of::<Imported>),
        ..change("POST", "/v1/keys/import", Run::Later(|it| Box::pin(answers::import(it))))
    },
    CallSpec {
        id: "getApiKey",
        summary: "one API key",
        names: &[ID],
        answer: Content::Json(of::<ShownKey>),
        has_tag: true,
        problems: &[StatusCode::CONFLICT],
        ..CallSpec::get("/v1/keys/{id}", KEYS, Run::Later(|it| Box::pin(answers::show(it))))
    },
    CallSpec {
        id: "putApiKey",
        summary: "make an API key with an id of your choice",
        about: "It needs `If-None-Match: *`. If the answer is lost, a second call gets 412: then \
                rotate the key with the overlap 0s.",
        names: &[ID],
        body: Some(NEW_KEY),
        status: StatusCode::CREATED,
        done: "the key, with its text",
        answer: Content::Json(of::<CreatedKey>),
        has_tag: true,
        problems: &[
            StatusCode::CONFLICT,
            StatusCode::UNPROCESSABLE_ENTITY,
            StatusCode::PRECONDITION_FAILED,
            StatusCode::PRECONDITION_REQUIRED,
        ],
        ..change("PUT", "/v1/keys/{id}", Run::Later(|it| Box::pin(answers::put(it))))
    },
    CallSpec {
        id: "patchApiKey",
        summary: "change an API key",
        names: &[ID],
        body: Some(Body {
            types: JSON,
            schema: of::<KeyPatch>,
            examples: &[("another plan", r#"{"plan": "pro", "name": null}"#)],
        }),
        answer: Content::Json(of::<ShownKey>),
        has_tag: true,
        needs_match: true,
        ..change("PATCH", "/v1/keys/{id}", Run::Later(|it| Box::pin(answers::patch(it))))
    },
    CallSpec {
        id: "revokeApiKey",
        summary: "revoke an API key for ever",
        about: "The last request with it passes within two seconds. `If-Match` is optional.",
        names: &[ID],
        done: "the key is revoked",
        answer: Content::Json(of::<ShownKey>),
        has_tag: true,
        problems: &[StatusCode::CONFLICT, StatusCode::PRECONDITION_FAILED],
        ..change("DELETE", "/v1/keys/{id}", Run::Later(|it| Box::pin(answers::revoke(it))))
    },
    CallSpec {
        id: "rotateApiKey",
        summary: "make a new secret for an API key",
        about: "Both secrets are accepted during the overlap. `If-Match` is optional.",
        names: &[ID],
        body: Some(Body {
            types: JSON,
            schema: of::<Rotation>,
            examples: &[("a week", r#"{"overlap": "7d"}"#)],
        }),
        status: StatusCode::CREATED,
        done: "the key, with its new text",
        answer: Content::Json(of::<CreatedKey>),
        has_tag: true,
        problems: &[
            StatusCode::CONFLICT,
            StatusCode::UNPROCESSABLE_ENTITY,
            StatusCode::PRECONDITION_FAILED,
        ],
        ..change("POST", "/v1/keys/{id}/rotate", Run::Later(|it| Box::pin(answers::rotate(it))))
    },
    CallSpec {
        id: "getTeams",
        summary: "the teams of the store",
        answer: Content::Json(of::<AllTeams>),
        problems: &[StatusCode::CONFLICT],
        ..CallSpec::get("/v1/teams", KEYS, Run::Later(|it| Box::pin(answers::teams(it))))
    },
    CallSpec {
        id: "getTeam",
        summary: "one team",
        names: &[TEAM],
        answer: Content::Json(of::<ShownTeam>),
        has_tag: true,
        problems: &[StatusCode::CONFLICT],
        ..CallSpec::get("/v1/teams/{name}", KEYS, Run::Later(|it| Box::pin(answers::show_team(it))))
    },
    CallSpec {
        id: "putTeam",
        summary: "say what the keys of a team have in common",
        about: "A new team needs `If-None-Match: *`, and one that is there `If-Match`.",
        names: &[TEAM],
        body: Some(Body {
            types: JSON,
            schema: of::<TeamForm>,
            examples: &[("a plan", r#"{"plan": "pro", "limits": {"per-team": "5000/minute"}}"#)],
        }),
        answer: Content::Json(of::<ShownTeam>),
        has_tag: true,
        problems: &[
            StatusCode::CONFLICT,
            StatusCode::UNPROCESSABLE_ENTITY,
            StatusCode::PRECONDITION_FAILED,
            StatusCode::PRECONDITION_REQUIRED,
        ],
        ..change("PUT", "/v1/teams/{name}", Run::Later(|it| Box::pin(answers::put_team(it))))
    },
];

/// A call that changes keys.
const fn change(method: &'static str, path: &'static str, run: Run) -> CallSpec {
    CallSpec {
        is_change: true,
        problems: &[StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY],
        ..CallSpec::new(method, path, KEYS, run)
    }
}
