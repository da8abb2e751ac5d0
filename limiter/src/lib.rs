//! Rate limits: algorithms, policies, stores, and decisions over them.
//!
//! This crate contains the decisions of Tollgate. It uses the types of [`http`], and it
//! does not use connections, configuration files or a command line.
//!
//! # Layout
//!
//! A module may use those below it and none beside it:
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 0 | [`time`] | integer time and clocks |
//! | 1, pure | [`request`], [`digest`], [`algorithm`], [`consistency`], [`meter`]; [`drain`] | a request as policies see it; keys; how requests are counted, and how exactly on many nodes; what a response says it cost; stopping |
//! | 2 | [`policy`], [`store`] | which counters a request uses under which limits; storage of counters |
//! | 3 | [`decision`] | the decision of all policies on a request, its response fields, and the settlement at its end |
//! | 4 | [`shared`] | decisions from any thread |
//!
//! # A decision
//!
//! [`decision::Claims`] are the charges of all policies for a request. They are computed
//! without waiting and do not refer to the request. A [`decision::Judge`] decides on them
//! by the counters of a store. The lease of the decision ends with the response.

// Without these features, types without values replace their types.
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
