//! What our own log says of a decision, kept until the turn of its request comes.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::digest::{Principal, PrincipalId};
use tollgate_core::time::{Span, Timestamp};

use super::line::{Known, KnownKey};
use super::wanted::Wanted;

/// What our own log says of a decision: what it depends on, and its result.
#[derive(Debug)]
pub(super) struct KnownEntry {
    /// Whose counters were charged how much. Policies that do not exist now are left out.
    pub(super) keys: SmallVec<[EntryKey; 2]>,
    /// When the cost was settled.
    pub(super) settled: Option<Timestamp>,
    /// The result of the decision.
    pub(super) result: LoggedResult,
    /// What remained to the policy whose numbers the client was told.
    pub(super) remaining: Option<u64>,
}

/// What one policy has charged.
#[derive(Debug)]
pub(super) struct EntryKey {
    pub(super) policy: Arc<str>,
    /// The id of the log, and what stands in for the client in its place.
    pub(super) id: PrincipalId,
    pub(super) client: Principal,
    pub(super) cost: u64,
    pub(super) plan: Option<Box<str>>,
    /// The limit of this client alone, and its window.
    pub(super) own_limit: Option<(u64, Option<Span>)>,
    pub(super) settled: Option<u64>,
    pub(super) is_elastic: bool,
    pub(super) is_preflight: bool,
}

/// The result of a decision in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoggedResult {
    Admitted,
    Refused,
    /// Refused because a policy demands what the request lacks. What others had charged was given
    /// back.
    Denied,
    /// An access list has denied the request.
    DeniedByList,
    /// The gateway has refused the request for another reason than a policy. If policies were asked
    /// before, they have admitted it.
    NotJudged,
    /// The client has left before the response, and the log does not tell.
    Unknown,
}

impl KnownEntry {
    /// The decision of a line.
    pub(super) fn of(known: &Known<'_>, wanted: &Wanted) -> Self {
        Self {
            keys: known.keys.iter().filter_map(|key| EntryKey::of(key, wanted)).collect(),
            settled: known.settled_us.map(Timestamp::from_micros),
            result: match known.is_denied_by_list {
                true => LoggedResult::DeniedByList,
                false => LoggedResult::of(&known.outcome),
            },
            remaining: known.remaining,
        }
    }
}

impl EntryKey {
    /// None: there is no such policy, or the id is none.
    fn of(key: &KnownKey<'_>, wanted: &Wanted) -> Option<Self> {
        let id: PrincipalId = str::from_utf8(key.id).ok()?.parse().ok()?;
        let plan = key.plan.as_deref().and_then(|plan| str::from_utf8(plan).ok());
        let window = key.window_us.filter(|us| *us > 0).map(Span::from_micros);
        Some(Self {
            policy: Arc::clone(wanted.policy(&key.policy)?),
            id,
            client: id.stand_in(),
            cost: key.cost,
            plan: plan.map(Into::into),
            own_limit: key.limit.map(|limit| (limit, window)),
            settled: key.settled,
            is_elastic: key.is_elastic,
            is_preflight: key.is_preflight,
        })
    }
}

impl LoggedResult {
    /// By the word of the log. Other words are failures after the request was admitted.
    fn of(outcome: &[u8]) -> Self {
        match outcome {
            b"refused" | b"banned" | b"failed_closed" | b"store_away" => Self::Refused,
            // A policy demands what the request lacks. Only policies know the word `token_missing`:
            // on a route that asks for credentials, such a request is `unauthorized`.
            b"denied" | b"unverifiable" | b"key_missing" | b"model_unpriced"
            | b"key_limit_unfit" | b"token_missing" => Self::Denied,
            // The request has no meaning, or no route.
            b"malformed" | b"ambiguous" | b"question" | b"expectation" | b"tunnel" | b"trace"
            | b"no_route" | b"unmatched" => Self::NotJudged,
            // The words of `AuthFault`: the route asks for credentials.
            b"unauthorized" | b"key_unknown" | b"key_expired" | b"key_disabled"
            | b"key_revoked" | b"token_invalid" | b"token_too_long" | b"auth_failures"
            | b"keys_away" | b"password_wrong" | b"passwords_busy" => Self::NotJudged,
            // Its body could not be read before policies were asked.
            b"body_ambiguous" | b"body_coding" | b"body_memory" | b"body_too_large"
            | b"body_timeout" | b"body_broken" => Self::NotJudged,
            b"client_closed" => Self::Unknown,
            _ => Self::Admitted,
        }
    }
}
