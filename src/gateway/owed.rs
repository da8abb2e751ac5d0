//! What an admitted request owes its counters until its response has ended, and
//! what its response says it cost.

use std::rc::Rc;

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use smallvec::SmallVec;

use super::Gateway;
use crate::limiter::{Ending, Lease};
use crate::message::{Meter, MeterSpec};
use crate::proxy::Progress;

/// What an admitted request owes its counters. It is settled when this is
/// dropped, which happens however the request ends: also when its client goes
/// before there is any answer.
#[derive(Debug)]
pub(super) struct Owed {
    gateway: Rc<Gateway>,
    lease: Lease,
    upload: Option<Rc<Progress>>,
    status: Option<StatusCode>,
    meters: SmallVec<[Meter; 1]>,
}

impl Owed {
    /// What `lease` says is owed; most requests owe nothing.
    pub(super) fn new(gateway: &Rc<Gateway>, lease: Lease) -> Option<Box<Self>> {
        (!lease.is_empty()).then(|| {
            Box::new(Self {
                gateway: Rc::clone(gateway),
                lease,
                upload: None,
                status: None,
                meters: SmallVec::new(),
            })
        })
    }

    /// The request goes to an upstream, with this body. What a meter must read
    /// in the response must not come compressed.
    pub(super) fn forwarded(&mut self, headers: &mut HeaderMap, upload: Option<Rc<Progress>>) {
        self.upload = upload;
        let reads = |meter: &MeterSpec| matches!(meter, MeterSpec::Json(_) | MeterSpec::SseJson(_));
        if self.lease.meters().any(reads) {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
    }

    /// There is a response, whose body comes next.
    pub(super) fn answered<B>(&mut self, response: &Response<B>) {
        self.status = Some(response.status());
        let headers = response.headers();
        self.meters = self.lease.meters().map(|spec| Meter::new(spec, headers)).collect();
    }

    /// A piece of the response's body goes out.
    pub(super) fn observe(&mut self, bytes: &[u8]) {
        self.meters.iter_mut().for_each(|meter| meter.observe(bytes));
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let lease = std::mem::take(&mut self.lease);
        let metered: SmallVec<[Option<u64>; 1]> =
            std::mem::take(&mut self.meters).into_iter().map(Meter::finish).collect();
        let ending = Ending {
            status: self.status,
            request_bytes: self.upload.as_ref().map_or(0, |upload| upload.bytes()),
            metered: &metered,
        };
        let now = self.gateway.clock.now();
        self.gateway.limiter.end(&lease, &ending, now);
    }
}
