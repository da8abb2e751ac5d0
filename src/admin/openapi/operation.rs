//! What the document says of each call that the list of calls does not.
//!
//! An action that is in no group here does not compile, and no two calls have the same summary.

use http::StatusCode;

use super::schemas::{SchemaOf, either, object, of};
use crate::admin::answer::{Health, Page};
use crate::admin::audit::Entry;
use crate::admin::call::Action;
use crate::admin::configuration::{Configuration, EffectiveConfiguration, Replacement, Valid};
use crate::admin::events::{End, Lost, NewRefusals};
use crate::admin::figures::{Figures, HistoryAnswer};
use crate::admin::keys::{NewLimit, Reset, ShownKey, ShownOverride};
use crate::admin::nodes::ShownNode;
use crate::admin::patches::{PoliciesOfCluster, PolicyOfCluster, Removed, ShownPolicy};
use crate::admin::refusals::{Refusals, RefusalsOfRequest};
use crate::admin::status::{State, StatusAnswer, Upstream};
use crate::admin::top::{Top, TopOfCluster};
use crate::engine::{Description, Explanation};
use crate::patches::{NewCandidate, NewPatch};

/// The groups of operations.
pub(super) const TAGS: [(&str, &str); 6] = [
    (HEALTH, "whether the gateway is well"),
    (CONFIGURATION, "the file, and the nodes that share a store"),
    (POLICIES, "what policies do, and changes at run time"),
    (KEYS, "single clients: their counters and limits"),
    (TRAFFIC, "what the gateway does, and why"),
    (PAGE, "the page for browsers, and this document"),
];
const HEALTH: &str = "health";
const CONFIGURATION: &str = "configuration";
const POLICIES: &str = "policies";
const KEYS: &str = "keys";
const TRAFFIC: &str = "traffic";
const PAGE: &str = "page";

/// What calls with `scope` have in common.
const CLUSTER: &str = "With `scope=cluster` the answer has the sums of all nodes, and says which \
                       nodes are missing. The first such call waits for them, 2.5 s at most.";

/// One operation.
#[derive(Clone, Copy)]
pub(super) struct Operation {
    pub(super) tag: &'static str,
    /// What it does, in a line.
    pub(super) summary: &'static str,
    /// What else a caller should know.
    pub(super) about: &'static str,
    /// What an answer with the status 200 means.
    pub(super) done: &'static str,
    pub(super) answer: Content,
    /// Whether an answer can have an entity tag.
    pub(super) has_tag: bool,
    /// Whether it needs `If-Match`.
    pub(super) needs_match: bool,
    /// The statuses of its problems besides those that follow from the list of calls.
    pub(super) problems: &'static [StatusCode],
    pub(super) body: Option<Body>,
}

/// What an answer contains.
#[derive(Clone, Copy)]
pub(super) enum Content {
    Json(SchemaOf),
    /// Text of one of these types.
    Text(&'static [&'static str]),
    /// A stream of these events.
    Events(&'static [(&'static str, SchemaOf)]),
}

/// What the body of a request contains.
#[derive(Clone, Copy)]
pub(super) struct Body {
    pub(super) schema: SchemaOf,
    /// Bodies in JSON by name. A test sends each of them.
    pub(super) examples: &'static [(&'static str, &'static str)],
}

const fn get(tag: &'static str, summary: &'static str, answer: Content) -> Operation {
    Operation {
        tag,
        summary,
        about: "",
        done: "what was asked for",
        answer,
        has_tag: false,
        needs_match: false,
        problems: &[],
        body: None,
    }
}

/// A change of a policy.
const fn change(summary: &'static str, body: Option<Body>) -> Operation {
    Operation {
        about: "It takes effect on all nodes that share the store within two seconds.",
        done: "the change is made",
        has_tag: true,
        needs_match: true,
        problems: &[StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY],
        body,
        // The second one, if a change was removed of a policy that this node does not have.
        ..get(POLICIES, summary, Content::Json(either::<ShownPolicy, Removed>))
    }
}

/// What the document says of the call. A new action is added to one of the groups, and to the
/// function of the group.
pub(super) fn operation(action: Action) -> Operation {
    match action {
        Action::Alive | Action::Ready | Action::Metrics | Action::Status | Action::Upstreams => {
            of_health(action)
        }
        Action::Config
        | Action::PutConfig
        | Action::CheckConfig
        | Action::Reload
        | Action::Nodes
        | Action::Audit => of_configuration(action),
        Action::Policies
        | Action::Policy
        | Action::PatchPolicy
        | Action::UnpatchPolicy
        | Action::SetCandidate
        | Action::UnsetCandidate => of_policies(action),
        Action::Key
        | Action::ResetKey
        | Action::Override
        | Action::SetOverride
        | Action::UnsetOverride => of_keys(action),
        Action::Top
        | Action::Explain
        | Action::Refusals
        | Action::Refusal
        | Action::History
        | Action::Events => of_traffic(action),
        Action::OpenApi => get(PAGE, "this document", Content::Json(object)),
        Action::Page => get(PAGE, "the page for browsers", Content::Text(&["text/html"])),
        Action::PageFile => {
            const TYPES: &[&str] = &["text/html", "text/css", "text/javascript", "image/svg+xml"];
            get(PAGE, "a file of the page", Content::Text(TYPES))
        }
    }
}

fn of_health(action: Action) -> Operation {
    match action {
        Action::Alive => get(HEALTH, "whether the process runs", Content::Json(of::<Health>)),
        Action::Ready => Operation {
            about: "The listener for health checks serves it, too.",
            ..get(HEALTH, "whether the gateway serves requests", Content::Json(of::<Health>))
        },
        Action::Metrics => Operation {
            about: "The format is the text format of Prometheus, version 0.0.4.",
            ..get(HEALTH, "the metrics", Content::Text(&["text/plain"]))
        },
        Action::Status => {
            get(HEALTH, "what is wrong and since when", Content::Json(of::<StatusAnswer>))
        }
        _ => get(HEALTH, "endpoints and their state", Content::Json(of::<Page<Upstream>>)),
    }
}

fn of_configuration(action: Action) -> Operation {
    match action {
        Action::Config => Operation {
            has_tag: true,
            ..get(
                CONFIGURATION,
                "the configuration in use, without secrets",
                // As it is written, or what is true of it.
                Content::Json(either::<Configuration<'static>, EffectiveConfiguration>),
            )
        },
        Action::PutConfig => put_config(),
        Action::CheckConfig => check_config(),
        Action::Reload => Operation {
            about: "It is what SIGHUP does, and waits for the result, 30 s at most. A file with \
                    mistakes changes nothing. It replaces a configuration that a call has given.",
            done: "the file runs",
            has_tag: true,
            problems: &[StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY],
            ..get(CONFIGURATION, "read the file again", Content::Json(of::<Replacement>))
        },
        Action::Audit => get(
            CONFIGURATION,
            "the last changes, calls that showed whole keys, and failed logins of this node, the last \
             one first",
            Content::Json(of::<Page<Entry>>),
        ),
        _ => get(
            CONFIGURATION,
            "the nodes that share the store",
            Content::Json(of::<Page<ShownNode>>),
        ),
    }
}

fn of_traffic(action: Action) -> Operation {
    match action {
        Action::Top => Operation {
            about: CLUSTER,
            ..get(
                TRAFFIC,
                "the clients with the most requests",
                Content::Json(either::<Top, TopOfCluster>),
            )
        },
        Action::Explain => explain(),
        Action::Refusals => {
            get(TRAFFIC, "the last refusals of this node", Content::Json(of::<Refusals>))
        }
        Action::Refusal => get(
            TRAFFIC,
            "the refusals of the requests with one id",
            Content::Json(of::<RefusalsOfRequest>),
        ),
        Action::Events => events(),
        _ => {
            get(TRAFFIC, "the figures of the last ten minutes", Content::Json(of::<HistoryAnswer>))
        }
    }
}

fn of_policies(action: Action) -> Operation {
    match action {
        Action::Policy => Operation {
            about: CLUSTER,
            has_tag: true,
            ..get(POLICIES, "one policy", Content::Json(either::<ShownPolicy, PolicyOfCluster>))
        },
        Action::PatchPolicy => change(
            "change values of a policy",
            Some(Body {
                schema: of::<NewPatch>,
                examples: &[(
                    "for an event",
                    r#"{"limit": "200/1m", "for": "30m", "reason": "launch"}"#,
                )],
            }),
        ),
        Action::UnpatchPolicy => change("go back to the file", None),
        Action::SetCandidate => change(
            "try another limit in shadow",
            Some(Body {
                schema: of::<NewCandidate>,
                examples: &[(
                    "for a day",
                    r#"{"limit": "50/1h", "for": "1d", "reason": "is it enough?"}"#,
                )],
            }),
        ),
        Action::UnsetCandidate => change("end the trial of another limit", None),
        _ => Operation {
            about: CLUSTER,
            ..get(
                POLICIES,
                "all policies",
                Content::Json(either::<Page<ShownPolicy>, PoliciesOfCluster>),
            )
        },
    }
}

fn of_keys(action: Action) -> Operation {
    let overrides = |summary, done| Operation {
        done,
        problems: &[StatusCode::CONFLICT],
        ..get(KEYS, summary, Content::Json(of::<ShownOverride>))
    };
    match action {
        Action::ResetKey => Operation {
            about: "It also ends a ban.",
            done: "the counters are forgotten",
            problems: &[StatusCode::CONFLICT],
            ..get(KEYS, "forget the counters of a key", Content::Json(of::<Reset>))
        },
        Action::Override => overrides("the limit of a single key", "what was asked for"),
        Action::SetOverride => Operation {
            body: Some(Body {
                schema: of::<NewLimit>,
                examples: &[
                    ("a limit", r#"{"limit": "500/minute"}"#),
                    ("none", r#"{"limit": "unlimited"}"#),
                ],
            }),
            ..overrides("set the limit of a single key", "the limit is set")
        },
        Action::UnsetOverride => {
            overrides("remove the limit of a single key", "the key has no limit of its own")
        }
        _ => Operation {
            about: "It counts nothing.",
            ..get(KEYS, "what the counters of a key say", Content::Json(of::<ShownKey>))
        },
    }
}

/// A configuration that answers by itself.
const SMALL: (&str, &str) = (
    "a gateway that answers by itself",
    r#"{"listeners": [{"address": "127.0.0.1:8080"}],
        "routes": [{"path": "/*", "respond": {"body": "ok"}}]}"#,
);

fn put_config() -> Operation {
    Operation {
        about: "It runs on this node only, until its file changes, SIGHUP comes, or the process \
                ends. With `write` it also replaces the file, which `admin.write_config` must \
                allow.",
        done: "the configuration runs",
        has_tag: true,
        needs_match: true,
        problems: &[StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY],
        body: Some(Body { schema: object, examples: &[SMALL] }),
        ..get(CONFIGURATION, "run another configuration", Content::Json(of::<Replacement>))
    }
}

fn check_config() -> Operation {
    Operation {
        about: "Nothing changes. `tollgate schema` prints the schema of the body. The check runs \
                in the environment of the gateway.",
        done: "the configuration can be used",
        problems: &[StatusCode::UNPROCESSABLE_ENTITY],
        body: Some(Body { schema: object, examples: &[SMALL] }),
        ..get(CONFIGURATION, "the mistakes of a configuration", Content::Json(of::<Valid>))
    }
}

fn explain() -> Operation {
    Operation {
        about: "It counts nothing.",
        body: Some(Body {
            schema: of::<Description>,
            examples: &[(
                "a request with an API key",
                r#"{"method": "GET", "url": "https://api.example.com/v1/orders",
                    "headers": {"X-Api-Key": "4f9d81"}, "peer": "203.0.113.7"}"#,
            )],
        }),
        ..get(TRAFFIC, "what a request would get, and why", Content::Json(of::<Explanation>))
    }
}

fn events() -> Operation {
    const EVENTS: &[(&str, SchemaOf)] = &[
        ("summary", of::<Figures>),
        ("state", of::<State>),
        ("refusals", of::<NewRefusals>),
        ("lost", of::<Lost>),
        ("end", of::<End>),
    ];
    Operation {
        about: "`x-events` has the schemas of the data of events. A comment is sent after 15 s of \
                silence. A slow client loses events, and `lost` says how many. `end` is the last \
                event.",
        done: "the stream, until the client closes it, its credential ends, or the node drains",
        ..get(TRAFFIC, "a stream of figures, refusals and the state", Content::Events(EVENTS))
    }
}
