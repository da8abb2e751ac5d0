//! States in Redis, shared by all nodes.

mod deny;

pub use deny::DenyCache;
