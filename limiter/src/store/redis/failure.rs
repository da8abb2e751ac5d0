//! Errors of calls to Redis, grouped by what the caller can do.

use redis::{RedisError, ServerErrorKind};
use thiserror::Error;

use super::codec::InvalidReply;
use super::settings::Address;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The server is known to be away. Nothing was sent.
    #[error("the server is away")]
    Away,
    /// Too many calls wait for the server. Nothing was sent.
    #[error("too many calls wait for the server")]
    Overloaded,
    /// The call could not be sent within the timeout. Nothing was sent.
    #[error("the call could not be sent in time")]
    NotSent,
    /// The server did not answer within the timeout. It may have counted the call.
    #[error("the server did not answer in time")]
    Timeout,
    /// The connection broke before the answer. The server may have counted the call.
    #[error("the connection broke before the answer: {0}")]
    Lost(String),
    /// The server returned an error. It did not count the call, unless the error is
    /// [`Refusal::Other`].
    #[error("the server refused the call: {1}")]
    Refused(Refusal, String),
    /// The answer is invalid. The server may have counted the call.
    #[error("the server's answer is invalid: {0}")]
    InvalidReply(&'static str),
}

/// The error that a server returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not know the script.
    NoScript,
    /// The slot lives on another node.
    Moved(Address),
    /// The slot is moving to another node, which has this key already.
    Ask(Address),
    /// The slot is moving to another node, and the keys of the call are on both nodes.
    TryAgain,
    /// It is a replica.
    ReadOnly,
    /// It is loading its data from disk.
    Loading,
    /// It has no master, and its own data are old.
    MasterDown,
    /// The cluster lacks some of its slots.
    ClusterDown,
    /// Its memory is full.
    OutOfMemory,
    /// It runs another script that does not end.
    Busy,
    /// Authentication failed, or the user lacks a permission.
    Unauthorised,
    /// Any other error: a defect of this program, or of another program that writes to the
    /// same keys. If the script stopped in the middle of a batch, the calls before are
    /// counted.
    Other,
}

impl StoreError {
    /// Whether the server may have counted the call.
    pub fn may_have_counted(&self) -> bool {
        match self {
            Self::Refused(Refusal::Other, _) => true,
            Self::Away | Self::Overloaded | Self::NotSent | Self::Refused(..) => false,
            Self::Timeout | Self::Lost(_) | Self::InvalidReply(_) => true,
        }
    }

    /// Whether another node of the cluster would have answered.
    pub(super) fn is_redirection(&self) -> bool {
        matches!(self, Self::Refused(Refusal::Moved(_) | Refusal::Ask(_), _))
    }
}

/// If a reply cannot be read, the server may still have counted the call.
impl From<InvalidReply> for StoreError {
    fn from(_: InvalidReply) -> Self {
        Self::InvalidReply("it is not a reply of the script")
    }
}

/// Translates errors of redis-rs.
impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        if let Some(refusal) = refusal(&error) {
            return Self::Refused(refusal, error.to_string());
        }
        if error.is_timeout() {
            return Self::Timeout;
        }
        match error.kind() {
            redis::ErrorKind::AuthenticationFailed => {
                Self::Refused(Refusal::Unauthorised, error.to_string())
            }
            redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType => {
                Self::InvalidReply("it does not follow the protocol")
            }
            _ => Self::Lost(error.to_string()),
        }
    }
}

fn refusal(error: &RedisError) -> Option<Refusal> {
    let code = error.code()?;
    let to = || {
        let (node, _slot) = error.redirect_node()?;
        let (host, port) = node.rsplit_once(':')?;
        Some(Address::tcp(host, port.parse().ok()?))
    };
    Some(match error.kind() {
        redis::ErrorKind::Server(kind) => match kind {
            ServerErrorKind::NoScript => Refusal::NoScript,
            ServerErrorKind::Moved => to().map_or(Refusal::Other, Refusal::Moved),
            ServerErrorKind::Ask => to().map_or(Refusal::Other, Refusal::Ask),
            ServerErrorKind::TryAgain => Refusal::TryAgain,
            ServerErrorKind::ReadOnly => Refusal::ReadOnly,
            ServerErrorKind::BusyLoading => Refusal::Loading,
            ServerErrorKind::MasterDown => Refusal::MasterDown,
            ServerErrorKind::ClusterDown => Refusal::ClusterDown,
            ServerErrorKind::NoPerm => Refusal::Unauthorised,
            _ => Refusal::Other,
        },
        _ => match code {
            "OOM" => Refusal::OutOfMemory,
            "BUSY" => Refusal::Busy,
            "NOAUTH" | "WRONGPASS" => Refusal::Unauthorised,
            _ => Refusal::Other,
        },
    })
}
