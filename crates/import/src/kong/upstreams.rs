//! Services and upstreams: where requests go, and the host that endpoints get.

use std::collections::BTreeSet;

use super::entities::Entities;
use crate::node::Node;
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::quantity::period;
use crate::weights::{Endpoints, Server, endpoints};

/// An upstream of a service.
pub struct Upstream {
    /// Its name here.
    pub name: String,
    /// The host that endpoints get.
    pub host: Host,
}

/// The host that endpoints get from Kong, unless a route keeps the host of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// The same for all endpoints.
    One(String),
    /// One for each target.
    Several,
}

/// The upstream of an entity.
struct Named {
    fields: Map,
    host: Host,
}

/// What upstreams are made with.
pub struct Upstreams<'a> {
    /// All entities.
    pub entities: &'a Entities,
    /// What is made.
    pub plan: &'a mut Plan,
    /// What is said.
    pub notes: &'a mut Notes,
}

impl Upstreams<'_> {
    /// The upstream of a service.
    ///
    /// # Errors
    /// Why it has none.
    pub fn of(&mut self, service: &Node, target: &Target) -> Result<Upstream, String> {
        let connect = service.number("connect_timeout").filter(|it| *it > 0).unwrap_or(60_000);
        let timeouts = Map::default().with("connect", period(connect.min(60_000)));
        let entity = self.entities.upstreams.iter().find(|it| it.str("name") == target.host);
        let Named { mut fields, host } = match entity {
            Some(entity) => self.named(entity, target)?,
            None => {
                let url = target.url(&target.host, target.port);
                let host = Host::One(target.authority(&target.host, target.port));
                Named { fields: Map::default().with("endpoints", vec![url]), host }
            }
        };
        fields.put("timeouts", timeouts);
        if target.scheme == "https" && !service.is("tls_verify", false) {
            fields.put("tls", Map::default().with("verify", false));
        }
        let place = entity.unwrap_or(service).place;
        let name = self.plan.upstreams.shared(&target.host, place, fields);
        Ok(Upstream { name, host })
    }

    fn named(&mut self, upstream: &Node, target: &Target) -> Result<Named, String> {
        let mut servers = Vec::new();
        let mut hosts = BTreeSet::new();
        let name = upstream.str("name");
        let host_header = upstream.get("host_header");
        let outside = self.entities.targets.iter().filter(|it| {
            it.get("upstream").text().or_else(|| it.at(&["upstream", "name"]).text()) == Some(name)
        });
        for it in upstream.get("targets").items().iter().chain(outside) {
            let text = it.str("target");
            let weight = it.number("weight").unwrap_or(100);
            if weight == 0 {
                self.notes.needless("targets", it.place, format!("{text}: its weight is 0"));
                continue;
            }
            let (host, port) = match text.rsplit_once(':') {
                Some((host, port)) if port.parse::<u16>().is_ok() => (host, port.parse().ok()),
                _ => (text, None),
            };
            if host.is_empty()
                || !host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.[]:".contains(c))
            {
                return Err(format!("the target {text:?} is no address"));
            }
            self.notes.taken("targets", it.place, format!("endpoint {text}"));
            let port = port.unwrap_or(8000);
            // Kong adds the port of the target to host_header, too.
            let sent = host_header.text().unwrap_or(host);
            hosts.insert(target.authority(sent, port));
            servers.push(Server { url: target.url(host, port), weight });
        }
        let host = match (hosts.pop_first(), hosts.is_empty(), host_header.text()) {
            (Some(host), true, _) => Host::One(host),
            (Some(_), false, Some(text)) => {
                let what = format!("{name}: Kong adds the port of the target to {text}");
                self.notes.different("host_header", host_header.place, what);
                Host::One(text.to_owned())
            }
            (Some(_), false, None) => Host::Several,
            (None, ..) => return Err(format!("the upstream {name} has no target")),
        };
        let Endpoints { list, difference } = endpoints(servers);
        self.notes.taken("upstreams", upstream.place, format!("{name}: {} endpoints", list.len()));
        if let Some(what) = difference {
            self.notes.different("targets", upstream.place, what);
        }
        let mut fields = Map::default().with("endpoints", Value::List(list));
        fields.put("balance", self.balance(upstream));
        Ok(Named { fields, host })
    }

    fn balance(&mut self, upstream: &Node) -> Value {
        let by = |field: &str| upstream.str(field).to_ascii_lowercase();
        let word = match upstream.get("algorithm").text().unwrap_or("round-robin") {
            "least-connections" | "latency" => "least_requests".to_owned(),
            "consistent-hashing" => match upstream.str("hash_on") {
                "header" => format!("header:{}", by("hash_on_header")),
                "cookie" => format!("cookie:{}", upstream.str("hash_on_cookie")),
                "path" => "path".to_owned(),
                "ip" => "ip".to_owned(),
                _ => "api_key".to_owned(),
            },
            _ => "round_robin".to_owned(),
        };
        let place = upstream.get("algorithm").place;
        if upstream.str("algorithm") == "consistent-hashing" {
            self.notes.different("algorithm", place, format!("another hash, of {word}"));
            return Map::default().with("hash", word).into();
        }
        if place.line > 0 {
            self.notes.taken("algorithm", place, format!("balance: {word}"));
        }
        word.into()
    }
}

/// Where a service is.
pub struct Target {
    scheme: &'static str,
    host: String,
    port: u16,
}

impl Target {
    /// Where a service is.
    ///
    /// # Errors
    /// Why it has no address here.
    pub fn of(service: &Node) -> Result<Self, String> {
        let url = service.str("url");
        let (protocol, rest) = match url.split_once("://") {
            Some((protocol, rest)) => (protocol.to_owned(), rest),
            None => (service.get("protocol").text().unwrap_or("http").to_owned(), ""),
        };
        let authority = rest.split('/').next().unwrap_or_default();
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if port.parse::<u16>().is_ok() => (host, port.parse().ok()),
            _ => (authority, None),
        };
        let host = if host.is_empty() { service.str("host") } else { host };
        let scheme = match &*protocol {
            "http" => "http",
            "https" | "grpcs" => "https",
            "grpc" => "h2c",
            other => return Err(format!("its service speaks {other}")),
        };
        let standard = if scheme == "https" { 443 } else { 80 };
        let own = service.number("port").and_then(|it| u16::try_from(it).ok());
        let port = port.or(own).unwrap_or(standard);
        if host.is_empty() || !host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            return Err("its service has no host".to_owned());
        }
        Ok(Self { scheme, host: host.to_owned(), port })
    }

    fn url(&self, host: &str, port: u16) -> String {
        format!("{}://{host}:{port}", self.scheme)
    }

    /// The value of `Host` for a server: its name without a dot at its end, and its port, unless it has
    /// one or that is the port of the scheme.
    fn authority(&self, host: &str, port: u16) -> String {
        let host = host.strip_suffix('.').unwrap_or(host);
        let has_port = |(_, port): (&str, &str)| port.parse::<u16>().is_ok();
        if host.rsplit_once(':').is_some_and(has_port) {
            return host.to_owned();
        }
        match (self.scheme, port) {
            ("https", 443) | ("http" | "h2c", 80) => host.to_owned(),
            (_, port) => format!("{host}:{port}"),
        }
    }
}

/// The path of a service without a slash at its end.
pub fn base_path(service: &Node) -> String {
    let of_url = service.str("url").split_once("://").and_then(|(_, rest)| rest.split_once('/'));
    let path = match of_url {
        Some((_, path)) => format!("/{path}"),
        None => service.str("path").to_owned(),
    };
    path.trim_end_matches('/').to_owned()
}
