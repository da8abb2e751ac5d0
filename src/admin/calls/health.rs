//! Whether the gateway is well.

use http::StatusCode;

use crate::admin::answer::{Answer, Health, HealthWord, Page};
use crate::admin::figures;
use crate::admin::node::Phase;
use crate::admin::openapi::of;
use crate::admin::parameter::PAGE;
use crate::admin::spec::{CallSpec, Content, Group, METRICS, READ, Run};
use crate::admin::status::{self, StatusAnswer, Upstream};

pub const GROUP: Group =
    Group { tag: "health", about: "whether the gateway is well", calls: &CALLS };

const CALLS: [CallSpec; 5] = [
    CallSpec {
        id: "getAlive",
        summary: "whether the process runs",
        answer: Content::Json(of::<Health>),
        ..CallSpec::get("/healthz", None, Run::Now(|_| Ok(Answer::health(HealthWord::Alive))))
    },
    CallSpec {
        id: "getReady",
        summary: "whether the gateway serves requests",
        about: "The listener for health checks serves it, too.",
        answer: Content::Json(of::<Health>),
        others: &[(StatusCode::SERVICE_UNAVAILABLE, "the gateway drains", of::<Health>)],
        ..CallSpec::get(
            "/readyz",
            None,
            Run::Now(|it| {
                Ok(match it.view.phase {
                    Phase::Serving => {
                        Answer::health_without(HealthWord::Ready, it.state.status.store_causes())
                    }
                    Phase::Draining => Answer::health(HealthWord::Draining),
                })
            }),
        )
    },
    CallSpec {
        id: "getMetrics",
        summary: "the metrics",
        about: "The format is the text format of Prometheus, version 0.0.4.",
        answer: Content::Text(&["text/plain"]),
        ..CallSpec::get(
            "/metrics",
            METRICS,
            Run::Now(|it| Ok(Answer::metrics(it.node.metrics.render()))),
        )
    },
    CallSpec {
        id: "getStatus",
        summary: "what is wrong and since when",
        answer: Content::Json(of::<StatusAnswer>),
        ..CallSpec::get(
            "/v1/status",
            READ,
            Run::Now(|it| {
                let rates = figures::rates(&it.node.history);
                Ok(Answer::json(&StatusAnswer { state: it.state.status.answer(it.view), rates }))
            }),
        )
    },
    CallSpec {
        id: "getUpstreams",
        summary: "endpoints and their state",
        query: PAGE,
        answer: Content::Json(of::<Page<Upstream>>),
        ..CallSpec::get(
            "/v1/upstreams",
            READ,
            Run::Now(|it| Answer::page(status::upstreams(it.view), it.call)),
        )
    },
];
