//! Bodies on their way through. They stream with back-pressure, and hold what
//! must last as long as they do.

mod expect;
mod patience;
mod replay;
mod request;
mod response;

pub use expect::Expectation;
use patience::Patience;
pub(super) use request::Spare;
pub use request::{Progress, RequestBody};
pub use response::{BrokenResponse, ResponseBody};
