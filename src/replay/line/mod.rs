//! Lines of access logs, from bytes to fields. Pure: no input panics, and a line is read
//! without what stood before it.

mod alb;
mod cloudfront;
mod common;
mod envoy;
mod fields;
mod format;
mod json;
mod names;
mod text;
mod time;

pub(crate) use fields::{Line, Mark, Parsed};
pub(crate) use format::Format;
pub(crate) use names::{MapError, Names};
