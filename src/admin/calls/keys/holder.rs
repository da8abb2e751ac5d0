//! The API key, or the team, whose limit holds for a client instead of the limits of its plan and of
//! the policy.
//!
//! A policy can count by something else than API keys. Then the key is in the requests of the client
//! alone, so the caller names it, or it is that of the last request that this node has kept.

use std::sync::Arc;

use tollgate_core::api_keys::{KeyEntry, KeyId, KeyLimit, KeyRecord, Sought, TeamRecord};
use tollgate_core::digest::Principal;
use tollgate_core::policy::{KeyExpr, KeySettings, LimitOwner, OverrideLimit, Policy};
use tollgate_core::store::keys::{KeyStorage, StorageError};

use super::forms::{ApiKey, Unknown};
use crate::admin::call::Call;
use crate::admin::node::{Node, View};
use crate::admin::parameter::{Parameter, Values};
use crate::admin::problem::Problem;
use crate::api_keys::Keys;

/// The API key of the client, if the policy does not count by it.
pub const API_KEY: Parameter = Parameter {
    name: "api_key",
    about: "the id of the API key in the requests of the client, if the policy counts by something \
            else",
    values: Values::Text,
};

/// The API key or the team of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Holder {
    /// No API key can have a limit here.
    Absent,
    /// The requests have this key.
    Key(Arc<KeyEntry>),
    /// The requests have a key of this team, and it is not known which.
    Team(Arc<TeamRecord>),
    /// It is not known which key the requests have.
    Unknown,
    /// The record of the key or of the team cannot be read now.
    Unreadable,
}

/// The keys of the configuration, and those of the store.
struct Records<'n> {
    settings: &'n KeySettings,
    /// None: no key of the store is accepted.
    storage: Option<&'n dyn KeyStorage>,
}

impl Holder {
    /// Whose limit holds for this client of the policy.
    ///
    /// # Errors
    /// If the caller names a key that cannot be that of the client.
    pub async fn of(
        node: &Node,
        view: &View,
        call: &Call,
        policy: &Policy,
        client: Principal,
    ) -> Result<Self, Problem> {
        let named = call.parameter(API_KEY.name).map(str::parse::<KeyId>).transpose();
        let named = named.map_err(|error| Problem::bad_request(format!("api_key: {error}")))?;
        let Some(records) = Records::of(node, view) else {
            return match named {
                None => Ok(Self::Absent),
                Some(_) => Err(Problem::bad_request("no API key is known without client.keys")),
            };
        };
        let text = call.value(1);
        let of_text = view.snapshot.rules.api_key(&policy.key, text);
        if named.is_some() && of_text.is_some() && named != of_text {
            return Err(Problem::bad_request("api_key and the key of the path are different keys"));
        }
        if let Some(id) = of_text.or(named) {
            let read = records.key(id).await;
            if named.is_some() && matches!(read, Ok(None)) {
                return Err(Problem::not_found(format!("there is no API key {id}")));
            }
            return Ok(Self::of_key(read));
        }
        if matches!(&policy.key, KeyExpr::ApiKeyPart(name) if **name == *"team") {
            match records.team(text).await {
                Ok(Some(team)) => return Ok(Self::Team(team)),
                Ok(None) => {}
                Err(_) => return Ok(Self::Unreadable),
            }
        }
        Ok(match kept(node, view, policy, client).await {
            Some(None) => Self::Absent,
            Some(Some(id)) => Self::of_key(records.key(id).await),
            None if records.storage.is_some() => Self::Unknown,
            None if records.has_limit(policy) => Self::Unknown,
            None => Self::Absent,
        })
    }

    /// The key whose record was read, if it is there.
    fn of_key(read: Result<Option<Arc<KeyEntry>>, StorageError>) -> Self {
        read.map_or(Self::Unreadable, |entry| entry.map_or(Self::Absent, Self::Key))
    }

    /// Its limit for this policy.
    pub fn limit(&self, policy: &Policy) -> Option<(KeyLimit, LimitOwner)> {
        match self {
            Self::Key(entry) => entry.limit(&policy.name),
            Self::Team(team) => Some((team.limit(&policy.name)?, LimitOwner::Team)),
            Self::Absent | Self::Unknown | Self::Unreadable => None,
        }
    }

    /// The key whose limits were looked at.
    pub fn looked_at(&self) -> Option<ApiKey> {
        match self {
            Self::Absent | Self::Team(_) => None,
            Self::Key(entry) => Some(ApiKey::Id(entry.key.id.to_string())),
            Self::Unknown | Self::Unreadable => Some(ApiKey::Unknown(Unknown::Unknown)),
        }
    }

    /// The key whose counters are forgotten. Those of all keys of the file are. A key of the store
    /// that is not known may have another counter.
    pub fn forgotten(&self, view: &View) -> Option<ApiKey> {
        let in_store = settings(view).is_some_and(|settings| settings.in_store);
        match self {
            Self::Team(_) if in_store => Some(ApiKey::Unknown(Unknown::Unknown)),
            Self::Unknown if !in_store => None,
            other => other.looked_at(),
        }
    }
}

impl<'n> Records<'n> {
    /// None: no API key is known.
    fn of(node: &'n Node, view: &'n View) -> Option<Self> {
        let settings = settings(view)?;
        let storage = node.keys.as_ref().map(Keys::storage).filter(|_| settings.in_store);
        Some(Self { settings, storage })
    }

    /// Whether a key of the file has a limit for this policy.
    fn has_limit(&self, policy: &Policy) -> bool {
        self.settings.table.entries().any(|entry| entry.limit(&policy.name).is_some())
    }

    /// The key with this id. The file wins over the store, as for requests.
    async fn key(&self, id: KeyId) -> Result<Option<Arc<KeyEntry>>, StorageError> {
        if let Some(entry) = self.settings.table.find(&Sought::Id(id)) {
            return Ok(Some(Arc::clone(entry)));
        }
        let Some(storage) = self.storage else { return Ok(None) };
        let Some(stored) = storage.read_keys(&[id]).await?.pop().flatten() else { return Ok(None) };
        let read = KeyRecord::from_stored(&stored.bytes);
        let key = read.map_err(|error| StorageError::Away(error.to_string()))?;
        let team = match &key.team {
            Some(name) => stored_team(storage, name).await?,
            None => None,
        };
        Ok(Some(Arc::new(KeyEntry { key, team })))
    }

    /// The team with this name.
    async fn team(&self, name: &str) -> Result<Option<Arc<TeamRecord>>, StorageError> {
        let mut teams = self.settings.table.entries().filter_map(|entry| entry.team.as_ref());
        if let Some(team) = teams.find(|team| *team.name == *name) {
            return Ok(Some(Arc::clone(team)));
        }
        match self.storage {
            Some(storage) => stored_team(storage, name).await,
            None => Ok(None),
        }
    }
}

async fn stored_team(
    storage: &dyn KeyStorage,
    name: &str,
) -> Result<Option<Arc<TeamRecord>>, StorageError> {
    let Some(stored) = storage.read_team(name).await? else { return Ok(None) };
    let read = TeamRecord::from_stored(&stored.bytes);
    read.map(|team| Some(Arc::new(team))).map_err(|error| StorageError::Away(error.to_string()))
}

/// The API key of the last request of this client that this node has kept. None: there is none;
/// and of a request without a key, there is no id in it.
async fn kept(
    node: &Node,
    view: &View,
    policy: &Policy,
    client: Principal,
) -> Option<Option<KeyId>> {
    let name = &*policy.name;
    if let Some(of_refusal) = node.refusals.api_key(name, client) {
        return Some(of_refusal);
    }
    let text = match node.top.text(name, client) {
        Some(text) => text,
        None => node.cluster.text(name, client).await?,
    };
    // The text of an API key has its id. Clients choose other texts, so it is compared.
    let in_text = || {
        let id: KeyId = text.shown.strip_prefix("api_key ")?.parse().ok()?;
        let principal = view.snapshot.rules.principal(&policy.key, id.as_str()).ok()?;
        (principal == client).then_some(id)
    };
    text.api_key.or_else(in_text).map(Some)
}

/// The limits of keys of the file, and of their teams, as the policy counts them.
pub fn of_file(view: &View, policy: &Policy) -> impl Iterator<Item = OverrideLimit> {
    let entries = settings(view).into_iter().flat_map(|settings| settings.table.entries());
    let limits = entries.filter_map(|entry| entry.limit(&policy.name));
    limits.filter_map(|(limit, _)| policy.key_limit(limit).ok().flatten())
}

/// How API keys are known, if they are.
fn settings(view: &View) -> Option<&KeySettings> {
    view.snapshot.rules.clients().settings().keys.as_deref()
}
