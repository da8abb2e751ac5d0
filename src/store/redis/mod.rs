//! States in Redis, for many nodes.

pub mod codec;
pub mod layout;
pub mod script;
