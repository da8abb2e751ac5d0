//! What a worker counts of units that are settled when requests end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_core::algorithm::MAX_LIMIT;
use tollgate_core::decision::{Ending, Lease};
use tollgate_core::meter::{Spent, Unsettled, Usage};
use tollgate_core::policy::{Cost, Policy, Unit};
use tollgate_core::price::OTHER;

use super::cell::{Counter, Histogram};
use super::families::{IN_FLIGHT_UNITS, RESERVED_RATIO, SETTLED_UNITS, UNSETTLED_REQUESTS, WARNED};
use super::model_families::{OVER_LIMIT_UNITS, SPENT_UNITS, TOKENS};
use super::worker::WorkerMetrics;

/// The most models of a policy that have series of their own on a worker. The others are counted as
/// models without an entry.
const MAX_MODELS: usize = 256;

/// The units of one worker's requests. Policies are known by their names, because requests
/// outlive the configuration under which they began.
#[derive(Debug)]
pub struct UnitMetrics {
    worker: Rc<WorkerMetrics>,
    policies: RefCell<HashMap<Arc<str>, PolicyUnits>>,
}

#[derive(Debug, Default)]
struct PolicyUnits {
    in_flight: Option<Counter>,
    charged: Option<Counter>,
    given_back: Option<Counter>,
    reserved: Option<Histogram>,
    /// By the names of entries in the prices.
    models: HashMap<Box<str>, ModelUnits>,
}

#[derive(Debug)]
struct ModelUnits {
    spent: Counter,
    input: Counter,
    cache_read: Counter,
    cache_write: Counter,
    output: Counter,
}

/// These units of one request, or tokens, as they are counted: at most the largest limit. An answer
/// may state any number, and a counter that overflows would go backwards.
fn counted(units: u64) -> u64 {
    units.min(MAX_LIMIT)
}

impl ModelUnits {
    fn count(&self, usage: &Usage, units: u64) {
        self.spent.add(counted(units));
        self.input.add(counted(usage.input));
        self.cache_read.add(counted(usage.cache_read));
        self.cache_write.add(counted(usage.cache_write));
        self.output.add(counted(usage.output));
    }
}

impl UnitMetrics {
    /// Counts in the series of this worker.
    pub fn new(worker: &Rc<WorkerMetrics>) -> Self {
        Self { worker: Rc::clone(worker), policies: RefCell::default() }
    }

    /// A request with this lease begins.
    pub fn begins(&self, lease: &Lease) {
        for (policy, units) in lease.in_flight() {
            self.of(policy, |it| self.in_flight(policy, it).add(units));
        }
    }

    /// A request with this lease ends.
    pub fn ends(&self, lease: &Lease, ending: &Ending<'_>) {
        for (policy, units) in lease.in_flight() {
            self.of(policy, |it| self.in_flight(policy, it).subtract(units));
        }
        for (policy, [charged, cost]) in lease.settlements(ending) {
            self.settled(policy, charged, cost);
            let is_metered = matches!(policy.cost, Cost::Metered { .. });
            let is_settled = || !lease.unsettled(ending).any(|(it, _)| Arc::ptr_eq(it, policy));
            if is_metered && charged > 0 && cost > 0 && is_settled() {
                self.reserved(policy, charged, cost);
            }
        }
    }

    /// These units were reserved for a request that has cost `cost`.
    fn reserved(&self, policy: &Policy, charged: u64, cost: u64) {
        self.of(policy, |it| {
            let make = || self.worker.histogram(&RESERVED_RATIO, &[&policy.name]);
            let ratio = charged.saturating_mul(1000) / cost;
            it.reserved.get_or_insert_with(make).observe(ratio);
        });
    }

    /// A request with this lease was not processed, and all its units are given back.
    pub fn given_back(&self, lease: &Lease) {
        for (policy, units) in lease.in_flight() {
            self.of(policy, |it| self.in_flight(policy, it).subtract(units));
        }
        for (policy, charged) in lease.charged() {
            self.settled(policy, charged, 0);
        }
    }

    /// A request that was charged these units has cost `cost`.
    pub fn settled(&self, policy: &Policy, charged: u64, cost: u64) {
        let (direction, units) = match cost.checked_sub(charged) {
            Some(0) => return,
            Some(more) => ("charged", more),
            None => ("given_back", charged - cost),
        };
        self.of(policy, |it| {
            let kind = if cost > charged { &mut it.charged } else { &mut it.given_back };
            let make = || self.worker.counter(&SETTLED_UNITS, &[&policy.name, direction]);
            kind.get_or_insert_with(make).add(counted(units));
        });
    }

    /// A request with this lease ends so, and has used these tokens.
    pub fn spent(&self, lease: &Lease, ending: &Ending<'_>, spent: &Spent) {
        let prices = lease.policies().find_map(|policy| policy.cost.prices());
        let model = prices.zip(spent.entry).map_or(OTHER, |(prices, entry)| prices.name(entry));
        for (policy, units) in lease.spent(ending) {
            if matches!(policy.unit(), Unit::Tokens | Unit::Money(_)) {
                self.of(policy, |it| self.models(policy, model, it).count(&spent.usage, units));
            }
        }
    }

    /// The response has not settled the cost of a request.
    pub fn unsettled(&self, policy: &Policy, cause: Unsettled) {
        // Such requests are few, so nothing is kept for the next one.
        self.worker.counter(&UNSETTLED_REQUESTS, &[&policy.name, cause.word()]).increment();
    }

    /// A client has passed this share of the limit of a policy.
    pub fn warned(&self, policy: &Policy, share: u8) {
        self.worker.counter(&WARNED, &[&policy.name, &share.to_string()]).increment();
    }

    /// A settlement has counted these units beyond the limit of a policy.
    pub fn beyond(&self, policy: &Policy, units: u64) {
        self.worker.counter(&OVER_LIMIT_UNITS, &[&policy.name]).add(counted(units));
    }

    fn of(&self, policy: &Policy, count: impl FnOnce(&mut PolicyUnits)) {
        let mut policies = self.policies.borrow_mut();
        match policies.get_mut(&policy.name) {
            Some(units) => count(units),
            None => count(policies.entry(Arc::clone(&policy.name)).or_default()),
        }
    }

    fn models<'u>(
        &self,
        policy: &Policy,
        model: &str,
        units: &'u mut PolicyUnits,
    ) -> &'u ModelUnits {
        let is_full = units.models.len() >= MAX_MODELS && !units.models.contains_key(model);
        let model = if is_full { OTHER } else { model };
        if !units.models.contains_key(model) {
            let tokens = |kind| self.worker.counter(&TOKENS, &[&policy.name, model, kind]);
            let made = ModelUnits {
                spent: self.worker.counter(&SPENT_UNITS, &[&policy.name, model]),
                input: tokens("input"),
                cache_read: tokens("cache_read"),
                cache_write: tokens("cache_write"),
                output: tokens("output"),
            };
            units.models.insert(model.into(), made);
        }
        &units.models[model]
    }

    fn in_flight<'u>(&self, policy: &Policy, units: &'u mut PolicyUnits) -> &'u Counter {
        let make = || self.worker.counter(&IN_FLIGHT_UNITS, &[&policy.name]);
        units.in_flight.get_or_insert_with(make)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::policy::KeyExpr;

    use super::super::Metrics;
    use super::*;

    #[test]
    fn an_answer_that_states_the_largest_numbers_lets_no_counter_go_backwards() {
        let metrics = Metrics::new(100_000);
        let units = UnitMetrics::new(&Rc::new(metrics.worker()));
        let policy = Policy::unlimited("p", KeyExpr::Global);
        let sums = |most: u64, few: u64| {
            let [input, cache_read, cache_write, output] = [most; 4];
            let usage = Usage { input, cache_read, cache_write, output };
            units.of(&policy, |it| units.models(&policy, "m", it).count(&usage, most));
            units.settled(&policy, few, most);
            units.settled(&policy, most, few);
            units.beyond(&policy, most);
            let text = metrics.render();
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            values.collect::<Vec<_>>()
        };
        let first = sums(5, 1);
        let second = sums(u64::MAX, 1);
        let third = sums(u64::MAX, 1);
        assert!(first.iter().zip(&second).all(|(before, after)| before <= after), "{second:?}");
        assert!(second.iter().zip(&third).all(|(before, after)| before <= after), "{third:?}");
    }

    #[test]
    fn the_models_of_a_policy_with_series_are_bounded() {
        let metrics = Metrics::new(100_000);
        let units = UnitMetrics::new(&Rc::new(metrics.worker()));
        let policy = Policy::unlimited("p", KeyExpr::Global);
        let usage = Usage { input: 1, ..Usage::default() };
        for number in 0..300 {
            let model = format!("model-{number}");
            units.of(&policy, |it| units.models(&policy, &model, it).count(&usage, 2));
        }
        let text = metrics.render();
        let value = |model: &str| {
            let name = format!("tollgate_spent_units_total{{model=\"{model}\",policy=\"p\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&*name)?.parse::<u64>().ok())
        };
        assert_eq!(
            [value("model-255"), value("model-256"), value(OTHER)],
            [Some(2), None, Some(88)]
        );
    }
}
