//! Limits of single keys: how they are written, cached and found to have changed.

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

/// What is stored was not written by this program, or by a newer version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("what is kept for this key makes no sense: set it again, or unset it")]
pub struct Unreadable;
