//! Views of requests that did not arrive over HTTP, for tests.

use std::net::IpAddr;

use http::{HeaderMap, Method};

use super::{Forwarding, RequestView};
use crate::request::host::host_of_field;
use crate::request::path::normal_path;
use crate::request::{Content, Fields};

impl<'a> RequestView<'a> {
    /// The view of a GET request from 192.0.2.1, without a query and without content.
    ///
    /// # Panics
    /// If `host` or `path` is ambiguous.
    pub fn sample(host: &'a str, path: &'a str, headers: &'a HeaderMap) -> Self {
        Self {
            method: &Method::GET,
            host: host_of_field(host).expect("a host that has one meaning"),
            target_authority: None,
            path: normal_path(path).expect("a path that has one meaning"),
            query: None,
            fields: Fields::of(headers),
            peer: [192, 0, 2, 1].into(),
            has_content: false,
            forwarding: Forwarding::IfTrusted,
            tls_subject: None,
            answer_by: None,
            is_authorized: false,
            content: Content::Unknown,
        }
    }

    /// Sets the method.
    #[must_use]
    pub const fn with_method(mut self, method: &'a Method) -> Self {
        self.method = method;
        self
    }

    /// Sets the query.
    #[must_use]
    pub const fn with_query(mut self, query: Option<&'a str>) -> Self {
        self.query = query;
        self
    }

    /// Sets the address of the peer.
    #[must_use]
    pub const fn with_peer(mut self, peer: IpAddr) -> Self {
        self.peer = peer.to_canonical();
        self
    }
}
