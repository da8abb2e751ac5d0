//! `upstream`, and addresses in `proxy_pass`.

use std::collections::HashMap;
use std::path::Path;

use super::keys::Maps;
use super::levels::Levels;
use super::syntax::Directive;
use super::table::IN_UPSTREAM;
use super::values::{has_variables, time};
use crate::files::{Files, Place};
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::quantity::period;
use crate::report::Loss;
use crate::table;
use crate::weights::{Endpoints, Server, endpoints};

/// The longest time without requests after failures.
const MAX_PAUSE_MS: u64 = 86_400_000;

/// The target of `proxy_pass` or `grpc_pass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// `http`, `https` or `h2c`.
    pub scheme: &'static str,
    /// The host with its port, the name of an upstream, or `unix:/path`.
    pub host: &'a str,
    /// The path, which replaces that of the location.
    pub path: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// # Errors
    /// Why it cannot be an upstream.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        if has_variables(text) {
            return Err("the target has variables".to_owned());
        }
        let schemes =
            [("http://", "http"), ("https://", "https"), ("grpc://", "h2c"), ("grpcs://", "https")];
        let found =
            schemes.iter().find_map(|(prefix, name)| Some((*name, text.strip_prefix(prefix)?)));
        let (scheme, rest) = found.unwrap_or(("h2c", text));
        if let Some(socket) = rest.strip_prefix("unix:") {
            let (socket, path) = match socket.split_once(':') {
                Some((socket, path)) => (socket.len(), Some(path)),
                None => (socket.len(), None),
            };
            let path = path.filter(|path| !path.is_empty());
            return Ok(Self { scheme, host: &rest[..socket + "unix:".len()], path });
        }
        let end = rest.find('/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        let is_host = |c: char| c.is_ascii_alphanumeric() || "._-:[]".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err("the target is no host with a port".to_owned());
        }
        Ok(Self { scheme, host, path: Some(path).filter(|path| !path.is_empty()) })
    }

    /// The address of an endpoint.
    fn endpoint(&self, server: &str) -> String {
        if server.starts_with("unix:") {
            return server.to_owned();
        }
        let scheme = self.scheme;
        let port = if scheme == "https" { 443 } else { 80 };
        let has_port = server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match has_port {
            true => format!("{scheme}://{server}"),
            false => format!("{scheme}://{server}:{port}"),
        }
    }
}

/// The upstreams of a configuration.
pub struct Upstreams<'a> {
    files: &'a Files,
    named: HashMap<&'a str, &'a Directive>,
    maps: &'a Maps<'a>,
}

impl<'a> Upstreams<'a> {
    /// Those among these directives.
    pub fn new(directives: &'a [Directive], maps: &'a Maps<'a>, files: &'a Files) -> Self {
        let upstreams = directives.iter().filter(|it| it.name == "upstream");
        Self { files, named: upstreams.map(|it| (it.arg(0), it)).collect(), maps }
    }

    /// The name of the upstream of a target.
    ///
    /// # Errors
    /// If it has no endpoint.
    pub fn of(
        &self,
        target: &Target<'_>,
        place: Place,
        levels: &Levels<'_>,
        plan: &mut Plan,
        notes: &mut Notes,
    ) -> Result<String, String> {
        let (mut upstream, wish, place) = match self.named.get(target.host) {
            Some(named) => (self.named(named, target, notes)?, named.arg(0), named.place),
            None => {
                let endpoints = vec![target.endpoint(target.host)];
                (Map::default().with("endpoints", endpoints), target.host, place)
            }
        };
        for name in ["proxy_connect_timeout", "grpc_connect_timeout"] {
            let Some(setting) = levels.setting(name) else { continue };
            match time(setting.arg(0)) {
                Some(ms) if ms > 0 => {
                    let connect = period(ms.min(60_000));
                    notes.taken(name, setting.place, format!("timeouts.connect: {connect}"));
                    upstream.put("timeouts", Map::default().with("connect", connect));
                    break;
                }
                _ => notes.not_taken(name, setting.place, Loss::Harmless, "it is no time"),
            }
        }
        if target.scheme == "https" {
            upstream.put("tls", self.tls(levels, notes));
        }
        let wish = wish.trim_start_matches("unix:").trim_start_matches('/');
        Ok(plan.upstreams.shared(wish, place, upstream))
    }

    fn named(
        &self,
        upstream: &Directive,
        target: &Target<'_>,
        notes: &mut Notes,
    ) -> Result<Map, String> {
        let mut servers = Vec::new();
        let mut balance = Value::from("round_robin");
        let mut eject = None;
        for it in upstream.inner() {
            if !table::survey(IN_UPSTREAM, &it.name, it.place, notes) {
                continue;
            }
            match &*it.name {
                "server" => servers.extend(server(it, target, &mut eject, notes)),
                "least_conn" | "random" => {
                    balance = if it.name == "random" { "random" } else { "least_requests" }.into();
                    notes.taken(
                        &it.name,
                        it.place,
                        format!("balance: {}", crate::out::flow(&balance)),
                    );
                }
                "ip_hash" => {
                    balance = Map::default().with("hash", "ip").into();
                    let what = "nginx hashes the first 24 bits of an IPv4 address; here the whole";
                    notes.different(&it.name, it.place, what);
                }
                _ => match self.maps.key(it.arg(0), None).map(|key| key.value) {
                    Ok(Some(key)) => {
                        let shown = crate::out::flow(&key);
                        balance = Map::default().with("hash", key).into();
                        notes.different(&it.name, it.place, format!("another hash, of {shown}"));
                    }
                    _ => {
                        let what = "its key is no key here: least_requests instead";
                        notes.not_taken(&it.name, it.place, Loss::Harmless, what);
                    }
                },
            }
        }
        if servers.is_empty() {
            return Err(format!("the upstream {} has no server", upstream.arg(0)));
        }
        let Endpoints { list, difference } = endpoints(servers);
        notes.taken(
            "upstream",
            upstream.place,
            format!("{}: {} endpoints", upstream.arg(0), list.len()),
        );
        if let Some(what) = difference {
            notes.different("server", upstream.place, what);
        }
        let mut map = Map::default().with("endpoints", Value::List(list));
        map.put("balance", balance);
        if let Some(eject) = eject {
            map.put("eject", eject);
        }
        Ok(map)
    }

    /// How certificates of endpoints are verified. nginx does not, unless told.
    fn tls(&self, levels: &Levels<'_>, notes: &mut Notes) -> Map {
        let mut tls = Map::default();
        let verifies = levels.is_on("proxy_ssl_verify");
        let trusted = "proxy_ssl_trusted_certificate";
        for (name, field) in [(trusted, "ca"), ("proxy_ssl_name", "server_name")] {
            let Some(setting) = levels.setting(name).filter(|_| verifies) else { continue };
            let text = setting.arg(0);
            if has_variables(text) || name == trusted && !self.files.has(Path::new(text)) {
                let what = "it has variables, or is not on this machine: see tls of an upstream";
                notes.not_taken(name, setting.place, Loss::Harmless, what);
                continue;
            }
            notes.taken(name, setting.place, format!("tls.{field}"));
            tls.put(field, text);
        }
        if let Some(setting) = levels.setting("proxy_ssl_verify") {
            let what = format!("tls.verify: {verifies}");
            notes.taken("proxy_ssl_verify", setting.place, what);
        }
        if !verifies {
            tls.put("verify", false);
        }
        tls
    }
}

/// An endpoint, unless it gets no requests.
fn server(
    it: &Directive,
    target: &Target<'_>,
    eject: &mut Option<Map>,
    notes: &mut Notes,
) -> Option<Server> {
    let address = it.arg(0);
    if it.has("down") || it.has("backup") {
        let is_backup = it.has("backup");
        let what =
            if is_backup { "a backup is not taken: see fallback of a route" } else { "it is down" };
        match is_backup {
            true => notes.not_taken("server", it.place, Loss::Harmless, what),
            false => notes.needless("server", it.place, what),
        }
        return None;
    }
    let parts: Vec<String> = it.args.iter().skip(1).cloned().collect();
    let fails = it.option("max_fails").and_then(|text| text.parse::<u64>().ok());
    let pause = it.option("fail_timeout").and_then(time);
    if let (Some(1..) | None, true) = (fails, fails.is_some() || pause.is_some()) {
        let fails = fails.unwrap_or(1).min(1000);
        let written = pause.unwrap_or(10_000);
        let pause = written.clamp(1000, MAX_PAUSE_MS);
        if written > MAX_PAUSE_MS {
            let what = format!("fail_timeout is at most {} here", period(MAX_PAUSE_MS));
            notes.different("server", it.place, what);
        }
        *eject = Some(Map::default().with("consecutive_errors", fails).with("for", period(pause)));
    }
    let lost = parts.iter().find(|it| {
        !["weight=", "max_fails=", "fail_timeout=", "resolve"]
            .iter()
            .any(|name| it.starts_with(name))
    });
    if let Some(lost) = lost {
        notes.not_taken("server", it.place, Loss::Harmless, format!("{lost} is not taken"));
    } else {
        notes.taken("server", it.place, format!("endpoint {address}"));
    }
    let weight = it.option("weight").and_then(|text| text.parse().ok()).filter(|it| *it > 0);
    Some(Server { url: target.endpoint(address), weight: weight.unwrap_or(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        let target = |text| Target::parse(text).map(|it| (it.scheme, it.host.to_owned(), it.path));
        assert_eq!(target("http://a:80/x/"), Ok(("http", "a:80".to_owned(), Some("/x/"))));
        assert_eq!(target("https://a"), Ok(("https", "a".to_owned(), None)));
        assert_eq!(target("grpc://a:1"), Ok(("h2c", "a:1".to_owned(), None)));
        assert_eq!(target("http://unix:/s:/x"), Ok(("http", "unix:/s".to_owned(), Some("/x"))));
        assert!(target("http://$a").is_err() && target("http:///x").is_err());
    }
}
