//! `limit_req` and `limit_conn`: zones to policies.

use std::collections::{HashMap, HashSet};

use super::key::Key;
use super::keys::Maps;
use super::levels::Levels;
use super::pages::replaced;
use super::syntax::Directive;
use super::values::{Piece, Rate, pieces};
use crate::files::Place;
use crate::notes::Notes;
use crate::out::Map;
use crate::plan::Plan;
use crate::quantity::{decimal, period};
use crate::report::Loss;

/// The longest delay of the gateway.
const MAX_DELAY_MS: u64 = 300_000;

/// The zones of a configuration, and the policies that were made of them.
pub struct Limits<'a> {
    maps: &'a Maps<'a>,
    zones: HashMap<&'a str, &'a Directive>,
    /// The zones with a counter for each server.
    of_servers: HashSet<&'a str>,
    /// What was made of a counter by its settings.
    made: HashMap<(String, String), Made>,
    /// The first settings of a counter.
    first: HashMap<String, String>,
}

/// What is made of a limit.
#[derive(Clone)]
enum Made {
    /// The policy with this name.
    Policy(String),
    /// Nothing, because nginx counts no request: the key is empty.
    Uncounted,
    /// Nothing, because the key has no counterpart.
    Lost,
}

/// The counter of a zone.
struct Counter<'z> {
    zone: &'z str,
    /// `$server_name`, if the zone has a counter for each server.
    server: Option<String>,
}

impl<'a> Limits<'a> {
    /// The zones among these directives.
    pub fn new(directives: &'a [Directive], maps: &'a Maps<'a>) -> Self {
        let names = ["limit_req_zone", "limit_conn_zone"];
        let zones = directives.iter().filter(|it| names.contains(&&*it.name));
        let zones: HashMap<&str, &Directive> =
            zones.filter_map(|it| Some((it.option("zone")?.split(':').next()?, it))).collect();
        let of_servers = zones.iter().filter(|(_, it)| maps.has_variable(it.arg(0), "server_name"));
        let of_servers = of_servers.map(|(name, _)| *name).collect();
        Self { maps, zones, of_servers, made: HashMap::new(), first: HashMap::new() }
    }

    /// The names of the policies of a place.
    pub fn of(&mut self, levels: &Levels<'_>, plan: &mut Plan, notes: &mut Notes) -> Vec<String> {
        let mut names = Vec::new();
        for limit in levels.nearest_of(&["limit_req"]) {
            let zone = limit.option("zone").unwrap_or_default();
            names.extend(self.policy(limit, zone, levels, plan, notes));
        }
        for limit in levels.nearest_of(&["limit_conn"]) {
            names.extend(self.policy(limit, limit.arg(0), levels, plan, notes));
        }
        names
    }

    fn policy(
        &mut self,
        limit: &Directive,
        zone: &str,
        levels: &Levels<'_>,
        plan: &mut Plan,
        notes: &mut Notes,
    ) -> Option<String> {
        let mut policy = Map::default();
        let shape = match &*limit.name {
            "limit_req" => self.rate(limit, zone),
            _ => self.connections(limit, zone),
        };
        let Shape { fields, about, is_different } = match shape {
            Ok(shape) => shape,
            Err(why) => {
                notes.lost(&limit.name, limit.place, format!("zone {zone}: {why}"));
                return None;
            }
        };
        for (name, value) in fields.0 {
            policy.put(&name, value);
        }
        let status = status(&limit.name, levels, notes);
        if status != 429 {
            policy.put("response", Map::default().with("status", u64::from(status)));
        }
        if let Some(setting) = levels.setting(&format!("{}_dry_run", limit.name)) {
            let is_on = setting.arg(0) == "on";
            let what = if is_on { "mode: shadow" } else { "limits refuse" };
            notes.taken(&setting.name, setting.place, what);
            if is_on {
                policy.put("mode", "shadow");
            }
        }
        let server = self.of_servers.contains(zone).then(|| levels.server_name());
        let counter = Counter { zone, server };
        let about = Said { text: about, is_different };
        self.policy_of(limit, &counter, policy, &about, plan, notes)
    }

    /// The policy of a counter with these fields.
    fn policy_of(
        &mut self,
        limit: &Directive,
        counter: &Counter<'_>,
        policy: Map,
        about: &Said,
        plan: &mut Plan,
        notes: &mut Notes,
    ) -> Option<String> {
        let settings = crate::out::flow(&policy.clone().into());
        let zone = counter.zone;
        let own =
            format!("{} {zone} {}", limit.name, counter.server.as_deref().unwrap_or_default());
        let identity = (own.clone(), settings.clone());
        // It is said of each place that has it.
        if let Some(made) = self.made.get(&identity) {
            return say(limit, zone, made, about, notes);
        }
        let made = match self.key(counter, plan, notes) {
            Ok(key) => {
                let mut whole = key;
                whole.0.extend(policy.0);
                let wish = match &counter.server {
                    Some(server) => format!("{zone}-{server}"),
                    None => zone.to_owned(),
                };
                Made::Policy(plan.policies.add(&wish, limit.place, whole))
            }
            Err(made) => made,
        };
        let name = say(limit, zone, &made, about, notes);
        self.made.insert(identity, made);
        let first = self.first.entry(own).or_insert(settings.clone());
        if name.is_some() && *first != settings {
            let what = "the zone has other settings elsewhere: nginx has one counter for both; here \
                        each policy counts alone";
            notes.different(&limit.name, limit.place, what);
        }
        name
    }

    /// The fields of the key of a counter.
    fn key(&self, counter: &Counter<'_>, plan: &mut Plan, notes: &mut Notes) -> Result<Map, Made> {
        let Counter { zone, server } = counter;
        let directive = self.zones.get(zone).ok_or(Made::Lost)?;
        let name = &*directive.name;
        let key = match self.maps.key(directive.arg(0), server.as_deref()) {
            Ok(key) => key,
            Err(why) => {
                for map in self.maps_of(directive) {
                    let what = format!("see zone {zone}, which is not taken");
                    notes.not_taken(&map.name, map.place, Loss::Harmless, what);
                }
                notes.lost(name, directive.place, format!("zone {zone}: {why}"));
                return Err(Made::Lost);
            }
        };
        for map in self.maps_of(directive) {
            notes.taken(&map.name, map.place, format!("the exemptions of zone {zone}"));
        }
        let Key { value, skips, mut exempt, secret, difference } = key;
        let Some(value) = value else {
            let what = format!("zone {zone}: nginx counts no request whose key is empty");
            notes.needless(name, directive.place, what);
            return Err(Made::Uncounted);
        };
        let each = if server.is_some() { ", in a policy for each server" } else { "" };
        let shown = crate::out::flow(&value);
        match difference {
            Some(what) => {
                notes.different(name, directive.place, format!("zone {zone}: {what}{each}"));
            }
            None => notes.taken(name, directive.place, format!("zone {zone}: key {shown}{each}")),
        }
        let mut fields = Map::default().with("key", value);
        if skips {
            fields.put("missing_key", "skip");
        }
        if let Some(field) = secret {
            let what = format!("the value of {field} that zone {zone} does not count");
            let reference = plan.variable(&field, &what);
            exempt = Map::default().with("headers", Map::default().with(&field, reference));
        }
        if !exempt.is_empty() {
            fields.put("exempt", exempt);
        }
        Ok(fields)
    }

    /// The maps that the key of a zone is computed by.
    fn maps_of(&self, zone: &Directive) -> Vec<&'a Directive> {
        let of = |piece| match piece {
            Piece::Variable(variable) => self.maps.directives(variable),
            Piece::Text(_) => Vec::new(),
        };
        pieces(zone.arg(0)).into_iter().flat_map(of).collect()
    }

    fn rate(&self, limit: &Directive, zone: &str) -> Result<Shape, String> {
        let directive = self.zones.get(zone).ok_or("there is no such zone")?;
        let rate =
            directive.option("rate").and_then(Rate::parse).ok_or("its rate cannot be read")?;
        let number = |name| match limit.option(name) {
            Some(text) => text.parse::<u64>().map_err(|_| format!("its {name} is no number")),
            None => Ok(0),
        };
        let burst = number("burst")?;
        if burst > 1_000_000_000 {
            return Err("its burst is too large".to_owned());
        }
        let delay = limit.option("delay").is_some().then(|| number("delay")).transpose()?;
        let is_held = burst > 0 && !limit.has("nodelay") && delay.is_none_or(|delay| delay < burst);
        let mut fields = Map::default();
        let mut about = rate.limit();
        if is_held {
            let ms = burst.saturating_mul(1_000_000).div_ceil(rate.thousandths().max(1));
            fields.put("algorithm", "leaky_bucket");
            fields.put("limit", rate.limit());
            fields.put("burst", burst);
            fields.put("max_delay", period(ms.min(MAX_DELAY_MS)));
            about.push_str(&format!(", holds {burst}"));
            let held = u128::from(MAX_DELAY_MS) * u128::from(rate.thousandths()) / 1_000_000;
            if ms > MAX_DELAY_MS {
                about.push_str(&format!(" there, and {held} here, because no delay is above 5m"));
            }
            return Ok(Shape::new(fields, about, ms > MAX_DELAY_MS).held(delay, burst).cut(rate));
        }
        fields.put("algorithm", "token_bucket");
        fields.put("limit", rate.limit());
        fields.put("burst", burst + 1);
        about.push_str(&format!(", {} at once", burst + 1));
        Ok(Shape::new(fields, about, false).cut(rate))
    }

    fn connections(&self, limit: &Directive, zone: &str) -> Result<Shape, String> {
        if !self.zones.contains_key(zone) {
            return Err("there is no such zone".to_owned());
        }
        let most = limit.arg(1).parse::<u64>().ok().filter(|it| *it > 0);
        let most = most.ok_or("its number cannot be read")?;
        let fields = Map::default().with("algorithm", "concurrency").with("limit", most);
        Ok(Shape::new(fields, format!("{most} in progress"), false))
    }
}

/// What is said of a limit.
struct Said {
    text: String,
    is_different: bool,
}

/// Says what a limit is here, and returns the name of its policy.
fn say(
    limit: &Directive,
    zone: &str,
    made: &Made,
    about: &Said,
    notes: &mut Notes,
) -> Option<String> {
    match made {
        Made::Policy(name) => {
            let what = format!("zone {zone}: policy {name:?}, {}", about.text);
            match about.is_different {
                true => notes.different(&limit.name, limit.place, what),
                false => notes.taken(&limit.name, limit.place, what),
            }
            Some(name.clone())
        }
        Made::Uncounted => {
            let what = format!("zone {zone}: its key is empty here, so nginx counts no request");
            notes.needless(&limit.name, limit.place, what);
            None
        }
        Made::Lost => {
            notes.lost(&limit.name, limit.place, format!("zone {zone}: its key is not taken"));
            None
        }
    }
}

/// The fields of a limit, and what is said of it.
struct Shape {
    fields: Map,
    about: String,
    is_different: bool,
}

impl Shape {
    fn new(fields: Map, about: String, is_different: bool) -> Self {
        Self { fields, about, is_different }
    }

    /// A part of the burst that nginx sends at once.
    fn held(mut self, delay: Option<u64>, burst: u64) -> Self {
        if let Some(delay) = delay.filter(|delay| *delay > 0) {
            self.is_different = true;
            let text = format!(
                "; nginx sends {} at once and holds {}; here 1 is sent at once and {burst} are held",
                delay + 1,
                burst - delay
            );
            self.about.push_str(&text);
        }
        self
    }

    /// A rate that nginx cuts.
    fn cut(mut self, rate: Rate) -> Self {
        if let Some(cut) = rate.cut() {
            self.is_different = true;
            let text = format!("; nginx cuts it to {} a minute", decimal(cut));
            self.about.push_str(&text);
        }
        self
    }
}

/// The status of a refusal. `error_page` may replace it.
fn status(limit: &str, levels: &Levels<'_>, notes: &mut Notes) -> u16 {
    let setting = levels.setting(&format!("{limit}_status"));
    let status = setting.and_then(|it| it.arg(0).parse().ok()).unwrap_or(503_u16);
    if let Some(setting) = setting {
        let what = format!("the status of refusals: {status}");
        notes.taken(&setting.name, setting.place, what);
    }
    let is_refusal = |status: u16| (400..600).contains(&status);
    let status = if is_refusal(status) { status } else { 503 };
    replaced(status, is_refusal, levels, notes)
}

/// The place of a limit that no route has.
pub fn unused(directives: &[Directive], notes: &mut Notes) {
    let is_zone = |it: &&Directive| matches!(&*it.name, "limit_req_zone" | "limit_conn_zone");
    for zone in directives.iter().filter(is_zone) {
        let place: Place = zone.place;
        if !notes.knows(&zone.name, place) {
            notes.needless(&zone.name, place, "no route that is taken uses this zone");
        }
    }
}
