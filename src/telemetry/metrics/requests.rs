//! What a worker measures of its requests.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use tollgate_core::decision::Decision;
use tollgate_core::policy::{AccessList, AccessVerdicts, Policy};
use tollgate_core::request::Malformed;
use tollgate_core::time::{Span, monotonic};

use super::access::AccessMetrics;
use super::cache::Cache;
use super::cell::{Counter, Histogram};
use super::decisions::DecisionMetrics;
use super::families::{ACTIVE_REQUESTS, MALFORMED_REQUESTS, OWN_DURATION, REQUEST_DURATION};
use super::worker::WorkerMetrics;
use crate::telemetry::methods::{name_of, number_of};
use crate::telemetry::record::CLIENT_CLOSED;

/// The names by which a route is shown.
#[derive(Debug)]
pub struct RouteLabels {
    /// Its name.
    pub name: Box<str>,
    /// The pattern of its paths.
    pub pattern: Box<str>,
}

/// What one worker measures of its requests under one configuration.
#[derive(Debug)]
pub struct RequestMetrics {
    worker: Rc<WorkerMetrics>,
    routes: Box<[RouteLabels]>,
    active: Counter,
    own: Histogram,
    durations: RefCell<Cache<Histogram>>,
    malformed: RefCell<Cache<Counter>>,
    access: AccessMetrics,
    decisions: DecisionMetrics,
}

impl RequestMetrics {
    /// For a configuration with these routes, which have `policies` policies in all.
    pub fn new(worker: &Rc<WorkerMetrics>, routes: Box<[RouteLabels]>, policies: usize) -> Self {
        Self {
            active: worker.counter(&ACTIVE_REQUESTS, &[]),
            own: worker.histogram(&OWN_DURATION, &[]),
            durations: RefCell::new(Cache::new(routes.len().saturating_mul(4))),
            malformed: RefCell::new(Cache::new(0)),
            access: AccessMetrics::new(worker),
            decisions: DecisionMetrics::new(worker, policies),
            worker: Rc::clone(worker),
            routes,
        }
    }

    /// Begins to measure a request whose head has arrived at this time.
    pub fn begin(self: &Rc<Self>, method: &Method, started: Instant) -> Measurement {
        self.active.increment();
        Measurement {
            metrics: Rc::clone(self),
            started,
            waited: Cell::default(),
            error: Some(CLIENT_CLOSED),
            route: None,
            method: number_of(method),
            status: None,
        }
    }

    /// Counts the decision on a request of a route with these policies.
    pub fn decided(&self, policies: &[Arc<Policy>], decision: &Decision<&Arc<Policy>>) {
        self.decisions.count(policies, decision);
    }

    /// Counts what the access lists of a route have said of a request.
    pub fn accessed(&self, lists: &[Arc<AccessList>], verdicts: AccessVerdicts) {
        if verdicts.any() {
            self.access.count(lists, verdicts);
        }
    }

    /// A request is refused because it is malformed.
    pub fn malformed(&self, malformed: Malformed) {
        let name = malformed.name();
        let make = || self.worker.counter(&MALFORMED_REQUESTS, &[name]);
        self.malformed.borrow_mut().get((name.as_ptr().addr(), 0), make).increment();
    }

    fn ended(&self, measurement: &Measurement) {
        let Measurement { started, error, route, method, status, .. } = *measurement;
        let status_code = status.map_or(0, |status| status.as_u16());
        let route_number = route.map_or(0, |route| u64::from(route) + 1);
        let key = route_number << 24 | u64::from(method) << 16 | u64::from(status_code);
        // The texts are static, so the address of a text stands for it.
        let error_address = error.map_or(0, |error| error.as_ptr().addr());
        let mut durations = self.durations.borrow_mut();
        let duration = durations.get((error_address, key), || {
            let labels = route.and_then(|route| self.routes.get(usize::try_from(route).ok()?));
            let (name, pattern) = labels.map_or(("", ""), |it| (&*it.name, &*it.pattern));
            let status = status.as_ref().map_or("", StatusCode::as_str);
            // An error that has no better name is named by its status.
            let is_fault = error.is_none() && status_code >= 500;
            let error = if is_fault { status } else { error.unwrap_or("") };
            self.worker
                .histogram(&REQUEST_DURATION, &[name_of(method), status, pattern, name, error])
        });
        duration.observe(micros(monotonic().duration_since(started)));
        self.active.decrement();
    }
}

/// A request that is measured. It ends when this value is dropped, which is when the
/// response has been sent or the client has left. It needs no allocation.
#[derive(Debug)]
pub struct Measurement {
    metrics: Rc<RequestMetrics>,
    started: Instant,
    /// The time for which others made it wait: the upstream, or a policy that delays.
    waited: Cell<Duration>,
    error: Option<&'static str>,
    route: Option<u32>,
    method: u8,
    status: Option<StatusCode>,
}

impl Measurement {
    /// The request is one of the route with this index.
    pub fn set_route(&mut self, route: usize) {
        self.route = u32::try_from(route).ok();
    }

    /// Where the time is added for which others made it wait.
    pub const fn waited(&self) -> &Cell<Duration> {
        &self.waited
    }

    /// Its response begins now. `error` is why the gateway answers instead of an upstream,
    /// if it failed. Returns how long the request has taken until now.
    pub fn answered(&mut self, status: StatusCode, error: Option<&'static str>) -> Duration {
        (self.status, self.error) = (Some(status), error);
        let whole = monotonic().duration_since(self.started);
        self.metrics.own.observe(micros(whole.saturating_sub(self.waited.get())));
        whole
    }

    /// Its response has no head that the gateway made in its own time: an upstream or a
    /// client took longer than it may. Returns how long the request has taken until now.
    pub fn timed_out(&mut self, status: StatusCode, error: &'static str) -> Duration {
        (self.status, self.error) = (Some(status), Some(error));
        monotonic().duration_since(self.started)
    }

    /// Its response breaks off.
    pub fn broken(&mut self, error: &'static str) {
        self.error = Some(error);
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        self.metrics.ended(self);
    }
}

fn micros(duration: Duration) -> u64 {
    Span::from(duration).as_micros()
}
