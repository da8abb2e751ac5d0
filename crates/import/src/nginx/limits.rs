//! `limit_req` and `limit_conn`: zones to policies.

use std::collections::HashMap;

use super::keys::{Key, Maps};
use super::levels::Levels;
use super::syntax::Directive;
use super::values::Rate;
use crate::files::Place;
use crate::notes::Notes;
use crate::out::Map;
use crate::plan::Plan;
use crate::quantity::{decimal, period};

/// The longest delay of the gateway.
const MAX_DELAY_MS: u64 = 300_000;

/// The zones of a configuration, and the policies that were made of them.
pub struct Limits<'a> {
    maps: &'a Maps<'a>,
    zones: HashMap<&'a str, &'a Directive>,
    /// The policies of a zone by their settings.
    made: HashMap<(String, String), Option<String>>,
    /// The first settings of a zone.
    first: HashMap<String, String>,
}

impl<'a> Limits<'a> {
    /// The zones among these directives.
    pub fn new(directives: &'a [Directive], maps: &'a Maps<'a>) -> Self {
        let names = ["limit_req_zone", "limit_conn_zone"];
        let zones = directives.iter().filter(|it| names.contains(&&*it.name));
        let zones =
            zones.filter_map(|it| Some((it.option("zone")?.split(':').next()?, it))).collect();
        Self { maps, zones, made: HashMap::new(), first: HashMap::new() }
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
        let settings = crate::out::flow(&policy.clone().into());
        let identity = (format!("{} {zone}", limit.name), settings.clone());
        if let Some(known) = self.made.get(&identity) {
            // It is said of each place that has it.
            self.say(limit, zone, known.as_deref()?, &about, is_different, notes);
            return known.clone();
        }
        let key = match self.key(zone, plan, notes) {
            Some(key) => key,
            None => {
                self.made.insert(identity, None);
                notes.lost(&limit.name, limit.place, format!("zone {zone}: its key is not taken"));
                return None;
            }
        };
        let mut whole = key;
        whole.0.extend(policy.0);
        let name = plan.policies.add(zone, limit.place, whole);
        self.made.insert(identity, Some(name.clone()));
        self.say(limit, zone, &name, &about, is_different, notes);
        let first = self.first.entry(format!("{} {zone}", limit.name)).or_insert(settings.clone());
        if *first != settings {
            let what = "the zone has other settings elsewhere: nginx has one counter for both; here \
                        each policy counts alone";
            notes.different(&limit.name, limit.place, what);
        }
        Some(name)
    }

    fn say(
        &self,
        limit: &Directive,
        zone: &str,
        policy: &str,
        about: &str,
        is_different: bool,
        notes: &mut Notes,
    ) {
        let what = format!("zone {zone}: policy {policy:?}, {about}");
        match is_different {
            true => notes.different(&limit.name, limit.place, what),
            false => notes.taken(&limit.name, limit.place, what),
        }
    }

    /// The fields of the key of a zone.
    fn key(&self, zone: &str, plan: &mut Plan, notes: &mut Notes) -> Option<Map> {
        let directive = self.zones.get(zone)?;
        let name = &*directive.name;
        let key = match self.maps.key(directive.arg(0)) {
            Ok(key) => key,
            Err(why) => {
                notes.lost(name, directive.place, format!("zone {zone}: {why}"));
                return None;
            }
        };
        let variable = directive.arg(0).trim_start_matches('$');
        for map in self.maps.directives(variable) {
            notes.taken(&map.name, map.place, format!("the exemptions of zone {zone}"));
        }
        let Key { value, skips, mut exempt, secret, difference } = key;
        let shown = value.as_ref().map(crate::out::flow).unwrap_or_default();
        match difference {
            Some(what) => notes.different(name, directive.place, format!("zone {zone}: {what}")),
            None => notes.taken(name, directive.place, format!("zone {zone}: key {shown}")),
        }
        let mut fields = Map::default().with("key", value?);
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
        Some(fields)
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
    for page in levels.nearest("error_page") {
        let codes = page.args.iter().take_while(|arg| arg.parse::<u16>().is_ok());
        if codes.clone().any(|code| code.parse() == Ok(status)) {
            let new = page.args.iter().find_map(|arg| arg.strip_prefix('=')?.parse().ok());
            if let Some(new) = new.filter(|new| (400..600).contains(new)) {
                let what = format!("refusals have the status {new}; the page itself is not taken");
                notes.different("error_page", page.place, what);
                return new;
            }
        }
    }
    if (400..600).contains(&status) { status } else { 503 }
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
