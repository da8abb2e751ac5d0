//! A policy: one limit, the key it applies to, and what follows when it is exceeded.

use std::iter;
use std::num::NonZeroU64;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method, StatusCode};
use ipnet::IpNet;

use super::{
    Beside, Estimate, GeoCode, KeyExpr, MissingKey, Reservation, Template, WarnShares, counter,
};
use crate::algorithm::{Algorithm, Quota, SlidingWindow, WindowText};
use crate::consistency::Consistency;
use crate::digest::Counter;
use crate::meter::{MeterSpec, Usage};
use crate::price::{Denomination, PriceEntry, Prices};
use crate::request::ContentWord;
use crate::time::Span;

/// One limit.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name in responses and logs.
    pub name: Arc<str>,
    /// The key that requests are counted by.
    pub key: KeyExpr,
    /// The identity of its counters: its name, algorithm and window.
    pub counter: Counter,
    /// The treatment of requests without the key.
    pub missing_key: MissingKey,
    /// The limit and the algorithm. In an unlimited policy: the algorithm of its plans.
    pub algorithm: Algorithm,
    /// Whether the policy has no limit of its own. It then counts only clients that have a
    /// plan with a limit.
    pub is_unlimited: bool,
    /// The requests that it exempts.
    pub exempt: Exempt,
    /// The response to refused requests, instead of the default one.
    pub response: Option<Template>,
    /// The units that a request costs.
    pub cost: Cost,
    /// Whether requests that it counts are changed so that their answers state their tokens: see
    /// [`AskScanner`](crate::meter::AskScanner).
    pub asks_usage: bool,
    /// The outcomes that are counted.
    pub count: Count,
    /// How a store that several nodes share keeps its counters.
    pub consistency: Consistency,
    /// Whether it refuses requests.
    pub mode: Mode,
    /// The same counter with the highest limit that is admitted, if that exceeds the
    /// policy's own limit: `soft: 10%` of 100 is 110. It differs only in its
    /// [capacity](Algorithm::capacity): a token bucket has a larger burst and refills no
    /// faster. Then exactly the requests that the own limit would refuse are marked.
    pub soft: Option<Algorithm>,
    /// Other limits for some clients.
    pub plans: Option<Plans>,
    /// The bans of clients that are refused too often.
    pub penalty: Option<Penalty>,
    /// The additional limit while the upstream has room.
    pub elastic: Option<Elastic>,
    /// The shares of its limit whose passing is reported.
    pub warn: Option<Box<WarnShares>>,
    /// The identity under which the limits of single keys are stored, if keys may have
    /// their own limits.
    pub overrides: Option<Overridable>,
    /// The treatment of preflights.
    pub preflights: Preflights,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Requests, or units that are known before the response.
    #[default]
    Requests,
    /// Units that the response states, such as the tokens of a language model.
    Tokens,
    /// Money.
    Money(Denomination),
}

impl Unit {
    /// How money is counted, if it is counted.
    pub const fn denomination(self) -> Option<Denomination> {
        match self {
            Self::Money(denomination) => Some(denomination),
            Self::Requests | Self::Tokens => None,
        }
    }
}

/// The word of a cost by calls.
static CALLS: ContentWord = ContentWord::Calls;
/// The word of a policy that asks for tokens.
static ASK_USAGE: ContentWord = ContentWord::AskUsage;

impl Policy {
    /// What its limit counts.
    pub fn unit(&self) -> Unit {
        if let Some(prices) = self.cost.prices() {
            return Unit::Money(prices.denomination);
        }
        match &self.cost {
            Cost::Metered { meter, .. } if meter.reads_body() => Unit::Tokens,
            _ => Unit::Requests,
        }
    }

    /// A limit of this policy as the configuration writes it: `100/1m`, or `500.00 usd/month`.
    pub fn written(&self, algorithm: &Algorithm) -> String {
        match self.unit().denomination() {
            None => algorithm.written(),
            Some(money) => {
                let window = WindowText(algorithm.window());
                format!("{}/{window}", money.shown(algorithm.limit()))
            }
        }
    }

    /// A policy that counts every request once and refuses those beyond the limit.
    pub fn new(name: &str, key: KeyExpr, algorithm: Algorithm) -> Self {
        Self {
            name: name.into(),
            key,
            counter: counter::identity(name, &algorithm, None),
            missing_key: MissingKey::default(),
            algorithm,
            is_unlimited: false,
            exempt: Exempt::default(),
            response: None,
            cost: Cost::Fixed(1),
            asks_usage: false,
            count: Count::default(),
            consistency: Consistency::default(),
            mode: Mode::default(),
            soft: None,
            plans: None,
            penalty: None,
            elastic: None,
            warn: None,
            overrides: None,
            preflights: Preflights::default(),
        }
    }

    /// A policy that counts nothing and only demands its key.
    pub fn unlimited(name: &str, key: KeyExpr) -> Self {
        let never_asked = Quota::new(1, Span::SECOND).expect("one a second is a quota");
        let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(never_asked));
        Self { is_unlimited: true, ..Self::new(name, key, algorithm) }
    }

    /// The keys that it reads in requests: the key of the counter, and the key of the plan.
    pub fn keys(&self) -> impl Iterator<Item = &KeyExpr> {
        iter::once(&self.key).chain(self.plans.as_ref().map(|plans| &plans.from))
    }

    /// The identity of its counters with this algorithm.
    pub(super) fn identity(&self, algorithm: &Algorithm) -> Counter {
        counter::identity(&self.name, algorithm, self.unit().denomination())
    }

    /// Whether it judges a request only when the authorizer of its route has answered.
    pub fn needs_authorizer(&self) -> bool {
        self.keys().any(KeyExpr::needs_authorizer)
    }

    /// Whether it judges a request only when the body of the request has been read.
    pub fn needs_body(&self) -> bool {
        self.cost.reservation().is_some()
            || self.cost == Cost::Calls
            || self.asks_usage
            || self.keys().any(KeyExpr::needs_body)
    }

    /// What it reads in bodies.
    pub fn body_words(&self) -> impl Iterator<Item = &ContentWord> {
        let estimate = self.cost.reservation().into_iter().flat_map(Reservation::words);
        let calls = (self.cost == Cost::Calls).then_some(&CALLS);
        let ask = self.asks_usage.then_some(&ASK_USAGE);
        self.keys().flat_map(KeyExpr::body_words).chain(estimate).chain(calls).chain(ask)
    }

    /// All counters that it may keep for a client, except those of single keys that have
    /// another window.
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

/// The additional settings of a policy whose keys may have limits of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overridable {
    /// The identity under which the limit of a principal is stored. It contains the
    /// policy's name only, so that the limits survive a change of the policy's limit,
    /// window and algorithm.
    pub kept_as: Counter,
    /// The amount that is admitted beyond such a limit, and marked.
    pub soft_percent: u8,
}

impl Overridable {
    /// The settings for the policy of this name.
    pub fn new(policy: &str, soft_percent: u8) -> Self {
        Self { kept_as: counter::override_of(policy, None), soft_percent }
    }

    /// The settings for the policy of this name, whose limit is money. Limits in another currency, or
    /// in larger or smaller units, are not those of this policy.
    pub fn of_money(policy: &str, denomination: Denomination, soft_percent: u8) -> Self {
        Self { kept_as: counter::override_of(policy, Some(denomination)), soft_percent }
    }
}

/// Whether a policy refuses requests. Routes contain no policy that is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It refuses requests.
    #[default]
    Enforce,
    /// It counts requests and reports them, and refuses none.
    Shadow,
}

/// The units that a request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// A constant number of units.
    Fixed(u64),
    /// The value of this field of the request, which only trusted proxies can set.
    Field {
        /// The field.
        name: HeaderName,
        /// The cost if the field is absent, is not a number, or the peer is not trusted.
        default: u64,
        /// The largest cost that the field can name. None: as many units as the limit of the client
        /// admits at once.
        max: Option<u64>,
    },
    /// One unit for each started unit of the request's body. At first the announced length
    /// counts, or one unit if no length is announced. The received length settles the cost.
    Body {
        /// Bytes.
        unit_bytes: NonZeroU64,
    },
    /// One unit for each message of JSON-RPC in the body that calls a method.
    Calls,
    /// The cost is known after the response: units are reserved, and the cost in the
    /// response settles them.
    Metered {
        /// The units that are charged at first, at least one. They stay charged if the
        /// response names no cost. With an estimate these are the most units, which are charged
        /// if the size of the request is not known.
        reserve: u64,
        /// The estimate of the units, by the body of the request. None: they are constant.
        estimate: Option<Box<Reservation>>,
        /// The part of the response that names the cost.
        meter: MeterSpec,
    },
}

impl Cost {
    /// The estimate of the units that a request reserves, if its body decides.
    pub fn reservation(&self) -> Option<&Reservation> {
        match self {
            Self::Metered { estimate, .. } => estimate.as_deref(),
            Self::Fixed(_) | Self::Field { .. } | Self::Body { .. } | Self::Calls => None,
        }
    }

    /// The units that are charged at first for a request with this estimate.
    pub fn reserved(&self, estimate: &Estimate) -> u64 {
        let Self::Metered { reserve, meter, .. } = self else { return 0 };
        let most = (*reserve).max(1);
        if let Some(prices) = self.prices() {
            // It passes when the budget is used up, also if its size is not known.
            let is_free = match estimate.entry {
                Some(entry) => prices.is_free(entry),
                None => estimate.is_empty(),
            };
            if is_free {
                return 0;
            }
        }
        let units_of = |usage: &Usage| match meter {
            MeterSpec::Usage { tariff, .. } => tariff.estimated_units(usage, estimate.entry),
            _ => None,
        };
        let units = estimate.usage.as_ref().and_then(units_of);
        units.map_or(most, |units| units.min(most))
    }

    /// The prices, if units are money.
    pub const fn prices(&self) -> Option<&Arc<Prices>> {
        match self {
            Self::Metered { meter, .. } => meter.prices(),
            Self::Fixed(_) | Self::Field { .. } | Self::Body { .. } | Self::Calls => None,
        }
    }

    /// The price of a request with this estimate. None: it has no price, or needs none.
    pub(super) fn entry(&self, model: Option<&str>) -> Option<PriceEntry> {
        self.prices().and_then(|prices| prices.of_request(model))
    }
}

/// The outcomes that are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// All.
    #[default]
    All,
    /// Responses with one of these statuses. For other responses the cost is given back.
    Statuses {
        /// The statuses that are counted.
        statuses: Vec<StatusCode>,
        /// Requests without a status.
        left: Left,
    },
}

impl Count {
    /// Responses with one of these statuses, and requests that the client has left.
    pub const fn statuses(statuses: Vec<StatusCode>) -> Self {
        Self::Statuses { statuses, left: Left::Counted }
    }
}

/// What becomes of requests whose client has left before the response, where only responses with
/// some statuses count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Left {
    /// They count. The upstream performs these requests all the same, so a client could
    /// otherwise avoid its limit by leaving.
    #[default]
    Counted,
    /// Their cost is given back.
    Ignored,
}

/// Limits by plan.
#[derive(Clone, Debug)]
pub struct Plans {
    /// The key whose value is the name of the plan.
    pub from: KeyExpr,
    /// The plans by name. The policy's own limit holds for other names.
    pub limits: Vec<(Box<str>, Plan)>,
}

/// The limit of one plan.
#[derive(Clone, Debug)]
pub enum Plan {
    /// The policy does not judge the client.
    Unlimited,
    /// The policy's algorithm with another limit. The counters stay the same.
    Limited {
        /// The limit.
        algorithm: Algorithm,
        /// The limit including the soft limit, if the policy has one.
        soft: Option<Algorithm>,
    },
}

/// The bans of clients that are refused too often. While a client is banned, the policy
/// admits none of its requests.
#[derive(Clone, Debug)]
pub struct Penalty {
    /// Counts refusals. The refusal that uses up its limit leads to a ban. A request that
    /// is refused because of a ban is not counted.
    pub after: Algorithm,
    /// The length of bans: an [`Algorithm::Ban`].
    pub ban: Algorithm,
    /// How long the response to a request of a banned client is held back.
    pub delay: Span,
}

/// The additional limit while the upstream has room.
#[derive(Clone, Debug)]
pub struct Elastic {
    /// Counts the units beyond the policy's limit. Its limit is the higher limit less the
    /// policy's own, and is the same for all plans.
    pub beyond: Algorithm,
    /// The upstream has room while its latency is below this.
    pub latency_below: Option<Span>,
    /// The upstream has room while less than this share, in percent, of its `max_in_flight`
    /// is in flight.
    pub in_flight_below_percent: Option<u8>,
}

/// The requests that a policy exempts. One condition suffices.
#[derive(Clone, Debug, Default)]
pub struct Exempt {
    /// Clients with these addresses.
    pub ips: Vec<IpNet>,
    /// Clients in these places.
    pub places: Vec<GeoCode>,
    /// Clients of these classes.
    pub classes: Vec<Box<str>>,
    /// Requests with these methods.
    pub methods: Vec<Method>,
    /// Requests with this value on one line of this field. The values are compared in
    /// constant time, because they act as secrets.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// The treatment of preflights.
#[derive(Clone, Debug, Default)]
pub enum Preflights {
    /// They are counted like other requests.
    Counted,
    /// They are counted by address, under this policy.
    Bounded(Arc<Policy>),
    /// They are exempt: the policy has no limit from which a limit for them can be derived.
    #[default]
    Exempt,
}
