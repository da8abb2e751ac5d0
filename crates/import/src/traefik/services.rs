//! Services: upstreams, splits, mirrors and fallbacks.

use std::ops::RangeInclusive;

use super::limits::milliseconds;
use super::table;
use crate::node::Node;
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::quantity::period;
use crate::report::Loss;
use crate::table::survey_fields;
use crate::weights::{Endpoints, Server, endpoints};

/// Failures after which Traefik's failover goes to the second service.
const FAILURES: [&str; 5] = ["connect", "reset", "502", "503", "504"];

/// What services are read with.
pub struct Services<'a> {
    /// All services.
    pub all: &'a Node,
    /// What is made.
    pub plan: &'a mut Plan,
    /// What is said.
    pub notes: &'a mut Notes,
}

impl Services<'_> {
    /// The fields of a route to a service: `upstream` or `split`, and what belongs to it.
    ///
    /// # Errors
    /// Why there is no such upstream.
    pub fn action(&mut self, name: &str) -> Result<Map, String> {
        let short = name.strip_suffix("@file").unwrap_or(name);
        let node = self.all.get(short);
        let mut map = Map::default();
        for kind in ["weighted", "mirroring", "failover"] {
            survey_fields(table::COMBINED, node.get(kind), self.notes);
        }
        if !node.get("weighted").is_null() {
            let shares = self.weighted(node.get("weighted"))?;
            map.put("split", Map::default().with("to", shares));
            return Ok(map);
        }
        for (kind, field) in [("mirroring", "service"), ("failover", "service")] {
            let inner = node.get(kind);
            if inner.is_null() {
                continue;
            }
            let (upstream, host) = self.upstream(inner.str(field))?;
            map.put("upstream", upstream);
            if kind == "mirroring" {
                self.mirror(inner, &mut map)?;
            } else {
                let (other, host) = self.upstream(inner.str("fallback"))?;
                self.without_host(inner.str("fallback"), host);
                let fallback = Map::default().with("upstream", other).with("on", FAILURES.to_vec());
                map.put("fallback", fallback);
                let what = "fallback, after a failure of a request; Traefik asks by health checks";
                self.notes.different("failover", inner.place, what);
            }
            put_host(&mut map, host);
            return Ok(map);
        }
        let (upstream, host) = self.upstream(short)?;
        map.put("upstream", upstream);
        put_host(&mut map, host);
        Ok(map)
    }

    /// The name of the upstream of a service with servers, and the host that they get.
    fn upstream(&mut self, name: &str) -> Result<(String, Option<String>), String> {
        let short = name.strip_suffix("@file").unwrap_or(name);
        let service = self.all.get(short);
        let balancer = service.get("loadBalancer");
        if balancer.is_null() {
            return Err(format!("the service {name:?} has no servers in these files"));
        }
        let mut servers = Vec::new();
        let mut host = None;
        for server in balancer.get("servers").items() {
            survey_fields(table::SERVER, server, self.notes);
            let url = server.str("url").trim_end_matches('/');
            let rest = url
                .split_once("://")
                .filter(|(scheme, _)| ["http", "https", "h2c"].contains(scheme));
            let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
            let Some((_, rest)) =
                rest.filter(|(_, rest)| !rest.is_empty() && rest.chars().all(is_host))
            else {
                return Err(format!("a server of {name:?} is no URL of a host with a port"));
            };
            let weight = server.get("weight");
            let text = weight.text().unwrap_or("1");
            let share = if text.starts_with('-') { Some(0) } else { text.parse().ok() };
            match share {
                Some(0) => {
                    let what = format!("{url}: its weight is {text}, so it gets no requests");
                    self.notes.needless("servers", weight.place, what);
                    continue;
                }
                Some(weight) => servers.push(Server { url: url.to_owned(), weight }),
                None => return Err(format!("the weight of a server of {name:?} cannot be read")),
            }
            host = Some(rest.to_owned());
        }
        if servers.is_empty() {
            return Err(format!("the service {name:?} has no server that gets requests"));
        }
        let count = servers.len();
        let Endpoints { list, difference } = endpoints(servers);
        if let Some(what) = difference {
            self.notes.different("servers", balancer.get("servers").place, what);
        }
        let mut map =
            Map::default().with("endpoints", Value::List(list)).with("balance", "round_robin");
        survey_fields(table::LOAD_BALANCER, balancer, self.notes);
        if let Some(health) = self.health(balancer.get("healthCheck")) {
            map.put("health", health);
        }
        self.notes.taken("services", service.place, format!("{short}: {count} endpoints"));
        let name = self.plan.upstreams.shared(short, service.place, map);
        let passes = balancer.is("passHostHeader", true);
        let host = host.filter(|_| !passes && count == 1);
        if !passes && host.is_none() {
            let what =
                "passHostHeader: the servers have several names; they get the host of the client";
            self.notes.not_taken("passHostHeader", balancer.place, Loss::Harmless, what);
        }
        Ok((name, host))
    }

    /// The checks of health. A check that asks another thing here could take all endpoints out.
    fn health(&mut self, check: &Node) -> Option<Map> {
        if check.is_null() {
            return None;
        }
        survey_fields(table::HEALTH_CHECK, check, self.notes);
        let others = ["scheme", "port", "hostname", "method", "mode", "headers", "status"];
        let other = others.into_iter().find(|name| !check.get(name).is_null());
        let what = match (check.str("path").starts_with('/'), other) {
            (true, None) => {
                let mut health = Map::default().with("path", check.str("path"));
                health.put("interval", self.time(check, "interval", 30_000, 100..=3_600_000));
                health.put("timeout", self.time(check, "timeout", 5000, 10..=60_000));
                self.notes.taken("healthCheck", check.place, "health");
                return Some(health);
            }
            (true, Some(other)) => {
                format!("its {other} has no counterpart: see health of an upstream")
            }
            (false, _) => "it has no path: see health of an upstream".to_owned(),
        };
        self.notes.not_taken("healthCheck", check.place, Loss::Harmless, what);
        None
    }

    /// A time of the checks of health in this range of milliseconds. Traefik uses `usual` if it is not above 0.
    fn time(&mut self, check: &Node, name: &str, usual: u64, range: RangeInclusive<u64>) -> String {
        let node = check.get(name);
        let Some(text) = node.text() else { return period(usual) };
        let Some(written) = milliseconds(text) else {
            let what = format!("{text} is no time: {} here", period(usual));
            self.notes.not_taken(name, node.place, Loss::Harmless, what);
            return period(usual);
        };
        let written = if written == 0 { usual } else { written };
        let time = period(written.clamp(*range.start(), *range.end()));
        if !range.contains(&written) {
            let from = period(*range.start());
            let to = period(*range.end());
            let what = format!("{text} is {time} here: it has from {from} to {to}");
            self.notes.different(name, node.place, what);
        }
        time
    }

    /// Says that a server gets the host of the client, although it wants its own.
    fn without_host(&mut self, name: &str, host: Option<String>) {
        if host.is_some() {
            let short = name.strip_suffix("@file").unwrap_or(name);
            let what =
                format!("{name}: below another service its servers get the host of the client");
            let place = self.all.get(short).place;
            self.notes.not_taken("passHostHeader", place, Loss::Harmless, what);
        }
    }

    fn weighted(&mut self, node: &Node) -> Result<Map, String> {
        let mut weights: Vec<(String, u64)> = Vec::new();
        for it in node.get("services").items() {
            let (name, host) = self.upstream(it.str("name"))?;
            self.without_host(it.str("name"), host);
            match weights.iter_mut().find(|(own, _)| *own == name) {
                Some((_, weight)) => *weight += it.number("weight").unwrap_or(1),
                None => weights.push((name, it.number("weight").unwrap_or(1).min(1_000_000))),
            }
        }
        let sum: u64 = weights.iter().map(|(_, weight)| weight).sum();
        if sum == 0 || weights.len() > 50 {
            return Err("its weights have no counterpart".to_owned());
        }
        let is_exact = weights.iter().all(|(_, weight)| (weight * 100).is_multiple_of(sum));
        let mut shares: Vec<(String, u64)> =
            weights.into_iter().map(|(name, weight)| (name, weight * 100 / sum)).collect();
        let rest = 100 - shares.iter().map(|(_, share)| share).sum::<u64>();
        if let Some((_, share)) = shares.first_mut() {
            *share += rest;
        }
        match is_exact {
            true => self.notes.taken("weighted", node.place, "split"),
            false => self.notes.different("weighted", node.place, "split, in whole percentages"),
        }
        Ok(shares.into_iter().fold(Map::default(), |map, (name, share)| map.with(&name, share)))
    }

    fn mirror(&mut self, node: &Node, map: &mut Map) -> Result<(), String> {
        let mirrors = node.get("mirrors").items();
        for (at, it) in mirrors.iter().enumerate() {
            if at > 0 {
                let what = "a route has one mirror";
                self.notes.not_taken("mirrors", it.place, Loss::Harmless, what);
                continue;
            }
            let (name, host) = self.upstream(it.str("name"))?;
            self.without_host(it.str("name"), host);
            let share = it.number("percent").unwrap_or(0).min(100);
            let what = "mirror, of GET and HEAD; Traefik copies all methods";
            self.notes.different("mirroring", it.place, what);
            if share > 0 {
                map.put(
                    "mirror",
                    Map::default().with("upstream", name).with("share", format!("{share}%")),
                );
            }
        }
        Ok(())
    }
}

fn put_host(map: &mut Map, host: Option<String>) {
    if let Some(host) = host {
        map.put("rewrite", Map::default().with("host", host));
    }
}
