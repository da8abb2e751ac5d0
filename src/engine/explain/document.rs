//! The form in which a decision is explained: the answer of `POST /v1/explain`, and what
//! `tollgate explain` prints. All times of limits are those of the store.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_core::algorithm::Retry;
use tollgate_core::policy::{Estimate, KeyExpr, Policy, Subject};
use tollgate_core::routes::Split;
use tollgate_core::time::Timestamp;

/// What a request would get now, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// `admitted` or `refused`.
    pub decision: String,
    /// One word for the reason, as in the access log.
    pub reason: String,
    /// Why a request is refused that no limit refuses.
    #[serde(default)]
    pub detail: Option<String>,
    /// The status of a refusal.
    #[serde(default)]
    pub status: Option<u16>,
    /// The wait of a refused client in milliseconds.
    #[serde(default)]
    pub retry_after_ms: Option<Wait>,
    /// How long an admitted request is delayed, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// The policy whose numbers the client is told, or which demands what is missing.
    #[serde(default)]
    pub binding: Option<String>,
    /// Where the counters were read: `store`, `local` or `policy`.
    #[serde(default)]
    pub source: Option<String>,
    /// The time by the wall clock of the node.
    #[serde(default)]
    pub at: String,
    #[serde(default)]
    pub route: RouteChoice,
    #[serde(default)]
    pub client: ClientAddress,
    /// The access lists of the route.
    #[serde(default)]
    pub access: Vec<ListVerdict>,
    #[serde(default)]
    pub policies: Vec<PolicyVerdict>,
    /// The policies of the route that do not judge the request.
    #[serde(default)]
    pub skipped: Vec<Reason>,
    /// The fields about limits that the client would get.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How many configurations have been in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A wait in milliseconds, or `never`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Wait {
    Ms(u64),
    Never(#[schemars(extend("const" = "never"))] String),
}

/// The selected route, and those before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteChoice {
    /// None: no route is selected.
    pub name: Option<String>,
    /// Its pattern of paths.
    #[serde(default)]
    pub path: Option<String>,
    /// The upstream, if the route has a split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamChoice>,
    #[serde(default)]
    pub passed_over: Vec<Reason>,
    /// How many more routes were passed over.
    #[serde(default)]
    pub others_passed_over: usize,
}

/// The upstream of a request on a route with a split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UpstreamChoice {
    /// Null: each such request goes to any of the upstreams.
    #[serde(default)]
    pub name: Option<String>,
    pub because: String,
}

/// A name, and why something does not apply to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    pub name: String,
    pub because: String,
}

/// The masked address of the client, its class, and what agent it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientAddress {
    pub ip: String,
    pub because: String,
    /// Its class, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The agent that has signed the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// What one access list says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListVerdict {
    pub name: String,
    /// `before_auth`, or `after_auth` if a rule compares identities of clients.
    pub step: String,
    /// `allowed`, `denied`, `shadow_denied`, `ambiguous`, `unverifiable`, `off`, or `not_asked` if
    /// a list before it denies the request.
    pub verdict: String,
}

/// What a request to a language model may use, by its body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimatedTokens {
    /// Tokens of the input. Null: the size of the body is not known, so the most units are reserved.
    pub input: Option<u64>,
    /// Tokens of the output.
    pub output: Option<u64>,
    /// The model that the request names.
    #[serde(default)]
    pub model: Option<String>,
    /// The entry of the prices by which it costs, if units are money; `_other` is that of models
    /// without an entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
}

/// What one policy says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyVerdict {
    pub name: String,
    /// The word of metrics and logs, such as `refused`.
    pub verdict: String,
    /// `enforce` or `shadow`.
    #[serde(default)]
    pub mode: String,
    pub limit: u64,
    /// What a unit is, if it is money: millionths of the dollar are `usd-6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Null for units in flight, which have no window.
    #[serde(default)]
    pub window_s: Option<serde_json::Number>,
    /// `policy`, `patch`, `plan NAME`, `plan NAME, patch` or `override`.
    pub limit_from: String,
    pub key: KeyText,
    pub cost: u64,
    /// The tokens that the request may use, if they are the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimatedTokens>,
    /// Before the request, if it is refused; with it, if it is admitted.
    pub used: u64,
    pub remaining: u64,
    /// When the request fits. Null: now. `never`: its cost is above the limit.
    #[serde(default)]
    pub earliest: Option<String>,
    pub source: String,
}

/// The key under which a policy counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyText {
    /// The parts of the request that it consists of.
    pub from: String,
    /// What `top` shows.
    pub text: String,
    /// The id in `top` and in logs.
    pub id: String,
}

impl EstimatedTokens {
    /// What a request is expected to use under a policy.
    pub fn of(policy: &Policy, estimate: Estimate) -> Self {
        let Estimate { usage, model, entry } = estimate;
        let price = policy.cost.prices().zip(entry).map(|(prices, entry)| prices.name(entry));
        Self {
            input: usage.map(|usage| usage.input),
            output: usage.map(|usage| usage.output),
            model: model.map(String::from),
            price: price.map(str::to_owned),
        }
    }
}

impl Explanation {
    /// Whether the request would be admitted.
    pub fn is_admitted(&self) -> bool {
        self.decision == "admitted"
    }
}

impl UpstreamChoice {
    /// The branch of a request with this client, and how it is shown. If the request may go to any
    /// branch, it is the one with the largest share.
    pub fn of(split: &Split, subject: &Subject<'_, '_>) -> (usize, Self) {
        let Some(point) = split.point(subject) else {
            let shares = split.branches().iter().map(|it| format!("{} {}%", it.name, it.percent));
            let shares = shares.collect::<Vec<_>>().join(", ");
            let because = match split.by() {
                Some(key) => format!("the request has no usable {}: {shares}", key.form()),
                None => format!("at random: {shares}"),
            };
            return (split.largest(), Self { name: None, because });
        };
        let branch = split.branch_at(point);
        let form = split.by().map(KeyExpr::form).unwrap_or_default();
        let because = format!("the {form} of the client is at {point} of 100");
        (branch, Self { name: Some(split.branches()[branch].name.to_string()), because })
    }
}

impl Wait {
    /// None: the request is admitted now.
    pub fn of(retry: Retry) -> Option<Self> {
        match retry {
            Retry::Now => None,
            Retry::After(wait) => Some(Self::Ms(wait.as_millis_ceil())),
            Retry::Never => Some(Self::Never("never".to_owned())),
        }
    }
}

/// When a request fits that is asked at `now`.
pub fn earliest(retry: Retry, now: Timestamp) -> Option<String> {
    match retry {
        Retry::Now => None,
        Retry::After(wait) => Some(now.plus(wait).to_string()),
        Retry::Never => Some("never".to_owned()),
    }
}
