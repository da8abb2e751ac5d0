//! How calls come to a server and replies come back: the stream of a connection, the script, and
//! the format of calls and replies.
//!
//! [`Network`] is the way to real servers. The checker implements [`Transport`] for its model of
//! them, so no other code knows which of the two is in use.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::LazyLock;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tollgate_core::time::Timestamp;

use super::batch::Call;
use super::codec::{self, Answered, Asked, Encoder, InvalidReply};
use super::failure::StoreError;
use super::script::{Encoded, SCRIPT, Script};
use super::settings::{Address, RedisSettings, Topology};
use super::stream::{self, Stream};

/// A way to the servers.
pub(crate) trait Transport: Debug + Sync {
    /// Opens a stream to the server at `address`. The error says why it cannot be opened.
    fn open<'a>(
        &'a self,
        settings: &'a RedisSettings,
        address: &'a Address,
    ) -> LocalBoxFuture<'a, Result<Box<dyn Stream>, StoreError>>;

    /// The script that the servers run.
    fn script(&self) -> &Script;

    /// Encodes one body. See [`Encoder::encode`].
    fn encode(&self, encoder: &Encoder, asked: &[Asked<'_>], now: Timestamp) -> Encoded {
        encoder.encode(asked, now)
    }

    /// Decodes the reply to one body. See [`codec::decode`].
    fn decode(&self, asked: &[Asked<'_>], answer: &[u8]) -> Result<Answered, InvalidReply> {
        codec::decode(asked, answer)
    }

    /// The calls of a batch are about to be written. From now on the server may count them, even
    /// if the connection closes before it has received them.
    fn departs(&self, _batch: &[Call]) {}
}

/// The way of the calls of one worker.
pub(crate) type AnyTransport = &'static dyn Transport;

/// Real servers, over TCP or a Unix socket, with or without TLS.
#[derive(Debug)]
pub(crate) struct Network {
    script: Script,
}

/// Servers that run the script of this version.
pub(crate) static NETWORK: LazyLock<Network> = LazyLock::new(|| Network::running(SCRIPT.clone()));

impl Network {
    /// Servers that run this script.
    pub(crate) const fn running(script: Script) -> Self {
        Self { script }
    }
}

impl Transport for Network {
    fn open<'a>(
        &'a self,
        settings: &'a RedisSettings,
        address: &'a Address,
    ) -> LocalBoxFuture<'a, Result<Box<dyn Stream>, StoreError>> {
        let name = name_of_cluster(&settings.topology, address);
        stream::connect(address, settings.tls.as_ref(), name).boxed_local()
    }

    fn script(&self) -> &Script {
        &self.script
    }
}

/// The host name in the URL of a cluster, for a node of it that is known by its address only. The
/// certificates of services are for this name.
fn name_of_cluster<'s>(topology: &'s Topology, node: &Address) -> Option<&'s str> {
    let is_address = |host: &str| host.parse::<IpAddr>().is_ok();
    let (Topology::Cluster(seeds), Address::Tcp { host, .. }) = (topology, node) else {
        return None;
    };
    let names = seeds.iter().filter_map(|seed| match seed {
        Address::Tcp { host, .. } if !is_address(host) => Some(host.as_str()),
        _ => None,
    });
    names.take(usize::from(is_address(host))).next()
}
