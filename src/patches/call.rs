//! A change that an operator asks for, on its way to the task that makes it.

use serde_json::Value;
use tokio::sync::oneshot;

use super::resolved::tag;
use super::{Definition, Mistake, NewCandidate, NewMode, NewPatch};

/// A change, and where the result goes.
#[derive(Debug)]
pub struct PatchCall {
    /// The policy, or the access list.
    pub policy: String,
    /// What is to be done.
    pub requested: Requested,
    /// The states in which it may be done.
    pub if_match: IfMatch,
    /// The credential that asks.
    pub actor: String,
    /// The result.
    pub reply: oneshot::Sender<Result<Done, Rejected>>,
}

/// What is to be done with a policy or an access list.
#[derive(Clone, Debug)]
pub enum Requested {
    /// Change some of its values.
    Patch(NewPatch),
    /// End its patch.
    RemovePatch,
    /// Judge a candidate beside it.
    Candidate(NewCandidate),
    /// End its candidate.
    RemoveCandidate,
    /// Give the access list another mode, or the one of the file.
    Mode(NewMode),
}

/// The states of a policy in which a change may be made (RFC 9110, section 13.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// In every state.
    Any,
    /// In a state with one of these entity tags.
    Tags(Vec<String>),
}

/// The change is made, and in force on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The patch or the candidate before.
    pub before: Value,
    /// The same afterwards.
    pub after: Value,
}

/// Why a change is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// There is no such policy.
    UnknownPolicy,
    /// There is no such access list.
    UnknownList,
    /// There is no patch or candidate that could be removed.
    Nothing,
    /// The policy has been changed in the meantime.
    Stale,
    /// The values have mistakes.
    Invalid(Vec<Mistake>),
    /// There is no room for it.
    Full(String),
    /// The store does not answer, so nothing is changed.
    Away(String),
    /// The store has not answered to this change, which may have been made.
    Unanswered(String, Box<Done>),
}

impl Rejected {
    /// Why this change, which was sent to the store, is not known to be made.
    pub fn of_sent(self, change: &Done) -> Self {
        match self {
            Self::Away(why) => Self::Unanswered(why, Box::new(change.clone())),
            other => other,
        }
    }
}

impl IfMatch {
    /// The value of the field `If-Match`. A weak tag matches nothing.
    pub fn parse(text: &str) -> Self {
        if text.trim() == "*" {
            return Self::Any;
        }
        let tag = |part: &str| Some(part.trim().strip_prefix('"')?.strip_suffix('"')?.to_owned());
        Self::Tags(text.split(',').filter_map(tag).collect())
    }

    /// Whether it admits the state with this tag.
    pub fn names(&self, tag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|it| it == tag),
        }
    }

    /// Whether the change may be made if the entry of the policy has this version.
    pub fn admits(&self, definition: &Definition, version: Option<&str>) -> bool {
        self.admits_digest(&definition.digest, version)
    }

    /// The same for a definition with this digest.
    pub fn admits_digest(&self, digest: &str, version: Option<&str>) -> bool {
        self.names(&tag(digest, version))
    }
}
