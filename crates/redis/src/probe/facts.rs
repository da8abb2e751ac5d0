//! What a server tells of itself: its version, its clock, and what it does when its memory is full.
//! A server may refuse each of these questions.

use redis::{Value, cmd};
use tollgate_core::text::is_printable;
use tollgate_core::time::{Clock, monotonic};

use super::report::{ClockOffset, Eviction, ServerReport, SmallSetting};
use crate::compact;
use crate::failure::StoreError;
use crate::memory_settings::{Found, policy_of_info, question};
use crate::server_time::ServerTime;
use crate::wire::Wire;

/// How often the time is asked for. The best answer counts.
const TIMES: usize = 3;
/// The longest version, in characters.
const MAX_CHARS: usize = 40;

/// How the clock of the server differs from the wall clock of this machine. None if the server does
/// not tell its time.
///
/// # Errors
/// If the connection breaks.
pub(super) async fn clock(wire: &mut Wire) -> Result<Option<ClockOffset>, StoreError> {
    let mut best: Option<ClockOffset> = None;
    for _ in 0..TIMES {
        let asked = monotonic();
        let reply = wire.send_one(&ServerTime::question()).await?;
        let answered = monotonic();
        let here = Clock::System.wall();
        let Ok(mut time) = ServerTime::read(reply, asked, answered) else { return Ok(best) };
        // It is given as late as it can be by now.
        let error_us = u64::try_from((answered - asked).as_micros()).unwrap_or(u64::MAX) / 2;
        let there_us = time.next_us(answered).saturating_sub(error_us);
        let ahead_us =
            i64::try_from(there_us).unwrap_or(i64::MAX).saturating_sub_unsigned(here.as_micros());
        if best.is_none_or(|best| error_us < best.error_us) {
            best = Some(ClockOffset { ahead_us, error_us });
        }
    }
    Ok(best)
}

/// What the server does when its memory is full, and which of its settings waste memory.
///
/// # Errors
/// If the connection breaks.
pub(super) async fn memory(wire: &mut Wire, report: &mut ServerReport) -> Result<(), StoreError> {
    let Found { policy: mut eviction, too_small } = Found::of(wire.send(&question()).await?);
    let small = |it: compact::TooSmall| SmallSetting {
        name: readable(it.setting),
        is: it.is,
        needed: it.needed,
    };
    report.too_small = too_small.into_iter().map(small).collect();
    if eviction.is_none() {
        eviction = policy_of_info(wire.send_one(cmd("INFO").arg("memory")).await?);
    }
    report.eviction = match eviction {
        Some(policy) => Eviction::Policy(readable(policy)),
        None => Eviction::NotTold,
    };
    Ok(())
}

/// The name and the version of the server. The right `+@connection` is enough for `HELLO`.
///
/// # Errors
/// If the connection breaks.
pub(super) async fn version(wire: &mut Wire, report: &mut ServerReport) -> Result<(), StoreError> {
    let hello = wire.send_one(cmd("HELLO").arg(2)).await?;
    report.version = version_of_hello(hello);
    if report.version.is_none() {
        let told = wire.send_one(cmd("INFO").arg("server")).await?;
        report.version = version_of_info(told);
    }
    Ok(())
}

/// The version in an answer to `HELLO 2`, which is a list of names and values.
fn version_of_hello(answer: Value) -> Option<String> {
    let Value::Array(items) = answer else { return None };
    let text = |wanted: &str| {
        items.chunks(2).find_map(|pair| match pair {
            [Value::BulkString(name), Value::BulkString(value)] if name == wanted.as_bytes() => {
                Some(String::from_utf8_lossy(value).into_owned())
            }
            _ => None,
        })
    };
    Some(named(&text("server")?, &text("version")?))
}

/// The version in an answer to `INFO server`. Valkey also tells the version of Redis that it is
/// compatible with.
fn version_of_info(answer: Value) -> Option<String> {
    let Value::BulkString(text) = answer else { return None };
    let text = String::from_utf8_lossy(&text).into_owned();
    ["valkey", "redis"].into_iter().find_map(|name| {
        let line = |line: &str| {
            let version = line.strip_prefix(name)?.strip_prefix("_version:")?;
            Some(named(name, version.trim()))
        };
        text.lines().find_map(line)
    })
}

fn named(name: &str, version: &str) -> String {
    let name = match name {
        "redis" => "Redis",
        "valkey" => "Valkey",
        other => other,
    };
    readable(format!("{name} {version}"))
}

/// A short text on one line, without what would move the cursor of a terminal.
fn readable(text: String) -> String {
    text.chars().filter(|&c| is_printable(c)).take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn a_version_is_read_from_either_answer() {
        let hello = |server, version| {
            let rest = [bulk("proto"), Value::Int(2), bulk("modules"), Value::Array(Vec::new())];
            let first = [bulk("server"), bulk(server), bulk("version"), bulk(version)];
            version_of_hello(Value::Array([&first[..], &rest[..]].concat()))
        };
        assert_eq!(hello("redis", "7.0.15").as_deref(), Some("Redis 7.0.15"));
        assert_eq!(hello("valkey", "8.1.8").as_deref(), Some("Valkey 8.1.8"));
        assert_eq!(hello("other\n", "\u{1b}[2J1").as_deref(), Some("other [2J1"));
        let info = |text| version_of_info(bulk(text));
        let redis = "# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n";
        assert_eq!(info(redis).as_deref(), Some("Redis 6.2.14"));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.8\r\n";
        assert_eq!(info(valkey).as_deref(), Some("Valkey 8.1.8"));
    }

    #[test]
    fn what_is_no_version_is_unknown() {
        let half = Value::Array(vec![bulk("server"), bulk("redis"), bulk("version")]);
        for answer in [Value::Nil, Value::Okay, bulk("PONG"), Value::Array(Vec::new()), half] {
            assert_eq!(version_of_hello(answer.clone()), None, "{answer:?}");
            assert_eq!(version_of_info(answer.clone()), None, "{answer:?}");
        }
    }
}
