//! `cost` and `count`: how much of a limit a request takes, and when.

use std::num::NonZeroU64;

use http::StatusCode;

use super::Compiler;
use crate::algorithm::{Algorithm, MAX_LIMIT};
use crate::config::field::{Either, Field, Spanned};
use crate::config::node::Span;
use crate::config::raw::{RawClient, RawCost, RawCount, RawCountAll, RawSettle};
use crate::config::scalar::Size;
use crate::meter::MeterSpec;
use crate::policy::{Cost, Count};

impl Compiler<'_> {
    /// What a request costs under `own`, the policy's algorithm.
    pub(super) fn cost(
        &self,
        raw: &Field<Either<u64, RawCost>>,
        own: Option<&Algorithm>,
        client: Option<&RawClient>,
    ) -> Option<Cost> {
        let given = raw.given()?;
        let long = match &given.value {
            Either::Short(units) => {
                return self.within(*units, given.span, "cost", 1..=MAX_LIMIT).map(Cost::Fixed);
            }
            Either::Long(long) => long,
        };
        self.check_companions(long);
        match (long.header.is_absent(), long.body_bytes.is_absent(), long.reserve.is_absent()) {
            (false, true, true) => self.field_cost(long, own, client),
            (true, false, true) => {
                self.unit(&long.body_bytes).map(|unit_bytes| Cost::Body { unit_bytes })
            }
            (true, true, false) => self.metered_cost(long, given.span),
            _ => {
                let message = "a cost is one of \"header\", \"body_bytes\" and \"reserve\"";
                self.problems.error(given.span, message, "write exactly one of them");
                None
            }
        }
    }

    /// What refines a cost of another kind has no effect.
    fn check_companions(&self, raw: &RawCost) {
        let lone = |present: bool, place: Option<Span>, field: &str, owner: &str| {
            if let Some(place) = place.filter(|_| !present) {
                let message = format!("\"{field}\" belongs to a cost with \"{owner}\"");
                let advice = format!("leave it out, or write \"{owner}\" too");
                self.problems.error(place, &message, &advice);
            }
        };
        let header = !raw.header.is_absent();
        lone(header, raw.default.given().map(|default| default.span), "default", "header");
        lone(header, raw.max.given().map(|max| max.span), "max", "header");
        let reserve = !raw.reserve.is_absent();
        lone(reserve, raw.settle.given().map(|settle| settle.span), "settle", "reserve");
    }

    fn field_cost(
        &self,
        raw: &RawCost,
        own: Option<&Algorithm>,
        client: Option<&RawClient>,
    ) -> Option<Cost> {
        let name = raw.header.given()?;
        if client.is_none_or(RawClient::trusts_nobody) {
            let message = "a cost is believed from trusted proxies only, and there are none";
            let advice = "name your proxies in client.trusted_proxies, or write a fixed cost";
            self.problems.error(name.span, message, advice);
        }
        // A default of 0 would set free whoever leaves the field out.
        let default = self.number(&raw.default, "default", 1..=MAX_LIMIT).unwrap_or(1);
        let max = self.number(&raw.max, "max", 1..=MAX_LIMIT);
        if let (Some(max), Some(given)) = (max, raw.max.given())
            && max < default
        {
            let message = "the highest cost is below the default";
            self.problems.error(given.span, message, "write a higher one");
        }
        let max = max.unwrap_or_else(|| own.map_or(default, Algorithm::capacity).max(default));
        Some(Cost::Field { name: name.value.0.clone(), default, max })
    }

    fn metered_cost(&self, raw: &RawCost, place: Span) -> Option<Cost> {
        // Nothing reserved would be admitted however much is owed.
        let reserve = self.number(&raw.reserve, "reserve", 1..=MAX_LIMIT);
        let advice = "like settle: { header: x-tokens-used }; a fixed cost is written cost: 4";
        let message = "what is reserved is never settled, since there is no \"settle\"";
        self.required(&raw.settle, place, message, advice);
        let meter = self.meter(raw.settle.given()?);
        Some(Cost::Metered { reserve: reserve?, meter: meter? })
    }

    fn meter(&self, raw: &Spanned<RawSettle>) -> Option<MeterSpec> {
        let RawSettle { header, json, sse_json, response_bytes } = &raw.value;
        let sources = [
            header.is_absent(),
            json.is_absent(),
            sse_json.is_absent(),
            response_bytes.is_absent(),
        ];
        if sources.iter().filter(|absent| !**absent).count() != 1 {
            let message = "a cost is settled by one of \"header\", \"json\", \"sse_json\" and \
                           \"response_bytes\"";
            self.problems.error(raw.span, message, "write exactly one of them");
            return None;
        }
        if !response_bytes.is_absent() {
            return self.unit(response_bytes).map(|unit| MeterSpec::Bytes { unit });
        }
        let header = header.value().map(|name| MeterSpec::Header(name.0.clone()));
        let json = || json.value().map(|pointer| MeterSpec::Json(pointer.0.clone()));
        let sse_json = || sse_json.value().map(|pointer| MeterSpec::SseJson(pointer.0.clone()));
        header.or_else(json).or_else(sse_json)
    }

    /// How many bytes cost one.
    fn unit(&self, raw: &Field<Size>) -> Option<NonZeroU64> {
        let given = raw.given()?;
        let unit = NonZeroU64::new(given.value.0);
        if unit.is_none() {
            let message = "a unit of no bytes cannot be counted";
            self.problems.error(given.span, message, "write a size, like 1KiB");
        }
        unit
    }

    /// A fixed cost above what is admitted at once is most likely a slip.
    /// `admitting` is what admits it, and `whose` names that in messages.
    pub(super) fn warn_never_passes(
        &self,
        raw: &Field<Either<u64, RawCost>>,
        admitting: &Algorithm,
        whose: &str,
    ) {
        let Some(cost) = least_cost(raw).filter(|cost| cost.value > admitting.capacity()) else {
            return;
        };
        let message =
            format!("no request can ever pass: one costs more than {whose} admits at once");
        self.problems.warning(cost.span, &message, "write a smaller cost, or a higher limit");
    }

    /// Which outcomes are counted.
    pub(super) fn counted(&self, raw: &Field<Either<RawCountAll, RawCount>>) -> Count {
        let Some(Spanned { value: Either::Long(RawCount { status }), span, .. }) = raw.given()
        else {
            return Count::All;
        };
        let advice = "like status: [401, 403]";
        self.required(status, *span, "there is no \"status\" to count", advice);
        self.not_empty(status, "no outcome is counted", advice);
        let statuses = status.items().filter_map(|status| {
            let code = self.within(status.value, status.span, "status", 200..=599)?;
            StatusCode::from_u16(u16::try_from(code).ok()?).ok()
        });
        Count::Statuses(statuses.collect())
    }
}

/// The least that is surely asked for at once by a request of which nothing
/// else is known.
fn least_cost(raw: &Field<Either<u64, RawCost>>) -> Option<Spanned<u64>> {
    let given = raw.given()?;
    match &given.value {
        Either::Short(units) => Some(Spanned { value: *units, span: given.span, written: None }),
        Either::Long(long) => long.reserve.given().or_else(|| long.default.given()).cloned(),
    }
}
