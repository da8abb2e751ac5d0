//! What a request costs, and which outcomes are counted.

use http::{HeaderName, StatusCode};

use super::fault::Faults;
use super::{ClientFacts, CostSpec, CountSpec, Field, PolicySpec, ReserveSpec, Written, reserve};
use crate::algorithm::{Algorithm, MAX_LIMIT};
use crate::policy::{Cost, Count};

impl PolicySpec {
    /// What a request costs.
    pub(super) fn cost(&self, has: ClientFacts, faults: &Faults) -> Option<Cost> {
        match self.cost.given()? {
            CostSpec::Fixed(units) => {
                let units = Written::Given(*units);
                faults.number(&units, Field::Cost, 1..=MAX_LIMIT).map(Cost::Fixed)
            }
            CostSpec::Header { name, default, max } => {
                Some(cost_by_header(name, [default, max], has, faults))
            }
            CostSpec::Body(bytes) => {
                let unit_bytes = reserve::unit(*bytes, Field::BodyBytes, faults)?;
                Some(Cost::Body { unit_bytes })
            }
            CostSpec::Calls => Some(Cost::Calls),
            CostSpec::Reserve { units, settle, .. } => reserve::cost(units, settle, faults),
        }
    }

    /// Which outcomes are counted.
    pub(super) fn counted(&self, faults: &Faults) -> Count {
        let Some(CountSpec::Statuses { statuses, left }) = self.count.given() else {
            return Count::All;
        };
        let advice = "like status: [401, 403]";
        let message = "there is no \"status\" to count";
        let written = faults.required(statuses, Field::Count, message, advice);
        let written = written.map(Vec::as_slice).unwrap_or_default();
        if statuses.is_given() && written.is_empty() {
            faults.error(Field::Statuses, "no outcome is counted", advice);
        }
        let statuses = written.iter().enumerate().filter_map(|(index, status)| {
            let code = faults.number(status, Field::Status(index), 200..=599)?;
            StatusCode::from_u16(u16::try_from(code).ok()?).ok()
        });
        Count::Statuses { statuses: statuses.collect(), left: *left }
    }

    /// Warns of a cost above the units that `admitting` admits at once, and of one that uses all of
    /// them in windows where that halves the rate. `whose` names `admitting`, which is written at
    /// `limit`.
    pub(super) fn warn_of_cost(
        &self,
        admitting: &Algorithm,
        whose: &str,
        limit: Field,
        faults: &Faults,
    ) {
        // The fewest units that every request takes at once, as far as the policy says.
        let least = match self.cost.given() {
            Some(CostSpec::Fixed(units)) => Some((*units, Field::Cost)),
            Some(CostSpec::Header { default, .. }) => {
                default.copied().map(|units| (units, Field::CostDefault))
            }
            Some(CostSpec::Reserve { units, .. }) => {
                // An estimate is never more than the limit.
                match units.given() {
                    Some(ReserveSpec::Units(units)) => Some((*units, Field::Reserve)),
                    Some(ReserveSpec::Estimate(_)) | None => None,
                }
            }
            Some(CostSpec::Body(_) | CostSpec::Calls) => None,
            None => self.cost.is_absent().then_some((1, limit)),
        };
        let Some((units, field)) = least else { return };
        if units > admitting.capacity() {
            let message =
                format!("no request is ever admitted: one costs more than {whose} admits at once");
            faults.warning(field, message, "write a smaller cost, or a higher limit");
        } else if units == admitting.capacity() && self.halves_rate(admitting) {
            let message = format!(
                "only one request is admitted in two windows: it costs all that {whose} admits, \
                 and counts until the next window ends"
            );
            let advice = "write algorithm: token_bucket, which admits one in each, or buckets: 10";
            faults.warning(field, message, advice);
        }
    }

    /// Whether a request that uses all that `admitting` admits uses the next window too. It does
    /// unless its cost changes when it ends.
    fn halves_rate(&self, admitting: &Algorithm) -> bool {
        matches!(admitting, Algorithm::SlidingWindow(_))
            && matches!(self.cost, Written::Absent | Written::Given(CostSpec::Fixed(_)))
            && self.count.is_absent()
    }
}

fn cost_by_header(
    name: &HeaderName,
    [default, max]: [&Written<u64>; 2],
    has: ClientFacts,
    faults: &Faults,
) -> Cost {
    if !has.trusted_proxy {
        let message = "a cost is accepted from trusted proxies only, and there are none";
        let advice = "name your proxies in client.trusted_proxies, or write a fixed cost";
        faults.error(Field::CostHeader, message, advice);
    }
    // With a default of 0, a request without the field would cost nothing.
    let default = faults.number(default, Field::CostDefault, 1..=MAX_LIMIT).unwrap_or(1);
    let max = faults.number(max, Field::CostMax, 1..=MAX_LIMIT);
    if max.is_some_and(|max| max < default) {
        let message = "the highest cost is below the default";
        faults.error(Field::CostMax, message, "write a higher one");
    }
    Cost::Field { name: name.clone(), default, max }
}
