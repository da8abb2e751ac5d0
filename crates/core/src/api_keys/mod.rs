//! API keys: their form, what is kept of them, and where a request's key is looked up. Pure.
//!
//! A key is the text `PREFIX_ID_SECRET`. Its [`KeyForm`] tells a mistyped or invented text from a
//! key without a lookup. Only the [digest](KeyDigest) of the text is kept, in a [`KeyRecord`] under
//! its [`KeyId`]. A record has a [state](KeyState) at each point in time. All that is kept has a
//! bound, and what exceeds it is reported with the name of its field as a [`RecordFault`].
//!
//! A [`KeyDirectory`] finds the record of a key, at once or after a call.

mod bounds;
mod digest;
mod directory;
mod form;
mod id;
mod key_limit;
mod lookups;
mod override_limit;
mod record;
#[cfg(feature = "keys")]
mod secret;
mod state;
#[cfg(feature = "keys")]
mod stored;
mod table;
#[cfg(all(test, feature = "keys"))]
mod tests;

pub(crate) use bounds::is_label;
pub use bounds::{
    MAX_DIGESTS, MAX_LABELS, MAX_LIMITS, MAX_NAME, MAX_STORED, MAX_TEAM, MAX_VALUE, RecordFault,
};
pub use digest::{DigestError, KeyDigest};
pub use directory::{Found, KeyDirectory, KeyEntry, KeyLookup, Sought};
pub use form::{FormError, KeyForm, PREFIX, PrefixError, TEXT_TAIL};
pub use id::{KeyId, KeyIdError};
pub use key_limit::KeyLimit;
pub use lookups::KeyLookups;
pub use override_limit::Override;
pub use record::{HeldDigest, KeyRecord, TeamRecord};
#[cfg(feature = "keys")]
pub use secret::NewKey;
pub use state::{KeyRefusal, KeyState};
#[cfg(feature = "keys")]
pub use stored::StoredError;
pub use table::KeyTable;
