//! What callers read.

use std::borrow::Borrow;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use serde::Serialize;
use tollgate_core::algorithm::{Retry, Verdict};
use tollgate_core::decision::{Outcome, Report, Ruling, Uncountable};
use tollgate_core::policy::{AuthFault, Policy};
use tollgate_core::store::Source;
use tollgate_core::time::Span;

use super::problem::ProblemDocument;
use crate::telemetry::source_word;

/// The wait of a question that cannot be decided now.
const UNAVAILABLE_MS: u64 = 1000;

/// The answer to a call.
#[derive(Debug)]
pub struct Answered {
    pub response: Response<Bytes>,
    /// Whether the same call again has the same answer, if it is kept for that.
    pub is_final: bool,
}

/// The answer to one question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reply {
    pub admitted: bool,
    /// Why: `admitted`, `refused`, `unavailable`, `key_missing`, `token_invalid`, or why an API key
    /// is not accepted.
    pub outcome: &'static str,
    /// The policy whose numbers follow.
    pub policy: Option<String>,
    pub limit: Option<u64>,
    pub remaining: Option<u64>,
    /// Null: not refused, or never admitted.
    pub retry_after_ms: Option<u64>,
    pub reset_after_ms: Option<u64>,
    pub delay_ms: u64,
    pub source: Option<&'static str>,
    pub policies: Vec<PolicyReply>,
    /// The id of the API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// What one policy says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyReply {
    pub name: String,
    pub ruling: &'static str,
}

/// Several answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replies<T> {
    pub answers: Vec<T>,
}

/// The answer to one call with a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum LeaseReply {
    /// It is done.
    Done(LeaseDone),
    /// It is not done. Only in a list: otherwise it is the whole answer.
    Failed(ProblemDocument),
}

/// What was done with a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeaseDone {
    /// What the request has cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<u64>,
    /// The lease that replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// The word for an outcome, and whether the request may pass.
pub const fn outcome_word<P>(outcome: &Outcome<P>) -> &'static str {
    match outcome {
        Outcome::Admit => "admitted",
        Outcome::Refuse(_) => "refused",
        Outcome::Unavailable(_) | Outcome::Unverifiable(..) => "unavailable",
        Outcome::Deny(_) | Outcome::Ambiguous(_) => "key_missing",
        Outcome::Uncountable(_, Uncountable::Model) => "model_unpriced",
        Outcome::Uncountable(_, Uncountable::KeyLimit) => "key_limit_unfit",
        Outcome::Unauthorized(..) => "token_invalid",
        Outcome::Denied(_) => "denied",
        Outcome::Unauthenticated(refusal) => refusal.fault.word(),
    }
}

impl Reply {
    /// The answer by the outcome of all policies and by the reports of this question. The name
    /// of each policy is that of `name`.
    pub fn new<P: Borrow<Arc<Policy>>>(
        outcome: &Outcome<P>,
        delay: Span,
        is_peek: bool,
        reports: &[&Report<P>],
        name: impl Fn(&Policy) -> String,
    ) -> Self {
        let policies = reports.iter().map(|report| {
            let name = name(report.policy.borrow());
            let ruling = report.outcome();
            PolicyReply { name, ruling }
        });
        let binding = binding(reports);
        let verdict = binding.map(|report| &report.verdict);
        let is_admitted = matches!(outcome, Outcome::Admit);
        let wait = match outcome {
            Outcome::Admit => None,
            Outcome::Refuse(retry) => wait_ms(*retry),
            Outcome::Unavailable(_) | Outcome::Unverifiable(..) => Some(UNAVAILABLE_MS),
            Outcome::Deny(_)
            | Outcome::Uncountable(..)
            | Outcome::Ambiguous(_)
            | Outcome::Unauthorized(..)
            | Outcome::Denied(_) => None,
            Outcome::Unauthenticated(refusal) => match refusal.fault {
                AuthFault::KeysAway => Some(UNAVAILABLE_MS),
                AuthFault::TooManyFailures(wait) => Some(wait.as_millis_ceil()),
                _ => None,
            },
        };
        Self {
            admitted: is_admitted,
            outcome: outcome_word(outcome),
            policy: binding.map(|report| name(report.policy.borrow())),
            limit: verdict.map(|it| it.limit),
            remaining: binding.map(|report| remaining(report, is_peek)),
            retry_after_ms: wait,
            reset_after_ms: verdict.map(|it| it.reset_after.as_millis_ceil()),
            delay_ms: if is_admitted { delay.as_millis_ceil() } else { 0 },
            source: binding.map(|report| source_word(report.source)),
            policies: policies.collect(),
            key_id: None,
            lease: None,
            expires_in_ms: None,
        }
    }
}

/// The units that are left. A decision that counts nothing leaves what it would have charged.
fn remaining<P>(report: &Report<P>, is_peek: bool) -> u64 {
    let Verdict { remaining, limit, .. } = report.verdict;
    match report.ruling {
        Ruling::Admitted if is_peek => {
            remaining.saturating_add(report.cost).min(limit.max(remaining))
        }
        _ => remaining,
    }
}

const fn wait_ms(retry: Retry) -> Option<u64> {
    match retry {
        Retry::Now => Some(0),
        Retry::After(wait) => Some(wait.as_millis_ceil()),
        Retry::Never => None,
    }
}

/// The report whose numbers the answer has: the one with the longest wait of those that refuse,
/// otherwise the one with room for the fewest further requests.
fn binding<'a, P: Borrow<Arc<Policy>>>(reports: &[&'a Report<P>]) -> Option<&'a Report<P>> {
    let told = || {
        let is_told = |it: &&&'a Report<P>| matches!(it.source, Source::Store | Source::Local);
        reports.iter().filter(is_told).copied()
    };
    let enforced = || {
        let mode = |it: &&'a Report<P>| {
            let policy: &Arc<Policy> = it.policy.borrow();
            policy.mode == tollgate_core::policy::Mode::Enforce
        };
        told().filter(mode)
    };
    let refusing = enforced().filter(|it| it.refuses()).max_by_key(|it| it.verdict.retry);
    refusing.or_else(|| enforced().min_by_key(|it| it.verdict.remaining / it.cost.max(1)))
}
