//! What a request reserves until its response settles the cost.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use super::fault::Faults;
use super::{EstimateSpec, Field, ReserveSpec, SettleSpec, Written};
use crate::algorithm::MAX_LIMIT;
use crate::meter::MeterSpec;
use crate::policy::{Cost, KeyExpr, Reservation, ReserveSettings};

/// Bytes for each token. A token is one byte at least, and seldom more than a long word.
const BYTES_PER_TOKEN: RangeInclusive<u64> = 1..=16;

/// The cost of a policy with `reserve`.
pub(super) fn cost(
    units: &Written<ReserveSpec>,
    settle: &Written<SettleSpec>,
    faults: &Faults,
) -> Option<Cost> {
    let (reserve, settings) = match units.given() {
        // With nothing reserved, a request would be admitted however high the debt is.
        Some(ReserveSpec::Units(units)) => {
            (faults.number(&Written::Given(*units), Field::Reserve, 1..=MAX_LIMIT), None)
        }
        Some(ReserveSpec::Estimate(estimate)) => {
            // A claim is at most the limit of its client.
            let max = or(&estimate.max, MAX_LIMIT, Field::ReserveMax, 1..=MAX_LIMIT, faults);
            (max, Some(estimate.settings(faults)))
        }
        None => (None, None),
    };
    let message = "the reserved cost is never settled, because there is no \"settle\"";
    let advice = match settings {
        Some(_) => "like settle: { usage: openai }",
        None => "like settle: { header: x-tokens-used }; a fixed cost is written cost: 4",
    };
    let settle = faults.required(settle, Field::Cost, message, advice)?;
    let meter = match settle {
        SettleSpec::Meter(meter) | SettleSpec::Estimated(meter) => meter.clone(),
        SettleSpec::Bytes(bytes) => {
            MeterSpec::Bytes { unit: unit(*bytes, Field::ResponseBytes, faults)? }
        }
    };
    let estimates_unsettled = matches!(settle, SettleSpec::Estimated(_));
    if estimates_unsettled && reserve.is_some() && settings.is_none() {
        let message = "\"unsettled: estimate\" needs a \"reserve\" that estimates the input";
        let advice = "write reserve: {}, or leave \"unsettled\" out";
        faults.error(Field::Unsettled, message, advice);
    }
    let estimate = match (settings, &meter) {
        (Some(settings), MeterSpec::Usage { api, .. }) => {
            let settings = ReserveSettings { estimates_unsettled, ..settings? };
            Some(Box::new(Reservation::new(*api, settings)))
        }
        (Some(_), _) => {
            let message = "an estimate of tokens needs \"settle\" with \"usage\"";
            let advice = "like settle: { usage: openai }; or reserve a number of units";
            faults.error(Field::Reserve, message, advice);
            None
        }
        (None, _) => None,
    };
    Some(Cost::Metered { reserve: reserve?, estimate, meter })
}

/// A number within `range`, or the usual one.
fn or(
    written: &Written<u64>,
    usual: u64,
    field: Field,
    range: RangeInclusive<u64>,
    faults: &Faults,
) -> Option<u64> {
    match written {
        Written::Absent => Some(usual),
        written => faults.number(written, field, range),
    }
}

impl EstimateSpec {
    fn settings(&self, faults: &Faults) -> Option<ReserveSettings> {
        let usual = ReserveSettings::default();
        let tokens = |written, field, usual| or(written, usual, field, 0..=MAX_LIMIT, faults);
        let output = tokens(&self.output, Field::ReserveOutput, usual.output);
        let image = tokens(&self.image, Field::ReserveImage, usual.image);
        let stored_input = tokens(&self.stored_input, Field::ReserveStored, usual.stored_input);
        let max_output = match &self.max_output {
            Written::Absent => Some(None),
            written => faults.number(written, Field::ReserveMaxOutput, 1..=MAX_LIMIT).map(Some),
        };
        let bytes_per_token = or(
            &self.bytes_per_token,
            usual.bytes_per_token.get(),
            Field::ReserveBytesPerToken,
            BYTES_PER_TOKEN,
            faults,
        );
        let model = match &self.model {
            Written::Absent => Some(None),
            Written::Unreadable => None,
            Written::Given(key) if is_model(key) => Some(Some(key.clone())),
            Written::Given(_) => {
                let message = "a model is a value in the body, or a field of the request";
                let advice = "like model: json:/model, or model: header:x-model";
                faults.error(Field::ReserveModel, message, advice);
                None
            }
        };
        Some(ReserveSettings {
            output: output?,
            max_output: max_output?,
            bytes_per_token: NonZeroU64::new(bytes_per_token?)?,
            image: image?,
            stored_input: stored_input?,
            model: model?,
            estimates_unsettled: false,
        })
    }
}

fn is_model(key: &KeyExpr) -> bool {
    match key {
        KeyExpr::Header(_) => true,
        KeyExpr::Body(word) => word.is_json(),
        _ => false,
    }
}

/// How many bytes cost one unit.
pub(super) fn unit(bytes: u64, field: Field, faults: &Faults) -> Option<NonZeroU64> {
    let unit = NonZeroU64::new(bytes);
    if unit.is_none() {
        faults.error(field, "a unit cannot have 0 bytes", "write a size, like 1KiB");
    }
    unit
}
