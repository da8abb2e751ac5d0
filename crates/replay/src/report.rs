//! The result of a replay, in the form that is written as JSON.

use serde::Serialize;
use tollgate_core::policy::{Mode, Policy};
use tollgate_core::time::Timestamp;

use super::compare::Comparison;
use super::facts::Facts;
use super::rate::limit_of;
use super::refused::{Clients, RefusedClient, tells_clients_apart};
use super::series::Series;
use super::source::Input;
use super::suggest::Suggestions;
use super::tally::Tally;
use super::trial::{Totals, Trial, is_short};

/// The most clients that are listed of a policy.
pub(super) const MAX_LISTED: usize = 20;

/// The result of a replay. Times are RFC 3339 in UTC.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What the replay cannot know, to be read first.
    pub notes: Vec<String>,
    /// The name of the configuration.
    pub(super) config: String,
    pub(super) log: LogReport,
    pub(super) totals: TotalsReport,
    pub(super) policies: Vec<PolicyReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against: Option<AgainstReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) suggestions: Option<Suggestions>,
    /// Whether more than one line in a hundred could not be read.
    #[serde(skip)]
    pub is_mostly_unread: bool,
    /// Whether no policy has judged any request.
    #[serde(skip)]
    pub is_unjudged: bool,
}

/// What was read.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LogReport {
    pub(super) files: Vec<String>,
    pub(super) format: &'static str,
    /// What was around the lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inside: Option<String>,
    pub(super) lines: u64,
    pub(super) requests: u64,
    pub(super) no_request: u64,
    pub(super) unread: u64,
    pub(super) dropped: u64,
    pub(super) late: u64,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

/// What all policies together have said.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TotalsReport {
    pub(super) judged: u64,
    pub(super) refused: u64,
    /// The fewest and the most refusals, if the log notes whole seconds and a window is
    /// shorter than 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused_range: Option<[u64; 2]>,
    pub(super) held: u64,
    pub(super) longest_hold_ms: u64,
    pub(super) no_route: u64,
    /// Requests that an access list denies.
    pub(super) denied: u64,
    pub(super) malformed: u64,
    /// Decisions that are those of the log, if it has keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repeated: Option<u64>,
    /// Decisions with another result or another remainder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) different: Option<u64>,
    pub(super) over_time: Series,
}

/// What one policy has said.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PolicyReport {
    pub(super) name: String,
    pub(super) limit: String,
    pub(super) shadow: bool,
    pub(super) judged: u64,
    pub(super) refused: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused_range: Option<[u64; 2]>,
    pub(super) banned: u64,
    pub(super) soft: u64,
    pub(super) lacking_key: u64,
    pub(super) never_fits: u64,
    pub(super) keys_hit: u64,
    pub(super) keys_hit_is_estimate: bool,
    pub(super) longest_wait_ms: u64,
    pub(super) worst_minute: Option<MinuteReport>,
    /// The clients with the most refusals.
    pub(super) refused_clients: Vec<ClientReport>,
    /// Whether their numbers can be too low.
    pub(super) refused_clients_are_least: bool,
    pub(super) over_time: Series,
    /// Whether its keys are those of clients.
    #[serde(skip)]
    pub(super) tells_clients_apart: bool,
}

/// What was refused to one client.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ClientReport {
    /// Its address, or its id in a log with keys.
    pub(super) client: String,
    pub(super) refused: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) judged: Option<u64>,
    pub(super) longest_wait_ms: u64,
    /// When the first and the last request was refused, in seconds since the epoch.
    pub(super) first_s: u64,
    pub(super) last_s: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct MinuteReport {
    pub(super) at: String,
    pub(super) refused: u64,
    #[serde(skip)]
    pub(super) at_s: u64,
}

/// The difference to another configuration.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AgainstReport {
    /// The name of the other configuration.
    pub(super) config: String,
    /// Refused by all policies of the other configuration together.
    pub(super) refused_before: u64,
    /// Refused by all policies of the configuration together.
    pub(super) refused_after: u64,
    pub(super) newly_refused: u64,
    pub(super) clients_newly_refused: u64,
    /// The clients with the most requests that are newly refused.
    pub(super) newly_refused_clients: Vec<ClientReport>,
    #[serde(skip)]
    pub(super) clients_are_least: bool,
    pub(super) newly_admitted: u64,
    pub(super) clients_newly_admitted: u64,
    pub(super) policies: Vec<Difference>,
}

/// The refusals of one policy under both configurations; none where it does not exist.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Difference {
    pub(super) name: String,
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
    pub(super) limit_before: Option<String>,
    pub(super) limit_after: Option<String>,
    pub(super) keys_hit_before: Option<u64>,
    pub(super) keys_hit_after: Option<u64>,
}

impl LogReport {
    pub(super) fn of(facts: &Facts, inputs: &[Input]) -> Self {
        let text = |us: u64| Timestamp::from_micros(us).to_string();
        Self {
            files: inputs.iter().map(Input::to_string).collect(),
            format: facts.format,
            inside: facts.inside.clone(),
            lines: facts.lines,
            requests: facts.requests,
            no_request: facts.no_request,
            unread: facts.unread,
            dropped: facts.dropped,
            late: facts.late,
            from: facts.first_us.map(text),
            to: facts.first_us.map(|_| text(facts.last_us)),
        }
    }

    /// The format, and what was around the lines: `combined`, or `combined in docker`.
    pub(super) fn form(&self) -> String {
        let inside = self.inside.iter().map(|inside| format!(" in {inside}"));
        std::iter::once(self.format.to_owned()).chain(inside).collect()
    }
}

impl TotalsReport {
    /// The totals of a trial; of `other`, the trial with the other placement, the range.
    pub(super) fn of(facts: &Facts, trial: &Trial, other: Option<&Trial>) -> Self {
        let Totals { judged, refused, held, longest_hold, no_route, denied, ambiguous, .. } =
            &trial.counts.totals;
        let Totals { repeated, different, series, .. } = &trial.counts.totals;
        let of_known = |count: u64| (facts.with_keys > 0).then_some(count);
        Self {
            judged: *judged,
            refused: *refused,
            refused_range: other.map(|other| range(*refused, other.counts.totals.refused)),
            held: *held,
            longest_hold_ms: longest_hold.as_millis_ceil(),
            no_route: *no_route,
            denied: *denied,
            malformed: facts.malformed + ambiguous,
            repeated: of_known(*repeated),
            different: of_known(*different),
            over_time: series.clone(),
        }
    }
}

impl PolicyReport {
    /// All policies of a trial.
    pub(super) fn all(trial: &Trial, other: Option<&Trial>) -> Vec<Self> {
        let policies = trial.policies().iter().zip(&trial.counts.tallies).enumerate();
        policies
            .map(|(index, (policy, tally))| {
                let other = other.filter(|_| is_short(policy));
                let clients = trial.counts.clients.as_ref().map(|clients| (clients, index));
                Self::of(policy, tally, clients, other.map(|other| &other.counts.tallies[index]))
            })
            .collect()
    }

    fn of(
        policy: &Policy,
        tally: &Tally,
        clients: Option<(&Clients, usize)>,
        other: Option<&Tally>,
    ) -> Self {
        let top = clients.map(|(clients, index)| clients.top(index, MAX_LISTED));
        let (top, refused_clients_are_least) = top.unwrap_or_default();
        let worst = (tally.worst.refused > 0).then(|| MinuteReport {
            at: Timestamp::from_micros(tally.worst.number * 60_000_000).to_string(),
            refused: tally.worst.refused,
            at_s: tally.worst.number * 60,
        });
        Self {
            name: policy.name.to_string(),
            limit: limit_of(policy),
            shadow: policy.mode == Mode::Shadow,
            judged: tally.judged + tally.lacking,
            refused: tally.refused + tally.lacking,
            refused_range: other
                .map(|it| range(tally.refused + tally.lacking, it.refused + it.lacking)),
            banned: tally.banned,
            soft: tally.soft,
            lacking_key: tally.lacking,
            never_fits: tally.never,
            keys_hit: tally.keys_hit.count(),
            keys_hit_is_estimate: tally.keys_hit.is_estimate(),
            longest_wait_ms: tally.longest_wait.as_millis_ceil(),
            worst_minute: worst,
            refused_clients: top.iter().map(ClientReport::of).collect(),
            refused_clients_are_least,
            over_time: tally.series.clone(),
            tells_clients_apart: tells_clients_apart(&policy.key),
        }
    }
}

impl AgainstReport {
    pub(super) fn of(comparison: &Comparison, new: &Trial, old: &Trial, config: &str) -> Self {
        let found = |trial: &Trial, name: &str| {
            let index = trial.policies().iter().position(|policy| &*policy.name == name)?;
            let tally = trial.counts.tallies.get(index)?;
            let refused = tally.refused + tally.lacking;
            Some((refused, limit_of(&trial.policies()[index]), tally.keys_hit.count()))
        };
        let mut names: Vec<&str> = new.policies().iter().map(|policy| &*policy.name).collect();
        for policy in old.policies() {
            if !names.contains(&&*policy.name) {
                names.push(&policy.name);
            }
        }
        let difference = |name: &&str| {
            let old = found(old, name);
            let new = found(new, name);
            Difference {
                name: (*name).to_owned(),
                before: old.as_ref().map(|(refused, ..)| *refused),
                after: new.as_ref().map(|(refused, ..)| *refused),
                keys_hit_before: old.as_ref().map(|(.., keys)| *keys),
                keys_hit_after: new.as_ref().map(|(.., keys)| *keys),
                limit_before: old.map(|(_, limit, _)| limit),
                limit_after: new.map(|(_, limit, _)| limit),
            }
        };
        let lost = comparison.lost.top(MAX_LISTED);
        Self {
            config: config.to_owned(),
            refused_before: old.counts.totals.refused,
            refused_after: new.counts.totals.refused,
            newly_refused: comparison.newly_refused,
            clients_newly_refused: comparison.clients_lost.count(),
            newly_refused_clients: lost.iter().map(|(_, it)| ClientReport::of(it)).collect(),
            clients_are_least: comparison.lost.is_least(),
            newly_admitted: comparison.newly_admitted,
            clients_newly_admitted: comparison.clients_gained.count(),
            policies: names.iter().map(difference).collect(),
        }
    }
}

impl ClientReport {
    fn of(client: &RefusedClient) -> Self {
        Self {
            client: client.name.to_string(),
            refused: client.refused,
            judged: client.judged,
            longest_wait_ms: client.longest_wait.as_millis_ceil(),
            first_s: client.first.as_secs(),
            last_s: client.last.as_secs(),
        }
    }
}

fn range(one: u64, other: u64) -> [u64; 2] {
    [one.min(other), one.max(other)]
}
