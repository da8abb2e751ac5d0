//! A storage of keys, as one worker reads it.

use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use super::condition::KeysCondition;
use crate::api_keys::{KeyId, Sought};
use crate::time::{Clock, Timestamp};

/// The number of characters before a stored record: its version.
pub const VERSION_CHARS: usize = 16;

/// What a storage says of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadRecord {
    /// The version of the record and the record, in its stored form.
    Record(Vec<u8>),
    /// There is no such record.
    Absent,
    /// It is not there, and the part of the storage has no sign that it has keys.
    NoSign,
    /// The storage does not answer.
    Away,
}

impl ReadRecord {
    /// The record without its version.
    pub fn record(&self) -> Option<&[u8]> {
        match self {
            Self::Record(bytes) => bytes.get(VERSION_CHARS..),
            Self::Absent | Self::NoSign | Self::Away => None,
        }
    }
}

/// A storage of keys and teams, as one worker reads it.
pub trait ReadKeys: Debug {
    /// The records of these keys, in their order.
    fn keys<'a>(&'a self, sought: &'a [Sought]) -> LocalBoxFuture<'a, Vec<ReadRecord>>;

    /// The records of these teams, in their order.
    fn teams<'a>(&'a self, names: &'a [Arc<str>]) -> LocalBoxFuture<'a, Vec<ReadRecord>>;

    /// Stores when keys were last used, by the wall clock. It is lost if the storage does not
    /// answer.
    fn store_uses<'a>(&'a self, uses: &'a [(KeyId, Timestamp)]) -> LocalBoxFuture<'a, ()>;

    /// How long a read may take.
    fn timeout(&self) -> Duration;

    /// Reads the marks of changes and the signs of the parts at intervals, until the future is
    /// dropped, and tells them to the node.
    fn listen(
        self: Rc<Self>,
        condition: Arc<KeysCondition>,
        clock: Clock,
    ) -> LocalBoxFuture<'static, ()>;
}
