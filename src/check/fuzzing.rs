//! The fuzz targets of this layer.

pub use super::http::fuzzing::{descriptors, families, pointers, questions};
pub use super::lease::fuzzing::leases;
