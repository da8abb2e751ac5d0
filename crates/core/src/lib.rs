//! The decisions of Tollgate: which counters a request uses, what they admit, and what the answer
//! says.
//!
//! This crate is a part of the library `tollgate-limiter` and of the gateway `tollgate`. It is
//! published because crates.io asks for that. Use the library: the interface of this crate may
//! change in any version.
//!
//! It is for engineers who change how requests are counted. Nothing here opens a connection.
//! Counters are in the memory of the process, or behind the trait [`store::RemoteStore`].
//!
//! # Layout
//!
//! A module may use those below it and none beside it.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 0 | `time` | integer time and clocks |
//! | 0, pure | `price` | what tokens cost in a currency |
//! | 1, pure | `request`, `digest`, `algorithm`, `consistency`, `meter`; `pem`, `tls`; `drain`; `in_time`; `log_fields` | a request as policies see it; keys; how requests are counted, and how exactly on many nodes; what a response says it cost; certificates and keys in files, and TLS of clients; stopping; time limits; the names in the access log of the gateway |
//! | 2, pure | `text` | characters that people can read, and JSON strings |
//! | 3, pure | `api_keys`, `passwords` | the form of API keys, and what is kept of them; users and their passwords |
//! | 4 | `policy`, `store` | which counters a request uses under which limits; storage of counters |
//! | 5 | `refusal`, `routes` | the responses to requests that are not admitted; which route of the gateway a request has, and which policies judge it |
//! | 6 | `decision` | the decision of all policies on a request, its response fields, and the settlement at its end |

pub mod algorithm;
pub mod api_keys;
pub mod consistency;
mod crc;
pub mod decision;
pub mod digest;
pub mod drain;
pub mod in_time;
pub mod log_fields;
pub mod meter;
pub mod passwords;
#[cfg(feature = "jwt")]
pub mod pem;
pub mod policy;
pub mod price;
pub mod refusal;
pub mod request;
pub mod routes;
pub mod scalar;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod time;
#[cfg(feature = "tls")]
pub mod tls;
