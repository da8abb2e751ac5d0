//! Words and numbers that several answers have in common.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::policy::Policy;

/// Numbers by their names. Zeros may be left out.
pub type Counted = BTreeMap<String, u64>;

/// Whether something is true of the asked node alone, or of all nodes that share the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Node,
    Cluster,
}

/// Whether the store was read, or what this node alone knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SourceWord {
    Store,
    Local,
}

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Limit {
    /// The units that the window admits.
    units: u64,
    /// The length of the window in milliseconds; 0 if there is none.
    window_ms: u64,
    /// The units that can be admitted at once.
    burst: u64,
    /// What a unit is, if it is money: millionths of the dollar are `usd-6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
}

/// The word for the absence of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unlimited {
    Unlimited,
}

/// A value, or the word `unlimited`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum OrUnlimited<T> {
    Limited(T),
    Unlimited(Unlimited),
}

impl Limit {
    /// The limit of this algorithm.
    pub fn of(algorithm: &Algorithm) -> Self {
        Self {
            units: algorithm.limit(),
            window_ms: algorithm.window().as_millis_ceil(),
            burst: algorithm.capacity(),
            unit: None,
        }
    }

    /// The limit of this algorithm, in units of the policy.
    pub fn under(policy: &Policy, algorithm: &Algorithm) -> Self {
        Self { unit: unit(policy), ..Self::of(algorithm) }
    }
}

impl<T> OrUnlimited<T> {
    /// No limit.
    pub const UNLIMITED: Self = Self::Unlimited(Unlimited::Unlimited);
}

/// What a unit of the policy is, if it is money.
pub fn unit(policy: &Policy) -> Option<String> {
    policy.unit().denomination().map(|money| money.to_string())
}
