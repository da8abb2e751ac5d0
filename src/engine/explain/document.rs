//! The form in which a decision is explained: the answer of `POST /v1/explain`, and what
//! `tollgate explain` prints. All times of limits are those of the store.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_core::algorithm::Retry;
use tollgate_core::time::Timestamp;

/// What a request would get now, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Explanation {
    /// `admitted` or `refused`.
    pub(crate) decision: String,
    /// One word for the reason, as in the access log.
    pub(crate) reason: String,
    /// Why a request is refused that no limit refuses.
    #[serde(default)]
    pub(crate) detail: Option<String>,
    /// The status of a refusal.
    #[serde(default)]
    pub(crate) status: Option<u16>,
    /// The wait of a refused client in milliseconds.
    #[serde(default)]
    pub(crate) retry_after_ms: Option<Wait>,
    /// How long an admitted request is delayed, in milliseconds.
    #[serde(default)]
    pub(crate) delay_ms: u64,
    /// The policy whose numbers the client is told, or which demands what is missing.
    #[serde(default)]
    pub(crate) binding: Option<String>,
    /// Where the counters were read: `store`, `local` or `policy`.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// The time by the wall clock of the node.
    #[serde(default)]
    pub(crate) at: String,
    #[serde(default)]
    pub(crate) route: RouteChoice,
    #[serde(default)]
    pub(crate) client: ClientAddress,
    #[serde(default)]
    pub(crate) policies: Vec<PolicyVerdict>,
    /// The policies of the route that do not judge the request.
    #[serde(default)]
    pub(crate) skipped: Vec<Reason>,
    /// The fields about limits that the client would get.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// How many configurations have been in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<u64>,
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
}

/// A wait in milliseconds, or `never`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Wait {
    Ms(u64),
    Never(#[schemars(extend("const" = "never"))] String),
}

/// The selected route, and those before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RouteChoice {
    /// None: no route is selected.
    pub(crate) name: Option<String>,
    /// Its pattern of paths.
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) passed_over: Vec<Reason>,
    /// How many more routes were passed over.
    #[serde(default)]
    pub(crate) others_passed_over: usize,
}

/// A name, and why something does not apply to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Reason {
    pub(crate) name: String,
    pub(crate) because: String,
}

/// The masked address of the client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ClientAddress {
    pub(crate) ip: String,
    pub(crate) because: String,
}

/// What one policy says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PolicyVerdict {
    pub(crate) name: String,
    /// The word of metrics and logs, such as `refused`.
    pub(crate) verdict: String,
    /// `enforce` or `shadow`.
    #[serde(default)]
    pub(crate) mode: String,
    pub(crate) limit: u64,
    /// Null for units in flight, which have no window.
    #[serde(default)]
    pub(crate) window_s: Option<serde_json::Number>,
    /// `policy`, `patch`, `plan NAME`, `plan NAME, patch` or `override`.
    pub(crate) limit_from: String,
    pub(crate) key: KeyText,
    pub(crate) cost: u64,
    /// Before the request, if it is refused; with it, if it is admitted.
    pub(crate) used: u64,
    pub(crate) remaining: u64,
    /// When the request fits. Null: now. `never`: its cost is above the limit.
    #[serde(default)]
    pub(crate) earliest: Option<String>,
    pub(crate) source: String,
}

/// The key under which a policy counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct KeyText {
    /// The parts of the request that it consists of.
    pub(crate) from: String,
    /// What `top` shows.
    pub(crate) text: String,
    /// The id in `top` and in logs.
    pub(crate) id: String,
}

impl Explanation {
    /// Whether the request would be admitted.
    pub(crate) fn is_admitted(&self) -> bool {
        self.decision == "admitted"
    }
}

impl Wait {
    /// None: the request is admitted now.
    pub(crate) fn of(retry: Retry) -> Option<Self> {
        match retry {
            Retry::Now => None,
            Retry::After(wait) => Some(Self::Ms(wait.as_millis_ceil())),
            Retry::Never => Some(Self::Never("never".to_owned())),
        }
    }
}

/// When a request fits that is asked at `now`.
pub(super) fn earliest(retry: Retry, now: Timestamp) -> Option<String> {
    match retry {
        Retry::Now => None,
        Retry::After(wait) => Some(now.plus(wait).to_string()),
        Retry::Never => Some("never".to_owned()),
    }
}
