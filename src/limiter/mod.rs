//! The limiter.

mod settings;

pub use settings::{Dialect, HeaderSettings};
