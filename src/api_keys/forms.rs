//! What calls read and write, in the words of the key file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use tollgate_core::api_keys::{KeyRecord, KeyState, TeamRecord};
use tollgate_core::store::keys::{StoredRecord, Version, Written};
use tollgate_core::time::Timestamp;

use super::date;

/// What is said of a key that is made or imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KeyFields {
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The team that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Its plan. Without one, it has that of its team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The date from which on it is not accepted, such as `2027-06-30`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Whether it is switched off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Its limits by policy, such as `500/minute` or `2.50 usd/day`; at most 16.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// Its labels, at most 8.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A new key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "NewKey")]
pub struct NewKeyForm {
    /// What is said of it.
    #[serde(flatten)]
    pub fields: KeyFields,
    /// Whether the store may have no keys yet. Without it, a store without any sign of keys is
    /// taken for one that was emptied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
}

/// A change of a field: absent, `null` to remove it, or another value.
pub type Patched<T> = Option<Option<T>>;

/// A change of a key. Absent fields stay; `null` removes a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyPatch {
    /// What people call it.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub name: Patched<String>,
    /// The team that it belongs to.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub team: Patched<String>,
    /// Its plan.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub plan: Patched<String>,
    /// The date from which on it is not accepted.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub expires: Patched<String>,
    /// Whether it is switched off.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<bool>")]
    pub disabled: Patched<bool>,
    /// Its limits by policy: all of them, and not a change of some.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub limits: Patched<BTreeMap<String, String>>,
    /// Its labels: all of them.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub labels: Patched<BTreeMap<String, String>>,
}

/// A field that is written, also if it is `null`.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Patched<T>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// A new secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rotation {
    /// How long the old secret is accepted beside the new one: 0s to 30d.
    #[schemars(extend("default" = "1d"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
}

/// The text of a key that was found somewhere.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "KeyToFind")]
pub struct Unique {
    /// The whole text. It is not logged.
    pub key: String,
}

/// What the key is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "KeyState")]
pub enum StateWord {
    /// Requests with it pass.
    Active,
    /// Its time is over.
    Expired,
    /// It is switched off.
    Disabled,
    /// It is withdrawn for ever.
    Revoked,
}

impl From<KeyState> for StateWord {
    fn from(state: KeyState) -> Self {
        match state {
            KeyState::Active => Self::Active,
            KeyState::Expired => Self::Expired,
            KeyState::Disabled => Self::Disabled,
            KeyState::Revoked => Self::Revoked,
        }
    }
}

/// A secret of a key, which is not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "KeySecret")]
pub struct ShownSecret {
    /// From when on it is not accepted (RFC 3339). Null: it stays.
    pub until: Option<String>,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ApiKey")]
pub struct ShownKey {
    /// Its id. Logs name the key by it.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// The team that it belongs to.
    pub team: Option<String>,
    /// Its own plan.
    pub plan: Option<String>,
    /// What it is at the moment.
    pub state: StateWord,
    /// The date from which on it is not accepted.
    pub expires: Option<String>,
    /// Whether it is switched off.
    pub disabled: bool,
    /// When it was revoked (RFC 3339).
    pub revoked: Option<String>,
    /// Its limits by policy.
    pub limits: BTreeMap<String, String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its secrets, one or two.
    pub secrets: Vec<ShownSecret>,
    /// When it was last used, at most ten minutes late (RFC 3339).
    pub last_used: Option<String>,
}

/// A key with its text, which no other call shows.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CreatedKey {
    /// The whole text. It is shown only now.
    pub key: String,
    /// What does not hold yet: the other nodes could not be told, and find the change later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The key.
    #[serde(flatten)]
    pub shown: ShownKey,
}

/// The key that a text belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FoundKey {
    /// Its id.
    pub id: String,
    /// Its team.
    pub team: Option<String>,
    /// What it is at the moment.
    pub state: StateWord,
}

/// What a team is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "NewTeam")]
pub struct TeamForm {
    /// The plan of its keys that have none of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The limits of its keys by policy.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// The labels of its keys.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Team")]
pub struct ShownTeam {
    /// Its name.
    pub name: String,
    /// The plan of its keys that have none of their own.
    pub plan: Option<String>,
    /// The limits of its keys by policy.
    pub limits: BTreeMap<String, String>,
    /// The labels of its keys.
    pub labels: BTreeMap<String, String>,
}

impl CreatedKey {
    /// A key that is written, and the version of its record. Its text is shown also if the other
    /// nodes could not be told: it would be lost.
    pub fn of(key: String, shown: ShownKey, written: Written) -> (Self, Version) {
        let warning = written.warning();
        (Self { key, warning, shown }, written.version)
    }
}

impl ShownKey {
    /// The record at `now`.
    pub fn of(key: &KeyRecord, stored: Option<&StoredRecord>, now: Timestamp) -> Self {
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
        let is_over = |until: Option<Timestamp>| until.is_some_and(|until| until <= now);
        let secrets = key.digests.iter().filter(|held| !is_over(held.until));
        Self {
            id: key.id.to_string(),
            name: text(&key.name),
            team: text(&key.team),
            plan: text(&key.plan),
            state: key.state(now).into(),
            expires: key.expires.map(date),
            disabled: key.disabled,
            revoked: key.revoked.map(|it| it.to_string()),
            limits: key
                .limits
                .iter()
                .map(|(it, limit)| (it.to_string(), limit.to_string()))
                .collect(),
            labels: key
                .labels
                .iter()
                .map(|(it, value)| (it.to_string(), value.to_string()))
                .collect(),
            secrets: secrets
                .map(|held| ShownSecret { until: held.until.map(|it| it.to_string()) })
                .collect(),
            last_used: stored.and_then(|it| it.used).map(|it| it.to_string()),
        }
    }
}

impl From<&TeamRecord> for ShownTeam {
    fn from(team: &TeamRecord) -> Self {
        Self {
            name: team.name.to_string(),
            plan: team.plan.as_deref().map(str::to_owned),
            limits: team
                .limits
                .iter()
                .map(|(it, limit)| (it.to_string(), limit.to_string()))
                .collect(),
            labels: team
                .labels
                .iter()
                .map(|(it, value)| (it.to_string(), value.to_string()))
                .collect(),
        }
    }
}
