//! The form in which a store keeps a record: JSON, at most 2 KiB.
//!
//! Nodes of different versions read the same records, so a field may be added and none may change.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{HeldDigest, KeyLimit, KeyRecord, MAX_STORED, Override, RecordFault, TeamRecord};
use crate::time::{Span, Timestamp};

/// The error of bytes that are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stored record is not in the form of this version")]
pub struct StoredError;

#[derive(Serialize, Deserialize)]
struct StoredKey {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    team: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_us: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    disabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_us: Option<u64>,
    digests: Vec<StoredDigest>,
    #[serde(flatten)]
    bounds: StoredBounds,
}

#[derive(Serialize, Deserialize)]
struct StoredDigest {
    sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until_us: Option<u64>,
}

/// What a key and a team have alike.
#[derive(Serialize, Deserialize)]
struct StoredBounds {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<Box<str>, StoredLimit>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Serialize, Deserialize)]
struct StoredTeam {
    name: Box<str>,
    #[serde(flatten)]
    bounds: StoredBounds,
}

/// Without units and money, there is no limit. An amount of money is kept as a text: its units depend
/// on the prices of its policy.
#[derive(Serialize, Deserialize)]
struct StoredLimit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    units: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    money: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window_us: Option<u64>,
}

impl KeyRecord {
    /// The record in its stored form.
    ///
    /// # Errors
    /// If it has more than [`MAX_STORED`] bytes.
    pub fn to_stored(&self) -> Result<Vec<u8>, RecordFault> {
        let digest = |held: &HeldDigest| StoredDigest {
            sha256: held.digest.to_string(),
            until_us: held.until.map(Timestamp::as_micros),
        };
        written(&StoredKey {
            id: self.id.to_string(),
            name: self.name.as_deref().map(Box::from),
            team: self.team.as_deref().map(Box::from),
            expires_us: self.expires.map(Timestamp::as_micros),
            disabled: self.disabled,
            revoked_us: self.revoked.map(Timestamp::as_micros),
            digests: self.digests.iter().map(digest).collect(),
            bounds: StoredBounds::of(self.plan.as_deref(), &self.limits, &self.labels),
        })
    }

    /// The record that is stored as `bytes`.
    ///
    /// # Errors
    /// If they are not one.
    pub fn from_stored(bytes: &[u8]) -> Result<Self, StoredError> {
        let stored: StoredKey = serde_json::from_slice(bytes).map_err(|_| StoredError)?;
        let digest = |held: StoredDigest| -> Result<HeldDigest, StoredError> {
            let digest = held.sha256.parse().map_err(|_| StoredError)?;
            Ok(HeldDigest { digest, until: held.until_us.map(Timestamp::from_micros) })
        };
        let digests = stored.digests.into_iter().map(digest).collect::<Result<_, _>>()?;
        let limits = stored.bounds.limits()?;
        let plan = stored.bounds.plan.as_deref().map(Arc::from);
        let labels = stored.bounds.labels();
        Ok(Self {
            id: stored.id.parse().map_err(|_| StoredError)?,
            name: stored.name.map(Arc::from),
            team: stored.team.map(Arc::from),
            plan,
            limits,
            labels,
            expires: stored.expires_us.map(Timestamp::from_micros),
            disabled: stored.disabled,
            revoked: stored.revoked_us.map(Timestamp::from_micros),
            digests,
        })
    }
}

impl TeamRecord {
    /// The record in its stored form.
    ///
    /// # Errors
    /// If it has more than [`MAX_STORED`] bytes.
    pub fn to_stored(&self) -> Result<Vec<u8>, RecordFault> {
        let bounds = StoredBounds::of(self.plan.as_deref(), &self.limits, &self.labels);
        written(&StoredTeam { name: Box::from(&*self.name), bounds })
    }

    /// The record that is stored as `bytes`.
    ///
    /// # Errors
    /// If they are not one.
    pub fn from_stored(bytes: &[u8]) -> Result<Self, StoredError> {
        let stored: StoredTeam = serde_json::from_slice(bytes).map_err(|_| StoredError)?;
        let limits = stored.bounds.limits()?;
        let plan = stored.bounds.plan.as_deref().map(Arc::from);
        let labels = stored.bounds.labels();
        Ok(Self { name: stored.name.into(), plan, limits, labels })
    }
}

impl StoredBounds {
    fn of(
        plan: Option<&str>,
        limits: &[(Arc<str>, KeyLimit)],
        labels: &[(Arc<str>, Arc<str>)],
    ) -> Self {
        let limit = |(policy, limit): &(Arc<str>, KeyLimit)| {
            (Box::from(&**policy), StoredLimit::of(*limit))
        };
        let label =
            |(name, value): &(Arc<str>, Arc<str>)| (Box::from(&**name), Box::from(&**value));
        let limits = limits.iter().map(limit).collect();
        Self { plan: plan.map(Box::from), limits, labels: labels.iter().map(label).collect() }
    }

    fn limits(&self) -> Result<Vec<(Arc<str>, KeyLimit)>, StoredError> {
        let mut limits = Vec::with_capacity(self.limits.len());
        for (policy, limit) in &self.limits {
            limits.push((Arc::from(&**policy), limit.limit()?));
        }
        Ok(limits)
    }

    fn labels(self) -> Vec<(Arc<str>, Arc<str>)> {
        self.labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }
}

impl StoredLimit {
    fn of(limit: KeyLimit) -> Self {
        let window = |window: Option<Span>| window.map(Span::as_micros);
        let none = Self { units: None, money: None, window_us: None };
        match limit {
            KeyLimit::Units(Override::Unlimited) => none,
            KeyLimit::Units(Override::Limited { units, window: of }) => {
                Self { units: Some(units), window_us: window(of), ..none }
            }
            KeyLimit::Money { amount, window: of } => {
                let money = Some(amount.to_string().into_boxed_str());
                Self { money, window_us: window(of), ..none }
            }
        }
    }

    fn limit(&self) -> Result<KeyLimit, StoredError> {
        let window = self.window_us.map(Span::from_micros);
        match (&self.money, self.units) {
            (None, None) => Ok(Override::Unlimited.into()),
            (None, Some(units)) => Ok(Override::Limited { units, window }.into()),
            (Some(money), None) => {
                let amount = money.parse().map_err(|_| StoredError)?;
                Ok(KeyLimit::Money { amount, window })
            }
            (Some(_), Some(_)) => Err(StoredError),
        }
    }
}

/// `record` in its stored form, if that is short enough.
fn written(record: &impl Serialize) -> Result<Vec<u8>, RecordFault> {
    let bytes = serde_json::to_vec(record).expect("texts and numbers can be written");
    if bytes.len() <= MAX_STORED {
        return Ok(bytes);
    }
    Err(RecordFault {
        field: "record",
        entry: None,
        message: format!("the record has {} bytes; it may have {MAX_STORED}", bytes.len()),
        advice: "use fewer limits, or shorter labels",
    })
}
