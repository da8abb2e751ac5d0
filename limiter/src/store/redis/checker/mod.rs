//! A checker: whole decisions of several nodes on a model of the servers, in
//! virtual time, with everything that may go wrong between them.
//!
//! A seed makes a scenario (`draw`): nodes and servers, counters of all algorithms and
//! modes, clients, and troubles. The nodes are real stores: only their transport
//! is replaced (`network`), and the servers decide by the algorithms themselves
//! (`counters`). When the run is over, an oracle that knows what really happened
//! judges whether a promise of docs/redis.md was broken (`oracle`).
//!
//! The same seed makes the same run, in all modes. One that breaks a promise prints
//! its story:
//!
//! ```text
//! TOLLGATE_CHECKER_SEED=17 scripts/test --lib checker
//! TOLLGATE_CHECKER_RUNS=100000 scripts/test --lib checker
//! ```
//!
//! Each of these parts of the store was taken out once, to see whether a promise
//! breaks. The seeds are the first that broke it, of the directed scenarios by name:
//!
//! | taken out | promise that breaks | seed |
//! |---|---|---|
//! | the workers of a node share one ledger of `write_back` | no more than the limit | 142 |
//! | an unknown key of `write_back` is asked for first | no more than the limit | 190 |
//! | the same, and a node admits its part only | no more than the limit | 83, `FreshLedgers` |
//! | `write_back` does as `on_store_failure` says | `on_store_failure` | 176, `WriteBackAlone` |
//! | what Redis has said of a counter that is used up holds | what is known of a key holds | 102, `ForgottenStates` |
//! | the same, and a share is given once a window | no more than the limit | 100, `RepeatedOutages` |
//! | a settlement that Redis does not hear is owed | nothing is lost, and nothing counted twice | 287, `LostSettlements` |
//! | what is admitted alone is owed | nothing is lost, and nothing counted twice | 50, `LostSettlements` |
//! | an abandoned question gives back its units in flight | a client that goes away leaves nothing in flight | 59, `Departures` |
//! | a request that is refused elsewhere is given back | nothing is lost, and nothing counted twice | 20 |
//! | late answers are read | nothing is lost, and nothing counted twice | 191, `LateAnswers` |
//!
//! A share that is given once an outage breaks nothing by itself: what Redis says of
//! the counter when the debt is charged refuses the rest. That a debt is told again
//! which a server refuses is not found: no server of the model is out of memory. Nor is
//! it that such a refund cancels, where it could also give back what time has left.

mod client;
mod counters;
mod directed;
mod draw;
mod journal;
mod memory;
mod network;
mod node;
mod oracle;
mod run;
mod scenario;
mod server;
mod shrink;
mod story;
mod tests;
mod troubles;
mod wire;
mod world;

use std::io;
use std::sync::LazyLock;

use smallvec::SmallVec;

use self::wire::Pipe;
use self::world::World;
use super::codec::Asked;
use super::layout::Layout;
use super::script::{Encoded, Script};
use super::settings::{Address, RedisSettings};
use super::stream::Stream;
use crate::algorithm::State;
use crate::time::Timestamp;

/// A connection to a server of the model. None: it is no such server.
pub(super) async fn connect(
    settings: &RedisSettings,
    address: &Address,
) -> Option<io::Result<Box<dyn Stream>>> {
    let world = World::here()?;
    let Address::Tcp { host, .. } = address else { return None };
    let server = server::server_of(host)?;
    let node = settings.username.as_ref()?.parse().ok()?;
    let connected = world.network.connect(&world, node, server).await;
    Some(connected.map(|pipe: Pipe| Box::new(pipe) as Box<dyn Stream>))
}

/// Stands for the script, in a run: the servers need not read it.
pub(super) fn script() -> Option<&'static Script> {
    static STAND_IN: LazyLock<Script> =
        LazyLock::new(|| Script { source: "return", sha: "0".repeat(40).into() });
    World::here().map(|_| &*STAND_IN)
}

/// A body that stands for what is asked, in a run.
pub(super) fn encode(layout: &Layout, worker: u32, asked: &[Asked<'_>]) -> Option<Encoded> {
    let world = World::here()?;
    let mut journal = world.journal.borrow_mut();
    let number = journal.ask(worker, asked, world.current.get(), world.now_us());
    let mut keys = SmallVec::new();
    for asked in asked {
        let key = layout.key(asked.key.principal);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Some(Encoded { keys, body: journal::bytes(number).into() })
}

/// A body goes out. From now on its worker takes it for possible that it was counted,
/// even where its connection has closed before it was written.
pub(super) fn departs(body: &[u8]) {
    if let Some(world) = World::here() {
        world.journal.borrow_mut().departs(body);
    }
}

/// Whether an answer refuses, its time, and the states that it found.
type Told = (bool, Timestamp, SmallVec<[Option<State>; 4]>);

/// What the model's answer stands for: whether it refused, its time, and the
/// states that it found.
pub(super) fn decode(answer: &[u8]) -> Option<Told> {
    let (refused, at, states) = World::here()?.journal.borrow().outcome(answer)?;
    Some((refused, at, states.into()))
}
