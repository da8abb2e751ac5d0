//! One reading of the logs, in which any number of trials judge every request.

use std::net::IpAddr;
use std::sync::Arc;

use tollgate_core::time::Timestamp;

use super::compare::Comparison;
use super::entry::{Entry, Head};
use super::exceeding::{Exceeding, Needed};
use super::facts::Facts;
use super::line::{Line, Parsed, Recognised};
use super::source::{Input, Merged, Numbered, SourceError};
use super::timeline::{Placement, Timeline};
use super::trial::{Fate, Setup, Trial};
use super::wanted::Wanted;

/// Trials that see the requests at the same times.
pub(super) struct Lane {
    pub(super) placement: Placement,
    pub(super) trials: Vec<Trial>,
    /// If the trials are suggested limits, one for each window: which requests they can refuse.
    pub(super) exceeding: Option<Exceeding>,
}

/// What is read, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'r> {
    pub(super) inputs: &'r [Input],
    pub(super) form: &'r Recognised,
    /// The host of requests for which the log has none.
    pub(super) host: Option<&'r str>,
    /// Whose proxies are trusted.
    pub(super) setup: &'r Setup,
}

/// What a pass has found.
pub(super) struct Found {
    pub(super) facts: Facts,
    pub(super) lanes: Vec<Lane>,
    pub(super) comparison: Comparison,
}

/// Is told how many bytes were read, and how many there are.
pub type Progress<'p> = dyn FnMut(u64, Option<u64>) + 'p;

/// Reads all of `source`.
///
/// # Errors
/// If a log cannot be read.
pub(super) fn pass(
    source: Merged,
    reading: Reading<'_>,
    lanes: Vec<Lane>,
    progress: &mut Progress<'_>,
) -> Result<Found, SourceError> {
    let trials = || lanes.iter().flat_map(|lane| &lane.trials);
    let policies = trials().flat_map(Trial::policies).map(|policy| Arc::clone(&policy.name));
    let wanted = Wanted::new(trials().flat_map(Trial::header_names), policies);
    let placements: Vec<Placement> = lanes.iter().map(|lane| lane.placement).collect();
    let mut pass = Pass {
        reading,
        wanted,
        timeline: Timeline::new(&placements),
        lanes,
        head: Head::new(),
        facts: Facts {
            format: reading.form.format.name(),
            inside: reading.form.envelopes.names(),
            ..Facts::default()
        },
        comparison: Comparison::default(),
    };
    let time_of = |text: &[u8]| match reading.form.format.parse(text) {
        Some(Parsed::Request(line)) => Some(line.time.us),
        _ => None,
    };
    let see = |line: Numbered<'_>| {
        let is_read = pass.see(line.text);
        if !is_read && pass.facts.first_unread.is_none() {
            pass.facts.first_unread = Some(format!("{}:{}", line.input, line.number));
        }
    };
    source.each(&reading.form.envelopes, time_of, see, progress)?;
    Ok(pass.finish())
}

struct Pass<'r> {
    reading: Reading<'r>,
    wanted: Wanted,
    timeline: Timeline,
    lanes: Vec<Lane>,
    head: Head,
    facts: Facts,
    comparison: Comparison,
}

impl Pass<'_> {
    /// Takes a line. False: it has another format.
    fn see(&mut self, text: &[u8]) -> bool {
        if text.trim_ascii().is_empty() {
            return true;
        }
        self.facts.lines += 1;
        match self.reading.form.format.parse(text) {
            Some(Parsed::Request(line)) => self.request(&line),
            Some(Parsed::NoRequest) => self.facts.no_request += 1,
            Some(Parsed::Dropped(lines)) => self.facts.dropped += lines,
            None => {
                self.facts.unread += 1;
                return false;
            }
        }
        true
    }

    fn request(&mut self, line: &Line<'_>) {
        let Some(entry) = Entry::of(line, &self.wanted, self.reading.host) else {
            self.facts.no_request += 1;
            return;
        };
        self.facts.note(line, &self.wanted);
        self.facts.with_host += u64::from(self.reading.host.is_some());
        let is_trusted = |address: IpAddr| {
            let proxies = &self.reading.setup.client.trusted_proxies;
            proxies.iter().any(|network| network.contains(&address))
        };
        let address = line.client.map(|client| client.address);
        self.facts.trusted += u64::from(address.is_some_and(is_trusted));
        self.timeline.push(line, entry);
        for lane in 0..self.lanes.len() {
            while let Some((at_us, entry)) = self.timeline.next(lane) {
                self.judge(lane, at_us, &entry);
            }
        }
    }

    fn judge(&mut self, lane: usize, at_us: u64, entry: &Entry) {
        let is_first = lane == 0;
        let now = Timestamp::from_micros(at_us);
        let Lane { trials, exceeding, .. } = &mut self.lanes[lane];
        let facts = &self.facts;
        let trials = trials.iter_mut();
        let fates: smallvec::SmallVec<[Fate; 2]> = if let Some(known) = &entry.known {
            trials.map(|trial| trial.judge_known(entry, known, now)).collect()
        } else if let Some(request) = self.head.view(entry) {
            if let Some(exceeding) = exceeding {
                match exceeding.needed(&request, entry, facts, now) {
                    Needed::All => trials.for_each(|trial| {
                        trial.judge(&request, entry, facts, now);
                    }),
                    Needed::Some(route, foreseen) => {
                        for (window, trial) in trials.enumerate() {
                            trial.judge_exceeding(&request, route, entry, now, &foreseen, window);
                        }
                    }
                }
                return;
            }
            trials.map(|trial| trial.judge(&request, entry, facts, now)).collect()
        } else {
            self.facts.malformed += u64::from(is_first);
            return;
        };
        if let ([new, old], true) = (&*fates, is_first) {
            let client = self.lanes[lane].trials[0].counts.latest;
            self.comparison.add(*new, *old, client, now);
        }
    }

    fn finish(mut self) -> Found {
        for lane in 0..self.lanes.len() {
            while let Some((at_us, entry)) = self.timeline.next_of_rest(lane) {
                self.judge(lane, at_us, &entry);
            }
        }
        self.facts.late = self.timeline.late();
        self.facts.has_whole_seconds = self.timeline.has_whole_seconds;
        Found { facts: self.facts, lanes: self.lanes, comparison: self.comparison }
    }
}
