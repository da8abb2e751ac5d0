//! `elastic`: what is admitted beyond a limit while the upstream has room.

use std::ops::RangeInclusive;

use super::Compiler;
use super::policies::Named;
use crate::algorithm::Algorithm;
use crate::config::field::{Field, Spanned};
use crate::config::node::Span as Place;
use crate::config::raw::{RawElastic, RawPolicy, RawRoom, RawUpstream};
use crate::config::scalar::Percent;
use crate::policy::Elastic;
use crate::time::Span;

/// Faster than a millisecond is no upstream, and slower than ten minutes none that works.
const LATENCY: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(600);

impl Compiler<'_> {
    /// `own` is the policy's algorithm.
    pub(super) fn elastic(&self, raw: &RawPolicy, own: Option<&Algorithm>) -> Option<Elastic> {
        let Spanned { value: RawElastic { limit, when }, span, .. } = raw.elastic.given()?;
        let message = "the elastic limit has no \"limit\"";
        self.required(limit, *span, message, "write the higher one, like limit: 300/minute");
        let advice = "like when: { upstream_latency_below: 200ms }";
        self.required(when, *span, "the elastic limit does not say \"when\"", advice);
        let beyond = limit.given().zip(own).and_then(|(limit, own)| {
            let written = (limit.value, limit.span);
            let units = self.same_window(written, own, "the elastic limit", "the policy's own")?;
            let beyond = units.checked_sub(own.limit()).filter(|beyond| *beyond > 0);
            if beyond.is_none() {
                let message = "the elastic limit is not above the policy's own";
                self.problems.error(limit.span, message, "write a higher one");
            }
            self.with_limit(own, beyond?, limit.span)
        });
        let when = when.given()?;
        let RawRoom { upstream_latency_below, upstream_in_flight_below } = &when.value;
        if upstream_latency_below.is_absent() && upstream_in_flight_below.is_absent() {
            self.problems.error(when.span, "the elastic limit has no condition", advice);
        }
        Some(Elastic {
            beyond: beyond?,
            latency_below: self.span(upstream_latency_below, "upstream_latency_below", LATENCY),
            in_flight_below_percent: self.share(upstream_in_flight_below),
        })
    }

    /// Whether the `upstream` of a route can say what `elastic` of `policy` asks it.
    pub(super) fn check_room(
        &self,
        policy: &Named,
        elastic: &Elastic,
        route: &str,
        upstream: Option<&(Spanned<String>, Field<RawUpstream>)>,
        place: Place,
    ) {
        let Some((name, upstream)) = upstream else {
            let message = format!(
                "the policy \"{}\" is elastic, and {route} has no upstream that could have room",
                policy.name
            );
            let advice = "give it an upstream, or take another policy";
            self.problems.error(place, &message, advice);
            return;
        };
        let unbounded = upstream.value().is_some_and(|raw| raw.max_in_flight.is_absent());
        if elastic.in_flight_below_percent.is_some() && unbounded {
            let message = format!(
                "the policy \"{}\" asks for a share of \"max_in_flight\", which the upstream \
                 \"{}\" does not have",
                policy.name, name.value
            );
            let advice = "write it under the upstream, or leave out upstream_in_flight_below";
            self.problems.error(place, &message, advice);
        }
    }

    fn share(&self, raw: &Field<Percent>) -> Option<u8> {
        let given = raw.given()?;
        if given.value == Percent(0) {
            let message = "less than nothing is never in flight";
            self.problems.error(given.span, message, "write a percentage above 0%, like 50%");
        }
        Some(given.value.0)
    }
}
