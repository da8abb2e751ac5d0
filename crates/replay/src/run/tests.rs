//! Suggested limits, and the work that a log of some length is.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;
use tollgate_core::algorithm::{Algorithm, FixedWindow, Quota, SlidingLog, SlidingWindow};
use tollgate_core::policy::{ClientSettings, KeyExpr, Policy};
use tollgate_core::routes::Route;
use tollgate_core::time::Span;

use super::*;

fn setup() -> Setup {
    let quota = Quota::new(100, Span::from_secs(60)).expect("a quota");
    let algorithms = [
        Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        Algorithm::FixedWindow(FixedWindow::new(quota)),
        Algorithm::SlidingLog(SlidingLog::new(quota).expect("a limit")),
    ];
    let keys = [KeyExpr::Ip, KeyExpr::Path, KeyExpr::Ip];
    let policies: Vec<Arc<Policy>> = (algorithms.into_iter().zip(keys).zip(["a", "b", "c"]))
        .map(|((algorithm, key), name)| Arc::new(Policy::new(name, key, algorithm)))
        .collect();
    let route = Route::for_all(policies.clone());
    let name = String::new();
    let client = ClientSettings::default();
    Setup { name, routes: vec![route], policies, client, max_keys: 10_000 }
}

/// The suggestions for a log.
struct Suggested {
    suggestions: serde_json::Value,
    /// How many decisions their trials have made.
    decisions: u64,
    /// What was done in both readings: lines, decisions, and slots of tables that were read.
    work: u64,
    /// How many keys each trial had room for.
    rooms: Vec<usize>,
}

fn suggested(log: &str, trying: Trying) -> Suggested {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    std::fs::write(&path, log).expect("a file");
    let inputs = vec![Input::File(path)];
    let setup = setup();
    let job = Job { inputs, format: None, host: None, setup, against: None, suggest: true };
    let form = Recognised::bare(Format::named("combined").expect("a format"));
    let reading = Reading { inputs: &job.inputs, form: &form, host: None, setup: &job.setup };
    let source = Merged::open(&job.inputs).expect("a log");
    let mut found = pass(source, reading, lanes(&job), &mut |_, _| {}).expect("a log");
    let peaks = found.lanes[0].trials[0].counts.peaks.take().expect("peaks");
    let others = others(&found);
    let probes = peaks.probes();
    let (suggestions, second) =
        suggest_counted(&job, reading, peaks, others, trying, &mut |_, _| {}).expect("a log");
    let second = second.expect("a second reading");
    let decisions = |found: &Found| -> u64 {
        found.lanes[0].trials.iter().map(|trial| trial.counts.totals.judged).sum()
    };
    let exceeding = &second.lanes[0].exceeding;
    let work = [&found, &second].map(|it| it.facts.lines + decisions(it)).iter().sum::<u64>()
        + probes
        + exceeding.as_ref().map_or(0, Exceeding::probes);
    Suggested {
        suggestions: serde_json::to_value(&suggestions).expect("JSON"),
        decisions: decisions(&second),
        work,
        rooms: second.lanes[0].trials.iter().map(|trial| trial.room()).collect(),
    }
}

fn log(requests: impl IntoIterator<Item = (u64, u64, u64)>) -> String {
    let mut log = String::new();
    let mut second = 0;
    for (gap, client, path) in requests {
        second += gap;
        let hour = second / 3600 % 24;
        let minute = second / 60 % 60;
        let rest = second % 60;
        let _ = writeln!(
            log,
            "10.0.{}.{} - - [21/Nov/2026:{hour:02}:{minute:02}:{rest:02} +0000] \"GET /{path} HTTP/1.1\" 200 1",
            client / 250,
            client % 250
        );
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn limits_are_tried_only_where_they_can_refuse(
        requests in prop::collection::vec((0..40_u64, 0..9_u64, 0..40_u64), 1..400),
        burst in 1..200_usize,
        preflights in any::<bool>(),
    ) {
        let burst = std::iter::repeat_n((0, 77, 3), burst);
        let mut log = log(requests.into_iter().chain(burst));
        if preflights {
            log = log.replace("GET /3", "OPTIONS /3");
        }
        let [some, all] = [Trying::Needed, Trying::All].map(|it| suggested(&log, it).suggestions);
        prop_assert_eq!(some, all);
    }
}

/// Requests of so many clients for as many paths, one after the other.
fn steady(count: u64, clients: u64) -> String {
    log((0..count).map(|at| (at % 2, at * 7 % clients, at % clients)))
}

/// Before, the counters of five trials had room for as many keys as a gateway, and took most of
/// the memory.
#[test]
fn most_requests_are_not_tried_again_and_most_keys_have_no_counter() {
    let some = suggested(&steady(6000, 1900), Trying::Needed);
    let all = suggested(&steady(6000, 1900), Trying::All);
    assert_eq!(all.decisions, 5 * 6000);
    assert!(some.decisions * 2 <= all.decisions, "{} of {}", some.decisions, all.decisions);
    assert_eq!(all.rooms, [10_000; 5]);
    assert!(some.rooms.iter().any(|room| *room <= 1000), "{:?}", some.rooms);
}

#[test]
fn a_log_twice_as_long_is_twice_the_work() {
    let [once, twice] =
        [12_000, 24_000].map(|count| suggested(&steady(count, 190), Trying::Needed).work);
    assert!((19 * once..=21 * once).contains(&(10 * twice)), "{twice} steps after {once}");
}

#[test]
fn a_note_tells_of_limits_of_single_keys_that_a_policy_cannot_count() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let line = |second: u64, limit: u64| {
        format!(
            "{{\"time\":\"2026-11-21T07:28:46Z\",\"client\":\"-\",\"method\":\"GET\",\"path\":\"/\",\
             \"outcome\":\"admitted\",\"time_us\":{second}000000,\"keys\":[{{\"policy\":\"a\",\
             \"id\":\"000000000007\",\"cost\":1,\"limit\":{limit}}}]}}\n"
        )
    };
    let log = [line(1, 7), line(2, u64::MAX), line(3, u64::MAX)].concat();
    std::fs::write(&path, log).expect("a file");
    let inputs = vec![Input::File(path)];
    let setup = setup();
    let job = Job { inputs, format: None, host: None, setup, against: None, suggest: false };
    let report = replay(&job, &mut |_, _| {}).expect("a report");
    let told = |note: &&String| note.contains("a policy cannot count");
    let note = report.notes.iter().find(told).expect("a note");
    assert!(note.starts_with("2 decisions of the log"), "{note}");
}
