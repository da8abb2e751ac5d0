//! Errors of calls to Redis, grouped by what the caller can do.

use redis::RedisError;
use thiserror::Error;
use tollgate_core::store::OutageCause;
use tollgate_core::text::is_printable;

use super::codec::InvalidReply;
use super::settings::Address;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The server is known to be away. Nothing was sent.
    #[error("the server is away")]
    Away,
    /// The calls that wait for the server take too much memory. Nothing was sent.
    #[error("too many calls wait for the server")]
    Overloaded,
    /// The call could not be sent within the timeout. Nothing was sent.
    #[error("the call could not be sent in time")]
    NotSent,
    /// The server did not answer within the timeout. It may have counted the call.
    #[error("the server did not answer in time")]
    Timeout,
    /// There is no connection, for this cause. Nothing was sent.
    #[error("{cause}: {said}", cause = .0.text(), said = .1)]
    NotConnected(OutageCause, String),
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
    /// The server has slots, and the keys of the command are in several of them.
    CrossSlot,
    /// It is a replica.
    ReadOnly,
    /// It cannot be used, for this cause. Nothing was counted.
    Unusable(OutageCause),
    /// The script failed for this cause. It may have counted a part of the call.
    UnusableInScript(OutageCause),
    /// Any other error: a defect of this program, or of another program that writes to the
    /// same keys. If the script stopped in the middle of a batch, the calls before are
    /// counted.
    Other,
}

impl StoreError {
    /// Whether the server may have counted the call.
    pub fn may_have_counted(&self) -> bool {
        match self {
            Self::Refused(Refusal::Other | Refusal::UnusableInScript(_), _) => true,
            Self::Away | Self::Overloaded | Self::NotSent => false,
            Self::NotConnected(..) | Self::Refused(..) => false,
            Self::Timeout | Self::Lost(_) | Self::InvalidReply(_) => true,
        }
    }

    /// Why the server is not used after this error.
    pub fn cause(&self) -> OutageCause {
        match self {
            Self::NotConnected(cause, _)
            | Self::Refused(Refusal::Unusable(cause) | Refusal::UnusableInScript(cause), _) => {
                *cause
            }
            Self::Refused(refusal, text) => match refusal {
                Refusal::ReadOnly => OutageCause::ReadOnly,
                Refusal::Moved(_) | Refusal::Ask(_) | Refusal::CrossSlot => {
                    OutageCause::ClusterNode
                }
                Refusal::Other if text.starts_with("WRONGTYPE") => OutageCause::ForeignData,
                _ => OutageCause::Refused,
            },
            Self::Away | Self::Overloaded | Self::NotSent | Self::Timeout => OutageCause::NoAnswer,
            Self::Lost(_) => OutageCause::Closed,
            Self::InvalidReply(_) => OutageCause::NotRedis,
        }
    }

    /// What the server or the system said, if it said anything.
    pub(super) fn said(&self) -> Option<&str> {
        match self {
            Self::Away | Self::Overloaded | Self::NotSent | Self::Timeout => None,
            Self::NotConnected(_, said) | Self::Lost(said) | Self::Refused(_, said) => Some(said),
            Self::InvalidReply(said) => Some(said),
        }
    }

    /// The same error of a server that no map of a cluster has named: calls are not redirected
    /// there.
    #[must_use]
    pub(super) fn outside_of_cluster(self) -> Self {
        match self {
            Self::Refused(Refusal::Moved(_) | Refusal::Ask(_), text) => {
                Self::Refused(Refusal::Unusable(OutageCause::ClusterNode), text)
            }
            other => other,
        }
    }

    /// Whether the error concerns the server, and not one call only.
    pub(super) fn is_of_server(&self) -> bool {
        let is_of_call = matches!(self, Self::Refused(Refusal::Other | Refusal::CrossSlot, _));
        !self.is_redirection() && !is_of_call
    }

    /// Whether the server has slots, and the keys of the command are in several of them.
    pub(super) const fn is_cross_slot(&self) -> bool {
        matches!(self, Self::Refused(Refusal::CrossSlot, _))
    }

    /// Whether the slot is moving to another node, and the keys of the call are on both nodes.
    pub(super) const fn is_try_again(&self) -> bool {
        matches!(self, Self::Refused(Refusal::TryAgain, _))
    }

    /// Whether the slot is moving to another node, and keys of the call are there already.
    pub(super) const fn is_of_moving_keys(&self) -> bool {
        matches!(self, Self::Refused(Refusal::Ask(_) | Refusal::TryAgain, _))
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
        if let Some(refused) = refused(&error) {
            return refused;
        }
        if error.is_timeout() {
            return Self::Timeout;
        }
        match error.kind() {
            redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType => {
                Self::InvalidReply("it does not follow the protocol")
            }
            _ => Self::Lost(error.to_string()),
        }
    }
}

/// The error that a server returned, if it is one.
fn refused(error: &RedisError) -> Option<StoreError> {
    let code = error.code()?;
    let detail = readable(error.detail().unwrap_or_default());
    let refusal = match code {
        "NOSCRIPT" => Refusal::NoScript,
        "MOVED" => redirection(error).map_or(Refusal::Other, Refusal::Moved),
        "ASK" => redirection(error).map_or(Refusal::Other, Refusal::Ask),
        "TRYAGAIN" => Refusal::TryAgain,
        "CROSSSLOT" => Refusal::CrossSlot,
        "READONLY" => Refusal::ReadOnly,
        // The errors of `redis.pcall` in Redis 6.2 begin with the line of the script.
        code if code == "ERR" || code.starts_with("@user_script") => general(&detail),
        _ => special(code, &detail).map_or(Refusal::Other, Refusal::Unusable),
    };
    Some(StoreError::Refused(refusal, format!("{code} {detail}").trim_end().to_owned()))
}

fn redirection(error: &RedisError) -> Option<Address> {
    let (node, _slot) = error.redirect_node()?;
    let (host, port) = node.rsplit_once(':')?;
    Some(Address::tcp(host, port.parse().ok()?))
}

/// The cause of an error whose code says it.
fn special(code: &str, detail: &str) -> Option<OutageCause> {
    Some(match code {
        "NOAUTH" => OutageCause::PasswordMissing,
        "WRONGPASS" => OutageCause::PasswordWrong,
        // "no permissions to access one of the keys", "to run the 'get' command".
        "NOPERM" if detail.contains("to access") => OutageCause::KeyForbidden,
        "NOPERM" => OutageCause::CommandForbidden,
        "OOM" => OutageCause::MemoryFull,
        "NOREPLICAS" => OutageCause::TooFewReplicas,
        "MISCONF" => OutageCause::CannotPersist,
        "LOADING" => OutageCause::Loading,
        "MASTERDOWN" => OutageCause::MasterDown,
        "BUSY" => OutageCause::Busy,
        "CLUSTERDOWN" => OutageCause::ClusterDown,
        "DENIED" => OutageCause::Protected,
        _ => return None,
    })
}

/// The texts of errors without a code of their own, and their causes (server.c, config.c, acl.c,
/// networking.c, db.c, script.c and cluster.c of Redis 6.2 to 8 and of Valkey 8 and 9).
const TEXTS: [(&str, OutageCause); 9] = [
    ("max number of clients", OutageCause::TooManyConnections),
    ("unauthenticated", OutageCause::PasswordMissing),
    ("called without any password configured", OutageCause::PasswordUnknown),
    ("unknown command", OutageCause::CommandMissing),
    ("unknown subcommand", OutageCause::CommandMissing),
    ("SELECT is not allowed", OutageCause::Database),
    ("DB index is out of range", OutageCause::Database),
    ("cluster support disabled", OutageCause::NoCluster),
    ("No such master", OutageCause::MasterUnknown),
];

/// The same for errors inside of a script.
const TEXTS_IN_SCRIPT: [(&str, OutageCause); 10] = [
    ("executing the script can't access", OutageCause::KeyForbidden),
    ("No permissions to access a key", OutageCause::KeyForbidden),
    ("executing the script can't run", OutageCause::CommandForbidden),
    ("ACL failure in script", OutageCause::CommandForbidden),
    ("command called from", OutageCause::CommandMissing),
    ("command is not allowed from script", OutageCause::CommandMissing),
    // Redis 6.2 has the error of a command inside of that of the script.
    ("OOM command not allowed", OutageCause::MemoryFull),
    ("Not enough good replicas", OutageCause::TooFewReplicas),
    ("MISCONF ", OutageCause::CannotPersist),
    ("READONLY You can't write", OutageCause::ReadOnly),
];

fn general(detail: &str) -> Refusal {
    let cause_in = |texts: &[(&str, OutageCause)]| {
        texts.iter().find(|(text, _)| detail.contains(text)).map(|(_, cause)| *cause)
    };
    cause_in(&TEXTS_IN_SCRIPT)
        .map(Refusal::UnusableInScript)
        .or_else(|| cause_in(&TEXTS).map(Refusal::Unusable))
        .unwrap_or(Refusal::Other)
}

/// The longest text of an error, in characters.
const MAX_CHARS: usize = 200;

/// The text of an error on one line, without the arguments of the command, which can be secret.
fn readable(detail: &str) -> String {
    let arguments = detail.find(", with args beginning with").unwrap_or(detail.len());
    let shown = |c: char| if is_printable(c) { c } else { ' ' };
    detail[..arguments].trim().chars().take(MAX_CHARS).map(shown).collect()
}

#[cfg(test)]
mod tests;
