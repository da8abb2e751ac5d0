//! What policies do.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_core::algorithm::MAX_LIMIT;
use tollgate_core::consistency::{OnFailure, StoreMode};
use tollgate_core::policy::{self, MissingKey, Mode, Plan, Policy};

use crate::admin::node::View;
use crate::admin::problem::Problem;
use crate::admin::words::{Limit, OrUnlimited};

/// What a policy does.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    name: String,
    /// The key by which it counts, as in the file.
    key: String,
    /// The algorithm, as in the file.
    algorithm: &'static str,
    limit: OrUnlimited<Limit>,
    /// What is admitted beyond the limit, with a warning.
    soft: Option<Limit>,
    mode: ModeWord,
    cost: Cost,
    missing_key: MissingKeyWord,
    plans: Option<Plans>,
    penalty: Option<Penalty>,
    elastic: Option<Elastic>,
    /// Whether single keys can have limits of their own.
    overrides: bool,
    store_mode: StoreModeWord,
    on_store_failure: OnFailureWord,
}

/// Whether a policy refuses requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum ModeWord {
    Enforce,
    Shadow,
}

/// What happens to requests without the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum MissingKeyWord {
    Ip,
    Skip,
    Deny,
    Unauthorized,
}

/// How the store is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum StoreModeWord {
    Exact,
    Leased,
    WriteBack,
}

/// What happens while the store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum OnFailureWord {
    Local,
    Allow,
    Deny,
}

/// The units that a request costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
enum Cost {
    /// The same for every request.
    Fixed(u64),
    /// The number in a header field of the request. Without `max`, it is at most the limit of the
    /// client.
    Field {
        header: String,
        default: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<u64>,
    },
    /// By the length of the body.
    Body { body_unit_bytes: u64 },
    /// By the messages in the body.
    Calls { messages: bool },
    /// Reserved, and settled by the response.
    Metered { reserve: u64, settled: bool },
    /// Reserved by what the body of the request states, and settled by the response.
    Estimated { reserve: Estimate, settled: bool },
}

/// How the tokens are estimated that a request may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Estimate {
    output: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output: Option<u64>,
    bytes_per_token: u64,
    image: u64,
    stored_input: u64,
    /// The most units of a request, if it is not the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
}

/// The limits of plans.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Plans {
    /// Where the plan of a request is written.
    from: String,
    limits: BTreeMap<String, OrUnlimited<Limit>>,
}

/// The ban of clients that go on after refusals.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Penalty {
    /// The refusals that lead to a ban.
    after: Limit,
}

/// The growth of a limit while upstreams are fast.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Elastic {
    /// What is admitted beyond the limit.
    beyond: Limit,
}

/// The policy of this name.
///
/// # Errors
/// 404, if there is none.
pub fn policy(view: &View, name: &str) -> Result<Arc<Policy>, Problem> {
    let found = view.snapshot.policies.iter().find(|policy| &*policy.name == name);
    found.cloned().ok_or_else(|| Problem::not_found(format!("there is no policy {name:?}")))
}

impl Effect {
    /// What this policy does.
    pub fn of(policy: &Policy) -> Self {
        let plan = |plan: &Plan| match plan {
            Plan::Unlimited => OrUnlimited::UNLIMITED,
            Plan::Limited { algorithm, .. } => {
                OrUnlimited::Limited(Limit::under(policy, algorithm))
            }
        };
        let plans = policy.plans.as_ref().map(|plans| Plans {
            from: plans.from.form(),
            limits: plans.limits.iter().map(|(name, it)| (name.to_string(), plan(it))).collect(),
        });
        Self {
            name: policy.name.to_string(),
            key: policy.key.form(),
            algorithm: policy.algorithm.name(),
            limit: limit(policy),
            soft: policy.soft.as_ref().map(|soft| Limit::under(policy, soft)),
            mode: match policy.mode {
                Mode::Enforce => ModeWord::Enforce,
                Mode::Shadow => ModeWord::Shadow,
            },
            cost: cost(policy),
            missing_key: match policy.missing_key {
                MissingKey::Ip => MissingKeyWord::Ip,
                MissingKey::Skip => MissingKeyWord::Skip,
                MissingKey::Deny => MissingKeyWord::Deny,
                MissingKey::Unauthorized => MissingKeyWord::Unauthorized,
            },
            plans,
            penalty: policy.penalty.as_ref().map(|it| Penalty { after: Limit::of(&it.after) }),
            elastic: policy
                .elastic
                .as_ref()
                .map(|it| Elastic { beyond: Limit::under(policy, &it.beyond) }),
            overrides: policy.overrides.is_some(),
            store_mode: match policy.consistency.mode {
                StoreMode::Exact => StoreModeWord::Exact,
                StoreMode::Leased => StoreModeWord::Leased,
                StoreMode::WriteBack => StoreModeWord::WriteBack,
            },
            on_store_failure: match policy.consistency.on_failure {
                OnFailure::Local => OnFailureWord::Local,
                OnFailure::Allow => OnFailureWord::Allow,
                OnFailure::Deny => OnFailureWord::Deny,
            },
        }
    }
}

/// The limit of a policy without plans and limits of single keys.
pub fn limit(policy: &Policy) -> OrUnlimited<Limit> {
    match policy.is_unlimited {
        true => OrUnlimited::UNLIMITED,
        false => OrUnlimited::Limited(Limit::under(policy, &policy.algorithm)),
    }
}

fn cost(policy: &Policy) -> Cost {
    match &policy.cost {
        policy::Cost::Fixed(units) => Cost::Fixed(*units),
        policy::Cost::Field { name, default, max } => {
            Cost::Field { header: name.as_str().to_owned(), default: *default, max: *max }
        }
        policy::Cost::Body { unit_bytes } => Cost::Body { body_unit_bytes: (*unit_bytes).into() },
        policy::Cost::Calls => Cost::Calls { messages: true },
        policy::Cost::Metered { reserve, estimate: None, .. } => {
            Cost::Metered { reserve: *reserve, settled: true }
        }
        policy::Cost::Metered { reserve, estimate: Some(estimate), .. } => {
            let settings = estimate.settings();
            let reserve = Estimate {
                output: settings.output,
                max_output: settings.max_output,
                bytes_per_token: settings.bytes_per_token.get(),
                image: settings.image,
                stored_input: settings.stored_input,
                max: Some(*reserve).filter(|max| *max < MAX_LIMIT),
            };
            Cost::Estimated { reserve, settled: true }
        }
    }
}
