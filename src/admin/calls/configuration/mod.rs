//! The configuration, and the nodes that share a store.

mod config;
mod differences;
mod nodes;

use std::time::Duration;

use http::StatusCode;

use crate::admin::answer::{Answer, Page};
use crate::admin::audit::Entry;
use crate::admin::openapi::{either, object, of};
use crate::admin::parameter::{PAGE, Parameter, Values};
use crate::admin::spec::{Body, CallSpec, Content, Group, JSON_OR_YAML, OPERATE, READ, Run};
use config::{Configuration, EffectiveConfiguration, Replacement, Valid};
pub use config::{ask, may_write};
use nodes::ShownNode;

pub const GROUP: Group = Group {
    tag: "configuration",
    about: "the file, and the nodes that share a store",
    calls: &CALLS,
};

/// The longest time of a reload, which reads all files again and may fetch a key set.
const RELOAD: Duration = Duration::from_secs(30);

/// A configuration that answers by itself.
const SMALL: (&str, &str) = (
    "a gateway that answers by itself",
    r#"{"listeners": [{"address": "127.0.0.1:8080"}],
        "routes": [{"path": "/*", "respond": {"body": "ok"}}]}"#,
);

const CALLS: [CallSpec; 6] = [
    CallSpec {
        id: "getConfig",
        summary: "the configuration in use, without secrets",
        query: &[Parameter {
            name: "view",
            about: "what is shown: the file as it is written, or what is true of it",
            values: Values::Word(&["file", "effective"]),
        }],
        // As it is written, or what is true of it.
        answer: Content::Json(either::<Configuration<'static>, EffectiveConfiguration>),
        has_tag: true,
        ..CallSpec::get("/v1/config", READ, Run::Now(|it| Ok(config::show(it.view, it.call))))
    },
    CallSpec {
        id: "putConfig",
        summary: "run another configuration",
        about: "It runs on this node only, until its file changes, SIGHUP comes, or the process \
                ends. With `write` it also replaces the file, which `admin.write_config` must \
                allow.",
        query: &[Parameter {
            name: "write",
            about: "whether it also replaces the file",
            values: Values::Word(&["false", "true"]),
        }],
        body: Some(Body { types: JSON_OR_YAML, schema: object, examples: &[SMALL] }),
        done: "the configuration runs",
        answer: Content::Json(of::<Replacement>),
        has_tag: true,
        needs_match: true,
        problems: &[StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY],
        ..CallSpec::new(
            "PUT",
            "/v1/config",
            OPERATE,
            Run::Later(|it| Box::pin(config::put(it.node, it.view, it.call, it.body))),
        )
    },
    CallSpec {
        id: "checkConfig",
        summary: "the mistakes of a configuration",
        about: "Nothing changes. `tollgate schema` prints the schema of the body. The check runs \
                in the environment of the gateway.",
        body: Some(Body { types: JSON_OR_YAML, schema: object, examples: &[SMALL] }),
        done: "the configuration can be used",
        answer: Content::Json(of::<Valid>),
        is_change: false,
        problems: &[StatusCode::UNPROCESSABLE_ENTITY],
        // It reads files and variables that a configuration may name, and a mistake may tell
        // something of their contents: a reader could find the tokens of operators by it.
        ..CallSpec::new(
            "POST",
            "/v1/config/check",
            OPERATE,
            Run::Later(|it| Box::pin(config::check(it.node, it.view, &it.state.checks, it.body))),
        )
    },
    CallSpec {
        id: "reload",
        summary: "read the file again",
        about: "It is what SIGHUP does, and waits for the result, 30 s at most. A file with \
                mistakes changes nothing. It replaces a configuration that a call has given.",
        longest: RELOAD,
        done: "the file runs",
        answer: Content::Json(of::<Replacement>),
        has_tag: true,
        problems: &[StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY],
        ..CallSpec::new(
            "POST",
            "/v1/reload",
            OPERATE,
            Run::Later(|it| Box::pin(config::reload(it.node, it.call))),
        )
    },
    CallSpec {
        id: "getNodes",
        summary: "the nodes that share the store",
        query: PAGE,
        answer: Content::Json(of::<Page<ShownNode>>),
        ..CallSpec::get("/v1/nodes", READ, Run::Later(|it| Box::pin(nodes::list(it.node, it.call))))
    },
    CallSpec {
        id: "getAudit",
        summary: "the last changes, calls that showed whole keys, and failed logins of this node, \
                  the last one first",
        query: PAGE,
        answer: Content::Json(of::<Page<Entry>>),
        ..CallSpec::get(
            "/v1/audit",
            READ,
            Run::Now(|it| {
                let entries = it.state.audit.entries().into_iter();
                Answer::page(entries.map(|it| (it.number.to_string(), it)).collect(), it.call)
            }),
        )
    },
];
