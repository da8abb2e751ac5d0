//! `envoy.service.discovery.v3` and `ratelimit.config.ratelimit.v3`, as far as they are used.

use bytes::Bytes;
use prost::Message;

use crate::check::grpc::ratelimit::Struct;
use crate::grpc::authorization::Status;

/// What the client wants, has taken, or has rejected.
#[derive(Clone, PartialEq, Message)]
pub struct DiscoveryRequest {
    /// The last version that was taken. Empty: none.
    #[prost(string, tag = "1")]
    pub version_info: String,
    /// The client. It is named by the first request of a stream.
    #[prost(message, optional, tag = "2")]
    pub node: Option<Node>,
    #[prost(string, tag = "4")]
    pub type_url: String,
    /// The response that this one answers. Empty: none.
    #[prost(string, tag = "5")]
    pub response_nonce: String,
    /// Why that response was rejected. None: it was taken.
    #[prost(message, optional, tag = "6")]
    pub error_detail: Option<Status>,
}

/// The whole state of a type.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DiscoveryResponse {
    #[prost(string, tag = "1")]
    pub version_info: String,
    #[prost(message, repeated, tag = "2")]
    pub resources: Vec<Any>,
    #[prost(string, tag = "4")]
    pub type_url: String,
    #[prost(string, tag = "5")]
    pub nonce: String,
}

/// A client.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "3")]
    pub metadata: Option<Struct>,
    #[prost(string, tag = "6")]
    pub user_agent_name: String,
    #[prost(string, tag = "7")]
    pub user_agent_version: String,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Any {
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// The limits of a domain.
#[derive(Clone, PartialEq, Message)]
pub struct RateLimitConfig {
    /// The name of the resource.
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub domain: String,
    #[prost(message, repeated, tag = "3")]
    pub descriptors: Vec<RateLimitDescriptor>,
}

/// A descriptor, with those below it.
#[derive(Clone, PartialEq, Message)]
pub struct RateLimitDescriptor {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
    #[prost(message, optional, tag = "3")]
    pub rate_limit: Option<RateLimitPolicy>,
    #[prost(message, repeated, tag = "4")]
    pub descriptors: Vec<RateLimitDescriptor>,
    #[prost(bool, tag = "5")]
    pub shadow_mode: bool,
    #[prost(bool, tag = "6")]
    pub detailed_metric: bool,
    #[prost(bool, tag = "7")]
    pub quota_mode: bool,
    #[prost(message, optional, tag = "8")]
    pub metadata: Option<Struct>,
}

/// A limit.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RateLimitPolicy {
    /// A [unit](crate::check::rls::Unit), or 0.
    #[prost(int32, tag = "1")]
    pub unit: i32,
    #[prost(uint32, tag = "2")]
    pub requests_per_unit: u32,
    #[prost(bool, tag = "3")]
    pub unlimited: bool,
    #[prost(string, tag = "4")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub replaces: Vec<RateLimitReplace>,
}

/// The name of a limit that another one replaces.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RateLimitReplace {
    #[prost(string, tag = "1")]
    pub name: String,
}
