//! The fuzz targets of this layer.

pub use super::http::fuzzing::{families, pointers, questions};
pub use super::lease::fuzzing::leases;
