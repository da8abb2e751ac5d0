//! Access lists, and their modes at run time.

mod lists;

use http::StatusCode;

use crate::admin::answer::Page;
use crate::admin::openapi::of;
use crate::admin::parameter::{AFTER, LIMIT, LIST_NAME};
use crate::admin::spec::{Body, CallSpec, Content, Group, JSON, OPERATE, READ, Run};
use crate::patches::NewMode;
use lists::ShownList;

pub const GROUP: Group =
    Group { tag: "access", about: "which requests may use a route", calls: &CALLS };

const CALLS: [CallSpec; 3] = [
    CallSpec {
        id: "getAccessLists",
        summary: "all access lists",
        query: &[AFTER, LIMIT],
        answer: Content::Json(of::<Page<ShownList>>),
        ..CallSpec::get("/v1/access", READ, Run::Now(|it| lists::list(it.node, it.view, it.call)))
    },
    CallSpec {
        id: "getAccessList",
        summary: "one access list",
        names: &[LIST_NAME],
        answer: Content::Json(of::<ShownList>),
        has_tag: true,
        ..CallSpec::get(
            "/v1/access/{list}",
            READ,
            Run::Now(|it| lists::one(it.node, it.view, it.call.value(0))),
        )
    },
    CallSpec {
        id: "patchAccessList",
        summary: "give an access list another mode",
        about: "It takes effect on all nodes that share the store within two seconds. A list with \
                the status 503 and `mode: off` is switched on for maintenance.",
        names: &[LIST_NAME],
        body: Some(Body {
            types: JSON,
            schema: of::<NewMode>,
            examples: &[(
                "for maintenance",
                r#"{"mode": "enforce", "for": "30m", "reason": "a new database"}"#,
            )],
        }),
        done: "the change is made",
        answer: Content::Json(of::<ShownList>),
        has_tag: true,
        needs_match: true,
        problems: &[StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY],
        ..CallSpec::new(
            "PATCH",
            "/v1/access/{list}",
            OPERATE,
            Run::Later(|it| Box::pin(lists::change(it.node, it.call, it.body))),
        )
    },
];
