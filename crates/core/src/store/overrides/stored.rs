//! What a storage of overrides says of a key, and how it is read.

use std::fmt::Debug;

use futures_util::future::LocalBoxFuture;

use crate::digest::Key;
use crate::store::override_limit::Override;

/// The override that is stored for one key, if there is one. None if the storage does not
/// answer.
pub type Stored = Option<Option<Override>>;

/// The stored override was not written by this program, or by a newer version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored override of this key is invalid: set it again, or unset it")]
pub struct Unreadable;

/// A storage of overrides, as one worker reads it.
pub trait ReadOverrides: Debug {
    /// The stored overrides of these keys, in their order. Keys that have `settled` have not
    /// changed recently.
    fn fetch<'a>(&'a self, keys: &'a [Key], settled: bool) -> LocalBoxFuture<'a, Vec<Stored>>;
}
