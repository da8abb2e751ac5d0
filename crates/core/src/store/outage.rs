//! Why a node does not use a server of its store.

use std::fmt;

/// Declares the causes: a name in Rust, the word in metrics and answers, and a sentence.
macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)+) => {
        /// Why a server is not used.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum OutageCause {
            $(#[doc = $text] $(#[$doc])* $name,)+
        }

        impl OutageCause {
            /// All causes.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word for programs.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            /// The sentence for people. It names no address, user or key.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

causes! {
    NoAnswer = "no_answer", "the server does not answer in time";
    Unreachable = "unreachable", "the server cannot be reached";
    Closed = "connection_closed", "the server closes the connection";
    Tls = "tls", "the TLS handshake with the server fails";
    NotRedis = "not_redis", "the server does not speak the protocol of Redis";
    Protected = "protected_mode", "the server is in protected mode, which admits local clients only";
    TooManyConnections = "too_many_connections", "the server has as many connections as it admits";
    PasswordMissing = "password_missing", "the server requires a password";
    PasswordWrong = "password_wrong", "the server does not accept the user or the password";
    PasswordCommand = "password_command", "the program that prints the password prints none";
    PasswordUnknown = "password_unknown", "the server has no password, and the settings have one";
    CommandForbidden = "command_forbidden", "the user may not run a command that is needed";
    KeyForbidden = "key_forbidden", "the user may not use the keys of the prefix";
    CommandMissing = "command_missing", "the server lacks a command that is needed";
    Database = "database", "the server does not have the database";
    MemoryFull = "memory_full", "the memory of the server is full";
    TooFewReplicas = "too_few_replicas", "the server refuses writes, because it has too few replicas";
    CannotPersist = "cannot_persist", "the server refuses writes, because it cannot save its data";
    ReadOnly = "read_only", "the server is a replica";
    Loading = "loading", "the server loads its data";
    MasterDown = "master_down", "the server is a replica that has lost its master";
    Busy = "busy", "the server runs a script that does not end";
    ClusterDown = "cluster_down", "the cluster does not serve all of its slots";
    ClusterNode = "cluster_node", "the server is a node of a cluster, and the URL names a single server";
    NoCluster = "no_cluster", "the server is not part of a cluster, and the URL names a cluster";
    Sentinel = "sentinel", "the server is a Sentinel, and the URL names a server with data";
    NoSentinel = "no_sentinel", "the server is not a Sentinel, and the URL names Sentinels";
    SentinelPassword = "sentinel_password", "the Sentinels do not accept the user or the password";
    MasterUnknown = "master_unknown", "the Sentinels do not know the master";
    ForeignData = "foreign_data", "a key under the prefix has data of another program";
    Refused = "refused", "the server returns an error";
}

impl OutageCause {
    /// Whether the server cannot be asked. Otherwise it answers, and refuses.
    pub const fn is_silence(self) -> bool {
        matches!(self, Self::NoAnswer | Self::Unreachable | Self::Closed)
    }
}

/// A server of the store that this node does not use. Meanwhile policies decide as their
/// `on_store_failure` says.
///
/// ```
/// # use tollgate_core::store::Outage;
/// fn report(outages: &[Outage]) {
///     for Outage { server, error, remedy, .. } in outages {
///         eprintln!("{server}: {error}; {remedy}");
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outage {
    /// The address of the server.
    pub server: String,
    /// Why it is not used.
    pub cause: OutageCause,
    /// The cause as a sentence, with what the server or the system said.
    pub error: String,
    /// What an operator can do.
    pub remedy: String,
    /// The number of connections and tasks of this node that do not use it.
    pub users: usize,
}

impl Outage {
    /// An outage of one user. `said` is what the server or the system said, and may be empty.
    #[doc(hidden)]
    pub fn new(server: &str, cause: OutageCause, said: &str, remedy: &str) -> Self {
        let error = match said {
            "" => cause.text().to_owned(),
            said => format!("{}: {said}", cause.text()),
        };
        Self { server: server.to_owned(), cause, error, remedy: remedy.to_owned(), users: 1 }
    }

    /// The same outage of this number of users.
    #[doc(hidden)]
    #[must_use]
    pub fn with_users(self, users: usize) -> Self {
        Self { users, ..self }
    }
}

/// The server, the error and the remedy on one line.
impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.server, self.error, self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_cause_has_a_word_and_a_sentence_of_its_own() {
        let codes: HashSet<&str> = OutageCause::ALL.iter().map(|it| it.code()).collect();
        let texts: HashSet<&str> = OutageCause::ALL.iter().map(|it| it.text()).collect();
        assert_eq!((codes.len(), texts.len()), (OutageCause::ALL.len(), OutageCause::ALL.len()));
    }
}
