//! The settlement of an admitted request after its response, by the cost that the response
//! states.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body;
use smallvec::SmallVec;
use tollgate_core::decision::{Ending, Lease};
use tollgate_core::meter::{Failed, Meter, MeterSpec, Metered, Progress, Spent, Unsettled, Usage};
use tollgate_core::policy::Policy;
use tollgate_core::price::Money;
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
    progress: Progress,
    /// How often the request was sent to an endpoint that may still process it.
    unanswered: Cell<u32>,
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
                progress: Progress::Open,
                unanswered: Cell::default(),
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

    /// Whether the answer must state its tokens.
    pub fn asks_usage(&self) -> bool {
        self.lease.policies().any(|policy| policy.asks_usage)
            || self.later.as_ref().is_some_and(|later| later.asks_usage())
    }

    /// How often the request was sent to an endpoint that has neither answered it nor said that it
    /// does not process it.
    pub const fn unanswered(&self) -> &Cell<u32> {
        &self.unanswered
    }

    /// Records the head of the response. Its body follows.
    pub fn answered<B: Body>(&mut self, response: &Response<B>) {
        self.begin(response, None);
    }

    /// Records the head of a response of the gateway itself, because the request has failed.
    pub fn failed<B: Body>(&mut self, response: &Response<B>) {
        let is_unsent = self.unanswered.get() == 0;
        self.begin(response, Some(if is_unsent { Failed::Unsent } else { Failed::Unanswered }));
    }

    fn begin<B: Body>(&mut self, response: &Response<B>, failed: Option<Failed>) {
        self.status = Some(response.status());
        // The server does not ask for a body of length 0. Over HTTP/2 the end of its stream may come later.
        let body = response.body();
        if body.is_end_stream() || body.size_hint().exact() == Some(0) {
            self.progress = Progress::Ended;
        }
        let headers = response.headers();
        let meters = self.lease.begin_meters(headers);
        self.meters = meters
            .map(|meter| match failed {
                Some(failed) => meter.failed(failed),
                None => meter,
            })
            .collect();
        if let Some(later) = &mut self.later {
            later.begin(response, failed);
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
    /// The tokens that the answer of a language model states.
    pub usage: Option<Usage>,
}

impl Settled {
    /// What the request has cost, if a policy counts money. Policies may count different amounts if
    /// the answer has not settled the cost: then it is the largest.
    pub fn spent(&self) -> Option<Money> {
        let amounts = self.units.iter().filter_map(|(policy, units)| {
            let prices = policy.cost.prices()?;
            Some(prices.denomination.shown(*units))
        });
        amounts.max_by_key(|amount| amount.units)
    }
}

impl Settlement {
    /// Settles the request, and says what was settled.
    pub fn settle(mut self) -> Settled {
        let later = self.later.take();
        let mut settled = self.end();
        if let Some(later) = later {
            let later = later.settle();
            settled.units.extend(later.units);
            settled.unsettled = settled.unsettled.or(later.unsettled);
            settled.usage = settled.usage.or(later.usage);
        }
        settled
    }

    /// Gives back what was charged, because the request is not processed. Says what was settled.
    pub fn give_back(mut self) -> Settled {
        let lease = std::mem::take(&mut self.lease);
        let at = self.engine.give_back_all(&lease);
        let mut units: SmallVec<_> =
            lease.policies().map(|policy| (Arc::clone(policy), 0)).collect();
        if let Some(later) = self.later.take() {
            units.extend(later.give_back().units);
        }
        Settled { at, units, unsettled: None, usage: None }
    }

    /// Keeps only what the end of the response determines: the rest stays charged. None, if
    /// that is nothing.
    pub fn closing_known(mut self: Box<Self>) -> Option<Box<Self>> {
        self.lease.close_known();
        self.later = self.later.take().and_then(Self::closing_known);
        if !self.lease.is_empty() {
            return Some(self);
        }
        let mut later = self.later.take()?;
        later.unanswered = self.unanswered.clone();
        Some(later)
    }

    /// Adds the settlement of the second decision on the request.
    pub fn followed_by(mut self: Box<Self>, later: Option<Box<Self>>) -> Box<Self> {
        self.later = later;
        self
    }

    fn end(&mut self) -> Settled {
        let lease = std::mem::take(&mut self.lease);
        let mut metered = SmallVec::<[Metered; 1]>::new();
        let mut spent = None::<Spent>;
        if let Some(status) = self.status {
            for meter in std::mem::take(&mut self.meters) {
                let (reading, stated) = meter.finish(status, self.progress);
                metered.push(reading);
                // A meter without prices does not know the entry.
                spent = stated.filter(|it| it.entry.is_some()).or(spent).or(stated);
            }
        }
        let ending = Ending {
            status: self.status,
            request_bytes: Some(self.received.as_ref().map_or(0, |received| received())),
            metered: &metered,
        };
        let at = self.engine.end(&lease, &ending);
        let mut unsettled = None;
        self.engine.spent(&lease, &ending, spent.as_ref());
        for (policy, cause) in lease.unsettled(&ending) {
            self.engine.unsettled(policy, cause);
            unsettled = Some(cause);
        }
        let units = lease.spent(&ending).map(|(it, units)| (Arc::clone(it), units)).collect();
        Settled { at, units, unsettled, usage: spent.map(|it| it.usage) }
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        if !self.lease.is_empty() {
            self.end();
        }
    }
}
