//! `envoy.service.auth.v3`, and the messages of other packages that it uses.

use std::collections::BTreeMap;

use prost::{Enumeration, Message, Oneof};

use super::core::{HeaderValue, QueryParameter};

/// A question about a request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<AttributeContext>,
}

/// What is known of a request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AttributeContext {
    /// The client.
    #[prost(message, optional, tag = "1")]
    pub source: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    pub request: Option<AttributeRequest>,
}

/// One end of the connection.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Peer {
    #[prost(message, optional, tag = "1")]
    pub address: Option<Address>,
}

/// An address; none if it is of another kind.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Address {
    #[prost(message, optional, tag = "1")]
    pub socket_address: Option<SocketAddress>,
}

/// An address of IP.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct SocketAddress {
    #[prost(string, tag = "2")]
    pub address: String,
}

/// The request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AttributeRequest {
    #[prost(message, optional, tag = "2")]
    pub http: Option<HttpRequest>,
}

/// The request as one of HTTP.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HttpRequest {
    #[prost(string, tag = "2")]
    pub method: String,
    /// The fields, whose lines are joined.
    #[prost(btree_map = "string, string", tag = "3")]
    pub headers: BTreeMap<String, String>,
    /// The path and the query.
    #[prost(string, tag = "4")]
    pub path: String,
    #[prost(string, tag = "5")]
    pub host: String,
    /// `http` or `https`.
    #[prost(string, tag = "6")]
    pub scheme: String,
    /// The length of the body in bytes, or -1.
    #[prost(int64, tag = "9")]
    pub size: i64,
    /// The version, like `HTTP/1.1`.
    #[prost(string, tag = "10")]
    pub protocol: String,
    /// All lines of all fields, instead of `headers`.
    #[prost(message, optional, tag = "13")]
    pub header_map: Option<HeaderMap>,
}

/// Lines of fields.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<HeaderValue>,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    #[prost(oneof = "HttpResponse", tags = "2, 3")]
    pub http_response: Option<HttpResponse>,
}

/// What Envoy does with the request.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum HttpResponse {
    #[prost(message, tag = "2")]
    Denied(DeniedHttpResponse),
    #[prost(message, tag = "3")]
    Ok(OkHttpResponse),
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

/// The response that the client gets.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeniedHttpResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<HttpStatus>,
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderValueOption>,
    #[prost(string, tag = "3")]
    pub body: String,
}

/// `envoy.type.v3.HttpStatus`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct HttpStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
}

/// The request is forwarded.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct OkHttpResponse {
    /// Fields for the request.
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderValueOption>,
    /// Fields that the request loses.
    #[prost(string, repeated, tag = "5")]
    pub headers_to_remove: Vec<String>,
    /// Fields for the client.
    #[prost(message, repeated, tag = "6")]
    pub response_headers_to_add: Vec<HeaderValueOption>,
    /// Parameters for the query of the request.
    #[prost(message, repeated, tag = "7")]
    pub query_parameters_to_set: Vec<QueryParameter>,
    /// Parameters that the query loses.
    #[prost(string, repeated, tag = "8")]
    pub query_parameters_to_remove: Vec<String>,
}

/// A field, and what happens to one with the same name.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderValueOption {
    #[prost(message, optional, tag = "1")]
    pub header: Option<HeaderValue>,
    #[prost(enumeration = "HeaderAppendAction", tag = "3")]
    pub append_action: i32,
}

/// What happens to a field with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum HeaderAppendAction {
    AppendIfExistsOrAdd = 0,
    AddIfAbsent = 1,
    OverwriteIfExistsOrAdd = 2,
    OverwriteIfExists = 3,
}
