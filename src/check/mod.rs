//! Decisions for others: other proxies and services ask over HTTP and gRPC whether a request
//! may pass, and forward it themselves.
//!
//! A question is described in the same terms as a request that the gateway forwards, and is
//! decided by the same policies and counters. The answers are all that differs.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod grpc;
mod http;
mod lease;
mod metrics;
pub mod rls;
mod services;
mod settings;
mod wildcard;
mod xds;

pub use http::Shared as SharedState;
pub use services::Services;
pub use settings::{
    CheckSettings, CheckToken, GrpcSettings, HttpSettings, LeaseSettings, RpcServices, Statuses,
    XdsSettings,
};
pub use wildcard::Wildcard;
pub use xds::{Client as XdsClient, Condition as XdsCondition};
