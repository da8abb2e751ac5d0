//! Bodies of requests. They stream with back-pressure, and are bounded in size and
//! in time.

mod expect;
mod idle;
mod replay;
mod request;
mod upload;

pub(crate) use expect::Expectation;
pub(super) use idle::IdleTimer;
pub(super) use request::BodyCopy;
pub(crate) use request::RequestBody;
