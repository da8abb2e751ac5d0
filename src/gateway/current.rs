//! The gateway that a worker has now, which a reload replaces.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::FutureExt as _;
use http::{Request, Response};
use tower::Service;

use super::body::ResponseBody;
use super::{Client, Gateway};
use crate::engine::StoreCall;
use crate::message::Forwarding;
use crate::server::{ClientBody, ClientLink, Demand, Peer};
use crate::snapshot::Snapshot;

/// The gateway that a worker has now. A request keeps the gateway with which it began,
/// and so ends under the configuration with which it began.
#[derive(Debug)]
pub struct CurrentGateway(RefCell<Rc<Gateway>>);

impl CurrentGateway {
    /// Begins with `gateway`.
    pub fn new(gateway: Gateway) -> Self {
        Self(RefCell::new(Rc::new(gateway)))
    }

    /// The gateway for a request that begins now.
    pub fn get(&self) -> Rc<Gateway> {
        Rc::clone(&self.0.borrow())
    }

    /// New requests see another configuration from now on.
    pub fn reload(&self, snapshot: Arc<Snapshot>) {
        let renewed = self.get().renewed(snapshot);
        self.0.replace(Rc::new(renewed));
    }

    /// The service for one connection from `peer`, which must send the bodies of its
    /// requests as fast as `demand` says. Over HTTP/1 there is a link to the client.
    pub fn service(
        self: &Rc<Self>,
        peer: Peer,
        link: Option<ClientLink>,
        demand: Demand,
    ) -> impl Service<Request<ClientBody>, Response = Response<ResponseBody>, Error = Infallible>
    + Clone
    + use<> {
        let current = Rc::clone(self);
        let client = Rc::new(Client {
            peer: peer.address.ip(),
            may_forward: peer.may_forward,
            forwarding: Forwarding::new(peer.address, peer.local, peer.is_encrypted),
            identity: peer.identity,
            demand,
            link,
        });
        tower::service_fn(move |request| {
            current.get().handle(Rc::clone(&client), request).never_error()
        })
    }

    /// Flushes the sinks, closes connections that have been idle for too long, and runs
    /// the store's maintenance. Must be called regularly, because there may be no
    /// requests.
    pub fn housekeep(&self) {
        self.get().housekeep();
    }

    /// Answers a question to the store.
    pub async fn answer(&self, call: StoreCall) {
        self.get().answer(call).await;
    }

    /// Closes the store when this worker's last request has ended.
    pub async fn close(&self) {
        self.get().close().await;
    }
}
