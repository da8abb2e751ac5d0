//! Keeps the credentials of a shared store up to date: those of the configuration, and passwords
//! that a program prints and that are valid for some minutes only.
//!
//! The store keeps its connections until its servers have accepted another password. So a program
//! that fails, or prints a wrong password, stops no decision while the password before is valid.

mod command;
mod schedule;

use std::sync::Arc;
use std::time::Instant;

use tokio::select;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::{sleep, sleep_until};
use tollgate_core::store::{Outage, OutageCause, RemoteNode as _};
use tollgate_core::time::monotonic;
use tollgate_redis::{NodeState, Password, RedisSettings};

pub use self::command::CommandError;
use self::schedule::{REFUSAL_INTERVAL, Schedule};
use crate::config::{PasswordCommand, StoreSettings};

/// What the configuration says of the way to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    redis: RedisSettings,
    command: Option<PasswordCommand>,
}

impl Wanted {
    /// None: nodes do not share the store.
    fn of(settings: &StoreSettings) -> Option<Self> {
        let command = settings.password_command.clone();
        settings.redis.clone().map(|redis| Self { redis, command })
    }
}

/// The result of a run of a program.
type Printed = Result<Password, CommandError>;

/// The settings of the store, with the password that the program of the configuration prints, if
/// there is one. The program runs once.
///
/// # Errors
/// If the program fails. Then the settings have no password.
pub async fn settings_with_password(
    settings: &StoreSettings,
) -> (StoreSettings, Result<(), CommandError>) {
    let (settings, printed) = first(settings).await;
    (settings, printed.map_or(Ok(()), |printed| printed.map(drop)))
}

/// The same, with the password itself.
async fn first(settings: &StoreSettings) -> (StoreSettings, Option<Printed>) {
    let mut settings = settings.clone();
    let (Some(redis), Some(command)) = (&mut settings.redis, &settings.password_command) else {
        return (settings, None);
    };
    let printed = command::run(command).await;
    redis.credentials.password = printed.as_ref().ok().cloned();
    (settings, Some(printed))
}

/// The way to a shared store, which a task keeps up to date until this is dropped.
pub struct StoreAccess(Option<watch::Sender<Wanted>>);

/// The first password, before the store exists.
pub struct FirstPassword(Option<Printed>);

impl StoreAccess {
    /// The settings with which the store begins. If there is a program, it runs before.
    pub async fn begin(settings: &StoreSettings) -> (StoreSettings, FirstPassword) {
        let (settings, printed) = first(settings).await;
        (settings, FirstPassword(printed))
    }

    /// Keeps the credentials of the node's store in Redis as the configuration says.
    pub fn keep(
        node: Option<&Arc<NodeState>>,
        settings: &StoreSettings,
        FirstPassword(printed): FirstPassword,
    ) -> Self {
        let (Some(node), Some(wanted)) = (node, Wanted::of(settings)) else { return Self(None) };
        let mut keeper = Keeper::new(Arc::clone(node));
        if let (Some(printed), Some(command)) = (printed, &wanted.command) {
            keeper.ran(command, printed, monotonic());
        }
        let (sender, wanted) = watch::channel(wanted);
        spawn_local(keeper.keep(wanted));
        Self(Some(sender))
    }

    /// The configuration has changed. The task adopts what a running store can adopt, and nothing if
    /// the servers are others: the credentials are those of the others, which need a restart.
    pub fn change(&self, settings: &StoreSettings) {
        if let (Some(sender), Some(wanted)) = (&self.0, Wanted::of(settings)) {
            sender.send_if_modified(|now| {
                let differs = *now != wanted && now.redis.topology == wanted.redis.topology;
                if differs {
                    *now = wanted;
                }
                differs
            });
        }
    }
}

/// The task.
struct Keeper {
    node: Arc<NodeState>,
    /// The last password, and the program that has printed it.
    known: Option<(PasswordCommand, Password)>,
    schedule: Schedule,
}

impl Keeper {
    fn new(node: Arc<NodeState>) -> Self {
        Self { node, known: None, schedule: Schedule::default() }
    }

    async fn keep(mut self, mut wanted: watch::Receiver<Wanted>) {
        loop {
            let Wanted { mut redis, command } = wanted.borrow_and_update().clone();
            let next = match &command {
                None => {
                    self.node.report_credentials(None);
                    None
                }
                Some(command) => {
                    if self.schedule.is_due(command, monotonic()) {
                        let printed = command::run(command).await;
                        self.ran(command, printed, monotonic());
                    }
                    self.schedule.next()
                }
            };
            let password = self.known.as_ref().map(|(_, password)| password);
            match (&command, password) {
                // Without a new password, the connections keep the last one.
                (Some(_), None) => {}
                (Some(_), Some(password)) => {
                    redis.credentials.password = Some(password.clone());
                    self.node.adopt(&redis);
                }
                (None, _) => self.node.adopt(&redis),
            }
            select! {
                changed = wanted.changed() => if changed.is_err() { return },
                () = until(next) => {}
                () = self.refused(), if command.is_some() => {}
            }
        }
    }

    /// Records the result of a run.
    fn ran(&mut self, command: &PasswordCommand, printed: Printed, now: Instant) {
        self.schedule.ran(command, printed.is_ok(), now);
        match printed {
            Ok(password) => {
                self.known = Some((command.clone(), password));
                self.node.report_credentials(None);
            }
            Err(error) => {
                let server = "password_command";
                let cause = OutageCause::PasswordCommand;
                let remedy = "run it as the user of the gateway, in the directory of the \
                              configuration";
                let outage = Outage::new(server, cause, &error.to_string(), remedy);
                self.node.report_credentials(Some(outage));
            }
        }
    }

    /// Returns when a server does not accept the password, though it should be valid, and the
    /// program may run again.
    async fn refused(&mut self) {
        loop {
            sleep(REFUSAL_INTERVAL / 10).await;
            let mut outages = self.node.outages();
            outages.extend(self.node.renewals_refused());
            let is_refused = outages.iter().any(|outage| {
                matches!(outage.cause, OutageCause::PasswordWrong | OutageCause::PasswordMissing)
            });
            if is_refused && self.schedule.refused(monotonic()) {
                return;
            }
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
