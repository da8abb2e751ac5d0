//! Single clients: their counters and limits.

mod counters;
mod forms;
mod holder;
mod overrides;
mod principals;
mod subject;

use http::StatusCode;

use crate::admin::Role;
use crate::admin::openapi::of;
use crate::admin::parameter::{POLICY_NAME, PathName, REVEAL};
use crate::admin::spec::{Body, CallSpec, Content, Group, JSON, OPERATE, READ, Run};
use counters::PLAN;
use forms::{NewLimit, Reset, ShownKey, ShownOverride};
use holder::API_KEY;

pub const GROUP: Group =
    Group { tag: "keys", about: "single clients: their counters and limits", calls: &CALLS };

const KEY_NAME: PathName = PathName {
    name: "key",
    about: "the key of a client, as for `tollgate override`, such as an address or an API key; or \
            `~` and an id that an answer has shown",
    example: "192.0.2.7",
    known: None,
};

const CALLS: [CallSpec; 5] = [
    CallSpec {
        id: "getKey",
        summary: "what the counters of a key say",
        about: "It counts nothing.",
        names: &[POLICY_NAME, KEY_NAME],
        query: &[PLAN, API_KEY, REVEAL],
        answer: Content::Json(of::<ShownKey>),
        problems: &[StatusCode::CONFLICT],
        ..CallSpec::get(
            "/v1/policies/{policy}/keys/{key}",
            READ,
            Run::Later(|it| Box::pin(counters::show(it.node, it.view, it.call))),
        )
    },
    CallSpec {
        id: "resetKey",
        summary: "forget the counters of a key",
        about: "It also ends a ban.",
        names: &[POLICY_NAME, KEY_NAME],
        query: &[PLAN, API_KEY],
        done: "the counters are forgotten",
        answer: Content::Json(of::<Reset>),
        problems: &[StatusCode::CONFLICT],
        ..CallSpec::new(
            "DELETE",
            "/v1/policies/{policy}/keys/{key}",
            OPERATE,
            Run::Later(|it| Box::pin(counters::reset(it.node, it.view, it.call))),
        )
    },
    CallSpec {
        id: "getOverride",
        summary: "the limit of a single key",
        ..own_limit(
            "GET",
            READ,
            Run::Later(|it| Box::pin(overrides::show_override(it.node, it.view, it.call))),
        )
    },
    CallSpec {
        id: "setOverride",
        summary: "set the limit of a single key",
        body: Some(Body {
            types: JSON,
            schema: of::<NewLimit>,
            examples: &[
                ("a limit", r#"{"limit": "500/minute"}"#),
                ("none", r#"{"limit": "unlimited"}"#),
            ],
        }),
        done: "the limit is set",
        ..own_limit(
            "PUT",
            OPERATE,
            Run::Later(|it| Box::pin(overrides::set_override(it.node, it.view, it.call, it.body))),
        )
    },
    CallSpec {
        id: "unsetOverride",
        summary: "remove the limit of a single key",
        done: "the key has no limit of its own",
        ..own_limit(
            "DELETE",
            OPERATE,
            Run::Later(|it| Box::pin(overrides::unset_override(it.node, it.view, it.call))),
        )
    },
];

/// A call about the limit of a single key.
const fn own_limit(method: &'static str, role: Option<Role>, run: Run) -> CallSpec {
    CallSpec {
        names: &[POLICY_NAME, KEY_NAME],
        answer: Content::Json(of::<ShownOverride>),
        problems: &[StatusCode::CONFLICT],
        ..CallSpec::new(method, "/v1/policies/{policy}/overrides/{key}", role, run)
    }
}
