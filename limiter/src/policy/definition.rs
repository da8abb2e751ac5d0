//! A policy: one limit, on whom, how much, and what then.

use std::iter;
use std::num::NonZeroU64;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method, StatusCode};
use ipnet::IpNet;

use super::{Beside, GeoCode, KeyExpr, Template, counter};
use crate::algorithm::{Algorithm, Quota, SlidingWindow};
use crate::consistency::Consistency;
use crate::digest::Counter;
use crate::meter::MeterSpec;
use crate::time::Span;

/// One limit.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name, as clients and logs see it.
    pub name: Arc<str>,
    /// On whom.
    pub key: KeyExpr,
    /// Which counter of theirs it counts on: by its name, algorithm and window.
    pub counter: Counter,
    /// What to do with a request that has no such key.
    pub missing_key: MissingKey,
    /// How much, and how it is counted. Of a policy that is unlimited: how its plans
    /// are counted.
    pub algorithm: Algorithm,
    /// Whether it has no limit of its own: it counts only clients with a plan that
    /// has one.
    pub is_unlimited: bool,
    /// Which requests it leaves alone.
    pub exempt: Exempt,
    /// What a refused client is sent instead of the default answer.
    pub response: Option<Template>,
    /// How many units a request costs.
    pub cost: Cost,
    /// Which outcomes are counted.
    pub count: Count,
    /// How a store of several nodes keeps its counters.
    pub consistency: Consistency,
    /// Whether it refuses.
    pub mode: Mode,
    /// The same counter with all that is admitted, if that is more than the
    /// policy's own limit: `soft: 10%` of 100 is 110 here. It may differ in its
    /// [capacity](Algorithm::capacity) only: a token bucket has a larger burst and
    /// refills no faster. Then exactly what the own limit would refuse is marked.
    pub soft: Option<Algorithm>,
    /// Other limits for some clients.
    pub plans: Option<Plans>,
    /// What happens to those who are refused too often.
    pub penalty: Option<Penalty>,
    /// What is admitted beyond the limit while the upstream has room.
    pub elastic: Option<Elastic>,
    /// Under what limits of single keys are kept, if there may be any.
    pub overrides: Option<Overridable>,
    /// What it does with preflights.
    pub preflights: Preflights,
}

impl Policy {
    /// A policy that counts every request once and refuses who has no more.
    pub fn new(name: &str, key: KeyExpr, algorithm: Algorithm) -> Self {
        Self {
            name: name.into(),
            key,
            counter: counter::identity(name, &algorithm),
            missing_key: MissingKey::default(),
            algorithm,
            is_unlimited: false,
            exempt: Exempt::default(),
            response: None,
            cost: Cost::Fixed(1),
            count: Count::default(),
            consistency: Consistency::default(),
            mode: Mode::default(),
            soft: None,
            plans: None,
            penalty: None,
            elastic: None,
            overrides: None,
            preflights: Preflights::default(),
        }
    }

    /// A policy that counts nothing: it only demands its key.
    pub fn unlimited(name: &str, key: KeyExpr) -> Self {
        let never_asked = Quota::new(1, Span::SECOND).expect("one a second is a quota");
        let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(never_asked));
        Self { is_unlimited: true, ..Self::new(name, key, algorithm) }
    }

    /// The keys that it reads in requests: whose counter it is, and which plan holds.
    pub fn keys(&self) -> impl Iterator<Item = &KeyExpr> {
        iter::once(&self.key).chain(self.plans.as_ref().map(|plans| &plans.from))
    }

    /// All counters that it may keep of a client, but for those of single keys
    /// that have a window of their own.
    pub fn counters(&self) -> impl Iterator<Item = Counter> {
        let spared = match &self.preflights {
            Preflights::Bounded(bounding) => Some(bounding.counter),
            Preflights::Counted | Preflights::Exempt => None,
        };
        let beside = |beside: Beside, algorithm| beside.counter(self.counter, algorithm);
        let penalty = self
            .penalty
            .as_ref()
            .map(|it| [beside(Beside::Refusals, &it.after), beside(Beside::Ban, &it.ban)]);
        let beyond = self.elastic.as_ref().map(|it| beside(Beside::Beyond, &it.beyond));
        let all = iter::once(self.counter).chain(spared).chain(beyond);
        all.chain(penalty.into_iter().flatten())
    }
}

/// What a policy must know whose limit may be another one for single keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overridable {
    /// Under what they are kept of a principal: the policy's name alone, so that
    /// they outlive a change of its limit, window and algorithm.
    pub kept_as: Counter,
    /// How much is admitted beyond such a limit, with a mark.
    pub soft_percent: u8,
}

impl Overridable {
    /// For the policy of this name.
    pub fn new(policy: &str, soft_percent: u8) -> Self {
        Self { kept_as: counter::override_of(policy), soft_percent }
    }
}

/// Whether a policy refuses. One that is off is no policy of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    #[default]
    Enforce,
    /// It counts and reports, and refuses nobody.
    Shadow,
}

/// How many units a request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// This many.
    Fixed(u64),
    /// What this field of the request says, believed from trusted proxies only.
    Field {
        /// The field.
        name: HeaderName,
        /// The cost without the field, or if it is no number or nobody to believe.
        default: u64,
        /// The most that the field can say.
        max: u64,
    },
    /// One for each started unit of the request's body: as announced at first,
    /// or one if it is not, and settled by what came.
    Body {
        /// Bytes.
        unit_bytes: NonZeroU64,
    },
    /// Known only afterwards: so many are reserved, and settled by what the response says.
    Metered {
        /// Taken at first, but one at least; stays if the response does not say.
        reserve: u64,
        /// Where the response says it.
        meter: MeterSpec,
    },
}

/// Which outcomes are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// All.
    #[default]
    All,
    /// Responses with one of these statuses; for others the cost is given back.
    Statuses(Vec<StatusCode>),
}

/// Limits by plan.
#[derive(Clone, Debug)]
pub struct Plans {
    /// What names the plan of a request.
    pub from: KeyExpr,
    /// The plans by name; for any other name the policy's own limit holds.
    pub limits: Vec<(Box<str>, Plan)>,
}

/// The limit of one plan.
#[derive(Clone, Debug)]
pub enum Plan {
    /// The policy does not judge.
    Unlimited,
    /// The policy's algorithm with another limit, and so the same counters; and
    /// the soft one, if the policy has a soft limit.
    Limited {
        /// The limit.
        algorithm: Algorithm,
        /// With what is admitted beyond it.
        soft: Option<Algorithm>,
    },
}

/// What happens to those who are refused too often: nothing of theirs that the
/// policy judges is admitted while they are banned.
#[derive(Clone, Debug)]
pub struct Penalty {
    /// Counts refusals: the last one that fits its limit is one too many. A
    /// request that is refused because of a ban is not counted.
    pub after: Algorithm,
    /// How long bans last: an [`Algorithm::Ban`].
    pub ban: Algorithm,
}

/// What is admitted beyond the limit while the upstream has room.
#[derive(Clone, Debug)]
pub struct Elastic {
    /// Counts what goes beyond: its limit is the higher limit less the policy's
    /// own. It is the same for all plans.
    pub beyond: Algorithm,
    /// There is room while the upstream's latency is below this.
    pub latency_below: Option<Span>,
    /// There is room while the upstream has less than this share, in percent,
    /// of its `max_in_flight` in flight.
    pub in_flight_below_percent: Option<u8>,
}

/// What to do with a request that lacks the key of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// The client's address stands in.
    #[default]
    Ip,
    /// The policy does not judge the request.
    Skip,
    /// The request is refused.
    Deny,
    /// The request is refused, and its client is asked for a bearer token (RFC 6750).
    Unauthorized,
}

/// Requests that a policy leaves alone: any one condition suffices.
#[derive(Clone, Debug, Default)]
pub struct Exempt {
    /// Clients by address.
    pub ips: Vec<IpNet>,
    /// Clients by where their address is.
    pub places: Vec<GeoCode>,
    /// Methods.
    pub methods: Vec<Method>,
    /// Header fields with exactly this value on one of their lines. They act as
    /// secrets, and are compared as such.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// What a policy does with preflights.
#[derive(Clone, Debug, Default)]
pub enum Preflights {
    /// They are requests like any other.
    Counted,
    /// They are counted by address under this policy instead.
    Bounded(Arc<Policy>),
    /// They are left alone: the policy has no limit that could bound them.
    #[default]
    Exempt,
}
