//! Rate limits that are true: algorithms, policies, stores, and decisions over them.
//!
//! This crate has all that decides in Tollgate. It knows the types of [`http`] and
//! nothing of connections, configuration files or a command line.
//!
//! # Layout
//!
//! A module may use those below it and none beside it:
//!
//! | layer | modules | what they are |
//! |---|---|---|
//! | 0 | [`time`] | integer time and clocks |
//! | 1, pure | [`request`], [`digest`], [`algorithm`], [`consistency`], [`meter`]; [`drain`] | a request as policies see it; keys; how requests are counted, and how exactly on many nodes; what a response says it cost; stopping |
//! | 2 | [`policy`], [`store`] | which counters a request uses under which limits; where counters live |
//! | 3 | [`decision`] | what all policies say of a request, what its client is told, and what is settled at its end |
//! | 4 | [`shared`] | decisions from any thread |
//!
//! # A decision
//!
//! [`decision::Claims`] say what policies ask for a request. They are computed at
//! once and refer to nothing of the request. A [`decision::Judge`] judges them by the
//! counters of a store, and the lease of the decision is ended with the response.

// Types without values stand in for what these features bring.
#![cfg_attr(
    not(all(feature = "jwt", feature = "overrides")),
    allow(unreachable_code, unused_variables)
)]

pub mod algorithm;
pub mod consistency;
pub mod decision;
pub mod digest;
pub mod drain;
pub mod meter;
pub mod policy;
pub mod request;
pub mod shared;
pub mod store;
pub mod time;
