//! Bodies on their way through. They stream with back-pressure, and hold what
//! must last as long as they do.

mod patience;
mod replay;
mod request;
mod response;

use patience::Patience;
pub(super) use request::Spare;
pub use request::{Progress, RequestBody};
pub use response::{BrokenResponse, ResponseBody};
