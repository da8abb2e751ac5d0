//! The servers that this node does not use, and why.
//!
//! Each connection of each worker, and each task that needs a server for itself, has a
//! [`ServerUse`]: either it uses the server, or it has a cause not to. The register joins the
//! uses of all workers: the log has one line when the first of them gives a server up and one
//! when the last of them uses it again. Status and metrics read the register.
//!
//! The log is bounded: during one outage of a server it has each cause at most once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{info, warn};

use tollgate_core::store::{Outage, OutageCause};

/// How a server differs from others: its word in metrics, and the line in the log.
type Difference = (&'static str, &'static str);

const HAS_SLOTS: Difference = (
    "slots",
    "Redis has hash slots behind one address; counters of several slots are sent in several calls",
);
const HAS_NO_TIME: Difference = (
    "no_time_in_scripts",
    "Redis refuses TIME in scripts; they are given the gateway's estimate of its time",
);

/// The register of one node.
#[derive(Clone, Debug, Default)]
pub struct Outages {
    servers: Arc<Mutex<BTreeMap<Id, OneServer>>>,
    /// The servers that differ from others, and how. The log has said so.
    differences: Arc<Mutex<BTreeSet<(String, &'static str)>>>,
    role: Role,
}

/// What servers are used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    /// Counters.
    #[default]
    Counts,
    /// Reads only, for which the master can replace them.
    Reads,
    /// New credentials or certificates, while connections with the old ones are in use.
    Renewals,
}

type Id = (Role, String);

/// A server that is not used.
#[derive(Debug)]
struct OneServer {
    /// The number of uses that have given it up.
    users: usize,
    /// The cause that was reported last.
    last: Outage,
    /// The causes that the log has.
    logged: BTreeSet<OutageCause>,
}

impl OneServer {
    /// Whether the log needs this cause. That the server does not answer says little, and once is
    /// enough: a server that crashes first closes its connections, and then refuses others.
    fn is_worth_a_line(&self, cause: OutageCause) -> bool {
        let only_timeouts = self.logged.iter().all(|it| *it == OutageCause::NoAnswer);
        !self.logged.contains(&cause) && (!cause.is_silence() || only_timeouts)
    }
}

impl Outages {
    /// The register for servers that are used for reads only.
    pub(super) fn of_replicas(&self) -> Self {
        Self { role: Role::Reads, ..self.clone() }
    }

    /// The register of servers that do not accept new credentials or certificates.
    pub(super) fn of_renewals(&self) -> Self {
        Self { role: Role::Renewals, ..self.clone() }
    }

    /// A use of a server, which is not given up yet.
    pub(super) fn user(&self) -> ServerUse {
        ServerUse { outages: self.clone(), given_up: None }
    }

    /// The log says once how a server differs from others.
    fn log_once(&self, server: &impl Display, (word, line): Difference) {
        if self.differences.lock().insert((server.to_string(), word)) {
            info!(%server, "{line}");
        }
    }

    /// The servers that differ from others, and the words for how.
    pub(crate) fn differences(&self) -> Vec<(String, &'static str)> {
        self.differences.lock().iter().cloned().collect()
    }

    /// The servers that are not used for counters, by their names.
    pub(crate) fn all(&self) -> Vec<Outage> {
        self.of_role(Role::Counts)
    }

    /// The servers that do not accept the new credentials or certificates, by their names.
    pub(crate) fn renewals_refused(&self) -> Vec<Outage> {
        self.of_role(Role::Renewals)
    }

    fn of_role(&self, wanted: Role) -> Vec<Outage> {
        let servers = self.servers.lock();
        let found = servers.iter().filter(|((role, _), _)| *role == wanted);
        found.map(|(_, it)| it.last.clone().with_users(it.users)).collect()
    }

    /// How many servers are not used for reads.
    pub(crate) fn replicas_away(&self) -> usize {
        self.servers.lock().keys().filter(|(role, _)| *role == Role::Reads).count()
    }

    fn lost(&self, outage: Outage) {
        let id = (self.role, outage.server.clone());
        let mut servers = self.servers.lock();
        let Some(server) = servers.get_mut(&id) else {
            self.log_loss(&outage);
            let logged = BTreeSet::from([outage.cause]);
            servers.insert(id, OneServer { users: 1, last: outage, logged });
            return;
        };
        server.users += 1;
        self.explain(server, outage);
    }

    fn still_lost(&self, outage: Outage) {
        let id = (self.role, outage.server.clone());
        if let Some(server) = self.servers.lock().get_mut(&id) {
            self.explain(server, outage);
        }
    }

    fn explain(&self, server: &mut OneServer, outage: Outage) {
        let Outage { server: name, cause, error, remedy, .. } = &outage;
        if self.role != Role::Reads && server.is_worth_a_line(*cause) {
            server.logged.insert(*cause);
            match self.role {
                Role::Counts => warn!(
                    server = %name, cause = cause.code(), %error, %remedy, "Redis is still away"
                ),
                Role::Reads | Role::Renewals => self.log_loss(&outage),
            }
        }
        // A timeout does not hide a cause that says more.
        if *cause != OutageCause::NoAnswer || server.last.cause.is_silence() {
            server.last = outage;
        }
    }

    fn log_loss(&self, outage: &Outage) {
        let Outage { server, cause, error, remedy, .. } = outage;
        let cause = cause.code();
        match self.role {
            Role::Counts => warn!(
                %server, cause, %error, %remedy, "Redis is away; policies apply on_store_failure"
            ),
            Role::Reads => warn!(
                %server, cause, %error, %remedy, "a replica is away; the master is read instead"
            ),
            Role::Renewals => warn!(
                %server, cause, %error, %remedy,
                "the new credentials or certificates for Redis cannot be used; the connections \
                 with the old ones stay in use"
            ),
        }
    }

    /// Records the end of a use that had given up the server. True for the last one.
    fn forget(&self, server: &str) -> bool {
        let id = (self.role, server.to_owned());
        let mut servers = self.servers.lock();
        let Some(entry) = servers.get_mut(&id) else { return false };
        entry.users -= 1;
        if entry.users > 0 {
            return false;
        }
        servers.remove(&id);
        true
    }
}

/// One use of one server.
#[derive(Debug)]
pub(super) struct ServerUse {
    outages: Outages,
    /// The name of the server, if it is not used.
    given_up: Option<String>,
}

impl ServerUse {
    /// Whether the server is not used.
    pub(super) const fn is_given_up(&self) -> bool {
        self.given_up.is_some()
    }

    /// Whether the server has slots, and all of them, and whether scripts are given the time.
    pub(super) fn differs(&self, server: &impl Display, has_slots: bool, has_no_time: bool) {
        let differences = [(has_slots, HAS_SLOTS), (has_no_time, HAS_NO_TIME)];
        let found = differences.into_iter().filter(|(differs, _)| *differs);
        found.for_each(|(_, how)| self.outages.log_once(server, how));
    }

    /// The server is not used, or still not used, for this cause.
    pub(super) fn give_up(&mut self, outage: Outage) {
        if self.given_up.as_ref() == Some(&outage.server) {
            return self.outages.still_lost(outage);
        }
        self.end();
        self.given_up = Some(outage.server.clone());
        self.outages.lost(outage);
    }

    /// The server is used.
    pub(super) fn resume(&mut self) {
        let Some(server) = self.given_up.take() else { return };
        if self.outages.forget(&server) {
            match self.outages.role {
                Role::Counts => info!(%server, "Redis decides"),
                Role::Reads => info!(%server, "the replica is read again"),
                Role::Renewals => info!(%server, "the credentials and certificates are in use"),
            }
        }
    }

    /// The use ends, and says nothing about the server.
    fn end(&mut self) {
        if let Some(server) = self.given_up.take()
            && self.outages.forget(&server)
        {
            info!(%server, "the server is no longer used");
        }
    }
}

impl Drop for ServerUse {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
