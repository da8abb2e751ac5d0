//! Entry points: the listeners, whose addresses are believed, and which routers they have.
//!
//! A route here does not know the listener, and the networks of proxies are those of all listeners. So what
//! an entry point has for itself alone is reported.

use std::collections::{BTreeSet, HashSet};

use super::table;
use crate::files::Place;
use crate::network::{believable, masked};
use crate::node::Node;
use crate::notes::Notes;
use crate::out::Map;
use crate::plan::Plan;
use crate::report::Loss;
use crate::table::survey_fields;

/// The entry point of Traefik's own pages. A router is there only if it names it.
const OWN: &str = "traefik";

/// An entry point.
struct EntryPoint {
    name: String,
    /// Whether the file says that a router that names none is there.
    is_default: bool,
    /// The networks whose X-Forwarded-For is believed, and where they are written.
    trusted: Vec<String>,
    forwarded: Place,
}

/// The entry points of all files.
#[derive(Default)]
pub struct EntryPoints {
    all: Vec<EntryPoint>,
    /// The middlewares that entry points name.
    pub middlewares: HashSet<String>,
}

impl EntryPoints {
    /// Reads the entry points of a file.
    pub fn read(&mut self, node: &Node, plan: &mut Plan, notes: &mut Notes) {
        for (name, point) in node.fields() {
            survey_fields(table::ENTRY_POINT, point, notes);
            let address = point.str("address");
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            let host = address.rsplit_once(':').map_or("", |(host, _)| host);
            let is_host = host.is_empty() || host.parse::<std::net::Ipv4Addr>().is_ok();
            match port.filter(|_| is_host) {
                Some(port) => {
                    let host = if host.is_empty() { "0.0.0.0" } else { host };
                    listener(format!("{host}:{port}"), point.place, plan, notes);
                }
                None => {
                    let what = format!("{name}: its address cannot be read");
                    notes.lost("entryPoints", point.place, what);
                }
            }
            self.http(name, point.get("http"), notes);
            let trusted = forwarded_headers(name, point.get("forwardedHeaders"), notes);
            self.all.push(EntryPoint {
                name: name.clone(),
                is_default: point.is("asDefault", false),
                trusted,
                forwarded: point.get("forwardedHeaders").place,
            });
        }
    }

    /// What an entry point adds to its routers.
    fn http(&mut self, name: &str, http: &Node, notes: &mut Notes) {
        survey_fields(table::ENTRY_POINT_HTTP, http, notes);
        let redirections = http.get("redirections");
        if !redirections.is_null() {
            let what = format!(
                "a redirect for {name} alone: routes do not know the entry point; run a second gateway with it"
            );
            notes.lost("redirections", redirections.place, what);
        }
        let middlewares = http.get("middlewares");
        let names = middlewares.texts();
        if !names.is_empty() {
            let what = format!(
                "{}: they are for all routers of {name}: name them in each of its routers",
                names.join(", ")
            );
            notes.lost("middlewares", middlewares.place, what);
        }
        let short = |text: &str| text.strip_suffix("@file").unwrap_or(text).to_owned();
        self.middlewares.extend(names.into_iter().map(short));
    }

    /// Whose addresses are believed: the networks of the first entry point that has some.
    pub fn trust(&self, plan: &mut Plan, notes: &mut Notes) {
        let mut trusting = self.all.iter().filter(|it| !it.trusted.is_empty());
        let Some(first) = trusting.next() else { return };
        let place = first.forwarded;
        match self.all.iter().all(|it| !it.trusted.is_empty()) {
            true => notes.taken("forwardedHeaders", place, "client.trusted_proxies"),
            false => {
                let what = "client.trusted_proxies; not all entry points have them; here they are those of \
                            all listeners";
                notes.different("forwardedHeaders", place, what);
            }
        }
        for other in trusting {
            if other.trusted == first.trusted {
                notes.taken("forwardedHeaders", other.forwarded, "client.trusted_proxies");
                continue;
            }
            let what = format!(
                "{}: {} has other trustedIPs, and client.trusted_proxies is for all listeners: write the \
                 networks that both have, or run a second gateway",
                other.name, first.name
            );
            notes.lost("forwardedHeaders", other.forwarded, what);
        }
        plan.client.put("trusted_proxies", first.trusted.clone());
    }

    /// The names of all entry points. If the files have none, those that routers name.
    pub fn names<'a>(&'a self, routers: &'a [(String, Node)]) -> BTreeSet<&'a str> {
        if self.all.is_empty() {
            return routers.iter().flat_map(|(_, it)| it.get("entryPoints").texts()).collect();
        }
        self.all.iter().map(|it| it.name.as_str()).collect()
    }

    /// The entry points of a router, of these.
    pub fn of<'a>(&'a self, router: &'a Node, names: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let own = router.get("entryPoints").texts();
        if !own.is_empty() {
            return own.into_iter().collect();
        }
        if self.all.is_empty() {
            return names.clone();
        }
        let is_said = self.all.iter().any(|it| it.is_default);
        let is_there = |it: &&EntryPoint| if is_said { it.is_default } else { it.name != OWN };
        self.all.iter().filter(is_there).map(|it| it.name.as_str()).collect()
    }
}

fn listener(address: String, place: Place, plan: &mut Plan, notes: &mut Notes) {
    notes.taken("entryPoints", place, format!("listener {address}"));
    let item = Map::default().with("address", address);
    if !plan.listeners.iter().any(|(_, own)| *own == item) {
        plan.listeners.push((place, item));
    }
}

/// The networks whose X-Forwarded-For is believed.
fn forwarded_headers(name: &str, node: &Node, notes: &mut Notes) -> Vec<String> {
    survey_fields(table::FORWARDED_HEADERS, node, notes);
    let insecure = node.get("insecure");
    if node.is("insecure", false) {
        let what = format!(
            "{name}: X-Forwarded-For of every client is believed there: write the networks of your proxies to \
             client.trusted_proxies"
        );
        notes.lost("insecure", insecure.place, what);
    } else if !insecure.is_null() {
        notes.needless("insecure", insecure.place, "no client is believed unless told");
    }
    let trusted = node.get("trustedIPs");
    believable(trusted.texts().into_iter().map(masked).collect(), |network| {
        let what = format!(
            "{name}: with {network} X-Forwarded-For of every client is believed there; here it is not: write the \
             networks of your proxies to client.trusted_proxies"
        );
        notes.lost("trustedIPs", trusted.place, what);
    })
}

/// The section `tls` of a file.
pub fn tls(node: &Node, notes: &mut Notes) {
    let options = node.get("options").fields();
    for (name, it) in options.iter().filter(|(_, it)| !it.get("clientAuth").is_null()) {
        let what = format!("{name}: see client_ca of a listener, and auth: [tls]");
        notes.lost("clientAuth", it.get("clientAuth").place, what);
    }
    if !node.is_null() {
        notes.not_taken("tls", node.place, Loss::Harmless, "write a listener with tls");
    }
}
