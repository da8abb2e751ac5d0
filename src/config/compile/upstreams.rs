//! `upstreams`: groups of endpoints.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Compiler;
use super::key::needed_params;
use crate::config::field::{Either, Field, Spanned};
use crate::config::raw::{
    RawBalance, RawClient, RawConfig, RawEject, RawEndpoint, RawHealth, RawUpstream,
};
use crate::config::scalar::Endpoint;
use crate::policy::KeyExpr;
use crate::proxy::{
    Balance, CheckSettings, EjectSettings, EndpointSettings, Target, UpstreamSettings,
};
use crate::request::PathPattern;
use crate::time::Span;

const MAX_WEIGHT: u64 = 65_535;
/// Connections or requests: more than one machine has ports.
const MAX_IN_FLIGHT: u64 = 10_000_000;
/// Idle connections to one endpoint, by one worker.
const MAX_IDLE: u64 = 65_535;
/// More often is an attack, and more seldom no help.
const CHECK_INTERVAL: RangeInclusive<Span> = Span::from_millis(100)..=Span::from_secs(3600);
const CHECK_TIMEOUT: RangeInclusive<Span> = Span::from_millis(10)..=Span::from_secs(60);
/// Checks or requests in a row.
const IN_A_ROW: RangeInclusive<u64> = 1..=1000;
const EJECTION: RangeInclusive<Span> = Span::from_millis(100)..=Span::from_secs(86_400);
const SLOW_START: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(3600);

/// An upstream, and what routes to it must know.
pub(super) struct Upstream {
    pub(super) settings: UpstreamSettings,
    /// By which key requests are spread over the endpoints, if by one.
    pub(super) affinity: Option<KeyExpr>,
}

impl Compiler<'_> {
    pub(super) fn upstreams(&self, config: &RawConfig) -> Vec<Upstream> {
        let entries = config.upstreams.value().map_or(&[][..], |entries| &entries.0);
        let upstreams = entries.iter().filter_map(|(name, upstream)| {
            self.check_name(name, "upstream");
            Some(self.upstream(name, upstream.value()?, config.client.value()))
        });
        upstreams.collect()
    }

    fn upstream(
        &self,
        name: &Spanned<String>,
        raw: &RawUpstream,
        client: Option<&RawClient>,
    ) -> Upstream {
        let advice = "like endpoints: [http://127.0.0.1:9000]";
        let message = format!("the upstream \"{}\" has no \"endpoints\"", name.value);
        self.required(&raw.endpoints, name.span, &message, advice);
        self.not_empty(&raw.endpoints, &message, advice);
        let endpoints = raw.endpoints.items().filter_map(|endpoint| self.endpoint(endpoint));
        let mut upstream = UpstreamSettings::new(&name.value, endpoints.collect());
        let affinity = self.balance(raw, &mut upstream, client);
        if let Some(timeouts) = raw.timeouts.value() {
            upstream.connect_timeout =
                self.timeout(&timeouts.connect, "connect", upstream.connect_timeout);
        }
        if let Some(keep_alive) = raw.keep_alive.value() {
            let max_idle = self.count(&keep_alive.max_idle, "max_idle", 0..=MAX_IDLE);
            upstream.max_idle = max_idle.unwrap_or(upstream.max_idle);
            upstream.idle_timeout = self.timeout(&keep_alive.idle, "idle", upstream.idle_timeout);
        }
        upstream.max_in_flight = self.count(&raw.max_in_flight, "max_in_flight", 1..=MAX_IN_FLIGHT);
        let is_tls = |it: &EndpointSettings| matches!(it.target, Target::Https(..));
        let is_tls = upstream.endpoints.iter().any(is_tls);
        upstream.tls = self.upstream_tls(&raw.tls, is_tls, name.span);
        upstream.check = raw.health.given().and_then(|health| self.health(health));
        upstream.eject = raw.eject.value().map(|eject| self.eject(eject));
        let slow_start = self.span(&raw.slow_start, "slow_start", SLOW_START);
        upstream.slow_start = slow_start.map_or(upstream.slow_start, Duration::from);
        Upstream { settings: upstream, affinity }
    }

    /// Sets how an endpoint is chosen; returns by which key, if by one.
    fn balance(
        &self,
        raw: &RawUpstream,
        upstream: &mut UpstreamSettings,
        client: Option<&RawClient>,
    ) -> Option<KeyExpr> {
        let given = raw.balance.given()?;
        match &given.value {
            Either::Short(RawBalance::LeastRequests) => upstream.balance = Balance::LeastRequests,
            Either::Short(RawBalance::RoundRobin) => upstream.balance = Balance::RoundRobin,
            Either::Short(RawBalance::Random) => upstream.balance = Balance::Random,
            Either::Long(hash) => {
                upstream.balance = Balance::Hash;
                let advice = "like balance: { hash: api_key }";
                self.required(&hash.hash, given.span, "the balance has no \"hash\"", advice);
                return self.key(hash.hash.given()?, client, 0);
            }
        }
        None
    }

    /// Where the upstream `name` hashes a parameter that the path does not have,
    /// no request of the route would have a home.
    pub(super) fn check_affinity(
        &self,
        name: &Spanned<String>,
        raw: &Field<RawUpstream>,
        path: &PathPattern,
        route: &str,
    ) {
        let Some(Either::Long(hash)) = raw.value().and_then(|raw| raw.balance.value()) else {
            return;
        };
        for param in hash.hash.given().into_iter().flat_map(needed_params) {
            if path.param_names().any(|name| *name == *param.name) {
                continue;
            }
            let message = format!(
                "the upstream \"{}\" hashes \"{}\", which the path of {route} does not have",
                name.value, param.shown
            );
            let advice = "put the parameter into the path, or hash another key";
            self.problems.error(name.span, &message, advice);
        }
    }

    fn health(&self, raw: &Spanned<RawHealth>) -> Option<CheckSettings> {
        let RawHealth { path, interval, timeout, rise, fall } = &raw.value;
        let advice = "like health: { path: /healthz }";
        let interval = self.span(interval, "interval", CHECK_INTERVAL).map(Duration::from);
        let timeout = self.span(timeout, "timeout", CHECK_TIMEOUT).map(Duration::from);
        let [rise, fall] = [(rise, "rise"), (fall, "fall")].map(|(field, name)| {
            self.number(field, name, IN_A_ROW).and_then(|number| u32::try_from(number).ok())
        });
        let path = self.required(path, raw.span, "the health check has no \"path\"", advice)?;
        let usual = CheckSettings::new(path.0.clone());
        Some(CheckSettings {
            interval: interval.unwrap_or(usual.interval),
            timeout: timeout.unwrap_or(usual.timeout),
            rise: rise.unwrap_or(usual.rise),
            fall: fall.unwrap_or(usual.fall),
            ..usual
        })
    }

    fn eject(&self, raw: &RawEject) -> EjectSettings {
        let usual = EjectSettings::default();
        let errors = self.number(&raw.consecutive_errors, "consecutive_errors", IN_A_ROW);
        let errors = errors.and_then(|errors| u32::try_from(errors).ok());
        let period = self.span(&raw.period, "for", EJECTION).map(Duration::from);
        EjectSettings {
            consecutive_errors: errors.unwrap_or(usual.consecutive_errors),
            period: period.unwrap_or(usual.period),
            max_percent: raw.max_percent.value().map_or(usual.max_percent, |percent| percent.0),
        }
    }

    fn endpoint(&self, raw: &Spanned<Either<Endpoint, RawEndpoint>>) -> Option<EndpointSettings> {
        match &raw.value {
            Either::Short(Endpoint(target)) => {
                Some(EndpointSettings { target: target.clone(), weight: 1 })
            }
            Either::Long(long) => {
                let advice = "like { url: http://127.0.0.1:9000, weight: 2 }";
                let weight = self.number(&long.weight, "weight", 1..=MAX_WEIGHT).unwrap_or(1);
                let Endpoint(target) =
                    self.required(&long.url, raw.span, "the endpoint has no \"url\"", advice)?;
                Some(EndpointSettings {
                    target: target.clone(),
                    weight: u32::try_from(weight).ok()?,
                })
            }
        }
    }
}
