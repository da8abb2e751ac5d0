//! Policies, and their changes at run time.

mod effect;
mod patches;

use http::StatusCode;

use crate::admin::answer::Page;
use crate::admin::body::read_json;
use crate::admin::openapi::{either, of};
use crate::admin::parameter::{AFTER, CLUSTER, LIMIT, POLICY_NAME, SCOPE};
use crate::admin::spec::{Body, CallSpec, Content, Group, JSON, OPERATE, READ, Run};
use crate::patches::{NewCandidate, NewPatch, Requested};
pub use effect::{limit, policy};
use patches::{PoliciesOfCluster, PolicyOfCluster, Removed, ShownPolicy};

pub const GROUP: Group =
    Group { tag: "policies", about: "what policies do, and changes at run time", calls: &CALLS };

const CALLS: [CallSpec; 6] = [
    CallSpec {
        id: "getPolicies",
        summary: "all policies",
        about: CLUSTER,
        query: &[AFTER, LIMIT, SCOPE],
        answer: Content::Json(either::<Page<ShownPolicy>, PoliciesOfCluster>),
        ..CallSpec::get(
            "/v1/policies",
            READ,
            Run::Later(|it| Box::pin(patches::list(it.state, it.view, it.call))),
        )
    },
    CallSpec {
        id: "getPolicy",
        summary: "one policy",
        about: CLUSTER,
        names: &[POLICY_NAME],
        query: &[SCOPE],
        answer: Content::Json(either::<ShownPolicy, PolicyOfCluster>),
        has_tag: true,
        ..CallSpec::get(
            "/v1/policies/{policy}",
            READ,
            Run::Later(|it| Box::pin(patches::show(it.state, it.view, it.call))),
        )
    },
    CallSpec {
        id: "patchPolicy",
        summary: "change values of a policy",
        body: Some(Body {
            types: JSON,
            schema: of::<NewPatch>,
            examples: &[(
                "for an event",
                r#"{"limit": "200/1m", "for": "30m", "reason": "launch"}"#,
            )],
        }),
        ..change(
            "PATCH",
            "/v1/policies/{policy}",
            Run::Later(|it| {
                Box::pin(patches::change(
                    it.state,
                    it.call,
                    read_json(&it.body).map(Requested::Patch),
                ))
            }),
        )
    },
    CallSpec {
        id: "unpatchPolicy",
        summary: "go back to the file",
        ..change(
            "DELETE",
            "/v1/policies/{policy}/patch",
            Run::Later(|it| {
                Box::pin(patches::change(it.state, it.call, Ok(Requested::RemovePatch)))
            }),
        )
    },
    CallSpec {
        id: "setCandidate",
        summary: "try another limit in shadow",
        body: Some(Body {
            types: JSON,
            schema: of::<NewCandidate>,
            examples: &[(
                "for a day",
                r#"{"limit": "50/1h", "for": "1d", "reason": "is it enough?"}"#,
            )],
        }),
        ..change(
            "PUT",
            "/v1/policies/{policy}/candidate",
            Run::Later(|it| {
                Box::pin(patches::change(
                    it.state,
                    it.call,
                    read_json(&it.body).map(Requested::Candidate),
                ))
            }),
        )
    },
    CallSpec {
        id: "unsetCandidate",
        summary: "end the trial of another limit",
        ..change(
            "DELETE",
            "/v1/policies/{policy}/candidate",
            Run::Later(|it| {
                Box::pin(patches::change(it.state, it.call, Ok(Requested::RemoveCandidate)))
            }),
        )
    },
];

/// A change of a policy.
const fn change(method: &'static str, path: &'static str, run: Run) -> CallSpec {
    CallSpec {
        about: "It takes effect on all nodes that share the store within two seconds.",
        names: &[POLICY_NAME],
        done: "the change is made",
        // The second one, if a change was removed of a policy that this node does not have.
        answer: Content::Json(either::<ShownPolicy, Removed>),
        has_tag: true,
        needs_match: true,
        problems: &[StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY],
        ..CallSpec::new(method, path, OPERATE, run)
    }
}
