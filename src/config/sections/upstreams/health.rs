//! `health` and `eject` of an upstream: which endpoints get requests.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::time::Span;

use crate::config::field::Field;
use crate::config::node::TextSpan;
use crate::config::scalar::{Percent, Period, TargetText};
use crate::config::sections::context::Context;
use crate::proxy::{CheckSettings, EjectSettings};

/// More frequent checks are an attack, and less frequent ones do not help.
const CHECK_INTERVAL: RangeInclusive<Span> = Span::from_millis(100)..=Span::from_secs(3600);
const CHECK_TIMEOUT: RangeInclusive<Span> = Span::from_millis(10)..=Span::from_secs(60);
/// Consecutive checks or requests.
const CONSECUTIVE: RangeInclusive<u64> = 1..=1000;
const EJECTION: RangeInclusive<Span> = Span::from_millis(100)..=Span::from_secs(86_400);

/// Active health checks: a GET that a healthy endpoint answers with a status from 200 to 399.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "health", default)]
#[schemars(deny_unknown_fields, extend("required" = ["path"]))]
pub struct RawHealth {
    /// The path of the GET, which may have a query.
    path: Field<TargetText>,
    /// The time between two checks.
    #[schemars(extend("default" = "5s"))]
    #[schemars(example = &"10s")]
    interval: Field<Period>,
    /// The longest time that a check may take.
    #[schemars(extend("default" = "1s"))]
    #[schemars(example = &"2s")]
    timeout: Field<Period>,
    /// How many consecutive checks must succeed before an endpoint gets requests again.
    #[schemars(extend("default" = 2))]
    #[schemars(example = 3)]
    #[schemars(range(min = *CONSECUTIVE.start(), max = *CONSECUTIVE.end()))]
    rise: Field<u64>,
    /// How many consecutive checks must fail before an endpoint gets no more requests.
    #[schemars(extend("default" = 3))]
    #[schemars(example = 5)]
    #[schemars(range(min = *CONSECUTIVE.start(), max = *CONSECUTIVE.end()))]
    fall: Field<u64>,
}

/// Passive health checks: an endpoint gets no requests for some time after several failed. A
/// request fails if the endpoint cannot be connected, closes the connection, is too slow, or
/// responds with 502, 503 or 504.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "eject", default)]
#[schemars(deny_unknown_fields)]
pub struct RawEject {
    /// How many consecutive requests must fail.
    #[schemars(extend("default" = 5))]
    #[schemars(example = 3)]
    #[schemars(range(min = *CONSECUTIVE.start(), max = *CONSECUTIVE.end()))]
    consecutive_errors: Field<u64>,
    /// How long the endpoint gets no requests. If it fails again soon, up to eight times as long.
    #[schemars(extend("default" = "30s"))]
    #[serde(rename = "for")]
    #[schemars(example = &"1m")]
    period: Field<Period>,
    /// The largest share of all endpoints that may be ejected at once.
    #[schemars(extend("default" = "50%"))]
    #[schemars(example = &"30%")]
    max_percent: Field<Percent>,
}

impl RawHealth {
    /// The settings of the section, which is written at `span`.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<CheckSettings> {
        let Self { path, interval, timeout, rise, fall } = self;
        let advice = "like health: { path: /healthz }";
        let interval = cx.duration(interval, "interval", CHECK_INTERVAL).map(Duration::from);
        let timeout = cx.duration(timeout, "timeout", CHECK_TIMEOUT).map(Duration::from);
        let rise = cx.number(rise, "rise", CONSECUTIVE);
        let fall = cx.number(fall, "fall", CONSECUTIVE);
        let path = cx.required(path, span, "the health check has no \"path\"", advice)?;
        let usual = CheckSettings::new(path.0.clone());
        Some(CheckSettings {
            interval: interval.unwrap_or(usual.interval),
            timeout: timeout.unwrap_or(usual.timeout),
            rise: rise.unwrap_or(usual.rise),
            fall: fall.unwrap_or(usual.fall),
            ..usual
        })
    }
}

impl RawEject {
    pub fn compile(&self, cx: &Context<'_>) -> EjectSettings {
        let usual = EjectSettings::default();
        let errors = cx.number(&self.consecutive_errors, "consecutive_errors", CONSECUTIVE);
        let period = cx.duration(&self.period, "for", EJECTION).map(Duration::from);
        EjectSettings {
            consecutive_errors: errors.unwrap_or(usual.consecutive_errors),
            period: period.unwrap_or(usual.period),
            max_percent: self.max_percent.value().map_or(usual.max_percent, |percent| percent.0),
        }
    }
}
