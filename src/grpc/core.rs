//! `envoy.config.core.v3`.

use prost::Message;

/// A header field.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
    /// The value, if it is not UTF-8. Then `value` is empty.
    #[prost(bytes = "vec", tag = "3")]
    pub raw_value: Vec<u8>,
}

/// A parameter of a query.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct QueryParameter {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}
