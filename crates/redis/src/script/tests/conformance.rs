//! The same random operations on Redis, on the memory store, and on the algorithms alone. All
//! verdicts are equal in every number.
//!
//! `TOLLGATE_CONFORMANCE_OPERATIONS` is the number of operations, 100,000 by default. A million
//! take about half a minute. `TOLLGATE_CONFORMANCE_SEED` is the first seed. A failure reports
//! the seed of its schedule.

use std::collections::HashSet;
use std::env;
use std::io::BufRead as _;

use tollgate_core::algorithm::{Op, Verdict};
use tollgate_core::consistency::Consistency;
use tollgate_core::store::{Charge, MemoryStore};
use tollgate_core::time::Timestamp;

use super::reference::Reference;
use super::schedule::{Schedule, policies};
use super::{SCRIPT, Server, call_of};
use crate::codec::{Ask, Asked, CounterReply, Encoder, decode};
use crate::layout::Layout;

const STEPS: usize = 24;
/// The number of bodies in one call. They are decided one after the other.
const BATCH: usize = 8;
/// The number of keys of the memory store. None is ever forgotten.
const KEYS: usize = 1 << 20;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn charge<'a>(asked: &Asked<'a>, cost: u64) -> Charge<'a> {
    let Asked { key, algorithm, binding, .. } = *asked;
    Charge { key, algorithm, cost, binding, consistency: Consistency::default() }
}

/// The verdicts of the memory store, for bodies whose operations it has.
fn in_memory(memory: &MemoryStore, asked: &[Asked<'_>], now: Timestamp) -> Option<Vec<Verdict>> {
    let mut counts = Vec::new();
    let takes: Vec<_> = asked
        .iter()
        .filter_map(|it| match it.ask {
            Ask::Take(cost) => Some(charge(it, cost)),
            Ask::Give { cost, taken } => {
                memory.correct(&charge(it, cost), Op::Give { cost, taken }, now);
                None
            }
            Ask::Cancel { cost, taken } => {
                memory.correct(&charge(it, cost), Op::Cancel { cost, taken }, now);
                None
            }
            Ask::Charge(actual) => {
                let op = Op::Settle { reserved: 0, actual, taken: now };
                memory.correct(&charge(it, 0), op, now);
                None
            }
            Ask::Count(cost) => {
                counts.push(charge(it, cost));
                None
            }
            _ => unreachable!("a plain schedule has no other operations"),
        })
        .collect();
    if counts.len() == asked.len() {
        return Some(memory.count(&counts, now).into_vec());
    }
    (takes.len() == asked.len()).then(|| memory.apply(&takes, now).into_vec())
}

/// Runs one schedule, and returns the number of its operations.
fn run(server: &mut Server, memory: &MemoryStore, encoder: &Encoder, seed: u64) -> usize {
    let policies = policies(seed);
    let mut schedule = Schedule::new(seed, &policies);
    let mut reference = Reference::default();
    let mut calls = redis::pipe();
    let mut expected = Vec::new();
    for step in 0..STEPS {
        let now = schedule.tick();
        let batch: Vec<_> = (0..BATCH).map(|_| schedule.next(now)).collect();
        let bodies: Vec<_> = batch.iter().map(|asked| encoder.encode(asked, now)).collect();
        calls.add_command(call_of(&server.sha, &bodies, now));
        let judged = batch.into_iter().map(|asked| {
            let replies = reference.ask(&asked, now);
            if schedule.plain
                && let Some(verdicts) = in_memory(memory, &asked, now)
            {
                let found: Vec<_> = replies.iter().map(|reply| reply.verdict).collect();
                assert_eq!(verdicts, found, "seed {seed}, step {step}: {asked:?} in memory");
            }
            (asked, replies)
        });
        expected.push((now, judged.collect::<Vec<_>>()));
    }
    let answers: Vec<Vec<Vec<u8>>> =
        calls.query(&mut server.connection).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let mut operations = 0;
    for (step, ((now, bodies), answers)) in expected.iter().zip(answers).enumerate() {
        for ((asked, replies), answer) in bodies.iter().zip(answers) {
            let answered = decode(asked, &answer);
            let numbers = |reply| CounterReply { before: None, ..reply };
            let found = answered.map(|answered| {
                (answered.at, answered.replies.into_iter().map(numbers).collect::<Vec<_>>())
            });
            let expected = Ok((*now, replies.clone()));
            assert_eq!(found, expected, "seed {seed}, step {step}: {asked:?} in Redis");
            operations += asked.len();
        }
    }
    operations
}

/// Runs a part of all operations.
fn run_all(mut server: Server, part: u64) {
    let operations = number("TOLLGATE_CONFORMANCE_OPERATIONS", 100_000) / part;
    let mut seed = number("TOLLGATE_CONFORMANCE_SEED", 1);
    let memory = MemoryStore::new(KEYS);
    let encoder = Encoder::new(Layout::new("conformance", 1 << 10), 7);
    let mut done = 0;
    while done < operations {
        done += u64::try_from(run(&mut server, &memory, &encoder, seed)).unwrap();
        seed += 1;
    }
}

#[test]
fn redis_agrees_with_memory() {
    run_all(Server::start(), 1);
}

/// The maximum lengths of pieces of logs and of fields are so small that each log and each
/// field has many pieces.
#[test]
fn redis_agrees_with_memory_on_states_in_many_pieces() {
    let mut source = SCRIPT.source.to_owned();
    for (ours, small) in [
        ("FULL, START = 512,", "FULL, START = 20,"),
        ("COMPACT, MOST_PIECES = 64", "COMPACT, MOST_PIECES = 12"),
    ] {
        assert_eq!(source.matches(ours).count(), 1, "the script says {ours}");
        source = source.replace(ours, small);
    }
    run_all(Server::with(&source, &[]), 2);
}

/// Some services refuse other keys, or run such a script under a lock of the whole database.
#[test]
fn the_script_uses_no_key_that_is_not_declared() {
    let mut server = Server::start();
    let monitor = server.monitor();
    let memory = MemoryStore::new(KEYS);
    let encoder = Encoder::new(Layout::new("conformance", 1 << 10), 7);
    for seed in 1..=30 {
        run(&mut server, &memory, &encoder, seed);
    }
    redis::cmd("ECHO").arg("the end").exec(&mut server.connection).unwrap();
    let mut declared = HashSet::new();
    let mut used = HashSet::new();
    for line in monitor.split(b'\n') {
        let line = String::from_utf8_lossy(&line.unwrap()).into_owned();
        let (client, command) = line.split_once("] ").unwrap();
        let words: Vec<&str> = command.trim_matches(['"', '\r']).split("\" \"").collect();
        match (client.ends_with(" lua"), words[..].first()) {
            (false, Some(&"EVALSHA")) => {
                let count = words[2].parse().unwrap();
                declared = words.iter().skip(3).take(count).map(ToString::to_string).collect();
            }
            (true, Some(name)) if words.len() > 1 => {
                assert!(declared.contains(words[1]), "{command}, of {declared:?}");
                used.insert(name.to_string());
            }
            _ if words == ["ECHO", "the end"] => break,
            _ => {}
        }
    }
    for name in ["HGET", "HSET", "HDEL", "PEXPIRE", "PTTL", "HRANDFIELD"] {
        assert!(used.contains(name), "no {name} in {used:?}");
    }
}
