//! What a probe finds, as plain data.

use std::time::Duration;

use tollgate_core::store::{Outage, OutageCause};

use crate::failure::StoreError;
use crate::settings::RedisSettings;

/// What a server is for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// It decides.
    Master,
    /// Limits of single keys are read from it.
    Replica,
    /// It names the master.
    Sentinel,
    /// It names the nodes of its cluster, and stores no slots under this address.
    Seed,
}

/// What a probe has found at one server. What the server did not tell is None.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerReport {
    /// The address of the server.
    pub server: String,
    /// What the server is for the store, or, if it is another server than the store needs at this
    /// address, what it says that it is.
    pub kind: ServerKind,
    /// Whether there was a connection on which the server accepted the user and the password.
    pub is_connected: bool,
    /// The name and the version, such as `Redis 7.0.15`.
    pub version: Option<String>,
    /// The servers that it names: the master by a Sentinel, the masters of the cluster by a seed.
    pub names: Vec<String>,
    /// How many slots of a cluster it has.
    pub slots: Option<usize>,
    /// Whether it refuses the keys of several slots in one command, and has all slots.
    pub has_all_slots: bool,
    /// Whether its scripts cannot ask for the time.
    pub lacks_time_in_scripts: bool,
    /// What it does when its memory is full.
    pub eviction: Eviction,
    /// Its settings that make a client take up to twice as much memory.
    pub too_small: Vec<SmallSetting>,
    /// How its clock differs from that of this machine.
    pub clock: Option<ClockOffset>,
    /// The median time from a `PING` to its reply.
    pub ping: Option<Duration>,
    /// The median time from a call of the script, which decides nothing, to its reply.
    pub script: Option<Duration>,
    /// Why the store cannot use it. Empty: it can.
    pub outages: Vec<Outage>,
}

/// What a server does when its memory is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Another error came first.
    NotAsked,
    /// The server tells it neither by `CONFIG GET` nor by `INFO`.
    NotTold,
    /// Its `maxmemory-policy`.
    Policy(String),
}

/// A setting of a server that is below what the store needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallSetting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub is: u64,
    /// The least value with which a client takes no more memory than documented.
    pub needed: u64,
}

/// The difference between a server's clock and that of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// How far the server's clock is ahead, in microseconds.
    pub ahead_us: i64,
    /// How wrong `ahead_us` is at most, in microseconds.
    pub error_us: u64,
}

impl ServerReport {
    /// A report of a server that has not been asked yet.
    pub(super) fn new(server: impl ToString, kind: ServerKind) -> Self {
        Self {
            server: server.to_string(),
            kind,
            is_connected: false,
            version: None,
            names: Vec::new(),
            slots: None,
            has_all_slots: false,
            lacks_time_in_scripts: false,
            eviction: Eviction::NotAsked,
            too_small: Vec::new(),
            clock: None,
            ping: None,
            script: None,
            outages: Vec::new(),
        }
    }

    /// The server cannot be used after this error.
    pub(super) fn fail(&mut self, error: &StoreError, settings: &RedisSettings) {
        self.outages.push(error.outage(&self.server, settings));
    }

    /// The server cannot be used for this cause. `said` completes its sentence.
    pub(super) fn refuse(&mut self, cause: OutageCause, said: &str, remedy: String) {
        self.outages.push(Outage::new(&self.server, cause, said, &remedy));
    }

    /// Whether there is an outage for this cause.
    pub(super) fn has(&self, cause: OutageCause) -> bool {
        self.outages.iter().any(|outage| outage.cause == cause)
    }
}
