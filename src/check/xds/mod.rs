//! The domains of the rate limit service from another server, by the protocol xDS: one stream of
//! `envoy.service.discovery.v3.AggregatedDiscoveryService`, one type of resources, read only.
//! Envoy Gateway and Envoy AI Gateway are such servers.
//!
//! A task on the control thread keeps the stream. Nothing here is on the way of a request: workers
//! get rules that are checked and whole. The rules in use stay, however long the server is away or
//! sends something else.
//!
//! | module | contents |
//! |---|---|
//! | `messages` | the messages of the protocol |
//! | `resources` | the rules in a response, or its mistakes |
//! | `exchange` | what is said on a stream, and which rules are in use: pure |
//! | `connection` | one connection with one stream |
//! | `client` | streams one after another |
//! | `condition` | what metrics and the status show |

mod client;
mod condition;
mod connection;
mod exchange;
#[allow(unreachable_pub, reason = "the derived code needs public names")]
mod messages;
mod resources;

pub use client::Client;
pub use condition::Condition;
