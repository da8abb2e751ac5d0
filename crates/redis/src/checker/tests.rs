//! The runs.
//!
//! `TOLLGATE_CHECKER_RUNS` says how many: 300 if it is not set.
//! `TOLLGATE_CHECKER_SEED` says with which seed they begin; alone it stands for
//! that one run, whose story is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;
use tollgate_core::consistency::StoreMode;

use super::directed::{ALL, Defect};
use super::draw::{draw, draw_budgets, draw_plain};
use super::fork;
use super::memory;
use super::oracle::{Broken, budgets};
use super::run::{Ran, run};
use super::scenario::{Scenario, Trouble};
use super::shrink::shrink;

/// Defects that are known and not mended. Their scenarios must find them, and
/// runs in which they may show are not held to the promises. Take out what is
/// mended; with the list empty every run must keep every promise.
const UNMENDED: &[Defect] = &[];

/// Seeds of drawn runs that broke a promise, each until its defect was mended.
const MENDED: [(u64, &str); 13] = [
    (33_438, "units were given back of which the store had not heard"),
    (411_322, "a debt without an answer delayed all others"),
    (466_567, "the same, with two nodes"),
    (414_376, "write_back counted ahead although the store was known to be away"),
    (428_344, "the store decided before it was told what the node had counted"),
    (493_605, "the same, with a fixed window"),
    (418_215, "the workers of a node knew different numbers of nodes"),
    (428_290, "the same, of shards"),
    (460_357, "the same, of a cluster"),
    (495_453, "the same, after a crash"),
    (11_441, "a question overtook units of write_back while a report was under way"),
    (12_290, "the same"),
    (28_808, "units of two places were counted at the time of the later one"),
];

/// Seeds of runs with a wait that was told, and did not hold, until its defect was mended.
const MENDED_WAITS: [(u64, &str); 4] = [
    (227_210, "a cost that never fits was not told beside a ban"),
    (800_297, "units under way were counted as if they had arrived"),
    (1_017_865, "the deny cache refused without the units that a node owed"),
    (1_105_712, "units owed under the limit of a smaller plan were taken as counted"),
];

/// Runs if nothing says how many.
const RUNS: u64 = 300;
/// Waits that are probed in each run, if nothing says how many.
const PROBES: u64 = 3;
/// The same in long runs, which have found what was mended.
const LONG_RUN_PROBES: u64 = 30;
/// Seeds that are run twice.
const REPEATED: u64 = 200;
/// Seeds of each scenario that is written for one defect.
const DIRECTED: u64 = 5;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Whether a run is held to the promises.
fn is_held(scenario: &Scenario) -> bool {
    let plain = scenario.counters.iter().all(|it| it.consistency.mode != StoreMode::WriteBack);
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

/// Does something for each of these seeds, on all cores.
fn for_all(seeds: Range<u64>, each: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    each(seed);
                }
            });
        }
    });
}

/// What came of many runs.
#[derive(Default)]
struct Sum {
    /// The first run that is held to the promises and breaks one.
    worst: Option<(Scenario, Ran)>,
    /// For each promise the seeds that break it.
    broken: BTreeMap<&'static str, BTreeSet<u64>>,
    runs: u64,
    probes: u64,
    judged: u64,
    requests: usize,
    questions: usize,
}

impl Sum {
    fn add(&mut self, scenario: Scenario, ran: Ran) {
        self.runs += 1;
        self.requests += ran.requests;
        self.questions += ran.questions;
        for broken in &ran.broken {
            self.broken.entry(broken.promise).or_default().insert(scenario.seed);
        }
        let is_first = self.worst.as_ref().is_none_or(|(it, _)| it.seed > scenario.seed);
        if is_first && !ran.broken.is_empty() && is_held(&scenario) {
            self.worst = Some((scenario, ran));
        }
    }
}

/// Some of the requests of a run whose waits can be probed.
fn chosen(ran: &Ran, seed: u64, most: u64) -> Vec<usize> {
    let most = usize::try_from(most).expect("a few");
    Rng::with_seed(seed).choose_multiple(ran.waits.iter().copied(), most)
}

/// Obeys some of the waits that clients of a run were told, each in a run of its own.
fn probe(scenario: &Scenario, ran: &mut Ran, most: u64, sum: &Mutex<Sum>) {
    for request in chosen(ran, scenario.seed, most) {
        let (kept, _) = fork::probe(scenario, request, false);
        let mut sum = sum.lock().expect("no run panics");
        sum.probes += 1;
        sum.judged += u64::from(kept.is_some());
        if kept == Some(false) {
            let how = format!("request {request} is refused again");
            ran.broken.push(Broken { promise: fork::PROMISE, at_us: 0, how });
        }
    }
}

fn run_all(seeds: Range<u64>) -> Sum {
    let sum = Mutex::new(Sum::default());
    let most = number("TOLLGATE_CHECKER_PROBES").unwrap_or(PROBES);
    for_all(seeds, |seed| {
        let scenario = draw(seed);
        let mut ran = run(&scenario, false);
        probe(&scenario, &mut ran, most, &sum);
        sum.lock().expect("no run panics").add(scenario, ran);
    });
    sum.into_inner().expect("no run panics")
}

#[test]
fn no_promise_is_broken() {
    let seed = number("TOLLGATE_CHECKER_SEED");
    let runs = number("TOLLGATE_CHECKER_RUNS");
    if let (Some(seed), None) = (seed, runs) {
        let scenario = draw(seed);
        let ran = run(&scenario, true);
        println!("{scenario:#?}");
        let most = number("TOLLGATE_CHECKER_PROBES").unwrap_or(PROBES);
        for request in chosen(&ran, seed, most) {
            let (kept, story) = fork::probe(&scenario, request, true);
            assert_ne!(kept, Some(false), "{story}\nthe last request is refused again");
        }
        println!("{}", ran.story);
        assert!(ran.broken.is_empty(), "{:#?}", ran.broken);
        return;
    }
    let first = seed.unwrap_or(1);
    let sum = run_all(first..first + runs.unwrap_or(RUNS));
    let Sum { runs, probes, judged, requests, questions, .. } = sum;
    println!(
        "{runs} runs, {requests} requests, {questions} questions, {probes} probes, {judged} judged"
    );
    for (promise, seeds) in &sum.broken {
        println!("broken by {} runs: {promise}, {seeds:?}", seeds.len());
    }
    if let Some((scenario, ran)) = sum.worst {
        let seed = scenario.seed;
        let what =
            format!("TOLLGATE_CHECKER_SEED={seed} scripts/test --lib checker -- --nocapture");
        panic!("{}", tale(&what, &scenario, &ran));
    }
}

/// Two servers count a request, one before the end of a window and the other after it: each gets its
/// units back for the window in which it has counted.
#[test]
fn units_go_back_to_the_window_in_which_their_server_has_counted_them() {
    let scenario = draw_budgets(66_019);
    let ran = run(&scenario, false);
    assert!(ran.broken.is_empty(), "{}", tale("draw_budgets(66019)", &scenario, &ran));
}

/// The runs whose counters are budgets: TOLLGATE_CHECKER_RUNS says how many, and
/// TOLLGATE_CHECKER_SEED with which seed they begin.
#[test]
fn a_budget_is_exceeded_by_what_is_in_flight_at_most() {
    let first = number("TOLLGATE_CHECKER_SEED").unwrap_or(1);
    let runs = number("TOLLGATE_CHECKER_RUNS").unwrap_or(RUNS);
    let sum = Mutex::new(([0; 2], BTreeSet::new(), None::<(Scenario, Ran)>));
    for_all(first..first + runs, |seed| {
        let scenario = draw_budgets(seed);
        let ran = run(&scenario, false);
        let mut sum = sum.lock().expect("no run panics");
        let [judged, above] = ran.windows;
        sum.0 = [sum.0[0] + judged, sum.0[1] + above];
        if ran.broken.iter().any(|it| it.promise == budgets::PROMISE) {
            sum.1.insert(seed);
            if sum.2.as_ref().is_none_or(|(it, _)| it.seed > seed) {
                sum.2 = Some((scenario, ran));
            }
        }
    });
    let ([judged, above], seeds, worst) = sum.into_inner().expect("no run panics");
    println!("{runs} runs, {judged} windows are judged, {above} windows cost more than the limit");
    if !seeds.is_empty() {
        println!("broken by {} runs: {}, {seeds:?}", seeds.len(), budgets::PROMISE);
    }
    if let Some((scenario, mut ran)) = worst {
        ran.broken.retain(|it| it.promise == budgets::PROMISE);
        panic!("{}", tale(&format!("draw_budgets({})", scenario.seed), &scenario, &ran));
    }
    // Otherwise the runs would show nothing.
    assert!(runs < RUNS || judged > runs && above > runs / 10, "{judged} windows, {above} above");
}

#[test]
fn what_was_mended_stays_mended() {
    for (seed, defect) in MENDED {
        let ran = run(&draw_plain(seed), false);
        assert!(ran.broken.is_empty(), "{defect}: {:#?}", ran.broken);
    }
}

#[test]
fn waits_that_were_mended_hold() {
    for (seed, defect) in MENDED_WAITS {
        let scenario = draw(seed);
        let ran = run(&scenario, false);
        for request in chosen(&ran, seed, LONG_RUN_PROBES) {
            let (kept, _) = fork::probe(&scenario, request, false);
            assert_ne!(kept, Some(false), "{defect}");
        }
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
    let differing = Mutex::new(BTreeSet::new());
    let digest = AtomicU64::new(0);
    for_all(1..REPEATED + 1, |seed| {
        let scenario = draw(seed);
        let first = run(&scenario, true);
        let second = run(&scenario, true);
        assert!(first.requests > 0 && first.questions > 0, "seed {seed}: nothing happens");
        if (first.story, first.digest) != (second.story, second.digest) {
            differing.lock().expect("no run panics").insert(seed);
        }
        digest.fetch_xor(first.digest, Ordering::Relaxed);
    });
    // A change that changes no behaviour leaves it as it is.
    println!("the digest of all runs is {:016x}", digest.into_inner());
    let differing = differing.into_inner().expect("no run panics");
    assert!(differing.is_empty(), "these seeds make different runs: {differing:?}");
}

/// What is judged only while all servers answer is not judged before the server is back.
#[test]
fn a_server_that_has_crashed_is_away_although_it_would_refuse_nothing() {
    let mut scenario = draw(1);
    let crash = Trouble::Crash { server: 0, keeps: false };
    let back = Trouble::Restart { server: 0 };
    scenario.troubles = vec![(0, crash), (1, Trouble::Refuse { server: 0, refusal: None })];
    let later_us = 60_000_000;
    assert!(!fork::is_calm(&scenario, later_us));
    scenario.troubles.push((2, back));
    assert!(fork::is_calm(&scenario, later_us));
}

#[test]
fn a_scenario_leaves_nothing_unmended() {
    for seed in 1..=10_000 {
        assert_eq!(draw(seed).unmended(), BTreeSet::new(), "seed {seed}");
    }
}
