//! A request of a log, kept until its turn comes, and its view.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version};
use tollgate_core::request::RequestView;

use super::known_entry::KnownEntry;
use super::line::Line;
use super::wanted::Wanted;

/// What a replay needs of one request. It is small, because up to a million are kept.
#[derive(Debug)]
pub(super) struct Entry {
    method: Method,
    target: Box<[u8]>,
    /// Host and header fields, which most logs do not have.
    extras: Option<Box<Extras>>,
    /// Whether the log has the whole address of the peer.
    pub(super) has_address: bool,
    /// The peer. 0.0.0.0 if the log does not name it.
    client: IpAddr,
    /// The status of the response. 0 if it is not known.
    status: u16,
    /// From the arrival to the end, in microseconds.
    pub(super) duration_us: Option<u64>,
    /// The bytes of the response.
    pub(super) bytes: Option<u64>,
    /// The bytes of the request's body.
    pub(super) request_bytes: Option<u64>,
    /// What our own log says of the decision, if it has keys.
    pub(super) known: Option<Box<KnownEntry>>,
}

#[derive(Debug, Default)]
struct Extras {
    host: Option<HeaderValue>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Entry {
    /// The request of a line. `host` stands in where the log has none. None: the line has
    /// no method that HTTP allows.
    pub(super) fn of(line: &Line<'_>, wanted: &Wanted, host: Option<&str>) -> Option<Self> {
        let mut extras = Extras::default();
        let stand_in = || host.filter(|_| line.target.starts_with(b"/")).map(str::as_bytes);
        if let Some(host) = line.host.as_deref().or_else(stand_in) {
            extras.host = HeaderValue::from_bytes(host).ok();
        }
        for (name, value) in &line.headers {
            if let Some(name) = wanted.find(name)
                && let Ok(value) = HeaderValue::from_bytes(value)
            {
                extras.headers.push((name.clone(), value));
            }
        }
        let has_extras = extras.host.is_some() || !extras.headers.is_empty();
        Some(Self {
            method: Method::from_bytes(&line.method).ok()?,
            target: (&*line.target).into(),
            extras: has_extras.then(|| Box::new(extras)),
            has_address: line.client.is_some_and(|client| !client.is_masked),
            client: line.client.map_or(Ipv4Addr::UNSPECIFIED.into(), |client| client.address),
            status: line.status,
            duration_us: line.duration_us,
            bytes: line.bytes,
            request_bytes: line.request_bytes,
            known: line.known.as_deref().map(|known| Box::new(KnownEntry::of(known, wanted))),
        })
    }

    /// The peer. 0.0.0.0 if the log does not name it.
    pub(super) const fn client(&self) -> IpAddr {
        self.client
    }

    /// The status of the response.
    pub(super) fn status(&self) -> Option<StatusCode> {
        StatusCode::from_u16(self.status).ok()
    }
}

/// The head of one request at a time.
#[derive(Debug)]
pub(super) struct Head(Parts);

impl Head {
    pub(super) fn new() -> Self {
        Self(Request::new(()).into_parts().0)
    }

    /// The view of a request. None: the request means nothing, or more than one thing, and
    /// the gateway refuses it before any limit applies.
    pub(super) fn view(&mut self, entry: &Entry) -> Option<RequestView<'_>> {
        let Self(parts) = self;
        parts.method.clone_from(&entry.method);
        parts.uri = Uri::from_maybe_shared(Bytes::copy_from_slice(&entry.target)).ok()?;
        parts.headers.clear();
        let extras = entry.extras.as_deref();
        if let Some(host) = extras.and_then(|extras| extras.host.as_ref()) {
            parts.headers.insert(HOST, host.clone());
        }
        for (name, value) in extras.map_or(&[][..], |extras| &extras.headers) {
            parts.headers.append(name.clone(), value.clone());
        }
        if let Some(bytes) = entry.request_bytes.filter(|bytes| *bytes > 0) {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
        }
        // HTTP/1.0 alone can do without a host.
        let has_host = parts.headers.contains_key(HOST);
        parts.version = if has_host { Version::HTTP_11 } else { Version::HTTP_10 };
        RequestView::of(parts, entry.client).ok()
    }
}
