//! Compresses the response to a request: from the request's `Accept-Encoding` to the body.

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Response};
use hyper::body::Body as _;

use super::body::ResponseBody;
use super::compressing::Compressing;
use crate::message::{
    CompressSettings, Encoding, Fate, accepted, has_content_type, weaken_etag, write_encoding,
    write_vary,
};

/// How the response to one request may be compressed.
#[derive(Debug)]
pub struct Negotiated {
    settings: Arc<CompressSettings>,
    /// The encoding that the client prefers.
    encoding: Option<Encoding>,
    /// Whether the response has no body because of the method.
    is_head: bool,
}

impl Negotiated {
    /// For the request with this method and these fields.
    pub fn of(settings: &Arc<CompressSettings>, method: &Method, headers: &HeaderMap) -> Self {
        Self {
            encoding: accepted(headers, &settings.encodings),
            settings: Arc::clone(settings),
            is_head: method == Method::HEAD,
        }
    }

    /// Compresses a response if that is possible, and writes into its head what depends on it.
    pub fn apply(&self, compressing: &Compressing, response: &mut Response<ResponseBody>) {
        let length = response.body().size_hint().exact().filter(|_| !self.is_head);
        let fate = self.settings.fate(response.status(), response.headers(), length);
        if fate == Fate::Unchanged {
            return;
        }
        let headers = response.headers_mut();
        write_vary(headers);
        let Some(encoding) = self.encoding else { return };
        match fate {
            Fate::NotModified => weaken_etag(headers),
            Fate::Eligible if !self.is_head => {
                let is_event_stream = has_content_type(headers, &["text/event-stream"]);
                if let Some(stream) = compressing.stream(encoding, is_event_stream) {
                    write_encoding(encoding, headers);
                    response.body_mut().compress(stream);
                }
            }
            // The content that GET has is of another length and form (RFC 9110, section 8.6). Fields
            // that depend on it may be absent (section 9.3.2).
            Fate::Eligible => {
                weaken_etag(headers);
                headers.remove(CONTENT_LENGTH);
            }
            Fate::Unchanged => {}
        }
    }
}
