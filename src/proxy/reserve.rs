//! How a request gets a connection to an upstream with `max_connections`: at once, or from the queue.

use std::rc::Rc;

use smallvec::SmallVec;
use tollgate_core::time::monotonic;
use tracing::warn;

use super::endpoint::{Bound, Endpoint, Granted, InFlight, Reserved};
use super::endpoint_set::EndpointSet;
use super::fault::Fault;
use super::limit::Wanted;
use super::retry_state::RetryState;
use super::shared::RequestPermit;
use super::upstream::{Tried, Upstream, is_among};
use crate::message::Failure;

/// How often a request looks for another endpoint before it waits, if a connection was there and then
/// was not.
const MAX_CHOICES: usize = 4;

/// A connection at an endpoint.
struct Chosen {
    endpoint: Rc<Endpoint>,
    reserved: Reserved,
}

impl Upstream {
    /// Assigns a request to an endpoint at which it has a connection, or the right to open one. The
    /// request waits for it if all endpoints have as many as they may have.
    ///
    /// # Errors
    /// If there is no endpoint, the queue is full, or no connection becomes free in time.
    pub async fn reserve(
        &self,
        bound: &Bound,
        permit: Option<RequestPermit>,
        state: &mut RetryState<'_>,
    ) -> Result<InFlight, Failure> {
        loop {
            let chosen = self.choose(state.affinity(), &state.tried, state.is_for_tunnel())?;
            let Chosen { endpoint, reserved } = match chosen {
                Some(chosen) => chosen,
                None => match self.wait(bound, state).await? {
                    Some(chosen) => chosen,
                    None => continue,
                },
            };
            if let Some(reservation) = &mut state.reservation {
                reservation.reserved = Some(reserved);
            }
            return Ok(InFlight::new(endpoint, permit));
        }
    }

    /// Waits for a connection. None: the request is to look for one again.
    async fn wait(
        &self,
        bound: &Bound,
        state: &mut RetryState<'_>,
    ) -> Result<Option<Chosen>, Failure> {
        let except = match self.is_exhausted(&state.tried) {
            true => SmallVec::new(),
            false => state.tried.iter().map(|it| it.shared().identity).collect(),
        };
        let wanted = Wanted { only: None, except, is_new: state.is_for_tunnel() };
        let queueing = state.reservation.as_mut().and_then(|it| it.queueing.as_mut());
        let queueing = queueing.ok_or(Failure::UpstreamQueueFull)?;
        let begun = monotonic();
        let granted = bound.room.wait(&bound.limit, queueing, wanted).await;
        state.has_waited(monotonic().duration_since(begun));
        let granted = granted.map_err(|fault| self.refused(fault))?;
        // An endpoint that was removed meanwhile gives back what was granted.
        Ok(granted.and_then(|Granted { endpoint, reserved }| {
            self.endpoint(endpoint).map(|endpoint| Chosen { endpoint, reserved })
        }))
    }

    /// An endpoint at which there is a connection at once, if possible one that the request has not
    /// tried. None: the request must wait.
    fn choose(
        &self,
        affinity: Option<u64>,
        tried: &Tried,
        is_for_tunnel: bool,
    ) -> Result<Option<Chosen>, Failure> {
        self.refresh();
        let avoided = if self.is_exhausted(tried) { &Tried::new() } else { tried };
        let EndpointSet { endpoints, balancer, .. } = &mut *self.endpoints().borrow_mut();
        let rng = &mut self.rng().borrow_mut();
        let load = |index: usize| endpoints[index].load();
        let now = monotonic();
        let mut choice = balancer.choose(rng, affinity, load);
        if choice.is_none() {
            self.shared().doubt_addresses();
            return Err(Failure::UpstreamUnresolved);
        }
        for _ in 0..MAX_CHOICES {
            let Some(index) = choice else { break };
            let endpoint = &endpoints[index];
            if !is_among(endpoint, avoided)
                && let Some(reserved) = endpoint.reserve(now, is_for_tunnel)
            {
                return Ok(Some(Chosen { endpoint: Rc::clone(endpoint), reserved }));
            }
            let is_full = |index: usize| {
                is_among(&endpoints[index], avoided) || !endpoints[index].has_room(is_for_tunnel)
            };
            choice = balancer.without(is_full).choose(rng, affinity, load);
        }
        if is_for_tunnel {
            return Ok(None);
        }
        // A request waits for a stream if its worker has a connection of HTTP/2.
        let shared =
            |index: &usize| balancer.serves(*index) && !is_among(&endpoints[*index], avoided);
        let mut sharing: SmallVec<[usize; 8]> = (0..endpoints.len()).filter(shared).collect();
        sharing.sort_by_key(|index| endpoints[*index].load());
        Ok(sharing.into_iter().find_map(|index| {
            let endpoint = &endpoints[index];
            endpoint.share().map(|reserved| Chosen { endpoint: Rc::clone(endpoint), reserved })
        }))
    }

    /// The endpoint with this identity, if there still is one.
    fn endpoint(&self, identity: u64) -> Option<Rc<Endpoint>> {
        self.refresh();
        let set = self.endpoints().borrow();
        set.endpoints.iter().find(|it| it.shared().identity == identity).cloned()
    }

    /// The failure of a request that gets no connection. Warns of it, but not of each.
    pub fn refused(&self, fault: Fault) -> Failure {
        let cause = match fault {
            Fault::QueueFull => "full",
            Fault::QueueTimeout => "timeout",
            other => return other.failure(),
        };
        self.metrics().queue_refused(cause);
        if self.queue_warnings().is_due(monotonic()) {
            warn!(
                upstream = %self.shared().settings().name,
                cause,
                "requests get 503: all connections that max_connections allows are in use"
            );
        }
        fault.failure()
    }
}
