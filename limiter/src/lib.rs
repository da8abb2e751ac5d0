//! Rate limits that are true: algorithms, policies, stores, and decisions over them.

pub mod algorithm;
pub mod decision;
pub mod digest;
pub mod drain;
pub mod meter;
pub mod policy;
pub mod request;
pub mod store;
pub mod terms;
pub mod time;
