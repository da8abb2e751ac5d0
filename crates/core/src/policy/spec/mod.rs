//! A policy in its written form, and its compilation.
//!
//! `gateway.yaml`, changes at run time, questions of other proxies, the replay and the library
//! fill a [`PolicySpec`]. [`PolicySpec::compile`] makes the [`Policy`] of it, or reports all that
//! is wrong, each fault with its [`Field`]. So the same policy means the same everywhere. The code
//! that fills the specification reports texts that cannot be read, and marks their fields as
//! [unreadable](Written::Unreadable).

mod algorithms;
mod combinations;
mod compile;
mod cost;
mod fault;
mod field;
mod key;
mod limits;
mod money;
mod penalty;
mod reserve;
#[cfg(test)]
mod tests;
mod warn;
mod written;

use std::str::FromStr;
use std::sync::Arc;

use http::HeaderName;

pub use self::algorithms::algorithms_with;
pub use self::fault::{Fault, Remark, name_fault};
pub use self::field::{Field, KeyPlace};
pub use self::key::ClientFacts;
pub use self::written::Written;
use super::{ClientSettings, Exempt, KeyExpr, Left, MissingKey, Mode, Policy, Template};
use crate::algorithm::{AlgorithmKind, Quota};
use crate::consistency::{OnFailure, StoreMode};
use crate::meter::MeterSpec;
use crate::price::{Amount, Prices};
use crate::scalar::{self, ScalarError};
use crate::time::Span;

/// A policy in its written form.
#[derive(Clone, Debug, Default)]
pub struct PolicySpec {
    /// Its name in responses and logs.
    pub name: String,
    /// What a counter belongs to. It is required.
    pub key: Written<KeyExpr>,
    /// How much it admits. None means no limit. It is required.
    pub limit: Written<Option<LimitSpec>>,
    /// How it counts.
    pub algorithm: Written<AlgorithmKind>,
    /// The number of sub-windows of a sliding window.
    pub buckets: Written<u64>,
    /// The most units at once, or the most units that wait.
    pub burst: Written<u64>,
    /// The longest time that a request is delayed.
    pub max_delay: Written<Span>,
    /// The time zone of a fixed window.
    pub calendar: Written<String>,
    /// What a request costs.
    pub cost: Written<CostSpec>,
    /// Which outcomes are counted.
    pub count: Written<CountSpec>,
    /// Whether it refuses requests.
    pub mode: Mode,
    /// How exact the counters are on several nodes.
    pub store_mode: Written<StoreMode>,
    /// What happens to requests while the store is not available.
    pub on_store_failure: Written<OnFailure>,
    /// How many percent more than the limit are admitted.
    pub soft: Written<u8>,
    /// What happens to a request without the key.
    pub missing_key: Written<MissingKey>,
    /// The requests that it exempts.
    pub exempt: Exempt,
    /// Whether preflights are counted like other requests.
    pub counts_preflights: bool,
    /// Other limits for some clients.
    pub plans: Written<PlansSpec>,
    /// Bans for clients that are refused too often.
    pub penalty: Written<PenaltySpec>,
    /// A higher limit while the upstream has room.
    pub elastic: Written<ElasticSpec>,
    /// The shares of the limit, in percent, whose passing is reported.
    pub warn: Written<Vec<Written<u8>>>,
    /// Whether single keys may have limits of their own.
    pub overrides: bool,
    /// The response to a refused request.
    pub response: Written<Template>,
}

/// How much a policy or a plan admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSpec {
    /// A number of units in a window of time.
    Rate(Quota),
    /// A number of units at the same time.
    Count(u64),
    /// An amount of money, whose units depend on the prices.
    Money(MoneyLimit),
}

/// An amount of money in a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoneyLimit {
    /// The amount.
    pub amount: Amount,
    /// One unit in the window. None: no window is written.
    pub per: Option<Quota>,
}

impl LimitSpec {
    /// The number of units. Money has none before it is compiled.
    pub const fn units(self) -> u64 {
        match self {
            Self::Rate(quota) => quota.limit(),
            Self::Count(units) => units,
            Self::Money(_) => 0,
        }
    }

    /// The window of time. Zero for a count.
    pub const fn window(self) -> Span {
        match self {
            Self::Rate(quota) | Self::Money(MoneyLimit { per: Some(quota), .. }) => quota.window(),
            Self::Count(_) | Self::Money(MoneyLimit { per: None, .. }) => Span::ZERO,
        }
    }

    /// Whether it is an amount of money.
    pub const fn is_money(self) -> bool {
        matches!(self, Self::Money(_))
    }
}

/// Reads a rate, or a count without a time. A text that is neither gets the error of a rate, which is
/// most likely intended.
impl FromStr for LimitSpec {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let bare = scalar::count(text.trim()).map(Self::Count);
        bare.or_else(|_| scalar::rate(text).map(Self::Rate))
    }
}

/// What a request costs.
#[derive(Clone, Debug)]
pub enum CostSpec {
    /// This number of units.
    Fixed(u64),
    /// What a field of the request says.
    Header {
        /// The field.
        name: HeaderName,
        /// The cost of a request without it.
        default: Written<u64>,
        /// The highest cost that it can give.
        max: Written<u64>,
    },
    /// One unit for each started piece of the body of so many bytes.
    Body(u64),
    /// One unit for each message of JSON-RPC in the body that calls a method.
    Calls,
    /// Units that the response corrects.
    Reserve {
        /// The units that a request costs at first.
        units: Written<ReserveSpec>,
        /// Where the response says what the request cost. It is required.
        settle: Written<SettleSpec>,
        /// Whether requests are changed so that their answers state their tokens.
        asks_usage: bool,
    },
}

/// The units that a request costs at first.
#[derive(Clone, Debug)]
pub enum ReserveSpec {
    /// This number.
    Units(u64),
    /// The units of the tokens that the request may use.
    Estimate(Box<EstimateSpec>),
}

/// How the tokens are estimated that a request may use.
#[derive(Clone, Debug, Default)]
pub struct EstimateSpec {
    /// Tokens of the output, if the request states no maximum.
    pub output: Written<u64>,
    /// The most tokens of the output for each choice.
    pub max_output: Written<u64>,
    /// Bytes of the body for each token of the input.
    pub bytes_per_token: Written<u64>,
    /// Tokens of an image.
    pub image: Written<u64>,
    /// Tokens of input that the backend has stored.
    pub stored_input: Written<u64>,
    /// The most units.
    pub max: Written<u64>,
    /// The key that is the model.
    pub model: Written<KeyExpr>,
}

/// Where a response says what its request cost.
#[derive(Clone, Debug)]
pub enum SettleSpec {
    /// In this part of it.
    Meter(MeterSpec),
    /// In its tokens, and if these are not known, the cost is estimated.
    Estimated(MeterSpec),
    /// The length of its body: one unit for each started piece of so many bytes.
    Bytes(u64),
}

/// The outcomes that are counted.
#[derive(Clone, Debug)]
pub enum CountSpec {
    /// All.
    All,
    /// Responses with one of these statuses.
    Statuses {
        /// The statuses. They are required.
        statuses: Written<Vec<Written<u64>>>,
        /// Requests without a status.
        left: Left,
    },
}

/// Other limits for some clients.
#[derive(Clone, Debug, Default)]
pub struct PlansSpec {
    /// The key with the name of the plan. It is required.
    pub from: Written<KeyExpr>,
    /// The plans. They are required.
    pub limits: Written<Vec<PlanSpec>>,
}

/// One plan.
#[derive(Clone, Debug)]
pub struct PlanSpec {
    /// Its name.
    pub name: String,
    /// Its limit. None means no limit.
    pub limit: Written<Option<LimitSpec>>,
}

/// Bans for clients that are refused too often.
#[derive(Clone, Debug, Default)]
pub struct PenaltySpec {
    /// The refusals that lead to a ban. It is required.
    pub after: Written<LimitSpec>,
    /// The length of the first ban. It is required.
    pub ban: Written<Span>,
    /// The length of the longest ban.
    pub max_ban: Written<Span>,
    /// How long responses to banned clients are held back. Not at all by default.
    pub delay: Written<Span>,
}

/// A higher limit while the upstream has room.
#[derive(Clone, Debug, Default)]
pub struct ElasticSpec {
    /// The higher limit. It is required.
    pub limit: Written<LimitSpec>,
    /// The conditions. They are required.
    pub when: Written<WhenSpec>,
}

/// The conditions under which an upstream has room. At least one is required.
#[derive(Clone, Debug, Default)]
pub struct WhenSpec {
    /// Its latency is below this.
    pub latency_below: Written<Span>,
    /// Less than this share, in percent, of its `max_in_flight` is in flight.
    pub in_flight_below_percent: Written<u8>,
}

/// What a policy depends on beside itself.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// How clients are recognised.
    pub client: &'a ClientSettings,
    /// What requests can have.
    pub has: ClientFacts,
    /// Whether nodes share the store.
    pub shares_store: bool,
    /// Whether the limits of single keys can be kept anywhere.
    pub keeps_overrides: bool,
    /// The mode of policies that do not have their own.
    pub usual_mode: StoreMode,
    /// The prices of models.
    pub prices: Written<&'a Arc<Prices>>,
}

/// The result of [`PolicySpec::compile`].
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The policy. It is also here beside faults that concern only some of its fields, so that
    /// whatever uses it can be checked, too. A policy with an error must not judge requests.
    pub policy: Option<Policy>,
    /// All faults and warnings.
    pub faults: Vec<Fault>,
}
