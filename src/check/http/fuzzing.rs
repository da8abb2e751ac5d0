//! The fuzz targets of questions over HTTP.

pub use super::api::fuzzing::{pointers, questions};
pub use super::auth::fuzzing::families;
pub use super::ratelimit::fuzzing::descriptors;
