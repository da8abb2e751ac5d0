//! What is kept of a key and of a team.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{KeyDigest, KeyId, KeyLimit};
use crate::time::Timestamp;

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its id.
    pub id: KeyId,
    /// What people call it.
    pub name: Option<Arc<str>>,
    /// The team that it belongs to.
    pub team: Option<Arc<str>>,
    /// The plan that it has. Without one, it has that of its team.
    pub plan: Option<Arc<str>>,
    /// Its limits by the name of the policy, at most [`MAX_LIMITS`](super::MAX_LIMITS).
    pub limits: Vec<(Arc<str>, KeyLimit)>,
    /// Its labels, at most [`MAX_LABELS`](super::MAX_LABELS).
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// From when on it is not accepted any more.
    pub expires: Option<Timestamp>,
    /// Whether it is switched off.
    pub disabled: bool,
    /// Since when it is withdrawn.
    pub revoked: Option<Timestamp>,
    /// The digests of its secrets, one or two.
    pub digests: SmallVec<[HeldDigest; 1]>,
}

/// The digest of one secret of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldDigest {
    /// The digest.
    pub digest: KeyDigest,
    /// From when on it is not accepted any more, if another one takes its place.
    pub until: Option<Timestamp>,
}

/// What is kept of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamRecord {
    /// Its name.
    pub name: Arc<str>,
    /// The plan of its keys that have none of their own.
    pub plan: Option<Arc<str>>,
    /// The limits of its keys by the name of the policy.
    pub limits: Vec<(Arc<str>, KeyLimit)>,
    /// The labels of its keys that do not have them themselves.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
}

impl KeyRecord {
    /// A key that is active from now on, without any bounds of its own.
    pub fn new(id: KeyId, digest: KeyDigest) -> Self {
        Self {
            id,
            name: None,
            team: None,
            plan: None,
            limits: Vec::new(),
            labels: Vec::new(),
            expires: None,
            disabled: false,
            revoked: None,
            digests: SmallVec::from_buf([HeldDigest { digest, until: None }]),
        }
    }

    /// Its limit for this policy.
    pub fn limit(&self, policy: &str) -> Option<KeyLimit> {
        of(&self.limits, policy).copied()
    }

    /// The value of this label.
    pub fn label(&self, name: &str) -> Option<&str> {
        of(&self.labels, name).map(|value| &**value)
    }
}

impl TeamRecord {
    /// A team without a plan, limits and labels.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), plan: None, limits: Vec::new(), labels: Vec::new() }
    }

    /// The limit of its keys for this policy.
    pub fn limit(&self, policy: &str) -> Option<KeyLimit> {
        of(&self.limits, policy).copied()
    }

    /// The value of this label.
    pub fn label(&self, name: &str) -> Option<&str> {
        of(&self.labels, name).map(|value| &**value)
    }
}

/// The value under `name`.
fn of<'l, T>(list: &'l [(Arc<str>, T)], name: &str) -> Option<&'l T> {
    list.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
}
