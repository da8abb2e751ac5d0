//! The configuration: text, to what was written, to what is true.

mod model;

pub use model::{Config, RuntimeSettings};
