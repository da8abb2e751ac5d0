//! A whole replay: recognises the format, reads the logs, and reports.

use tollgate_core::text::printable;

use super::exceeding::Exceeding;
use super::lacks;
use super::line::{Envelopes, Format, Recognised};
use super::pass::{Found, Lane, Progress, Reading, pass};
use super::peaks::Peaks;
use super::report::{AgainstReport, LogReport, PolicyReport, Report, TotalsReport};
use super::source::{FEW, Input, MANY, Merged, SourceError};
use super::suggest::{Suggestions, has_short_window};
use super::tally::Tally;
use super::timeline::Placement;
use super::trial::{Setup, Trial};

/// What is to be replayed.
#[derive(Clone, Debug)]
pub struct Job {
    /// The logs.
    pub inputs: Vec<Input>,
    /// Their format. None: it is recognised.
    pub format: Option<Format>,
    /// The host of requests for which the log has none.
    pub host: Option<String>,
    /// The rules.
    pub setup: Setup,
    /// Other rules to compare them with.
    pub against: Option<Setup>,
    /// Whether limits are to be suggested.
    pub suggest: bool,
}

impl Job {
    /// Whether the logs are read a second time, in which suggested limits are tried.
    pub fn is_read_twice(&self) -> bool {
        self.suggest && !self.inputs.iter().any(Input::is_read_once)
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A log cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// There is no line.
    #[error("the log is empty")]
    Empty,
    /// No line is understood.
    #[error(
        "the format of the log is not recognised; its first line is\n\n  {line}\n\n\
         Formats are {}.\n\
         They may be inside {}.\n\
         Name the format with --format, or describe a JSON log with --map, as in\n\
         --map time=ts,client=remote.ip,path=url",
        Format::words().join(", "),
        Envelopes::all_names()
    )]
    Unrecognised {
        /// The first line, fit for a terminal.
        line: String,
    },
    /// The log has no requests.
    #[error("no line of the log is a request in the format {format}; its first line is\n\n  {line}\n{}", hint(*.recognised))]
    NoRequests {
        /// The format that was named or recognised.
        format: &'static str,
        /// The first line, fit for a terminal.
        line: String,
        /// The format that the lines have.
        recognised: Option<&'static str>,
    },
}

fn hint(recognised: Option<&str>) -> String {
    recognised.map_or_else(String::new, |format| {
        format!("\nThe log has the format {format}: leave out --format, or name this one.")
    })
}

/// The most characters of a line in a message.
const MAX_SHOWN_CHARS: usize = 300;

/// The first line that is not empty, for a message: short, and of printable
/// characters.
fn shown(lines: &[Vec<u8>]) -> Option<String> {
    let first = lines.iter().find(|line| !line.trim_ascii().is_empty())?;
    let text = String::from_utf8_lossy(first);
    let mut kept: String = text.chars().take(MAX_SHOWN_CHARS).map(printable).collect();
    if kept.len() < text.len() {
        kept.push_str("...");
    }
    Some(kept)
}

/// What is around the first lines of a log, and their format, or the one that is named. None: no
/// line is a request.
fn recognise(first: &[Vec<u8>], named: Option<&Format>) -> Option<Recognised> {
    let lines: Vec<&[u8]> = first.iter().map(Vec::as_slice).collect();
    match named {
        Some(format) => Recognised::of(&lines, std::slice::from_ref(format)),
        None => Recognised::of(&lines, &Format::all()),
    }
}

/// Replays logs.
///
/// # Errors
/// If a log cannot be read, or contains no requests.
pub fn replay(job: &Job, progress: &mut Progress<'_>) -> Result<Report, ReplayError> {
    let mut source = Merged::open(&job.inputs)?;
    let mut first = source.first_lines(FEW)?;
    let mut form = recognise(&first, job.format.as_ref());
    if form.is_none() {
        // A program has written other lines when it started.
        first = source.first_lines(MANY)?;
        form = recognise(&first, job.format.as_ref());
    }
    let line = shown(&first).ok_or(ReplayError::Empty)?;
    // With a format that is named, requests may come still later.
    let bare = || job.format.clone().map(Recognised::bare);
    let form = form.or_else(bare).ok_or(ReplayError::Unrecognised { line: line.clone() })?;
    let reading =
        Reading { inputs: &job.inputs, form: &form, host: job.host.as_deref(), setup: &job.setup };
    let mut found = pass(source, reading, lanes(job), progress)?;
    if found.facts.requests == 0 {
        let recognised = recognise(&first, None).map(|form| form.format.name());
        let format = form.format.name();
        let recognised = recognised.filter(|recognised| *recognised != format);
        return Err(ReplayError::NoRequests { format, line, recognised });
    }
    let mut report = report(job, &found);
    if let Some(peaks) = found.lanes[0].trials[0].counts.peaks.take() {
        let others = others(&found);
        // Its counters make room for those of the trials.
        drop(found);
        let suggestions = suggest(job, reading, peaks, others, Trying::Needed, progress)?;
        if suggestions.sampled_one_of > 1 {
            report.notes.push(format!(
                "there are more than a million keys: the suggestions are from one key in {}",
                suggestions.sampled_one_of
            ));
        }
        if suggestions.forgotten > 0 {
            report.notes.push(format!(
                "{} counters of the suggested limits were forgotten, because the store holds too \
                 few keys (max_keys): they would refuse more",
                suggestions.forgotten
            ));
        }
        if let Some(input) = job.inputs.iter().find(|_| !suggestions.tried) {
            let input = job.inputs.iter().find(|input| input.is_read_once()).unwrap_or(input);
            report
                .notes
                .push(format!("the suggested limits were not tried: {input} cannot be read twice"));
        }
        report.suggestions = Some(suggestions);
    }
    Ok(report)
}

/// The trials: the rules and those that they are compared with. If a window is short, there
/// is a second lane for logs with whole seconds.
fn lanes(job: &Job) -> Vec<Lane> {
    let lane = |placement| {
        let peaks = (job.suggest && placement == Placement::Spread).then(Peaks::default);
        let trial = Trial::new(&job.setup, peaks);
        let is_reported = placement == Placement::Spread;
        let mut trials = vec![if is_reported { trial.with_clients() } else { trial }];
        trials.extend(job.against.iter().map(|setup| Trial::new(setup, None)));
        Lane { placement, trials, exceeding: None }
    };
    let mut lanes = vec![lane(Placement::Spread)];
    if has_short_window(&job.setup) {
        lanes.push(lane(Placement::AtStart));
    }
    lanes
}

fn report(job: &Job, found: &Found) -> Report {
    let trials = &found.lanes[0].trials;
    let other = found.lanes.get(1).filter(|_| found.facts.has_whole_seconds);
    let other = other.map(|lane| &lane.trials[0]);
    let mut notes = lacks::notes(&found.facts);
    notes.extend(lacks::notes_of_rules(&found.facts, &job.setup, &trials[0]));
    if let (Some(setup), Some(trial)) = (&job.against, trials.get(1)) {
        let of_both = notes.len();
        for note in lacks::notes_of_rules(&found.facts, setup, trial) {
            if !notes[..of_both].contains(&note) {
                notes.push(format!("{} (--against): {note}", setup.name));
            }
        }
    }
    Report {
        notes,
        config: job.setup.name.clone(),
        log: LogReport::of(&found.facts, &job.inputs),
        totals: TotalsReport::of(&found.facts, &trials[0], other),
        policies: PolicyReport::all(&trials[0], other),
        against: trials.get(1).map(|old| {
            let name = job.against.as_ref().map_or("", |setup| &setup.name);
            AgainstReport::of(&found.comparison, &trials[0], old, name)
        }),
        suggestions: None,
        is_mostly_unread: found.facts.is_mostly_other(),
        is_unjudged: trials[0].counts.tallies.iter().all(Tally::is_empty),
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

/// How many keys at most are counted in a trial although they cannot exceed its limit. None:
/// any number.
fn others(found: &Found) -> Option<u64> {
    let tallies = &found.lanes[0].trials[0].counts.tallies;
    let lacking: u64 = tallies.iter().map(|tally| tally.lacking).sum();
    let requests = found.facts.options + lacking;
    let policies = u64::try_from(tallies.len()).unwrap_or(u64::MAX);
    (found.facts.with_keys == 0).then(|| requests.saturating_mul(policies))
}

/// Suggests limits, and tries them in a second reading if the logs can be read again.
fn suggest(
    job: &Job,
    reading: Reading<'_>,
    peaks: Peaks,
    others: Option<u64>,
    trying: Trying,
    progress: &mut Progress<'_>,
) -> Result<Suggestions, SourceError> {
    suggest_counted(job, reading, peaks, others, trying, progress)
        .map(|(suggestions, _)| suggestions)
}

/// The same, with what the second reading has found.
fn suggest_counted(
    job: &Job,
    reading: Reading<'_>,
    peaks: Peaks,
    others: Option<u64>,
    trying: Trying,
    progress: &mut Progress<'_>,
) -> Result<(Suggestions, Option<Found>), SourceError> {
    let mut suggestions = Suggestions::of(&job.setup, &peaks);
    if !job.is_read_twice() {
        return Ok((suggestions, None));
    }
    let mut setups = suggestions.setups(&job.setup);
    let exceeding = match trying {
        Trying::All => None,
        Trying::Needed => Some(Exceeding::new(&job.setup, &suggestions, &peaks)),
    };
    drop(peaks);
    let counted = exceeding.as_ref().and_then(|it| it.counted(others?));
    for (setup, keys) in setups.iter_mut().zip(counted.into_iter().flatten()) {
        // Some room is left, because a full store can forget keys.
        setup.max_keys = setup.max_keys.min(keys.saturating_mul(2).saturating_add(1000));
    }
    let trials = setups.iter().map(|setup| Trial::new(setup, None)).collect();
    let lane = Lane { placement: Placement::Spread, trials, exceeding };
    let found = pass(Merged::open(reading.inputs)?, reading, vec![lane], progress)?;
    suggestions.add_trials(found.lanes[0].trials.iter());
    suggestions.forgotten = found.lanes[0].trials.iter().map(Trial::forgotten).sum();
    Ok((suggestions, Some(found)))
}

#[cfg(test)]
mod tests;
