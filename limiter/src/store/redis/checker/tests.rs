//! The runs.
//!
//! `TOLLGATE_CHECKER_RUNS` says how many: 300 if it is not set.
//! `TOLLGATE_CHECKER_SEED` says with which seed they begin; alone it stands for
//! that one run, whose story is printed.

use std::collections::BTreeMap;
use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::directed::{ALL, Defect};
use super::draw::draw;
use super::memory;
use super::run::{Ran, run};
use super::scenario::Scenario;
use super::shrink::shrink;
use crate::terms::StoreMode;

/// Defects that are known and not mended. Their scenarios must find them, and
/// runs in which they may show are not held to the promises. Take out what is
/// mended; with the list empty every run must keep every promise.
const UNMENDED: &[Defect] = &[];

/// Runs if nothing says how many.
const RUNS: u64 = 300;
/// Seeds of each scenario that is written for one defect.
const DIRECTED: u64 = 5;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Whether a run is held to the promises.
fn is_held(scenario: &Scenario) -> bool {
    let plain = scenario.counters.iter().all(|it| it.terms.mode != StoreMode::WriteBack);
    UNMENDED.is_empty() || scenario.is_calm() && plain
}

/// A run that broke a promise, for its reader.
fn tale(what: &str, scenario: &Scenario, ran: &Ran) -> String {
    let promise = ran.broken[0].promise;
    let small = shrink(scenario.clone(), promise);
    let again = run(&small, true);
    let broken: Vec<String> = again.broken.iter().map(ToString::to_string).collect();
    format!(
        "a promise is broken: {promise}\n{small:#?}\n{}\n{}\nto repeat it:\n  {what}",
        again.story,
        broken.join("\n"),
    )
}

/// Runs seeds on all cores, and returns the first run that is held to the
/// promises and breaks one, with how often each promise was broken.
fn run_all(first: u64, runs: u64) -> (Option<(Scenario, Ran)>, BTreeMap<&'static str, u64>) {
    let next = AtomicU64::new(first);
    let (worst, counts) = (Mutex::new(None::<(Scenario, Ran)>), Mutex::new(BTreeMap::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + runs {
                        return;
                    }
                    let scenario = draw(seed);
                    let ran = run(&scenario, false);
                    let mut counts = counts.lock().expect("no run panics");
                    for broken in &ran.broken {
                        *counts.entry(broken.promise).or_insert(0) += 1;
                    }
                    let mut worst = worst.lock().expect("no run panics");
                    let is_first = worst.as_ref().is_none_or(|(it, _)| it.seed > seed);
                    if is_first && !ran.broken.is_empty() && is_held(&scenario) {
                        *worst = Some((scenario, ran));
                    }
                }
            });
        }
    });
    (worst.into_inner().expect("no run panics"), counts.into_inner().expect("no run panics"))
}

#[test]
fn no_promise_is_broken() {
    let (seed, runs) = (number("TOLLGATE_CHECKER_SEED"), number("TOLLGATE_CHECKER_RUNS"));
    if let (Some(seed), None) = (seed, runs) {
        let scenario = draw(seed);
        let ran = run(&scenario, true);
        println!("{scenario:#?}\n{}", ran.story);
        assert!(ran.broken.is_empty(), "{:#?}", ran.broken);
        return;
    }
    let (worst, counts) = run_all(seed.unwrap_or(1), runs.unwrap_or(RUNS));
    println!("broken: {counts:#?}");
    if let Some((scenario, ran)) = worst {
        let seed = scenario.seed;
        let what =
            format!("TOLLGATE_CHECKER_SEED={seed} scripts/test --lib checker -- --nocapture");
        panic!("{}", tale(&what, &scenario, &ran));
    }
}

#[test]
fn each_defect_is_found_as_long_as_it_is_there() {
    let mut wrong = Vec::new();
    for defect in ALL {
        for seed in 1..=DIRECTED {
            let scenario = defect.scenario(seed);
            let ran = run(&scenario, false);
            let is_found = !ran.broken.is_empty();
            println!(
                "{defect:?} {seed}: {:?}",
                ran.broken.iter().map(|it| it.promise).collect::<Vec<_>>()
            );
            if is_found != UNMENDED.contains(&defect) {
                wrong.push(match is_found {
                    true => tale(&format!("{defect:?}, seed {seed}"), &scenario, &ran),
                    false => format!("{defect:?} is not found with seed {seed}"),
                });
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_flood_resets_no_client_that_is_over_its_limit() {
    for seed in 1..=DIRECTED {
        let (reset, greedy) = memory::flood(seed);
        let is_found = reset > 0 || greedy > 100;
        let told =
            format!("seed {seed}: {reset} clients were reset, one was admitted {greedy} times");
        assert_eq!(is_found, UNMENDED.contains(&Defect::Eviction), "{told}");
    }
}

#[test]
fn the_same_seed_makes_the_same_run() {
    // Debts, and what is counted for later, lie in tables without an order.
    let is_ordered = |it: &Scenario| {
        it.is_calm() && it.counters.iter().all(|it| it.terms.mode != StoreMode::WriteBack)
    };
    for scenario in (1..=40).map(draw).filter(is_ordered) {
        let seed = scenario.seed;
        let (first, second) = (run(&scenario, true), run(&scenario, true));
        assert_eq!(first.story, second.story, "seed {seed}");
        assert_eq!(first.digest, second.digest, "seed {seed}");
        assert!(first.requests > 0 && first.questions > 0, "seed {seed}: nothing happens");
    }
}
