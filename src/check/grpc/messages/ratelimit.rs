//! `envoy.service.ratelimit.v3` and `envoy.extensions.common.ratelimit.v3`.

use prost::{Enumeration, Message};

use super::values::{Duration, Struct};
use crate::grpc::core::HeaderValue;

/// A question about descriptors.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<RateLimitDescriptor>,
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

/// A descriptor.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub limit: Option<RateLimitOverride>,
    /// Instead of the request's `hits_addend`.
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    pub is_negative_hits: bool,
}

/// An entry of a descriptor.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A limit instead of the configured one.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct RateLimitOverride {
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    /// A [unit](crate::check::rls::Unit), or 0.
    #[prost(int32, tag = "2")]
    pub unit: i32,
}

/// The answer.
#[derive(Clone, PartialEq, Message)]
pub struct RateLimitResponse {
    #[prost(enumeration = "Code", tag = "1")]
    pub overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub response_headers_to_add: Vec<HeaderValue>,
    #[prost(message, repeated, tag = "4")]
    pub request_headers_to_add: Vec<HeaderValue>,
    #[prost(bytes = "vec", tag = "5")]
    pub raw_body: Vec<u8>,
    #[prost(message, optional, tag = "6")]
    pub dynamic_metadata: Option<Struct>,
}

/// The answer about one descriptor.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DescriptorStatus {
    #[prost(enumeration = "Code", tag = "1")]
    pub code: i32,
    #[prost(message, optional, tag = "2")]
    pub current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub duration_until_reset: Option<Duration>,
}

/// A limit.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    /// A [unit](crate::check::rls::Unit), or 0.
    #[prost(int32, tag = "2")]
    pub unit: i32,
    #[prost(string, tag = "3")]
    pub name: String,
}

/// Whether a limit is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
pub enum Code {
    /// Envoy admits requests with this code. It is never sent.
    Unknown = 0,
    Ok = 1,
    OverLimit = 2,
}

impl Code {
    /// The code of a request or descriptor.
    pub const fn of(is_over: bool) -> i32 {
        if is_over { Self::OverLimit as i32 } else { Self::Ok as i32 }
    }
}
