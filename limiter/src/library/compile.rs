//! From a policy as an application writes it to one that judges requests. The same settings in
//! a `gateway.yaml` compile to the same policy, and so to the same counters.

use std::num::NonZeroU64;

use http::HeaderValue;
use tollgate_core::algorithm::{
    Algorithm, Concurrency, FixedWindow, LeakyBucket, MAX_LIMIT, SlidingLog, SlidingWindow,
    SubWindows, TokenBucket,
};
use tollgate_core::consistency::{Consistency, StoreMode};
use tollgate_core::meter::MeterSpec;
use tollgate_core::policy::{self, Count, Exempt, KeyExpr, Overridable, Plan, Preflights};
use tollgate_core::time::Span;

use super::policy::{Cost, Exemption};
use super::values::{check_name, field_name, network as network_of};
use super::{Algorithm as Kind, Key, Limit, Plans, Policy, Settle};

/// A delayed request keeps its connection, and clients do not wait for ever.
const MAX_DELAY: Span = Span::from_secs(300);
/// The most plans of one policy. Each request with a plan is compared with all of them.
const MAX_PLANS: usize = 64;

impl Policy {
    /// The policy that judges requests, or what is wrong with this one.
    pub(super) fn compile(&self) -> Result<policy::Policy, String> {
        check_name(&self.name)?;
        self.check_combinations()?;
        let key = key(&self.key)?;
        let limit = self.limit.or_else(|| self.plans.as_ref()?.first_limit());
        let mut compiled = match limit {
            None => policy::Policy::unlimited(&self.name, key),
            Some(limit) => {
                let algorithm = self.counting_of(limit)?;
                let is_unlimited = self.limit.is_none();
                policy::Policy { is_unlimited, ..policy::Policy::new(&self.name, key, algorithm) }
            }
        };
        if !compiled.is_unlimited {
            compiled.soft = self.soft_of(&compiled.algorithm)?;
        }
        compiled.plans = self.plans.as_ref().map(|it| self.plans_of(it, &compiled)).transpose()?;
        compiled.missing_key = self.missing_key;
        compiled.exempt = self.exempt_of()?;
        compiled.cost = self.cost_of()?;
        if !self.count.is_empty() {
            compiled.count = Count::statuses(self.count.clone());
        }
        compiled.consistency = self.consistency_of();
        compiled.mode = self.mode;
        let percent = self.soft_percent;
        compiled.overrides = self.overrides.then(|| Overridable::new(&self.name, percent));
        Ok(match self.counts_preflights {
            true => policy::Policy { preflights: Preflights::Counted, ..compiled },
            false => compiled.sparing_preflights(),
        })
    }

    fn counting_of(&self, limit: Limit) -> Result<Algorithm, String> {
        let quota = || {
            let advice = "the limit has no time: write a count per time, like 100/minute";
            limit.quota().ok_or(advice)?.map_err(text)
        };
        match self.algorithm {
            Kind::Concurrency if limit.quota().is_some() => {
                Err("requests in progress are limited by a count without a time, like 20".into())
            }
            Kind::Concurrency => {
                Concurrency::new(limit.units()).map(Algorithm::Concurrency).map_err(text)
            }
            Kind::SlidingWindow => match self.buckets {
                None | Some(1) => Ok(Algorithm::SlidingWindow(SlidingWindow::new(quota()?))),
                Some(buckets) => {
                    SubWindows::new(quota()?, buckets).map(Algorithm::SubWindows).map_err(text)
                }
            },
            Kind::SlidingLog => SlidingLog::new(quota()?).map(Algorithm::SlidingLog).map_err(text),
            Kind::FixedWindow => {
                #[cfg(feature = "calendar")]
                if let Some(zone) = &self.calendar {
                    let window = FixedWindow::calendar(quota()?, zone);
                    return window.map(Algorithm::FixedWindow).map_err(text);
                }
                Ok(Algorithm::FixedWindow(FixedWindow::new(quota()?)))
            }
            Kind::TokenBucket => {
                let burst = self.burst.unwrap_or(limit.units());
                TokenBucket::new(quota()?, burst).map(Algorithm::TokenBucket).map_err(text)
            }
            Kind::LeakyBucket => {
                let delay =
                    self.max_delay.map(Span::from).ok_or("a leaky bucket needs max_delay")?;
                if !(Span::MILLISECOND..=MAX_DELAY).contains(&delay) {
                    return Err(format!("max_delay is from {} to {MAX_DELAY}", Span::MILLISECOND));
                }
                let bucket = LeakyBucket::new(quota()?, delay, self.burst);
                bucket.map(Algorithm::LeakyBucket).map_err(text)
            }
        }
    }

    /// Refuses settings without an effect, and settings that contradict each other.
    fn check_combinations(&self) -> Result<(), String> {
        let is = |kinds: &[Kind]| kinds.contains(&self.algorithm);
        let is_settled = matches!(self.cost, Cost::Reserve { .. }) || !self.count.is_empty();
        let (has_soft, corrects_twice) =
            (self.soft_percent > 0, is_settled && matches!(self.cost, Cost::Reserve { .. }));
        let faults = [
            (
                self.buckets.is_some() && !is(&[Kind::SlidingWindow]),
                "buckets belong to a sliding window",
            ),
            (
                self.burst.is_some() && !is(&[Kind::TokenBucket, Kind::LeakyBucket]),
                "a burst belongs to a token bucket or a leaky bucket",
            ),
            (
                self.max_delay.is_some() && !is(&[Kind::LeakyBucket]),
                "max_delay belongs to a leaky bucket",
            ),
            (
                self.calendar.is_some() && !is(&[Kind::FixedWindow]),
                "a calendar belongs to a fixed window",
            ),
            (
                is_settled && is(&[Kind::LeakyBucket, Kind::Concurrency]),
                "the cost of requests that are delayed or in progress cannot be corrected",
            ),
            (
                has_soft && is(&[Kind::LeakyBucket]),
                "requests beyond the limit would not go on at even intervals",
            ),
            (
                corrects_twice && !self.count.is_empty(),
                "reserve and count_only would both correct the count after the response",
            ),
            (self.overrides && !cfg!(feature = "redis"), "overrides need the feature `redis`"),
        ];
        let fault = faults.into_iter().find(|(is_fault, _)| *is_fault);
        fault.map_or(Ok(()), |(_, why)| Err(why.to_owned()))
    }

    /// `own` with the units that are admitted beyond it, if there are any.
    fn soft_of(&self, own: &Algorithm) -> Result<Option<Algorithm>, String> {
        let beyond = own.capacity() * u64::from(self.soft_percent) / 100;
        let soft = (beyond > 0).then(|| own.with_capacity(own.capacity() + beyond));
        soft.transpose().map_err(text)
    }

    fn plans_of(&self, plans: &Plans, policy: &policy::Policy) -> Result<policy::Plans, String> {
        if !(1..=MAX_PLANS).contains(&plans.limits.len()) {
            return Err(format!("a policy has from 1 to {MAX_PLANS} plans"));
        }
        let own = &policy.algorithm;
        let plan = |(name, limit): &(String, Option<Limit>)| {
            check_name(name)?;
            let plan = match limit {
                None => Plan::Unlimited,
                Some(limit) if limit.span() != own.window() => {
                    return Err(format!("the plan \"{name}\" counts in another window"));
                }
                Some(limit) => {
                    let algorithm = own.with_limit(limit.units()).map_err(text)?;
                    let soft = self.soft_of(&algorithm)?;
                    Plan::Limited { algorithm, soft }
                }
            };
            Ok((name.as_str().into(), plan))
        };
        let limits: Result<_, String> = plans.limits.iter().map(plan).collect();
        let from = key(&plans.from)?;
        if matches!(from, KeyExpr::All(_)) {
            return Err("the name of a plan is one value, not several together".into());
        }
        Ok(policy::Plans { from, limits: limits? })
    }

    fn cost_of(&self) -> Result<policy::Cost, String> {
        let units = 1..=MAX_LIMIT;
        match &self.cost {
            Cost::Fixed(cost) if units.contains(cost) => Ok(policy::Cost::Fixed(*cost)),
            Cost::Header { name, default, max }
                if units.contains(default) && (*default..=MAX_LIMIT).contains(max) =>
            {
                let (name, default, max) = (field_name(name)?, *default, *max);
                Ok(policy::Cost::Field { name, default, max })
            }
            Cost::Reserve { units: reserve, settle } if units.contains(reserve) => {
                Ok(policy::Cost::Metered { reserve: *reserve, meter: settle.compile()? })
            }
            _ => Err(format!("a cost is from 1 to {MAX_LIMIT}, and its maximum not below it")),
        }
    }

    fn exempt_of(&self) -> Result<Exempt, String> {
        let mut exempt = Exempt::default();
        for it in &self.exempt {
            match it {
                Exemption::Network(network) => {
                    exempt.ips.push(network_of(network)?);
                }
                Exemption::Method(method) => exempt.methods.push(method.clone()),
                Exemption::Header(name, value) => {
                    let value = HeaderValue::from_str(value)
                        .map_err(|_| format!("no field {name} can have the exempt value"))?;
                    exempt.headers.push((field_name(name)?, value));
                }
            }
        }
        Ok(exempt)
    }

    fn consistency_of(&self) -> Consistency {
        match self.algorithm {
            // Units of these cannot be leased or counted later.
            Kind::SlidingLog | Kind::LeakyBucket | Kind::Concurrency => {
                Consistency { mode: StoreMode::Exact, ..self.consistency }
            }
            _ => self.consistency,
        }
    }
}

impl Plans {
    /// The limit of the first plan that has one.
    fn first_limit(&self) -> Option<Limit> {
        self.limits.iter().find_map(|(_, limit)| *limit)
    }
}

impl Settle {
    fn compile(&self) -> Result<MeterSpec, String> {
        Ok(match self {
            Self::Header(name) => MeterSpec::Header(field_name(name)?),
            Self::Json(place) => MeterSpec::Json(place.parse().map_err(text)?),
            Self::SseJson(place) => MeterSpec::SseJson(place.parse().map_err(text)?),
            Self::ResponseBytes(bytes) => {
                let unit = NonZeroU64::new(*bytes).ok_or("a unit cannot have 0 bytes")?;
                MeterSpec::Bytes { unit }
            }
        })
    }
}

fn key(key: &Key) -> Result<KeyExpr, String> {
    let compiled = key.compile().map_err(text)?;
    let mut is_empty = false;
    compiled.visit(&mut |key| {
        is_empty |= matches!(key, KeyExpr::First(keys) | KeyExpr::All(keys) if keys.is_empty());
    });
    if is_empty { Err("a list of keys is empty".into()) } else { Ok(compiled) }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
