//! The ConfigMap of the controller: what holds for all Ingresses.

use super::table::SETTINGS;
use crate::files::Place;
use crate::network::{believable, masked, network};
use crate::nginx::values::size;
use crate::node::Node;
use crate::notes::Notes;
use crate::out::{Map, Value};
use crate::plan::Plan;
use crate::table;

/// What holds for all Ingresses that say nothing else.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The status of refused requests.
    pub rate_status: u64,
    /// The status of refused connections.
    pub connection_status: u64,
    /// The largest body in bytes; 0 is no bound.
    pub max_body: u64,
    /// How long to wait for a response, in seconds.
    pub read_timeout: u64,
    /// How long to wait for a connection, in seconds.
    pub connect_timeout: u64,
    /// Networks that may send requests.
    pub allowed: Vec<String>,
    /// Networks that may not.
    pub denied: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate_status: 503,
            connection_status: 503,
            max_body: 1 << 20,
            read_timeout: 60,
            connect_timeout: 5,
            allowed: Vec::new(),
            denied: Vec::new(),
        }
    }
}

/// What is not here if all addresses are those of proxies.
const NOT_BELIEVED: &str = "any client names its own address there; here it is not believed: write the addresses of \
                            your balancers to client.trusted_proxies";

/// The texts between commas.
pub fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

impl Settings {
    /// Reads the ConfigMaps. Those of other programs have no entry of the table.
    pub fn read(maps: &[Node], plan: &mut Plan, notes: &mut Notes) -> Self {
        let mut settings = Self::default();
        let mut client = Client::default();
        for map in maps {
            let data = map.get("data").fields();
            let is_known = |(name, _): &(String, Node)| SETTINGS.iter().any(|row| row.name == name);
            if !data.iter().any(is_known) {
                notes.needless("kind", map.get("kind").place, "a ConfigMap of another program");
                continue;
            }
            for (name, value) in data {
                if table::survey(SETTINGS, name, value.place, notes) {
                    let text = value.text().unwrap_or_default();
                    if client.set(name, text, value.place, notes) {
                        continue;
                    }
                    match settings.set(name, text) {
                        true => notes.taken(name, value.place, format!("{text} for all")),
                        false => notes.lost(name, value.place, "it cannot be read"),
                    }
                }
            }
        }
        client.write(plan, notes);
        settings
    }

    fn set(&mut self, name: &str, text: &str) -> bool {
        let number = text.parse::<u64>().ok();
        let status = number.filter(|it| (400..600).contains(it));
        let seconds = text.trim_end_matches('s').parse::<u64>().ok().filter(|it| *it > 0);
        let (target, value) = match name {
            "limit-req-status-code" => (&mut self.rate_status, status),
            "limit-conn-status-code" => (&mut self.connection_status, status),
            "proxy-body-size" => (&mut self.max_body, size(text)),
            "proxy-read-timeout" => (&mut self.read_timeout, seconds),
            "proxy-connect-timeout" => (&mut self.connect_timeout, seconds),
            "whitelist-source-range" | "denylist-source-range" | "block-cidrs" => {
                let networks = list(text);
                let are_good = networks.iter().all(|it| network(it).is_some());
                if are_good && !networks.is_empty() {
                    let is_allowed = name == "whitelist-source-range";
                    let target = if is_allowed { &mut self.allowed } else { &mut self.denied };
                    target.extend(networks);
                }
                return are_good;
            }
            _ => return false,
        };
        if let Some(value) = value {
            *target = value;
        }
        value.is_some()
    }
}

/// Whose addresses are believed.
#[derive(Default)]
struct Client {
    believes: Option<Place>,
    proxied: Option<Place>,
    /// The networks, if they are written.
    networks: Option<Vec<String>>,
    header: Option<String>,
}

impl Client {
    /// Reads a setting, and says what becomes of it. Returns whether it is one of these.
    fn set(&mut self, name: &str, text: &str, place: Place, notes: &mut Notes) -> bool {
        let is_on = (text == "true").then_some(place);
        let mut shown = text.to_owned();
        match name {
            "use-forwarded-headers" => self.believes = is_on,
            "use-proxy-protocol" => self.proxied = is_on,
            "proxy-real-ip-cidr" => {
                let networks = list(text).iter().map(|it| masked(it)).collect();
                let kept = believable(networks, |network| {
                    let what = format!("{network}: {NOT_BELIEVED}");
                    notes.lost(name, place, what);
                });
                shown = kept.join(", ");
                // An empty list is none.
                self.networks = (!list(text).is_empty()).then_some(kept);
            }
            "forwarded-for-header" => self.header = Some(text.to_ascii_lowercase()),
            _ => return false,
        }
        if !shown.is_empty() {
            notes.taken(name, place, format!("{shown} for all"));
        }
        true
    }

    fn write(self, plan: &mut Plan, notes: &mut Notes) {
        // nginx counts each IPv6 address apart.
        plan.client.put("ipv6_prefix", 128);
        let mut listener = Map::default().with("address", "0.0.0.0:80");
        if self.proxied.is_some() {
            listener.put("proxy_protocol", true);
        }
        plan.listeners.push((Place::default(), listener));
        for (name, place) in
            [("use-forwarded-headers", self.believes), ("use-proxy-protocol", self.proxied)]
        {
            if let Some(place) = place.filter(|_| self.networks.is_none()) {
                notes.lost(name, place, format!("without proxy-real-ip-cidr {NOT_BELIEVED}"));
            }
        }
        if self.proxied.is_none() && self.believes.is_none() {
            return;
        }
        let mut networks = self.networks.unwrap_or_default();
        if networks.is_empty() && self.proxied.is_some() {
            // Without a balancer that is believed, only this machine may connect with the PROXY protocol.
            networks.push("127.0.0.1".to_owned());
        }
        if !networks.is_empty() {
            plan.client.put("trusted_proxies", Value::from(networks));
        }
        match self.header.as_deref() {
            None | Some("x-forwarded-for") => {}
            Some(header) => plan.client.put("forwarded_header", header),
        }
    }
}
