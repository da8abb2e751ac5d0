//! A whole replay: recognises the format, reads the logs, and reports.

use super::exceeding::Exceeding;
use super::lacks;
use super::line::Format;
use super::pass::{Found, Lane, Progress, Reading, pass};
use super::peaks::Peaks;
use super::report::{AgainstReport, LogReport, PolicyReport, Report, TotalsReport};
use super::source::{Input, Merged, SourceError};
use super::suggest::{Suggestions, has_short_window};
use super::timeline::Placement;
use super::trial::{Setup, Trial};

/// What is to be replayed.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The logs.
    pub(crate) inputs: Vec<Input>,
    /// Their format. None: it is recognised.
    pub(crate) format: Option<Format>,
    /// The host of requests for which the log has none.
    pub(crate) host: Option<String>,
    /// The rules.
    pub(crate) setup: Setup,
    /// Other rules to compare them with.
    pub(crate) against: Option<Setup>,
    /// Whether limits are to be suggested.
    pub(crate) suggest: bool,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// A log cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// No line is understood.
    #[error(
        "the format of the log is not recognised; name it with --format, or describe a JSON log \
         with --map"
    )]
    Unrecognised,
    /// The log has no requests.
    #[error("no line of the log is a request in the format {0}")]
    NoRequests(&'static str),
}

/// Replays logs.
///
/// # Errors
/// If a log cannot be read, or contains no requests.
pub(crate) fn replay(job: &Job, progress: &mut Progress<'_>) -> Result<Report, ReplayError> {
    let mut source = Merged::open(&job.inputs)?;
    let format = match &job.format {
        Some(format) => format.clone(),
        None => {
            let lines = source.first_lines()?;
            let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
            Format::sniff(&lines).ok_or(ReplayError::Unrecognised)?
        }
    };
    let reading = Reading {
        inputs: &job.inputs,
        format: &format,
        host: job.host.as_deref(),
        setup: &job.setup,
    };
    let found = pass(source, reading, lanes(job), progress)?;
    if found.facts.requests == 0 {
        return Err(ReplayError::NoRequests(format.name()));
    }
    let mut report = report(job, &found);
    if let Some(peaks) = found.lanes[0].trials[0].peaks.as_ref() {
        let suggestions = suggest(job, reading, peaks, Trying::Needed, progress)?;
        if suggestions.sampled_one_of > 1 {
            report.notes.push(format!(
                "there are more than a million keys: the suggestions are from one key in {}",
                suggestions.sampled_one_of
            ));
        }
        if !suggestions.tried {
            report.notes.push(
                "the suggested limits were not tried: standard input cannot be read twice".into(),
            );
        }
        report.suggestions = Some(suggestions);
    }
    Ok(report)
}

/// The trials: the rules and those that they are compared with. If a window is short, there
/// is a second lane for logs with whole seconds.
fn lanes(job: &Job) -> Vec<Lane<'_>> {
    let lane = |placement| {
        let peaks = (job.suggest && placement == Placement::Spread).then(Peaks::default);
        let mut trials = vec![Trial::new(&job.setup, peaks)];
        trials.extend(job.against.iter().map(|setup| Trial::new(setup, None)));
        Lane { placement, trials, exceeding: None }
    };
    let mut lanes = vec![lane(Placement::Spread)];
    if has_short_window(&job.setup) {
        lanes.push(lane(Placement::AtStart));
    }
    lanes
}

fn report(job: &Job, found: &Found<'_>) -> Report {
    let trials = &found.lanes[0].trials;
    let other = found.lanes.get(1).filter(|_| found.facts.has_whole_seconds);
    let other = other.map(|lane| &lane.trials[0]);
    let mut notes = lacks::notes(&found.facts, &job.setup);
    let forgotten = trials[0].forgotten();
    if forgotten > 0 {
        notes.push(format!(
            "{forgotten} counters were forgotten, because the store holds too few keys (max_keys)"
        ));
    }
    Report {
        notes,
        log: LogReport::of(&found.facts),
        totals: TotalsReport::of(&found.facts, &trials[0], other),
        policies: PolicyReport::all(&trials[0], other),
        against: trials.get(1).map(|old| AgainstReport::of(&found.comparison, &trials[0], old)),
        suggestions: None,
        is_mostly_unread: found.facts.is_mostly_other(),
    }
}

/// For which requests suggested limits are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trying {
    /// For those that they can refuse.
    Needed,
    /// For all, which gives the same results.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare both"))]
    All,
}

/// Suggests limits, and tries them in a second reading if the logs can be read again.
fn suggest(
    job: &Job,
    reading: Reading<'_>,
    peaks: &Peaks,
    trying: Trying,
    progress: &mut Progress<'_>,
) -> Result<Suggestions, SourceError> {
    suggest_counted(job, reading, peaks, trying, progress).map(|(suggestions, _)| suggestions)
}

/// The same, with the number of decisions that the trials have made.
fn suggest_counted(
    job: &Job,
    reading: Reading<'_>,
    peaks: &Peaks,
    trying: Trying,
    progress: &mut Progress<'_>,
) -> Result<(Suggestions, u64), SourceError> {
    let mut suggestions = Suggestions::of(&job.setup, peaks);
    if job.inputs.contains(&Input::Stdin) {
        return Ok((suggestions, 0));
    }
    let setups = suggestions.setups(&job.setup);
    let trials = setups.iter().map(|setup| Trial::new(setup, None)).collect();
    let exceeding = match trying {
        Trying::All => None,
        Trying::Needed => Some(Exceeding::new(&job.setup, &suggestions, peaks)),
    };
    let lane = Lane { placement: Placement::Spread, trials, exceeding };
    let found = pass(Merged::open(reading.inputs)?, reading, vec![lane], progress)?;
    let trials = found.lanes[0].trials.iter();
    let decisions = trials.clone().map(|trial| trial.totals.judged).sum();
    suggestions.add_trials(trials);
    Ok((suggestions, decisions))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::Arc;

    use proptest::prelude::*;
    use tollgate_limiter::algorithm::{Algorithm, FixedWindow, Quota, SlidingLog, SlidingWindow};
    use tollgate_limiter::policy::{ClientSettings, KeyExpr, Policy};
    use tollgate_limiter::request::{PathMatch, PathPattern};
    use tollgate_limiter::time::Span;

    use super::*;
    use crate::routes::Route;

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
        let route = Route {
            name: "1".into(),
            hosts: Vec::new(),
            path: PathPattern { segments: Vec::new(), tail: true },
            path_match: PathMatch::default(),
            methods: Vec::new(),
            headers: Vec::new(),
            policies: policies.clone(),
            affinity: None,
        };
        Setup { routes: vec![route], policies, client: ClientSettings::default(), max_keys: 10_000 }
    }

    /// The suggestions for a log, and how many decisions their trials have made.
    fn suggested(log: &str, trying: Trying) -> (serde_json::Value, u64) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        std::fs::write(&path, log).expect("a file");
        let (inputs, setup) = (vec![Input::File(path)], setup());
        let job = Job { inputs, format: None, host: None, setup, against: None, suggest: true };
        let format = Format::named("combined").expect("a format");
        let reading =
            Reading { inputs: &job.inputs, format: &format, host: None, setup: &job.setup };
        let source = Merged::open(&job.inputs).expect("a log");
        let found = pass(source, reading, lanes(&job), &mut |_, _| {}).expect("a log");
        let peaks = found.lanes[0].trials[0].peaks.as_ref().expect("peaks");
        let (suggestions, decisions) =
            suggest_counted(&job, reading, peaks, trying, &mut |_, _| {}).expect("a log");
        (serde_json::to_value(&suggestions).expect("JSON"), decisions)
    }

    fn log(requests: impl IntoIterator<Item = (u64, u64, u64)>) -> String {
        let (mut log, mut second) = (String::new(), 0);
        for (gap, client, path) in requests {
            second += gap;
            let (hour, minute, rest) = (second / 3600 % 24, second / 60 % 60, second % 60);
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
        #[test]
        fn limits_are_tried_only_where_they_can_refuse(
            requests in prop::collection::vec((0..40_u64, 0..9_u64, 0..40_u64), 1..400),
            burst in 1..200_usize,
        ) {
            let burst = std::iter::repeat_n((0, 77, 3), burst);
            let log = log(requests.into_iter().chain(burst));
            let [some, all] = [Trying::Needed, Trying::All].map(|it| suggested(&log, it).0);
            prop_assert_eq!(some, all);
        }
    }

    /// Twice the log is at most twice the work, and most of it is saved.
    #[test]
    fn most_requests_are_not_tried_again() {
        let requests = |count: u64| (0..count).map(|at| (at % 2, at * 7 % 1900, at % 1900));
        let [once, twice, all] =
            [(6000, Trying::Needed), (12_000, Trying::Needed), (6000, Trying::All)]
                .map(|(count, trying)| suggested(&log(requests(count)), trying).1);
        assert_eq!(all, 5 * 6000);
        assert!(once * 2 <= all, "{once} of {all} decisions");
        assert!(twice <= 2 * once.max(6000), "{twice} after {once}");
    }
}
