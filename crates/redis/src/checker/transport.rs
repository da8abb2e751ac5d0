//! The way of calls to the servers of the model. Bodies and replies are numbers that
//! stand for what is in the journal.
//!
//! A run lives on one thread, and the transport finds its world there.

use std::sync::LazyLock;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use smallvec::SmallVec;
use tollgate_core::time::Timestamp;

use super::world::World;
use super::{journal, server};
use crate::StoreError;
use crate::batch::Call;
use crate::codec::{Answered, Asked, Encoder, InvalidReply};
use crate::script::{Encoded, Script};
use crate::settings::{Address, RedisSettings};
use crate::stream::Stream;
use crate::transport::Transport;

/// The way to the servers of the run on this thread.
#[derive(Debug)]
pub(super) struct Model;

/// The servers of the model do not read a script.
static STAND_IN: LazyLock<Script> =
    LazyLock::new(|| Script { source: "return", sha: "0".repeat(40).into() });

impl Transport for Model {
    fn open<'a>(
        &'a self,
        settings: &'a RedisSettings,
        address: &'a Address,
    ) -> LocalBoxFuture<'a, Result<Box<dyn Stream>, StoreError>> {
        async move {
            let Address::Tcp { host, .. } = address else { unreachable!("servers have hosts") };
            let server = server::server_of(host).expect("a server of the model");
            let node = settings.credentials.username.as_ref().expect("the number of the node");
            let node = node.parse().expect("a number");
            let world = World::here().expect("a run is under way");
            let pipe = world.network.connect(&world, node, server).await;
            Ok(Box::new(pipe.map_err(redis::RedisError::from)?) as Box<dyn Stream>)
        }
        .boxed_local()
    }

    fn script(&self) -> &Script {
        &STAND_IN
    }

    fn encode(&self, encoder: &Encoder, asked: &[Asked<'_>], _: Timestamp) -> Encoded {
        let world = World::here().expect("a run is under way");
        let mut journal = world.journal.borrow_mut();
        let number = journal.ask(encoder.node(), asked, world.current.get(), world.now_us());
        let mut keys = SmallVec::new();
        for asked in asked {
            let key = encoder.layout().key(asked.key.principal);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Encoded { keys, body: journal::bytes(number).into() }
    }

    fn decode(&self, asked: &[Asked<'_>], answer: &[u8]) -> Result<Answered, InvalidReply> {
        let world = World::here().expect("a run is under way");
        let outcome = world.journal.borrow().outcome(answer);
        let (refused, at, states) = outcome.ok_or(InvalidReply::Short)?;
        Answered::of(asked, refused, at, states)
    }

    fn departs(&self, batch: &[Call]) {
        if let Some(world) = World::here() {
            let mut journal = world.journal.borrow_mut();
            batch.iter().for_each(|call| journal.departs(&call.encoded.body));
        }
    }
}
