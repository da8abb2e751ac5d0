//! Overrides, the limits of single keys: their format, their cache, and the detection of
//! changes.

mod cache;
mod codec;
mod marks;

use thiserror::Error;

pub(in crate::store) use self::cache::{Cache, ReadAt};
pub(in crate::store) use self::codec::{decode, encode};
pub(in crate::store) use self::marks::{Marks, PARTS, part};
pub(in crate::store) use crate::store::override_limit::Override;

/// The override that is stored for one key, if there is one. None if the storage does not
/// answer.
pub(in crate::store) type Stored = Option<Option<Override>>;

/// The stored override was not written by this program, or by a newer version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stored override of this key is invalid: set it again, or unset it")]
pub struct Unreadable;
