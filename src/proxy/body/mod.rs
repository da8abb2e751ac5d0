//! Bodies of requests. They stream with back-pressure, and are bounded in size and
//! in time.

mod expect;
mod gather;
mod idle;
mod reader;
mod replay;
mod request;
mod tap;
mod upload;

pub use expect::Expectation;
pub use idle::IdleTimer;
pub use reader::BodyReader;
pub use request::BodyCopy;
pub use request::RequestBody;
pub use tap::{Tap, TapFault};
