//! `Prefer: status`: the status and the fields of a decision.

use serde_json::json;

use super::api::Caller;
use crate::support::{Gateway, Response};

const PREFERS: [&str; 1] = ["Prefer: status"];

/// What a client reads that knows no body of this API.
fn told(response: &Response) -> [Option<&str>; 3] {
    ["preference-applied", "retry-after", "ratelimit"].map(|name| response.field(name))
}

/// Regression: a refusal of several questions together had a status, and no field.
#[test]
fn questions_that_are_decided_together_have_the_fields_of_their_decision() {
    let gateway = Gateway::start(
        "check: { http: { address: \"127.0.0.1:0\" } }\n\
         policies:\n  \
           one: { key: \"header:x-client\", limit: 1/day, algorithm: fixed_window }\n  \
           many: { key: \"header:x-client\", limit: 9/day, algorithm: fixed_window }\n\
         routes: [{ path: /*, respond: { status: 204 } }]\n\
         runtime: { workers: 1 }\n",
    );
    let mut caller = Caller::at(gateway.address());
    let checks = json!([{ "policy": "many", "key": "ann" }, { "policy": "one", "key": "ann" }]);
    let together = json!({ "together": true, "checks": checks }).to_string();
    let admitted = caller.response("/v1/check", &together, &PREFERS);
    assert_eq!(admitted.status, 200);
    let [applied, wait, limits] = told(&admitted);
    assert_eq!((applied, wait), (Some("status"), None));
    assert!(limits.is_some_and(|it| it.contains("\"one\";r=0")), "{admitted:?}");
    let refused = caller.response("/v1/check", &together, &PREFERS);
    let answers = &refused.json()["answers"];
    let wait_ms = answers[0]["retry_after_ms"].as_u64().expect("it is a number");
    assert_eq!((refused.status, refused.number("retry-after")), (429, wait_ms.div_ceil(1000)));
    assert_eq!(told(&refused)[0], Some("status"));
    // Without the preference, and for questions that are decided alone, the status is 200.
    let response = caller.response("/v1/check", &together, &[]);
    assert_eq!((response.status, told(&response)), (200, [None; 3]));
    let alone = json!({ "checks": checks }).to_string();
    let response = caller.response("/v1/check", &alone, &PREFERS);
    assert_eq!((response.status, told(&response)), (200, [None; 3]));
}
