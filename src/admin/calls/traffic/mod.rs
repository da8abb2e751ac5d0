//! What the gateway does, and why.

mod explain;
mod top;

use crate::admin::events::{End, Lost, NewRefusals, NewWarnings};
use crate::admin::figures::{self, Figures, HistoryAnswer};
use crate::admin::openapi::{either, of};
use crate::admin::parameter::{
    AFTER, CLUSTER, LIMIT, POLICY, Parameter, PathName, REVEAL, SCOPE, Values, number,
};
use crate::admin::refusals::{self, Refusals, RefusalsOfRequest};
use crate::admin::spec::{Body, CallSpec, Content, Group, JSON, READ, Run};
use crate::admin::status::State;
use crate::engine::{Description, Explanation};
use crate::telemetry::HISTORY_SECONDS;
use top::{Top, TopOfCluster};

pub const GROUP: Group =
    Group { tag: "traffic", about: "what the gateway does, and why", calls: &CALLS };

const CALLS: [CallSpec; 6] = [
    CallSpec {
        id: "getTop",
        summary: "the clients with the most requests",
        about: CLUSTER,
        query: &[
            POLICY,
            number(
                "minutes",
                "complete minutes; 0: the minute in progress. With `scope=cluster` it is 0",
                0,
                10,
                0,
            ),
            number("limit", "the most clients of a policy", 1, 128, 20),
            SCOPE,
            REVEAL,
        ],
        answer: Content::Json(either::<Top, TopOfCluster>),
        ..CallSpec::get(
            "/v1/top",
            READ,
            Run::Later(|it| Box::pin(top::show(it.node, it.state.clock.wall(), it.call))),
        )
    },
    CallSpec {
        id: "explain",
        summary: "what a request would get, and why",
        about: "It counts nothing.",
        body: Some(Body {
            types: JSON,
            schema: of::<Description>,
            examples: &[(
                "a request with an API key",
                r#"{"method": "GET", "url": "https://api.example.com/v1/orders",
                    "headers": {"X-Api-Key": "4f9d81"}, "peer": "203.0.113.7"}"#,
            )],
        }),
        answer: Content::Json(of::<Explanation>),
        ..CallSpec::new(
            "POST",
            "/v1/explain",
            READ,
            Run::Later(|it| Box::pin(explain::explain(it.node, it.view, it.body))),
        )
    },
    CallSpec {
        id: "getRefusals",
        summary: "the last refusals of this node",
        query: &[POLICY, LIMIT, AFTER, REVEAL],
        answer: Content::Json(of::<Refusals>),
        ..CallSpec::get(
            "/v1/refusals",
            READ,
            Run::Now(|it| refusals::list(&it.node.refusals, it.call)),
        )
    },
    CallSpec {
        id: "getRefusal",
        summary: "the refusals of the requests with one id",
        names: &[PathName {
            name: "request-id",
            about: "`X-Request-Id` of the response",
            example: "7f9c1d2e",
            known: None,
        }],
        query: &[REVEAL],
        answer: Content::Json(of::<RefusalsOfRequest>),
        ..CallSpec::get(
            "/v1/refusals/{request-id}",
            READ,
            Run::Now(|it| refusals::of_request(&it.node.refusals, it.call)),
        )
    },
    CallSpec {
        id: "getHistory",
        summary: "the figures of the last ten minutes",
        query: &[
            number("seconds", "how far it reaches back", 1, HISTORY_SECONDS, HISTORY_SECONDS),
            number("step", "the length of a step in seconds", 1, 60, 10),
            number(
                "policies",
                "for how many policies the decisions and refusals are listed, too: those with the \
                 most refusals first",
                0,
                100,
                0,
            ),
        ],
        answer: Content::Json(of::<HistoryAnswer>),
        ..CallSpec::get(
            "/v1/history",
            READ,
            Run::Now(|it| Ok(figures::history(&it.node.history, it.call))),
        )
    },
    CallSpec {
        id: "getEvents",
        summary: "a stream of figures, refusals, warnings of budgets and the state",
        about: "`x-events` has the schemas of the data of events. A comment is sent after 15 s of \
                silence. A slow client loses events, and `lost` says how many. `end` is the last \
                event.",
        query: &[Parameter {
            name: "topics",
            about: "the events of the stream",
            values: Values::Words(&["summary", "state", "refusals", "budgets"]),
        }],
        done: "the stream, until the client closes it, its credential ends, or the node drains",
        answer: Content::Events(&[
            ("summary", of::<Figures>),
            ("state", of::<State>),
            ("refusals", of::<NewRefusals>),
            ("budgets", of::<NewWarnings>),
            ("lost", of::<Lost>),
            ("end", of::<End>),
        ]),
        ..CallSpec::get(
            "/v1/events",
            READ,
            Run::Stream(|state, call, may_read| {
                let node = &state.node;
                state.events.stream(call, &node.refusals, &node.budgets, may_read)
            }),
        )
    },
];
