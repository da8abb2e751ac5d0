//! The gateway that a worker has now, which a reload replaces.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use http::{Request, Response};
use tower::Service;

use super::{Client, Gateway, ResponseBody};
use crate::message::Forwarding;
use crate::server::{ClientBody, Demand, Peer};
use crate::snapshot::Snapshot;

/// The gateway that a worker has now. Requests take it when they begin, and
/// keep it: what is under way ends by the configuration that it began with.
#[derive(Debug)]
pub struct CurrentGateway(RefCell<Rc<Gateway>>);

impl CurrentGateway {
    /// Begins with this one.
    pub fn new(gateway: Gateway) -> Self {
        Self(RefCell::new(Rc::new(gateway)))
    }

    fn get(&self) -> Rc<Gateway> {
        Rc::clone(&self.0.borrow())
    }

    /// From now on requests see another configuration.
    pub fn reload(&self, snapshot: Arc<Snapshot>) {
        let renewed = self.get().renewed(snapshot);
        self.0.replace(Rc::new(renewed));
    }

    /// The service for one connection from `peer`, which sends its requests' bodies
    /// as fast as `demand` says.
    pub fn service(
        self: &Rc<Self>,
        peer: Peer,
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
            interim: peer.interim,
        });
        tower::service_fn(move |request| {
            let (gateway, client) = (current.get(), Rc::clone(&client));
            // Connections and streams that wait for a request need no room for one.
            Box::pin(async move { Ok(gateway.handle(&client, request).await) })
        })
    }

    /// What must be done now and then, whether requests come or not: lines of
    /// the access log that wait for others are written, connections that have
    /// been idle for too long are closed, and the store keeps its house.
    pub fn housekeep(&self) {
        self.get().housekeep();
    }

    /// Ends this worker's part, when its last request has been answered.
    pub async fn close(&self) {
        self.get().close().await;
    }
}
