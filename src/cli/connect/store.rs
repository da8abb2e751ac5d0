//! The servers of the store: what each of them tells, and what of it keeps a gateway from deciding
//! there, or lets it forget.

use std::time::Duration;

use tollgate_redis::{
    self, ClockOffset, Eviction, ProbeScope, RedisSettings, ServerKind, ServerReport, SmallSetting,
    Topology,
};

use super::outcome::{Outcome, ms};
use crate::app::settings_with_password;
use crate::config::Config;

/// A clock that differs by more than this is most likely not set, in microseconds.
const CLOCK_DIFFERS_US: u64 = 1_000_000;

/// Asks all servers of the store, each for no longer than about `limit`. In the memory of the
/// process there is none. If a program prints the password, it runs before.
pub async fn probe(config: &Config, limit: Duration) -> Vec<Outcome> {
    let (store, printed) = settings_with_password(&config.store).await;
    let Some(settings) = &store.redis else { return Vec::new() };
    if let (Err(error), Some(command)) = (printed, &store.password_command) {
        let mut outcome = Outcome::new("store.redis.password_command", &command.program);
        let what = format!("there is no password for Redis, which is not asked: {error}");
        outcome.error(what, "run the program as the user of the gateway");
        return vec![outcome];
    }
    let scope = ProbeScope { limit, with_api_keys: config.looks_keys_up() };
    outcomes(settings, &tollgate_redis::probe(settings, scope).await)
}

fn outcomes(settings: &RedisSettings, reports: &[ServerReport]) -> Vec<Outcome> {
    let field = match settings.topology {
        Topology::Shards(_) => "store.redis.shards",
        _ => "store.redis.url",
    };
    let mut outcomes: Vec<Outcome> =
        reports.iter().map(|report| outcome(field, settings, report)).collect();
    // Sentinels that name different masters would divide the counters.
    let named =
        |report: &&ServerReport| report.kind == ServerKind::Sentinel && !report.names.is_empty();
    if let Some(first) = reports.iter().find(named) {
        for (report, outcome) in reports.iter().zip(&mut outcomes) {
            if named(&report) && report.names != first.names {
                let own = report.names.join(", ");
                let other = first.names.join(", ");
                let what = format!("it names the master {own}, and {} names {other}", first.server);
                outcome.warning(what, "see SENTINEL MASTERS at both");
            }
        }
    }
    outcomes
}

fn outcome(field: &str, settings: &RedisSettings, report: &ServerReport) -> Outcome {
    let mut outcome = Outcome::new(field, &report.server);
    if report.is_connected {
        outcome.facts = Some(facts(settings, report));
    }
    for outage in &report.outages {
        outcome.error(&outage.error, &outage.remedy);
    }
    match &report.eviction {
        Eviction::Policy(policy) if policy != "noeviction" => outcome.warning(
            format!(
                "maxmemory-policy is {policy}: when its memory is full, Redis forgets clients, and \
                 their limits begin anew"
            ),
            "set maxmemory-policy noeviction",
        ),
        Eviction::NotTold => outcome.warning(
            "it is not known whether Redis forgets clients when its memory is full: neither CONFIG \
             GET nor INFO tells its maxmemory-policy",
            "see that it is noeviction",
        ),
        Eviction::Policy(_) | Eviction::NotAsked => {}
    }
    for SmallSetting { name, is, needed } in &report.too_small {
        let what = format!("{name} is {is}: a client takes up to twice as much memory in Redis");
        outcome.warning(what, format!("set {name} {needed}"));
    }
    if let Some(clock) = report.clock.filter(|it| it.ahead_us.unsigned_abs() > CLOCK_DIFFERS_US) {
        let what = format!("its clock differs from that of this machine by {}", signed(clock));
        let advice = "windows follow the clock of Redis: compare the clocks of both machines";
        outcome.warning(what, advice);
    }
    if let Some(script) = report.script
        && script * 2 > settings.timeout
        && outcome.is_good()
    {
        let script = ms(script);
        let timeout = ms(settings.timeout);
        let what = format!("a decision takes {script} on the way, and the timeout is {timeout}");
        let advice = "what takes longer is decided without Redis: raise store.redis.timeout";
        outcome.warning(what, advice);
    }
    outcome
}

fn facts(settings: &RedisSettings, report: &ServerReport) -> Vec<String> {
    let names = || report.names.join(", ");
    let kind = match report.kind {
        ServerKind::Master => "master".to_owned(),
        ServerKind::Replica => "replica".to_owned(),
        ServerKind::Sentinel if report.names.is_empty() => "Sentinel".to_owned(),
        ServerKind::Sentinel => format!("Sentinel, names the master {}", names()),
        ServerKind::Seed => format!("names the masters {}", names()),
    };
    let mut facts: Vec<String> = report.version.iter().cloned().collect();
    facts.push(kind);
    facts.extend(report.slots.map(|slots| format!("{slots} slots")));
    if report.has_all_slots {
        facts.push("all slots of a cluster behind one address".to_owned());
    }
    if report.lacks_time_in_scripts {
        facts.push("scripts are given the time".to_owned());
    }
    if let Eviction::Policy(policy) = &report.eviction {
        facts.push(format!("maxmemory-policy {policy}"));
    }
    facts.extend(report.clock.map(|clock| format!("clock {}", signed(clock))));
    facts.extend(report.ping.map(|time| format!("PING {}", ms(time))));
    facts.extend(report.script.map(|time| format!("script {}", ms(time))));
    if report.ping.is_some() {
        facts.push(format!("timeout {}", ms(settings.timeout)));
    }
    facts
}

/// The difference of a clock, with how wrong it may be.
fn signed(clock: ClockOffset) -> String {
    let ClockOffset { ahead_us, error_us } = clock;
    // Hundredths of a millisecond are shown.
    let sign = if ahead_us <= -10 { '-' } else { '+' };
    let by = |us| ms(Duration::from_micros(us));
    format!("{sign}{} ± {}", by(ahead_us.unsigned_abs()), by(error_us))
}
