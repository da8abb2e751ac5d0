//! States in Redis, shared by all nodes.

pub mod codec;
mod deny;
pub mod layout;
pub mod script;

pub use deny::DenyCache;
