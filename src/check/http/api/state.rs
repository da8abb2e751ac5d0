//! What calls have in common: of a process, and of one of its workers.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::{MissedTickBehavior, interval};
use tollgate_core::decision::Lease;
use tollgate_core::time::Timestamp;

use super::idempotency::Answers;
use super::problem::Problem;
use crate::check::lease::{Ends, HeldLeases, Look, Place, Returned, Seal, Sealer};
use crate::engine::Engine;
use crate::gateway::{CurrentGateway, Gateway};

/// The time between two looks for leases that have ended.
const SWEEP: Duration = Duration::from_millis(250);

/// What the workers of a process share.
#[derive(Debug)]
pub struct Shared {
    /// The process, as its leases name it: random, new at each start.
    pub node: u64,
    /// The machine, for people.
    pub host: String,
    pub held: HeldLeases,
    pub answers: Arc<Answers>,
}

impl Default for Shared {
    fn default() -> Self {
        let system = rustix::system::uname();
        Self {
            node: fastrand::u64(..),
            host: system.nodename().to_string_lossy().into_owned(),
            held: HeldLeases::default(),
            answers: Arc::default(),
        }
    }
}

/// What the calls of one worker share.
#[derive(Debug)]
pub struct ApiState {
    pub shared: Arc<Shared>,
    pub sealer: Sealer,
    /// The number of this worker in the table of leases.
    owner: usize,
    /// The leases that this worker has given or renewed, by the time at which they may have ended.
    ends: RefCell<Ends>,
}

impl ApiState {
    /// Registers a worker, and gives back the leases that end. It must be called in the worker's
    /// runtime.
    pub fn start(shared: &Arc<Shared>, gateway: &Rc<CurrentGateway>) -> Rc<Self> {
        let (owner, returned) = shared.held.join();
        let sealer = Sealer::default();
        let ends = RefCell::default();
        let state = Rc::new(Self { shared: Arc::clone(shared), sealer, owner, ends });
        spawn_local(Rc::clone(&state).keep(Rc::clone(gateway), returned));
        state
    }

    async fn keep(
        self: Rc<Self>,
        gateway: Rc<CurrentGateway>,
        mut returned: mpsc::UnboundedReceiver<Returned>,
    ) {
        let mut sweeps = interval(SWEEP);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(Returned { lease, done }) = returned.recv() => {
                    gateway.get().engine().give_back(&lease);
                    // The caller may have gone.
                    let _ = done.send(());
                }
                _ = sweeps.tick() => {
                    let gateway = gateway.get();
                    self.sweep(gateway.engine());
                }
            }
        }
    }

    /// What seals one lease of this gateway.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn seal(&self, gateway: &Gateway) -> Result<Seal, Problem> {
        let secret = gateway.snapshot().rules.clients().secret();
        let seal = self.sealer.ready(secret);
        seal.ok_or_else(|| Problem::unavailable("the system has no random numbers for a lease"))
    }

    /// Holds units of this worker for the lease `holder` until it ends, and returns their number.
    pub fn hold(
        &self,
        engine: &Engine,
        lease: Lease,
        holder: u128,
        expires: Timestamp,
        place: Place<'_>,
    ) -> u64 {
        engine.hold(&lease);
        let id = place.hold(self.owner, lease, holder, expires);
        self.look(Look { at: expires, id });
        id
    }

    /// This worker looks then whether the lease has ended.
    pub fn look(&self, look: Look) {
        self.ends.borrow_mut().add(look, &self.shared.held);
    }

    /// Takes out leases that have ended. Their owners give back the units.
    fn sweep(&self, engine: &Engine) {
        let now = engine.clock().now();
        let mut ends = self.ends.borrow_mut();
        while let Some(look) = ends.next_until(now) {
            if let Some(later) = self.shared.held.expire(look, now) {
                ends.add(later, &self.shared.held);
            }
        }
    }
}
