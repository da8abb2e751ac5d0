//! Fetches a document from another server, on the control thread: one small response,
//! bounded in time and size, over a new connection.
//!
//! Redirects are not followed: only the configured server is trusted.

mod freshness;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Request, Uri};
use tokio::time::timeout;

use super::body::RequestBody;
use super::endpoint::{Connection, SendOptions, Sent, connect};
use super::endpoint_shared::{Address, EndpointShared};
use super::fault::Fault;
use super::health::HealthState;
use super::settings::{EndpointSettings, Target, UpstreamSettings};
use super::tls::TlsSettings;
use super::{check, resolve};
use crate::message::{BodyError, read_body};
use crate::telemetry::UpstreamTraffic;

/// How many addresses of a name are tried.
const MAX_ADDRESSES: usize = 4;

/// A document and its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSource {
    /// The server: `http` or `https`.
    pub target: Target,
    /// The TLS settings of an `https` server.
    pub tls: Option<TlsSettings>,
    /// The path on the server.
    pub path: PathAndQuery,
    /// The value of `Accept`.
    pub accept: HeaderValue,
}

/// A document that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its content.
    pub bytes: Bytes,
    /// Its freshness lifetime (RFC 9111, section 4.2), if the server states one.
    pub fresh_for: Option<Duration>,
}

/// Why a document could not be fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The server's name has no address.
    #[error("the name of the server cannot be looked up: {0}")]
    NoAddress(String),
    /// No connection.
    #[error("the server cannot be reached")]
    Unreachable,
    /// The TLS handshake failed.
    #[error("the server shows no certificate that is trusted here, or speaks no TLS: {0}")]
    Untrusted(String),
    /// No complete response in time.
    #[error("there was no whole answer within {0:?}")]
    TimedOut(Duration),
    /// The response is a redirect.
    #[error("the answer is a redirect (status {0}), which is not followed: name its target")]
    Redirected(u16),
    /// The status of the response is not 200.
    #[error("the answer has the status {0}")]
    Status(u16),
    /// The response is too large.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The response ended too early, or is not HTTP.
    #[error("the answer is not HTTP, or ended before it was whole")]
    Broken,
}

impl FetchError {
    /// Whether another address of the server may succeed.
    fn is_of_address(&self) -> bool {
        matches!(self, Self::Unreachable | Self::Untrusted(_) | Self::Broken)
    }
}

/// Fetches a document of at most `max_bytes` within `limit`.
///
/// # Errors
/// If the document could not be fetched.
pub async fn fetch(
    source: &DocumentSource,
    max_bytes: usize,
    limit: Duration,
) -> Result<Document, FetchError> {
    let fetched = timeout(limit, fetch_from_any(source, max_bytes, limit)).await;
    fetched.unwrap_or(Err(FetchError::TimedOut(limit)))
}

async fn fetch_from_any(
    source: &DocumentSource,
    max_bytes: usize,
    limit: Duration,
) -> Result<Document, FetchError> {
    let name = source.target.authority().map(ToString::to_string).unwrap_or_default();
    let found = resolve::lookup(name).await;
    let found = found.map_err(|error| FetchError::NoAddress(error.to_string()))?;
    // Each address gets the same share of the time.
    let tried = found.len().clamp(1, MAX_ADDRESSES);
    let limit = limit / u32::try_from(tried).unwrap_or(u32::MAX);
    let mut result = Err(FetchError::NoAddress("there is no address".to_owned()));
    for address in found.into_iter().take(tried) {
        let fetched = timeout(limit, fetch_from(source, address, max_bytes, limit)).await;
        result = fetched.unwrap_or(Err(FetchError::TimedOut(limit)));
        match &result {
            Err(FetchError::TimedOut(_)) => {}
            Err(error) if error.is_of_address() => {}
            _ => break,
        }
    }
    result
}

async fn fetch_from(
    source: &DocumentSource,
    address: SocketAddr,
    max_bytes: usize,
    limit: Duration,
) -> Result<Document, FetchError> {
    let settings = EndpointSettings { target: source.target.clone(), weight: 1 };
    let mut upstream = UpstreamSettings::new("document", Vec::new());
    upstream.tls.clone_from(&source.tls);
    let address = Address::Socket(address);
    let endpoint = EndpointShared::new(&upstream, &settings, address, HealthState::default());
    let no_tls = || FetchError::Untrusted("there are no TLS settings".to_owned());
    let endpoint = endpoint.ok_or_else(no_tls)?;
    let connected =
        connect(&endpoint, limit, &UpstreamTraffic::default(), None).await.map_err(|fault| {
            match fault {
                Fault::Untrusted => {
                    let failure = endpoint.handshake_failure();
                    FetchError::Untrusted(failure.map(|it| it.to_string()).unwrap_or_default())
                }
                Fault::ConnectTimeout => FetchError::TimedOut(limit),
                _ => FetchError::Unreachable,
            }
        })?;
    let mut connection = Connection::from(connected);
    let sent = connection.send(Box::new(request(source)), &endpoint, SendOptions::default()).await;
    let Sent { response, .. } = sent.map_err(|_| FetchError::Broken)?;
    match response.status().as_u16() {
        200 => {}
        status @ 300..400 => return Err(FetchError::Redirected(status)),
        status => return Err(FetchError::Status(status)),
    }
    let bytes = read_body(connection, max_bytes).await.map_err(|error| match error {
        BodyError::TooLarge => FetchError::TooLarge(max_bytes),
        BodyError::Incomplete => FetchError::Broken,
    })?;
    Ok(Document { bytes, fresh_for: freshness::of(response.headers()) })
}

/// A GET for the document. Like a browser, it names the host without the default port.
fn request(source: &DocumentSource) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::EMPTY);
    let (scheme, default_port) = match source.target {
        Target::Https(..) => (Scheme::HTTPS, ":443"),
        _ => (Scheme::HTTP, ":80"),
    };
    let authority = source.target.authority().map(|authority| authority.as_str());
    let host = authority.map(|it| it.strip_suffix(default_port).unwrap_or(it)).unwrap_or_default();
    let uri = Uri::builder().scheme(scheme).authority(host).path_and_query(source.path.clone());
    if let Ok(uri) = uri.build() {
        *request.uri_mut() = uri;
    }
    let fields = request.headers_mut();
    fields.insert(ACCEPT, source.accept.clone());
    fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    fields.insert(USER_AGENT, check::OWN_USER_AGENT);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_host_without_the_default_port() {
        let source = |target| DocumentSource {
            target,
            tls: None,
            path: PathAndQuery::from_static("/keys?a=b"),
            accept: HeaderValue::from_static("application/json"),
        };
        let https = |text: &str| {
            let name = "issuer.test".try_into().unwrap();
            source(Target::Https(text.parse().unwrap(), name))
        };
        for (source, expected) in [
            (https("issuer.test:443"), "https://issuer.test/keys?a=b"),
            (https("issuer.test:8443"), "https://issuer.test:8443/keys?a=b"),
            (source(Target::Http("[::1]:80".parse().unwrap())), "http://[::1]/keys?a=b"),
            (source(Target::Http("a.test:443".parse().unwrap())), "http://a.test:443/keys?a=b"),
        ] {
            assert_eq!(request(&source).uri().to_string(), expected);
        }
    }
}
