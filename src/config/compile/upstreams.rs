//! `upstreams`: groups of endpoints.

use super::Compiler;
use crate::config::defaults;
use crate::config::field::{Either, Entries, Field, Spanned};
use crate::config::raw::{RawBalance, RawEndpoint, RawUpstream};
use crate::config::scalar::Endpoint;
use crate::proxy::{Balance, EndpointSettings, UpstreamSettings};

const MAX_WEIGHT: u64 = 65_535;
/// Connections or requests: more than one machine has ports.
const MAX_IN_FLIGHT: u64 = 10_000_000;
/// Idle connections to one endpoint, by one worker.
const MAX_IDLE: u64 = 65_535;

impl Compiler<'_> {
    pub(super) fn upstreams(&self, raw: &Field<Entries<RawUpstream>>) -> Vec<UpstreamSettings> {
        let entries = raw.value().map_or(&[][..], |entries| &entries.0);
        let upstreams = entries.iter().filter_map(|(name, upstream)| {
            self.check_name(name, "upstream");
            Some(self.upstream(name, upstream.value()?))
        });
        upstreams.collect()
    }

    fn upstream(&self, name: &Spanned<String>, raw: &RawUpstream) -> UpstreamSettings {
        let advice = "like endpoints: [http://127.0.0.1:9000]";
        let message = format!("the upstream \"{}\" has no \"endpoints\"", name.value);
        self.required(&raw.endpoints, name.span, &message, advice);
        self.not_empty(&raw.endpoints, &message, advice);
        let endpoints = raw.endpoints.items().filter_map(|endpoint| self.endpoint(endpoint));
        let mut upstream = defaults::upstream(&name.value, endpoints.collect());
        if let Some(kind) = raw.balance.value() {
            upstream.balance = balance(*kind);
        }
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
        upstream
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

fn balance(raw: RawBalance) -> Balance {
    match raw {
        RawBalance::LeastRequests => Balance::LeastRequests,
        RawBalance::RoundRobin => Balance::RoundRobin,
        RawBalance::Random => Balance::Random,
    }
}
