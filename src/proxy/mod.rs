//! Forwarding.

mod settings;

pub use settings::{Balance, EndpointSettings, RouteTimeouts, Target, UpstreamSettings};
