//! Logs with many entries: the cost of a call depends on what it adds, not on the log's length.

use redis::ConnectionLike as _;
use tollgate_core::algorithm::{Algorithm, MAX_LOG_LIMIT, SlidingLog};
use tollgate_core::time::Span;

use super::upkeep::{NOW, asked, encoder, quota};
use super::*;
use crate::codec::Ask;

const BATCH: usize = 64;
const WINDOW_S: u64 = 60;
/// The maximum length of a reply: the newest entries, and sixteen that replace the others.
const MOST_ANSWERED: usize = 700;
/// The size of the append-only file measures what is written.
const WRITTEN: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "no"];

fn log(limit: u64) -> Algorithm {
    Algorithm::SlidingLog(SlidingLog::new(quota(limit, WINDOW_S)).unwrap())
}

fn micros(us: u64) -> Timestamp {
    NOW.plus(Span::from_micros(us))
}

/// The cost of a call, in numbers that no other process affects.
#[derive(Debug)]
struct Cost {
    /// The bytes written to the append-only file.
    written: u64,
    answered: usize,
    reads: u32,
    writes: u32,
    commands: u32,
}

impl Server {
    /// Makes this number of takes, 977 us apart. Returns the next time.
    fn fill(&mut self, log: &Algorithm, entries: u64) -> Timestamp {
        let mut calls = redis::pipe();
        for entry in 0..entries {
            let now = micros(977 * entry);
            let take = asked(log, 1, 1, Ask::Take(1));
            calls.add_command(call(&[encoder(1).encode(&[take], now)], now)).ignore();
        }
        calls.exec(&mut self.connection).unwrap();
        micros(977 * entries)
    }

    fn written(&mut self) -> u64 {
        self.info("persistence")["aof_current_size"].parse().unwrap()
    }

    /// The cost of one call with a whole batch of this operation.
    fn cost(&mut self, log: &Algorithm, ask: Ask, now: Timestamp) -> Cost {
        let bodies = vec![encoder(1).encode(&[asked(log, 1, 1, ask)], now); BATCH];
        let before = self.written();
        self.calls();
        let answers: Vec<Vec<u8>> = call(&bodies, now).query(&mut self.connection).unwrap();
        let mut calls = self.calls();
        calls.retain(|name, _| !["info", "config|resetstat", "evalsha"].contains(&&**name));
        let of = |name| calls.get(name).copied().unwrap_or(0);
        Cost {
            written: self.written() - before,
            answered: answers.iter().map(Vec::len).sum(),
            reads: of("hget"),
            writes: of("hset"),
            commands: calls.values().sum(),
        }
    }
}

/// The table of docs/redis.md: units in the log, and bytes of Redis for each client.
const BYTES: [(u64, u64); 4] = [(1, 204), (10, 372), (100, 841), (1000, 6230)];

/// A long log is a key of its own, so it takes more than a state in the field of its client.
#[test]
fn a_long_log_takes_the_bytes_that_the_document_names() {
    let log = Algorithm::SlidingLog(SlidingLog::new(quota(1000, 3600)).unwrap());
    let mut found = Vec::new();
    let mut is_close = true;
    for (units, bytes) in BYTES {
        let mut server = Server::start();
        let clients = (20_000 / units).clamp(50, 2000);
        let take = |server: &mut Server, client, unit: u64| {
            let now = NOW.plus(Span::from_millis(1000 * unit));
            server.one(1, asked(&log, client, 1, Ask::Take(1)), now);
        };
        take(&mut server, 0, 0);
        let before = server.used_memory();
        for unit in 0..units {
            (1..=clients).for_each(|client| take(&mut server, client, unit));
        }
        let each = (server.used_memory() - before) / clients;
        found.push((units, each));
        is_close &= each.abs_diff(bytes) <= bytes / 10;
    }
    assert!(is_close, "units and bytes: {found:?}");
}

/// The cost is the same for the largest limit and for a small one: a batch of takes writes the
/// head of the log and one piece.
#[test]
fn a_batch_on_one_log_reads_it_once_and_writes_what_it_adds() {
    for (limit, most_written) in [(100, 2_000), (1000, 3_000), (MAX_LOG_LIMIT, 6_000)] {
        let mut server = Server::with(SCRIPT.source, &WRITTEN);
        let log = log(limit);
        let now = server.fill(&log, limit - 70);
        let cost = server.cost(&log, Ask::Take(1), now);
        assert!(cost.written > 0 && cost.written < most_written, "limit {limit}: {cost:?}");
        assert!(cost.reads <= 2 && cost.writes == 1 && cost.commands <= 6, "{limit}: {cost:?}");
        assert!(cost.answered < BATCH * MOST_ANSWERED, "limit {limit}: {cost:?}");
        assert_eq!(server.remaining(&log, 1, 1, now), 6, "limit {limit}");
    }
}

/// Refused takes, large takes, peeks, charges and give-backs.
#[test]
fn each_operation_on_the_longest_log_is_cheap() {
    let mut server = Server::with(SCRIPT.source, &WRITTEN);
    let log = log(MAX_LOG_LIMIT);
    let now = server.fill(&log, MAX_LOG_LIMIT);
    let give = |entry: u64| Ask::Give { cost: 1, taken: micros(977 * entry) };
    let asks = [
        Ask::Take(1),
        Ask::Take(MAX_LOG_LIMIT / 2),
        Ask::Take(MAX_LOG_LIMIT),
        Ask::Take(u64::MAX),
        Ask::Peek,
        Ask::Charge(5),
        give(0),
        give(5000),
        give(9999),
    ];
    for ask in asks {
        let cost = server.cost(&log, ask, now);
        assert!(cost.commands <= 8 && cost.written < 8_000, "{ask:?}: {cost:?}");
        assert!(cost.answered < BATCH * MOST_ANSWERED, "{ask:?}: {cost:?}");
    }
}

/// Expired entries that are most or all of a log are not read one by one.
#[test]
fn expired_entries_are_removed_by_the_piece() {
    let window_us = WINDOW_S * 1_000_000;
    for us in [window_us + 977 * 5000, window_us + 977 * 9999, 3 * window_us] {
        let mut server = Server::with(SCRIPT.source, &WRITTEN);
        let log = log(MAX_LOG_LIMIT);
        server.fill(&log, MAX_LOG_LIMIT);
        let cost = server.cost(&log, Ask::Take(1), micros(us));
        assert!(cost.commands <= 8 && cost.written < 8_000, "after {us} us: {cost:?}");
        let expected = MAX_LOG_LIMIT - 9999_u64.saturating_sub((us - window_us) / 977) - 64;
        assert_eq!(server.remaining(&log, 1, 1, micros(us)), expected, "after {us} us");
    }
}

#[test]
fn a_long_log_is_removed_a_minute_after_its_end() {
    let mut server = Server::start();
    let log = log(1000);
    let keys = |server: &mut Server| -> Vec<Vec<u8>> {
        redis::cmd("KEYS").arg("*").query(&mut server.connection).unwrap()
    };
    for s in (0..600).step_by(7) {
        server.one(1, asked(&log, 1, 1, Ask::Take(1)), micros(s * 1_000_000));
        let keys = keys(&mut server);
        assert_eq!(keys.len(), 1, "the log is in one key");
        let ms: u64 = redis::cmd("PTTL").arg(&keys[0]).query(&mut server.connection).unwrap();
        assert!((WINDOW_S * 1000 + 10_000..WINDOW_S * 1000 + 61_000).contains(&ms), "{ms} ms");
        // The test's clock moves faster than the server's.
        let mut expire = redis::cmd("PEXPIRE");
        expire.arg(&keys[0]).arg(ms - 7000).exec(&mut server.connection).unwrap();
    }
    server.one(1, asked(&log, 1, 1, Ask::Reset), micros(600_000_000));
    assert!(keys(&mut server).is_empty());
}

#[test]
fn long_logs_of_one_principal_are_reset_together() {
    let mut server = Server::start();
    let short = log(10);
    let log = log(100);
    let takes = [1, 2].map(|counter| asked(&log, 1, counter, Ask::Take(30)));
    let take_short = asked(&short, 1, 3, Ask::Take(3));
    server.ask(&encoder(1), &[takes[0], take_short, takes[1]], NOW);
    let after = |server: &mut Server| {
        let of = |(log, counter)| server.remaining(log, 1, counter, NOW);
        [(&log, 1), (&log, 2), (&short, 3)].map(of)
    };
    assert_eq!(after(&mut server), [70, 70, 7]);
    server.one(1, asked(&log, 1, 1, Ask::Reset), NOW);
    assert_eq!(after(&mut server), [100, 70, 7]);
    server.one(1, asked(&log, 1, 1, Ask::ResetAll), NOW);
    assert_eq!(after(&mut server), [100, 100, 7]);
}

#[test]
fn a_long_log_with_unknown_content_counts_as_empty_or_as_it_reads() {
    let mut server = Server::start();
    let log = log(100);
    let take = asked(&log, 1, 1, Ask::Take(1));
    let body = encoder(1).encode(&[take], NOW);
    server.fill(&log, 90);
    let mut get = redis::cmd("HGET");
    let head: Vec<u8> =
        get.arg(&body.keys[0][..]).arg(&b"\x01\0\0"[..]).query(&mut server.connection).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..2000 {
        let mut head = head.clone();
        match round % 4 {
            0 => head.truncate(random.usize(..head.len())),
            1 => head.iter_mut().for_each(|byte| *byte = random.u8(..)),
            _ => {
                for _ in 0..3 {
                    let at = random.usize(..head.len());
                    head[at] = random.u8(..);
                }
            }
        }
        let mut set = redis::cmd("HSET");
        set.arg(&body.keys[0][..]).arg(&b"\x01\0\0"[..]).arg(&head);
        set.exec(&mut server.connection).unwrap();
        for ask in [Ask::Peek, Ask::Take(1), Ask::Give { cost: 1, taken: NOW }, Ask::Charge(7)] {
            let asked = Asked { ask, ..take };
            let call = call(&[encoder(1).encode(&[asked], NOW)], NOW);
            let answer: redis::RedisResult<Vec<Vec<u8>>> = call.query(&mut server.connection);
            assert!(answer.is_ok(), "{answer:?} to {ask:?} of {head:?}");
        }
    }
}

/// A key with data of another program: each call of its client fails, and only those. The second
/// one used to be admitted by an empty log, and to break the whole batch when it was written.
#[test]
fn foreign_data_under_the_key_of_a_long_log_harms_its_client_only() {
    let mut server = Server::start();
    let log = log(100);
    let body = |client| encoder(1).encode(&[asked(&log, client, 1, Ask::Take(1))], NOW);
    let mut set = redis::cmd("SET");
    set.arg(&body(1).keys[0][..]).arg("foreign").exec(&mut server.connection).unwrap();
    let bodies = [body(1), body(2), body(1), body(2)];
    // A query would make one error of the whole list.
    let redis::Value::Array(answers) = server.connection.req_command(&call(&bodies, NOW)).unwrap()
    else {
        panic!("the script returns a list");
    };
    let is_wrong = |answer: &redis::Value| match answer {
        redis::Value::ServerError(error) => error.code() == "WRONGTYPE",
        _ => false,
    };
    let wrong: Vec<bool> = answers.iter().map(is_wrong).collect();
    assert_eq!(wrong, [true, false, true, false], "{answers:?}");
    assert_eq!(server.remaining(&log, 2, 1, NOW), 98);
}

/// A lost piece counts as one entry at its end, so that no request is admitted too early.
#[test]
fn a_piece_that_is_lost_counts_until_its_end() {
    let mut server = Server::start();
    let log = log(1000);
    let now = server.fill(&log, 1000);
    let key = &encoder(1).encode(&[asked(&log, 1, 1, Ask::Peek)], NOW).keys[0];
    let fields: Vec<Vec<u8>> =
        redis::cmd("HKEYS").arg(&key[..]).query(&mut server.connection).unwrap();
    let pieces: Vec<_> = fields.iter().filter(|field| field.len() > 3).collect();
    assert!(pieces.len() >= 5, "{} pieces", pieces.len());
    redis::cmd("HDEL").arg(&key[..]).arg(&pieces).exec(&mut server.connection).unwrap();
    let later = micros(WINDOW_S * 1_000_000 + 977 * 500);
    assert_eq!(server.remaining(&log, 1, 1, now), 0);
    let remaining = server.remaining(&log, 1, 1, later);
    assert!((300..=501).contains(&remaining), "{remaining} of the oldest 501 units are over");
}
