//! What a trial has counted: by policy, over time, and by key.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use tollgate_core::decision::{Decision, Outcome};
use tollgate_core::digest::Principal;
use tollgate_core::policy::Policy;
use tollgate_core::time::{Span, Timestamp};

use crate::known_entry::{KnownEntry, LoggedResult};
use crate::peaks::Peaks;
use crate::refused::{ClientName, Clients};
use crate::series::Series;
use crate::tally::Tally;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is admitted.
    Admitted,
    /// It is refused by a policy.
    Refused,
    /// The gateway refuses it before any policy is asked.
    NotJudged,
}

/// What all policies together have said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Requests with a decision.
    pub(crate) judged: u64,
    /// Requests that at least one policy refuses.
    pub(crate) refused: u64,
    /// Requests that are held before they go on.
    pub(crate) held: u64,
    /// The longest time for which one is held.
    pub(crate) longest_hold: Span,
    /// Requests that no route matches.
    pub(crate) no_route: u64,
    /// Requests that an access list denies.
    pub(crate) denied: u64,
    /// Requests that an access list would deny only because the log lacks what it compares.
    pub(crate) unlisted: u64,
    /// Requests with the status 401 on routes that ask for credentials.
    pub(crate) unauthorized: u64,
    /// Requests with more than one meaning.
    pub(crate) ambiguous: u64,
    /// Decisions that are those of the log, if it has keys.
    pub(crate) repeated: u64,
    /// Decisions that are not: another result, or another remainder.
    pub(crate) different: u64,
    /// Limits of single keys in the log that a policy cannot count. Its other limits hold.
    pub(crate) unfit_limits: u64,
    /// Counts over time.
    pub(crate) series: Series,
}

impl Totals {
    pub(super) fn add(&mut self, now: Timestamp, is_refused: bool, delay: Span) {
        self.judged += 1;
        self.refused += u64::from(is_refused);
        self.held += u64::from(!delay.is_zero());
        self.longest_hold = self.longest_hold.max(delay);
        self.series.add(now.as_secs(), is_refused);
    }

    /// Compares a decision with that of the log.
    pub(super) fn compare(&mut self, known: &KnownEntry, fate: Fate, remaining: Option<u64>) {
        let is_same = match known.result {
            LoggedResult::Unknown => return,
            // It was refused for another reason after its policies had admitted it.
            LoggedResult::Admitted | LoggedResult::NotJudged => fate == Fate::Admitted,
            LoggedResult::Refused | LoggedResult::Denied => fate == Fate::Refused,
            LoggedResult::DeniedByList => fate == Fate::NotJudged,
        };
        match is_same && known.remaining.is_none_or(|logged| Some(logged) == remaining) {
            true => self.repeated += 1,
            false => self.different += 1,
        }
    }
}

/// What a trial has counted.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) tallies: Vec<Tally>,
    pub(crate) totals: Totals,
    pub(crate) peaks: Option<Peaks>,
    /// What was said of each client, if it is to be reported.
    pub(crate) clients: Option<Clients>,
    /// The client of the latest decision.
    pub(crate) latest: IpAddr,
    by_name: HashMap<Arc<str>, usize>,
}

impl Counts {
    /// Nothing, for these policies.
    pub(super) fn new(policies: &[Arc<Policy>], peaks: Option<Peaks>) -> Self {
        let names = policies.iter().map(|policy| Arc::clone(&policy.name));
        Self {
            tallies: vec![Tally::default(); policies.len()],
            totals: Totals::default(),
            peaks,
            clients: None,
            latest: Ipv4Addr::UNSPECIFIED.into(),
            by_name: names.zip(0..).collect(),
        }
    }

    /// The index of the policy with this name.
    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Counts a decision. `client` is the address of the client, and `name_of` names the client
    /// of a key.
    pub(super) fn add(
        &mut self,
        decision: &Decision<&Arc<Policy>>,
        client: IpAddr,
        name_of: impl Fn(Principal) -> ClientName,
        now: Timestamp,
    ) -> Fate {
        self.latest = client;
        for report in &decision.reports {
            let Some(index) = self.index_of(&report.policy.name) else { continue };
            let key = digest_of(report.client);
            if let Some(peaks) = &mut self.peaks {
                peaks.add(index, key, report.cost, client, now);
            }
            let wait = self.tallies[index].add(report, now, key);
            if let Some(clients) = &mut self.clients {
                clients.add(index, Some((key, name_of(report.client))), client, now, wait);
            }
        }
        let lacking = match decision.outcome {
            Outcome::Deny(policy)
            | Outcome::Uncountable(policy, _)
            | Outcome::Unverifiable(policy, _)
            | Outcome::Unauthorized(policy, _) => Some(policy),
            Outcome::Ambiguous(_) => {
                self.totals.ambiguous += 1;
                return Fate::NotJudged;
            }
            Outcome::Denied(_) => {
                self.totals.denied += 1;
                return Fate::NotJudged;
            }
            Outcome::Admit
            | Outcome::Refuse(_)
            | Outcome::Unavailable(_)
            | Outcome::Unauthenticated(_) => None,
        };
        for policy in decision.lacking.iter().copied().chain(lacking) {
            if let Some(index) = self.index_of(&policy.name) {
                self.tallies[index].add_lacking(now);
                if let Some(clients) = &mut self.clients {
                    clients.add(index, None, client, now, Some(Span::ZERO));
                }
            }
        }
        let is_refused = !matches!(decision.outcome, Outcome::Admit);
        self.totals.add(now, is_refused, decision.delay);
        if is_refused { Fate::Refused } else { Fate::Admitted }
    }
}

/// Bits of a principal that are as good as random.
pub(crate) fn digest_of(client: Principal) -> u64 {
    u64::try_from(client.bits() & u128::from(u64::MAX)).unwrap_or(u64::MAX)
}
