//! Which proxies are believed when they name the address of a client.
//!
//! nginx has this for each server and each location, and here it is one section for all routes. A
//! proxy that one server does not believe is believed by none, so no client names its own address.

use std::collections::HashSet;
use std::net::IpAddr;

use super::levels::Levels;
use super::servers::Server;
use super::syntax::Directive;
use crate::files::Place;
use crate::network::{are_everywhere, leading, masked, network};
use crate::notes::Notes;
use crate::out::Map;
use crate::plan::Plan;
use crate::report::Loss;

/// The directives, which locations can have, too.
const NAMES: [&str; 3] = ["set_real_ip_from", "real_ip_header", "real_ip_recursive"];

/// What a server believes.
struct Believed<'a> {
    networks: Vec<&'a Directive>,
    /// Whether a network is IPv4, its leading bits and their number.
    leading: HashSet<(bool, u128, u8)>,
    header: Option<&'a Directive>,
    recursive: Option<&'a Directive>,
}

impl<'a> Believed<'a> {
    fn of(levels: &Levels<'a>) -> Self {
        let networks = levels.nearest("set_real_ip_from");
        let parsed = networks.iter().filter_map(|it| network(it.arg(0)));
        Self {
            leading: parsed
                .map(|(it, length)| (it.is_ipv4(), leading(it, length), length))
                .collect(),
            networks,
            header: levels.setting("real_ip_header"),
            recursive: levels.setting("real_ip_recursive"),
        }
    }

    /// The field that names the client.
    fn field(&self) -> String {
        self.header.map_or("X-Real-IP", |it| it.arg(0)).to_ascii_lowercase()
    }

    /// Whether all of a network is believed.
    fn believes(&self, address: IpAddr, length: u8) -> bool {
        let wider = |it| (address.is_ipv4(), leading(address, it), it);
        (0..=length).any(|it| self.leading.contains(&wider(it)))
    }

    /// What is written, and where: servers that inherit the same are alike.
    fn written(&self) -> Vec<(&'a str, &'a str, Place)> {
        let all = self.networks.iter().copied().chain(self.header).chain(self.recursive);
        all.map(|it| (&*it.name, it.arg(0), it.place)).collect()
    }
}

/// The section `client`.
pub fn client(served: &[&Server<'_>], http: &Levels<'_>, plan: &mut Plan, notes: &mut Notes) {
    // nginx counts each IPv6 address apart.
    plan.client.put("ipv6_prefix", 128);
    for server in served {
        of_locations(server.directive, notes);
    }
    let all = distinct(served, http);
    let field = common_field(&all);
    let trusted = common_networks(&all, field.is_some(), notes);
    if trusted.is_empty() {
        without_effect(&all, field.is_some(), notes);
        believes_none(plan, notes);
        return;
    }
    plan.client.put("trusted_proxies", trusted);
    let name = field.unwrap_or_default();
    match &*name {
        "proxy_protocol" => {}
        "x-forwarded-for" => plan.client.put("forwarded_header", "x_forwarded_for"),
        "x-real-ip" => plan.client.put("forwarded_header", "x_real_ip"),
        other => plan.client.put("forwarded_header", other),
    }
    let is_proxied = |it: &Map| it.get("proxy_protocol").is_some();
    let reads_fields =
        name == "proxy_protocol" && !plan.listeners.iter().all(|it| is_proxied(&it.1));
    for believed in &all {
        if let Some(it) = believed.header.filter(|_| reads_fields) {
            let what = "at a listener without the PROXY protocol the proxies name no client in nginx; \
                        here they do by X-Forwarded-For; run a second gateway";
            notes.lost(&it.name, it.place, what);
        } else if let Some(it) = believed.header {
            notes.taken(&it.name, it.place, format!("client.forwarded_header: {name}"));
        }
        say_recursive(believed, &name, notes);
    }
}

/// What the servers believe, each once. A server that answers by `return` uses no address.
fn distinct<'a>(served: &[&Server<'a>], http: &Levels<'a>) -> Vec<Believed<'a>> {
    let levels: Vec<Levels<'a>> = served.iter().map(|it| http.with(it.directive.inner())).collect();
    let uses_addresses = |it: &&Levels<'a>| it.own("return").is_none();
    let mut known = HashSet::new();
    let mut all: Vec<Believed<'a>> =
        levels.iter().filter(uses_addresses).map(Believed::of).collect();
    if all.is_empty() {
        all = levels.iter().map(Believed::of).collect();
    }
    all.retain(|it| known.insert(it.written()));
    all
}

/// The field that all servers read that believe a proxy. None if they read different ones.
fn common_field(all: &[Believed<'_>]) -> Option<String> {
    let mut fields = all.iter().filter(|it| !it.networks.is_empty()).map(Believed::field);
    let first = fields.next()?;
    fields.all(|it| it == first).then_some(first)
}

/// The networks that all servers believe.
fn common_networks(all: &[Believed<'_>], is_one_field: bool, notes: &mut Notes) -> Vec<String> {
    let mut trusted: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    for it in all.iter().flat_map(|it| &it.networks) {
        let Some((address, length)) = network(it.arg(0)) else {
            notes.not_taken(&it.name, it.place, Loss::Harmless, "it is no network");
            continue;
        };
        if !is_one_field {
            let what = "servers read different fields of proxies: it is not believed, and all clients \
                        behind it have its address; run a second gateway";
            notes.lost(&it.name, it.place, what);
        } else if all.iter().all(|believed| believed.believes(address, length)) {
            let whole = masked(it.arg(0));
            if known.contains(&whole) {
                notes.taken(&it.name, it.place, "client.trusted_proxies");
                continue;
            }
            trusted.push(whole);
            if are_everywhere(&trusted) {
                trusted.pop();
                let what = "any client names its own address there; here it is not believed, and all clients \
                            behind your proxies have their address: write client.trusted_proxies";
                notes.lost(&it.name, it.place, what);
            } else {
                known.extend(trusted.last().cloned());
                notes.taken(&it.name, it.place, "client.trusted_proxies");
            }
        } else {
            let what = "not all servers believe it, and client.trusted_proxies is one list for all: it \
                        is not believed, and all clients behind it have its address; run a second \
                        gateway";
            notes.lost(&it.name, it.place, what);
        }
    }
    trusted
}

/// Says that no field is read, because no proxy is believed.
fn without_effect(all: &[Believed<'_>], is_one_field: bool, notes: &mut Notes) {
    for believed in all.iter().filter(|it| !it.networks.is_empty()) {
        for it in [believed.header, believed.recursive].into_iter().flatten() {
            if it.name == "real_ip_header" && !is_one_field {
                let what = "servers read different fields of proxies, and client.forwarded_header is one \
                            for all";
                notes.lost(&it.name, it.place, what);
            } else {
                notes.needless(&it.name, it.place, "see set_real_ip_from: no proxy is believed");
            }
        }
    }
}

/// Without a proxy that is believed, only this machine may connect with the PROXY protocol.
fn believes_none(plan: &mut Plan, notes: &mut Notes) {
    let proxied = plan.listeners.iter().find(|(_, it)| it.get("proxy_protocol").is_some());
    let Some((place, _)) = proxied else { return };
    let what = "proxy_protocol: set_real_ip_from names no balancer that can be believed, so only this \
                machine may connect: write client.trusted_proxies";
    notes.lost("listen", *place, what);
    plan.client.put("trusted_proxies", vec!["127.0.0.1"]);
}

fn say_recursive(believed: &Believed<'_>, field: &str, notes: &mut Notes) {
    let what = "nginx takes the last address; here trusted proxies in the list are passed over";
    match (believed.recursive, believed.header) {
        (Some(it), _) if it.arg(0) == "on" => {
            notes.taken(&it.name, it.place, "trusted proxies are passed over");
        }
        (Some(it), _) => notes.different(&it.name, it.place, what),
        // It is off, unless it is written.
        (None, Some(it)) if field == "x-forwarded-for" => {
            notes.different(&it.name, it.place, format!("without real_ip_recursive {what}"));
        }
        (None, _) => {}
    }
}

/// Says that a location has no proxies of its own here.
fn of_locations(level: &Directive, notes: &mut Notes) {
    for location in level.inner().iter().filter(|it| it.name == "location") {
        // What is in a regular expression is not taken one by one.
        if location.arg(0).starts_with('~') {
            continue;
        }
        for it in location.inner().iter().filter(|it| NAMES.contains(&&*it.name)) {
            let what = "it is for one location, and the section client is one for all routes";
            notes.lost(&it.name, it.place, what);
        }
        of_locations(location, notes);
    }
}
