//! Limits in money: amounts become units, and tokens cost what their model costs.

use std::borrow::Cow;
use std::sync::Arc;

use super::fault::Faults;
use super::{
    CostSpec, Facts, Field, LimitSpec, MoneyLimit, PolicySpec, ReserveSpec, SettleSpec, Written,
};
use crate::algorithm::{MAX_LIMIT, Quota};
use crate::consistency::{Consistency, OnFailure, StoreMode};
use crate::meter::{MeterSpec, Tariff, Weights};
use crate::price::{Amount, AmountError, DecimalError, Denomination, Prices};
use crate::scalar::{self, ScalarError};

const ADVICE: &str = "write an amount, its currency and a time, like 500 usd/day";

/// Fields that count units, which are too small for a person to count.
static OF_UNITS: [Field; 2] = [Field::Burst, Field::Elastic];

impl LimitSpec {
    /// Reads a limit that may be money: `500 usd/day`, or `500 usd` for the window of the policy.
    ///
    /// # Errors
    /// If it is neither money nor another limit.
    pub fn with_money(text: &str) -> Result<Self, ScalarError> {
        let (amount, time) = match text.split_once('/') {
            Some((amount, time)) => (amount, Some(time)),
            None => (text, None),
        };
        if !Amount::is_meant(amount) {
            return text.parse();
        }
        let amount =
            amount.parse().map_err(|error| ScalarError::of(in_text(error, text), ADVICE))?;
        // One unit in the same window, which later gets the units of the amount.
        let per = time.map(|time| scalar::rate(&format!("1/{time}"))).transpose()?;
        Ok(Self::Money(MoneyLimit { amount, per }))
    }
}

fn in_text(error: AmountError, text: &str) -> String {
    format!("in \"{text}\", {error}")
}

impl MoneyLimit {
    /// The number of units, or what is wrong and what would be right.
    ///
    /// # Errors
    /// If the prices are in another currency, or the amount is too fine or too large.
    pub fn units(&self, money: Denomination) -> Result<u64, ScalarError> {
        let largest = || {
            let largest = money.shown(MAX_LIMIT);
            let message = format!("{} is too much: the largest limit is {largest}", self.amount);
            ScalarError::new(message, "write a smaller one, or fewer \"digits\" under \"prices\"")
        };
        match self.amount.units(money) {
            Ok(units @ 1..=MAX_LIMIT) => Ok(units),
            Ok(0) => Err(ScalarError::new("a limit of 0 admits nothing", ADVICE)),
            Ok(_) | Err(AmountError::Number(DecimalError::TooLarge)) => Err(largest()),
            Err(AmountError::Number(DecimalError::TooFine(digits))) => Err(ScalarError::new(
                format!("{} has more than {digits} decimals", self.amount),
                "write fewer decimals, or more \"digits\" under \"prices\"",
            )),
            Err(error) => {
                let message = format!("{} cannot be counted: {error}", self.amount);
                Err(ScalarError::new(message, "write the limit in the currency of \"prices\""))
            }
        }
    }

    /// The limit in units. None: it has no time.
    fn rate(&self, units: u64) -> Option<LimitSpec> {
        let window = self.per?.window();
        Quota::new(units, window).ok().map(LimitSpec::Rate)
    }
}

impl PolicySpec {
    /// The same specification with units in the place of money. All amounts are errors if there are
    /// no prices.
    pub(super) fn in_units(&self, facts: &Facts<'_>, faults: &Faults) -> Cow<'_, Self> {
        let Some(first) =
            self.limits().find_map(|(limit, field)| limit.is_money().then_some(field))
        else {
            return Cow::Borrowed(self);
        };
        let mut own = self.clone();
        let prices = faults.required(
            &facts.prices,
            first,
            "a limit in money needs the prices of models",
            "write the section: prices: { currency: usd, file: prices.yaml }",
        );
        let money = prices.map(|prices| prices.denomination);
        let unitless = |limit: &mut Written<Option<LimitSpec>>, field: Field| {
            let Some(Some(written)) = limit.copied() else { return };
            *limit = match units_of(written, money, &field, faults) {
                Some(limit) => Written::Given(Some(limit)),
                None => Written::Unreadable,
            };
        };
        unitless(&mut own.limit, Field::Limit);
        if let Written::Given(plans) = &mut own.plans {
            if let Written::Given(limits) = &mut plans.limits {
                for (index, plan) in limits.iter_mut().enumerate() {
                    unitless(&mut plan.limit, Field::PlanLimit(index));
                }
            }
        }
        for field in OF_UNITS.iter().filter(|field| self.is_given(field)) {
            let message = format!("\"{}\" cannot be combined with a limit in money", field.name());
            faults.error(field.clone(), message, "leave it out");
        }
        own.cost = self.priced_cost(prices.copied(), faults);
        Cow::Owned(own)
    }

    /// The prices, if the limit is money.
    pub(super) fn prices(&self) -> Option<&Arc<Prices>> {
        match self.cost.given()? {
            CostSpec::Reserve { settle, .. } => match settle.given()? {
                SettleSpec::Meter(meter) | SettleSpec::Estimated(meter) => meter.prices(),
                SettleSpec::Bytes(_) => None,
            },
            _ => None,
        }
    }

    /// Advises what keeps a budget exact on several nodes.
    pub(super) fn advise_exactness(&self, own: Consistency, facts: &Facts<'_>, faults: &Faults) {
        if !facts.shares_store || self.prices().is_none() {
            return;
        }
        let at = |field: Field| if self.is_given(&field) { field } else { Field::Limit };
        if own.mode != StoreMode::Exact {
            let message = "nodes may exceed a limit in money by what they have taken in advance";
            faults.warning(at(Field::StoreMode), message, "write store_mode: exact");
        }
        if own.on_failure != OnFailure::Deny {
            let message = "while the store is away, requests pass that the budget does not cover";
            faults.warning(at(Field::OnStoreFailure), message, "write on_store_failure: deny");
        }
    }

    /// All limits that clients have, with their fields.
    fn limits(&self) -> impl Iterator<Item = (LimitSpec, Field)> {
        let plans = self.plans.given().and_then(|plans| plans.limits.given());
        let plans = plans.into_iter().flatten().enumerate();
        let plans = plans.map(|(index, plan)| (plan.limit.copied(), Field::PlanLimit(index)));
        let all = std::iter::once((self.limit.copied(), Field::Limit)).chain(plans);
        all.filter_map(|(limit, field)| Some((limit??, field)))
    }

    /// What a request costs at these prices.
    fn priced_cost(&self, prices: Option<&Arc<Prices>>, faults: &Faults) -> Written<CostSpec> {
        let missing = |at: Field| {
            let message = "a limit in money needs the tokens that answers state";
            let advice = "write cost: { reserve: {}, settle: { usage: openai } }";
            faults.error(at, message, advice);
            Written::Unreadable
        };
        let cost = match &self.cost {
            Written::Unreadable => return Written::Unreadable,
            Written::Given(cost) => cost,
            Written::Absent => return missing(Field::Limit),
        };
        let CostSpec::Reserve { units, settle, asks_usage } = cost else {
            return missing(Field::Cost);
        };
        if let Written::Given(ReserveSpec::Units(_)) = units {
            let message = "what a limit in money reserves depends on the model of the request";
            faults.error(Field::Reserve, message, "write reserve: {}, which estimates it");
            return Written::Unreadable;
        }
        let (meter, made): (_, fn(MeterSpec) -> SettleSpec) = match settle {
            Written::Given(SettleSpec::Meter(meter)) => (meter, SettleSpec::Meter),
            Written::Given(SettleSpec::Estimated(meter)) => (meter, SettleSpec::Estimated),
            Written::Given(SettleSpec::Bytes(_)) => return missing(Field::Settle),
            Written::Absent => return missing(Field::Cost),
            Written::Unreadable => return Written::Unreadable,
        };
        let MeterSpec::Usage { api, tariff } = meter else { return missing(Field::Settle) };
        if *tariff != Tariff::Weights(Weights::default()) {
            let message = "\"weights\" cannot be combined with a limit in money";
            faults.error(Field::Settle, message, "leave them out: prices say what tokens cost");
        }
        let Some(prices) = prices else { return Written::Unreadable };
        let tariff = Tariff::Prices(Arc::clone(prices));
        let settle = Written::Given(made(MeterSpec::Usage { api: *api, tariff }));
        Written::Given(CostSpec::Reserve { units: units.clone(), settle, asks_usage: *asks_usage })
    }
}

/// A limit in units of money.
fn units_of(
    limit: LimitSpec,
    money: Option<Denomination>,
    field: &Field,
    faults: &Faults,
) -> Option<LimitSpec> {
    let LimitSpec::Money(limit) = limit else {
        let message = "this limit counts units, and another limit of the policy counts money";
        faults.error(field.clone(), message, ADVICE);
        return None;
    };
    let units = limit.units(money?);
    let units = units.map_err(|it| faults.error(field.clone(), it.message, it.advice)).ok()?;
    let rate = limit.rate(units);
    if rate.is_none() {
        faults.error(field.clone(), "the limit has no time", ADVICE);
    }
    rate
}
