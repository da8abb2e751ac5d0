//! The settlement of an admitted request after its response, by the cost that the response
//! states.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body;
use smallvec::SmallVec;
use tollgate_core::decision::{Ending, Lease};
use tollgate_core::meter::{Meter, MeterSpec, Unread};
use tollgate_core::policy::Policy;
use tollgate_core::time::Timestamp;

use super::Engine;
use crate::telemetry::Unsettled;

/// The open settlement of an admitted request. Dropping it settles the request. This
/// happens however the request ends, also if its client disconnects before a response.
pub struct Settlement {
    engine: Engine,
    lease: Lease,
    /// Returns the number of received bytes of the request's body.
    received: Option<Rc<dyn Fn() -> u64>>,
    status: Option<StatusCode>,
    meters: SmallVec<[Meter; 1]>,
    progress: Progress,
    /// That of the second decision on the request, if there was one.
    later: Option<Box<Self>>,
}

/// How far the body of the response has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// More of it may follow.
    Open,
    /// It is complete.
    Ended,
    /// It has broken off.
    Broken,
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
                progress: Progress::Open,
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
        if self.lease.meters().any(MeterSpec::reads_body) {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
    }

    /// Records the head of the response. Its body follows.
    pub fn answered<B: Body>(&mut self, response: &Response<B>) {
        self.status = Some(response.status());
        if response.body().is_end_stream() {
            self.progress = Progress::Ended;
        }
        let headers = response.headers();
        self.meters = self.lease.meters().map(|spec| Meter::new(spec, headers)).collect();
        if let Some(later) = &mut self.later {
            later.answered(response);
        }
    }

    /// Remembers that the response's body is complete.
    pub fn ended(&mut self) {
        self.progress = Progress::Ended;
        if let Some(later) = &mut self.later {
            later.ended();
        }
    }

    /// Remembers that the response's body has broken off.
    pub fn broken(&mut self) {
        self.progress = Progress::Broken;
        if let Some(later) = &mut self.later {
            later.broken();
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
    /// Why the response has not settled the cost under one of them.
    pub unsettled: Option<Unsettled>,
}

impl Settlement {
    /// Settles the request, and says what was settled.
    pub fn settle(mut self: Box<Self>) -> Settled {
        let later = self.later.take();
        let mut settled = self.end();
        if let Some(later) = later {
            let later = later.settle();
            settled.units.extend(later.units);
            settled.unsettled = settled.unsettled.or(later.unsettled);
        }
        settled
    }

    /// Gives back what was charged, because the request is not processed. Says what was settled.
    pub fn give_back(mut self: Box<Self>) -> Settled {
        let lease = std::mem::take(&mut self.lease);
        let at = self.engine.give_back_all(&lease);
        let units = lease.policies().map(|policy| (Arc::clone(policy), 0)).collect();
        Settled { at, units, unsettled: None }
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
        let readings: SmallVec<[Result<u64, Unread>; 1]> =
            std::mem::take(&mut self.meters).into_iter().map(Meter::finish).collect();
        let metered: SmallVec<[Option<u64>; 1]> =
            readings.iter().map(|reading| reading.ok()).collect();
        let ending = Ending {
            status: self.status,
            request_bytes: Some(self.received.as_ref().map_or(0, |received| received())),
            metered: &metered,
        };
        let at = self.engine.end(&lease, &ending);
        let mut unsettled = None;
        for (index, policy) in lease.unsettled(&ending) {
            let cause = self.cause(readings.get(index));
            self.engine.unsettled(policy, cause);
            unsettled = Some(cause);
        }
        let units = lease.spent(&ending).map(|(it, units)| (Arc::clone(it), units)).collect();
        Settled { at, units, unsettled }
    }

    /// Why a meter with this reading has not read the cost.
    fn cause(&self, reading: Option<&Result<u64, Unread>>) -> Unsettled {
        match (reading, self.progress) {
            (Some(Err(Unread::Encoded)), _) => Unsettled::Encoded,
            (_, Progress::Broken) => Unsettled::Broken,
            (Some(_), Progress::Ended) => Unsettled::Absent,
            (None, _) | (_, Progress::Open) => Unsettled::Left,
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
