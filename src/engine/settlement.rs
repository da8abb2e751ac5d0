//! The settlement of an admitted request after its response, by the cost that the response
//! states.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use smallvec::SmallVec;
use tollgate_core::decision::{Ending, Lease};
use tollgate_core::meter::{Meter, MeterSpec};
use tollgate_core::policy::Policy;
use tollgate_core::time::Timestamp;

use super::Engine;

/// The open settlement of an admitted request. Dropping it settles the request. This
/// happens however the request ends, also if its client disconnects before a response.
pub struct Settlement {
    engine: Engine,
    lease: Lease,
    /// Returns the number of received bytes of the request's body.
    received: Option<Rc<dyn Fn() -> u64>>,
    status: Option<StatusCode>,
    meters: SmallVec<[Meter; 1]>,
    /// That of the second decision on the request, if there was one.
    later: Option<Box<Self>>,
}

impl Settlement {
    /// The settlement of `lease`. Most requests need none.
    pub fn new(engine: &Engine, lease: Lease) -> Option<Box<Self>> {
        (!lease.is_empty()).then(|| {
            engine.begin(&lease);
            Box::new(Self {
                engine: engine.clone(),
                lease,
                received: None,
                status: None,
                meters: SmallVec::new(),
                later: None,
            })
        })
    }

    /// Prepares a request with these fields for the upstream. `received` returns the number
    /// of received bytes of its body. If a meter must read the response, the response must
    /// not be compressed.
    pub fn forwarded(&mut self, headers: &mut HeaderMap, received: Option<Rc<dyn Fn() -> u64>>) {
        if let Some(later) = &mut self.later {
            later.forwarded(headers, received.clone());
        }
        self.received = received;
        let reads = |meter: &MeterSpec| matches!(meter, MeterSpec::Json(_) | MeterSpec::SseJson(_));
        if self.lease.meters().any(reads) {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
    }

    /// Records the head of the response. Its body follows.
    pub fn answered<B>(&mut self, response: &Response<B>) {
        self.status = Some(response.status());
        let headers = response.headers();
        self.meters = self.lease.meters().map(|spec| Meter::new(spec, headers)).collect();
        if let Some(later) = &mut self.later {
            later.answered(response);
        }
    }

    /// Meters a piece of the response's body.
    pub fn observe(&mut self, bytes: &[u8]) {
        self.meters.iter_mut().for_each(|meter| meter.observe(bytes));
        if let Some(later) = &mut self.later {
            later.observe(bytes);
        }
    }
}

impl fmt::Debug for Settlement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settlement").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// What a settlement has done.
#[derive(Debug)]
pub struct Settled {
    /// When it was.
    pub at: Timestamp,
    /// The units that each of its policies counts in the end.
    pub units: SmallVec<[(Arc<Policy>, u64); 2]>,
}

impl Settlement {
    /// Settles the request, and says what was settled.
    pub fn settle(mut self: Box<Self>) -> Settled {
        let later = self.later.take();
        let mut settled = self.end();
        if let Some(later) = later {
            settled.units.extend(later.settle().units);
        }
        settled
    }

    /// Gives back what was charged, because the request is not processed. Says what was settled.
    pub fn give_back(mut self: Box<Self>) -> Settled {
        let lease = std::mem::take(&mut self.lease);
        let at = self.engine.give_back_all(&lease);
        Settled { at, units: lease.policies().map(|policy| (Arc::clone(policy), 0)).collect() }
    }

    /// Keeps only what the end of the response determines: the rest stays charged. None, if
    /// that is nothing.
    pub fn closing_known(mut self: Box<Self>) -> Option<Box<Self>> {
        self.lease.close_known();
        (!self.lease.is_empty()).then_some(self)
    }

    /// Adds the settlement of the second decision on the request.
    pub fn followed_by(mut self: Box<Self>, later: Option<Box<Self>>) -> Box<Self> {
        self.later = later;
        self
    }

    fn end(&mut self) -> Settled {
        let lease = std::mem::take(&mut self.lease);
        let metered: SmallVec<[Option<u64>; 1]> =
            std::mem::take(&mut self.meters).into_iter().map(Meter::finish).collect();
        let ending = Ending {
            status: self.status,
            request_bytes: Some(self.received.as_ref().map_or(0, |received| received())),
            metered: &metered,
        };
        let at = self.engine.end(&lease, &ending);
        Settled {
            at,
            units: lease.spent(&ending).map(|(it, units)| (Arc::clone(it), units)).collect(),
        }
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        if !self.lease.is_empty() {
            self.end();
        }
    }
}
