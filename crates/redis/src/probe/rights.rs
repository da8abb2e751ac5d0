//! The rights of the gateway's user: each command that the store needs is sent once, in a form that
//! changes nothing.
//!
//! A server checks the rights of a command before it looks at keys. So a command about a key that
//! does not exist shows whether it is permitted, and `SET` with `XX` writes nothing there. `HSET` has
//! no such form: it is sent with a value missing, which a server finds after the rights.

use redis::{Cmd, Value, cmd, pipe};
use tollgate_core::digest::Principal;
use tollgate_core::store::OutageCause;

use super::report::ServerReport;
use crate::failure::StoreError;
use crate::layout::Layout;
use crate::remedy;
use crate::script::Script;
use crate::settings::RedisSettings;
use crate::wire::Wire;

/// A command that the store needs.
struct Attempt {
    /// Its name, as a user of Redis writes it.
    name: &'static str,
    /// The rule of the ACL that permits it.
    rule: &'static str,
    command: Cmd,
}

impl Attempt {
    fn new(name: &'static str, rule: &'static str, command: Cmd) -> Self {
        Self { name, rule, command }
    }
}

/// Which commands a server has refused.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// The names of all of them.
    names: Vec<&'static str>,
}

impl Refused {
    /// Whether the server has refused one of these commands.
    pub(super) fn any_of(&self, names: &[&str]) -> bool {
        self.names.iter().any(|name| names.contains(name))
    }
}

/// Tries all commands that a server needs that decides, and has API keys or not. `key` is that of
/// the test write.
///
/// # Errors
/// If the connection breaks.
pub(super) async fn of_master(
    wire: &mut Wire,
    settings: &RedisSettings,
    script: &Script,
    key: &str,
    with_api_keys: bool,
    report: &mut ServerReport,
) -> Result<Refused, StoreError> {
    let mut attempts = vec![
        Attempt::new("PING", "+@connection", cmd("PING")),
        Attempt::new("EVAL", "+eval", cmd("EVAL").arg("return 1").arg(0).take()),
        Attempt::new(
            "SCRIPT LOAD",
            "+script|load",
            cmd("SCRIPT").arg("LOAD").arg(script.source).take(),
        ),
        Attempt::new("EVALSHA", "+evalsha", cmd("EVALSHA").arg(&*script.sha).arg(0).arg(1).take()),
        Attempt::new("TIME", "+time", cmd("TIME")),
        Attempt::new("SET", "+set", cmd("SET").arg(key).arg(0).arg("XX").arg("EX").arg(1).take()),
        Attempt::new("HSET", "+hset", cmd("HSET").arg(key).arg("a").arg(1).arg("b").take()),
        Attempt::new("HDEL", "+hdel", cmd("HDEL").arg(key).arg("a").take()),
        Attempt::new("HRANDFIELD", "+hrandfield", cmd("HRANDFIELD").arg(key).arg(1).take()),
        Attempt::new("EXPIRE", "+expire", cmd("EXPIRE").arg(key).arg(1).take()),
        Attempt::new("PEXPIRE", "+pexpire", cmd("PEXPIRE").arg(key).arg(1000).take()),
        Attempt::new("PTTL", "+pttl", cmd("PTTL").arg(key).take()),
    ];
    attempts.extend(reads(key));
    if with_api_keys {
        attempts.extend(listing(key));
    }
    // A pattern may permit the key of the test and not those of counters. No counter has this field.
    let layout = Layout::new(&settings.prefix, settings.expected_clients);
    let bucket = layout.key(Principal::from_bits(0));
    attempts.push(Attempt::new("HDEL", "+hdel", cmd("HDEL").arg(&bucket[..]).arg("").take()));
    try_all(wire, settings, attempts, report).await
}

/// Tries all commands that a server needs from which limits of single keys are read.
///
/// # Errors
/// If the connection breaks.
pub(super) async fn of_replica(
    wire: &mut Wire,
    settings: &RedisSettings,
    key: &str,
    report: &mut ServerReport,
) -> Result<Refused, StoreError> {
    let mut attempts = vec![
        Attempt::new("PING", "+@connection", cmd("PING")),
        Attempt::new("ROLE", "+role", cmd("ROLE")),
    ];
    attempts.extend(reads(key));
    try_all(wire, settings, attempts, report).await
}

/// Tries the commands by which a node of a cluster is asked for more than its own slots.
///
/// # Errors
/// If the connection breaks.
pub(super) async fn of_node(
    wire: &mut Wire,
    settings: &RedisSettings,
    report: &mut ServerReport,
) -> Result<Refused, StoreError> {
    let attempts = vec![
        Attempt::new("CLUSTER SLOTS", "+cluster|slots", cmd("CLUSTER").arg("SLOTS").take()),
        // It holds for the next command.
        Attempt::new("ASKING", "+asking", cmd("ASKING")),
        Attempt::new("PING", "+@connection", cmd("PING")),
    ];
    try_all(wire, settings, attempts, report).await
}

/// The commands of `api_keys::KEY_COMMANDS`, by which operators list API keys.
fn listing(key: &str) -> [Attempt; 3] {
    [
        Attempt::new("ZADD", "+zadd", cmd("ZADD").arg(key).arg("XX").arg(0).arg("a").take()),
        Attempt::new("ZREM", "+zrem", cmd("ZREM").arg(key).arg("a").take()),
        Attempt::new(
            "ZRANGEBYLEX",
            "+zrangebylex",
            cmd("ZRANGEBYLEX").arg(key).arg("-").arg("+").take(),
        ),
    ]
}

fn reads(key: &str) -> [Attempt; 3] {
    [
        Attempt::new("GET", "+get", cmd("GET").arg(key).take()),
        Attempt::new("HGET", "+hget", cmd("HGET").arg(key).arg("a").take()),
        Attempt::new("HGETALL", "+hgetall", cmd("HGETALL").arg(key).take()),
    ]
}

/// Sends the commands, and reports which of them the server refuses, with one outage for each kind
/// of refusal.
async fn try_all(
    wire: &mut Wire,
    settings: &RedisSettings,
    attempts: Vec<Attempt>,
    report: &mut ServerReport,
) -> Result<Refused, StoreError> {
    let mut commands = pipe();
    for attempt in &attempts {
        commands.add_command(attempt.command.clone());
    }
    let replies = wire.send(&commands).await?;
    let mut refused = Refused::default();
    let mut by_cause: [(OutageCause, Vec<&Attempt>); 3] = [
        (OutageCause::CommandForbidden, Vec::new()),
        (OutageCause::CommandMissing, Vec::new()),
        (OutageCause::KeyForbidden, Vec::new()),
    ];
    for (attempt, reply) in attempts.iter().zip(replies) {
        let Some(cause) = refusal(reply) else { continue };
        refused.names.push(attempt.name);
        for (_, of_cause) in by_cause.iter_mut().filter(|(it, _)| *it == cause) {
            if of_cause.iter().all(|it| it.name != attempt.name) {
                of_cause.push(attempt);
            }
        }
    }
    for (cause, attempts) in by_cause.into_iter().filter(|(_, attempts)| !attempts.is_empty()) {
        let names: Vec<&str> = attempts.iter().map(|it| it.name).collect();
        let rules: Vec<&str> = attempts.iter().map(|it| it.rule).collect();
        let mut said = names.join(", ");
        let mut remedy = remedy::remedy(cause, settings);
        match cause {
            OutageCause::CommandForbidden => remedy = remedy::grant(settings, &rules.join(" ")),
            OutageCause::KeyForbidden => said = format!("~{}:* for {said}", settings.prefix),
            _ => {}
        }
        report.refuse(cause, &said, remedy);
    }
    Ok(refused)
}

/// The cause if a reply is the refusal of a command, whatever its keys contain.
fn refusal(reply: Value) -> Option<OutageCause> {
    let error = StoreError::from(reply.extract_error().err()?);
    let cause = error.cause();
    let is_of_right = matches!(
        cause,
        OutageCause::CommandForbidden | OutageCause::CommandMissing | OutageCause::KeyForbidden
    );
    is_of_right.then_some(cause)
}
