//! The view of a request.

#[cfg(any(test, feature = "testing"))]
mod sample;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Instant;

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};

use super::host::{has_same_port, host_of_field};
use super::path::normal_path;
use super::{Ambiguity, Content, Fields, is_method};

/// The parts of a request that policies and routes use. None of them is trusted: only
/// policies that know the trusted proxies use forwarding fields.
#[derive(Clone, Debug)]
pub struct RequestView<'a> {
    /// The method, as sent.
    method: &'a Method,
    /// The host, in lower case and without a port. Empty if the request names none.
    host: Cow<'a, str>,
    /// The authority of the target: all requests over HTTP/2 have one, and few over HTTP/1.
    target_authority: Option<&'a str>,
    /// The path in the form that routes compare, see [`normal_path`].
    path: Cow<'a, str>,
    /// The query: the text after the first `?`, as sent.
    query: Option<&'a str>,
    /// All header fields.
    fields: Fields<'a>,
    /// The address of the peer on the connection. An IPv4-mapped address is converted to
    /// IPv4.
    peer: IpAddr,
    /// Whether content follows the fields.
    has_content: bool,
    /// Whether the peer may name the clients that it forwards for.
    forwarding: Forwarding,
    /// The subject of the peer's certificate.
    tls_subject: Option<&'a str>,
    /// When the decision must be made.
    answer_by: Option<Instant>,
    /// Whether an authorizer has written the fields that it writes.
    is_authorized: bool,
    /// What is known of the content.
    content: Content<'a>,
}

/// Whether the peer of a request may name the clients that it forwards for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarding {
    /// It may not: a load balancer forwarded the connection without its source.
    Never,
    /// It may, if its address is trusted.
    IfTrusted,
    /// It names them in `X-Forwarded-For`: it is a proxy that asks about the request of its
    /// client.
    Asks,
}

impl<'a> RequestView<'a> {
    /// The view of a request that came over HTTP from `peer`.
    ///
    /// # Errors
    /// If the request has no meaning, or several meanings.
    pub fn of(parts: &'a Parts, peer: IpAddr) -> Result<Self, Ambiguity> {
        Self::with_fields(parts, Fields::of(&parts.headers), peer)
    }

    /// `fields` are those of the request.
    fn with_fields(parts: &'a Parts, fields: Fields<'a>, peer: IpAddr) -> Result<Self, Ambiguity> {
        if !is_method(parts.method.as_str().as_bytes()) {
            return Err(Ambiguity::BadMethod);
        }
        check_coding(fields)?;
        let host = host_of(parts)?;
        let path = path_of(&parts.method, &parts.uri)?;
        Ok(Self::with_host_and_path(parts, fields, peer, host, path))
    }

    /// The view of a request that a server has accepted, and that is processed here. It need
    /// not name a host.
    ///
    /// # Errors
    /// If the request has no meaning, or several meanings.
    pub fn of_service(parts: &'a Parts, peer: IpAddr) -> Result<Self, Ambiguity> {
        let fields = Fields::of(&parts.headers);
        match Self::with_fields(parts, fields, peer) {
            Err(Ambiguity::NoHost) => {
                let host = Cow::Borrowed("");
                let path = path_of(&parts.method, &parts.uri)?;
                Ok(Self::with_host_and_path(parts, fields, peer, host, path))
            }
            viewed => viewed,
        }
    }

    fn with_host_and_path(
        parts: &'a Parts,
        fields: Fields<'a>,
        peer: IpAddr,
        host: Cow<'a, str>,
        path: Cow<'a, str>,
    ) -> Self {
        Self {
            method: &parts.method,
            host,
            target_authority: parts.uri.authority().map(http::uri::Authority::as_str),
            path,
            query: parts.uri.query(),
            fields,
            peer: peer.to_canonical(),
            has_content: has_content(fields),
            forwarding: Forwarding::IfTrusted,
            tls_subject: None,
            answer_by: None,
            is_authorized: false,
            content: Content::Unknown,
        }
    }

    /// Records that content follows. Over HTTP/2 no field needs to announce it.
    #[must_use]
    pub const fn with_content(mut self, has_content: bool) -> Self {
        self.has_content = self.has_content || has_content;
        self
    }

    /// Sets whether the peer may name the clients that it forwards for, if its address is
    /// trusted. The default is true.
    #[must_use]
    pub const fn with_forwarding(mut self, may_forward: bool) -> Self {
        self.forwarding = if may_forward { Forwarding::IfTrusted } else { Forwarding::Never };
        self
    }

    /// The view of a request about which the peer asks, because it has received it from a
    /// client. The peer names its client in `X-Forwarded-For`, whatever its own address is.
    /// Other fields in which only trusted proxies may speak for a client, such as that of the
    /// user, still need a trusted address.
    #[must_use]
    pub const fn asked_by_peer(mut self) -> Self {
        self.forwarding = Forwarding::Asks;
        self
    }

    /// Sets the subject of the peer's certificate.
    #[must_use]
    pub const fn with_tls_subject(mut self, subject: Option<&'a str>) -> Self {
        self.tls_subject = subject;
        self
    }

    /// Sets when the decision must be made, because the peer does not wait longer for it. The
    /// store has until then, if that is earlier than its own deadline. None: the peer names no
    /// time.
    #[must_use]
    pub const fn with_answer_by(mut self, answer_by: Option<Instant>) -> Self {
        self.answer_by = answer_by;
        self
    }

    /// Records that an authorizer has written the fields of which it is the only author.
    #[must_use]
    pub const fn authorized(mut self) -> Self {
        self.is_authorized = true;
        self
    }

    /// Sets what is known of the content. By default nothing is.
    #[must_use]
    pub const fn with_values(mut self, content: Content<'a>) -> Self {
        self.content = content;
        self
    }

    /// The method, as sent.
    pub const fn method(&self) -> &'a Method {
        self.method
    }

    /// The host, in lower case and without a port. Empty if the request names none.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The authority as sent, with its port. Empty if the request names none.
    pub fn authority(&self) -> &'a str {
        let field = || self.fields.get(&HOST).and_then(|host| host.to_str().ok());
        self.target_authority.or_else(field).unwrap_or_default()
    }

    /// The path in the form that routes compare, see [`normal_path`].
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query: the text after the first `?`, as sent.
    pub const fn query(&self) -> Option<&'a str> {
        self.query
    }

    /// All header fields.
    pub const fn headers(&self) -> &'a HeaderMap {
        self.fields.all()
    }

    /// All header fields, for lookups.
    pub const fn fields(&self) -> Fields<'a> {
        self.fields
    }

    /// The address of the peer on the connection. An IPv4-mapped address is converted to
    /// IPv4.
    pub(crate) const fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Whether content follows the fields.
    pub(crate) const fn has_content(&self) -> bool {
        self.has_content
    }

    /// Whether the peer may name the clients that it forwards for.
    pub(crate) const fn forwarding(&self) -> Forwarding {
        self.forwarding
    }

    /// When the decision must be made.
    pub(crate) const fn answer_by(&self) -> Option<Instant> {
        self.answer_by
    }

    /// Whether an authorizer has written the fields that it writes.
    pub(crate) const fn is_authorized(&self) -> bool {
        self.is_authorized
    }

    /// What is known of the content.
    pub const fn values(&self) -> Content<'a> {
        self.content
    }

    /// The subject of the peer's certificate.
    pub(crate) const fn tls_subject(&self) -> Option<&'a str> {
        self.tls_subject
    }
}

/// Fields by which some backends replace the method of a request.
const METHOD_OVERRIDES: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
];

impl RequestView<'_> {
    /// The method that a field of the request names, for backends that evaluate such
    /// fields. Backends do so for methods that may change data, and write the name in
    /// capitals.
    ///
    /// # Errors
    /// If the field does not contain a method, or several fields name different methods.
    pub fn overriding_method(&self) -> Result<Option<Method>, Ambiguity> {
        if matches!(*self.method, Method::GET | Method::HEAD) {
            return Ok(None);
        }
        let mut overriding = None;
        for value in METHOD_OVERRIDES.iter().flat_map(|name| self.fields.get_all(name)) {
            let method = Method::from_bytes(&value.as_bytes().to_ascii_uppercase());
            let method = method.map_err(|_| Ambiguity::TwoRoutes)?;
            if overriding.replace(method.clone()).is_some_and(|known| known != method) {
                return Err(Ambiguity::TwoRoutes);
            }
        }
        Ok(overriding)
    }
}

/// Whether fields announce content. Over HTTP/2 no field needs to announce it.
fn has_content(fields: Fields<'_>) -> bool {
    let is_empty = |length: &HeaderValue| length.as_bytes() == b"0";
    fields.has(&TRANSFER_ENCODING)
        || fields.get(&CONTENT_LENGTH).is_some_and(|length| !is_empty(length))
}

fn check_coding(fields: Fields<'_>) -> Result<(), Ambiguity> {
    let mut codings = fields.get_all(&TRANSFER_ENCODING);
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if only.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Ambiguity::BadCoding),
    }
}

fn host_of(parts: &Parts) -> Result<Cow<'_, str>, Ambiguity> {
    let mut fields = parts.headers.get_all(HOST).iter();
    let named = match (fields.next(), fields.next()) {
        (_, Some(_)) => return Err(Ambiguity::ManyHosts),
        (Some(host), None) => host_of_field(host.to_str().map_err(|_| Ambiguity::BadHost)?)?,
        (None, None) if parts.version <= Version::HTTP_10 => Cow::Borrowed(""),
        (None, None) if parts.version >= Version::HTTP_2 && parts.uri.authority().is_some() => {
            Cow::Borrowed("")
        }
        (None, None) => return Err(Ambiguity::NoHost),
    };
    let Some(target) = parts.uri.authority() else {
        return Ok(named);
    };
    let host = host_of_field(target.as_str()).map_err(|_| Ambiguity::BadTarget)?;
    let is_same =
        parts.headers.get(HOST).and_then(|field| field.to_str().ok()).is_none_or(|field| {
            field.eq_ignore_ascii_case(target.as_str())
                || (named == host && has_same_port(field, target.as_str(), parts.uri.scheme_str()))
        });
    if is_same { Ok(host) } else { Err(Ambiguity::TwoHosts) }
}

fn path_of<'a>(method: &Method, uri: &'a Uri) -> Result<Cow<'a, str>, Ambiguity> {
    if uri.scheme_str().is_some_and(|scheme| !matches!(scheme, "http" | "https")) {
        return Err(Ambiguity::BadTarget);
    }
    match uri.path() {
        path if path.starts_with('/') => normal_path(path),
        "*" if method == Method::OPTIONS => Ok(Cow::Borrowed("*")),
        // A target without a scheme is valid only for CONNECT.
        "" if uri.scheme().is_some() => Ok(Cow::Borrowed("/")),
        _ => Err(Ambiguity::BadTarget),
    }
}
