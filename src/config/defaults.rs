//! What holds where the file says nothing: safe on the public internet.
//!
//! Settings with a `Default` or a `new` of their own keep theirs there.

use http::header::{HeaderName, HeaderValue};

use crate::policy::{ApiKeySettings, ClientSettings, ForwardedHeader};

/// `Content-Type` of bodies written in the configuration.
pub(super) const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Nobody is believed; an IPv6 client is its /64, which is what one customer has.
pub(super) fn client() -> ClientSettings {
    ClientSettings {
        trusted_proxies: Vec::new(),
        forwarded_header: ForwardedHeader::XForwardedFor,
        ipv4_prefix: 32,
        ipv6_prefix: 64,
        api_key: ApiKeySettings {
            headers: vec![HeaderName::from_static("x-api-key")],
            bearer: true,
            query: None,
        },
        user: None,
        geo: Vec::new(),
    }
}
