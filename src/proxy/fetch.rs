//! Fetching a document from another server, on the control thread: one small answer
//! within a time and a size, over a new connection.
//!
//! Redirects are not followed: the server that is configured is the one that is
//! trusted.

mod freshness;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::time::timeout;

use super::endpoint::{Connection, dial};
use super::fault::Fault;
use super::health::Standing;
use super::member::{Address, Member};
use super::settings::{EndpointSettings, Target};
use super::{RequestBody, TlsSettings, UpstreamSettings, check, resolve};

/// How many addresses of a name are tried.
const MAX_ADDRESSES: usize = 4;

/// A document, and the server that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSource {
    /// The server: one of HTTP, without TLS or with it.
    pub target: Target,
    /// Which certificates are trusted, for a server with TLS.
    pub tls: Option<TlsSettings>,
    /// Where on the server it is.
    pub path: PathAndQuery,
    /// Its media type, with others that do.
    pub accept: HeaderValue,
}

/// A document that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// What it says.
    pub bytes: Bytes,
    /// How long the server says that it holds (RFC 9111, section 4.2); none: it
    /// does not say.
    pub fresh_for: Option<Duration>,
}

/// Why there is no document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The server's name leads nowhere.
    #[error("the name of the server cannot be looked up: {0}")]
    NoAddress(String),
    /// No connection.
    #[error("the server cannot be reached")]
    Unreachable,
    /// No TLS.
    #[error("the server shows no certificate that is trusted here, or speaks no TLS")]
    Untrusted,
    /// No whole answer in time.
    #[error("there was no whole answer within {0:?}")]
    TimedOut(Duration),
    /// The answer is elsewhere.
    #[error("the answer is a redirect (status {0}), which is not followed: name its target")]
    Redirected(u16),
    /// The answer is no document.
    #[error("the answer has the status {0}")]
    Status(u16),
    /// The answer is too large.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The answer ended too early, or was none.
    #[error("the answer is no HTTP, or ended before it was whole")]
    Broken,
}

impl FetchError {
    /// Whether another address of the server may do better.
    fn is_of_address(&self) -> bool {
        matches!(self, Self::Unreachable | Self::Untrusted | Self::Broken)
    }
}

/// Fetches a document of at most so many bytes, within `limit` for all of it.
///
/// # Errors
/// If there is none.
pub async fn fetch(
    source: &DocumentSource,
    max_bytes: usize,
    limit: Duration,
) -> Result<Document, FetchError> {
    let asked = timeout(limit, ask(source, max_bytes, limit)).await;
    asked.unwrap_or(Err(FetchError::TimedOut(limit)))
}

async fn ask(
    source: &DocumentSource,
    max_bytes: usize,
    limit: Duration,
) -> Result<Document, FetchError> {
    let name = source.target.authority().map(ToString::to_string).unwrap_or_default();
    let found = resolve::system(name).await;
    let found = found.map_err(|error| FetchError::NoAddress(error.to_string()))?;
    // One that does not answer leaves the others their time.
    let tried = found.len().clamp(1, MAX_ADDRESSES);
    let limit = limit / u32::try_from(tried).unwrap_or(u32::MAX);
    let mut result = Err(FetchError::NoAddress("there is no address".to_owned()));
    for address in found.into_iter().take(tried) {
        let asked = timeout(limit, ask_at(source, address, max_bytes, limit)).await;
        result = asked.unwrap_or(Err(FetchError::TimedOut(limit)));
        match &result {
            Err(FetchError::TimedOut(_)) => {}
            Err(error) if error.is_of_address() => {}
            _ => break,
        }
    }
    result
}

async fn ask_at(
    source: &DocumentSource,
    address: SocketAddr,
    max_bytes: usize,
    limit: Duration,
) -> Result<Document, FetchError> {
    let endpoint = EndpointSettings { target: source.target.clone(), weight: 1 };
    let mut settings = UpstreamSettings::new("document", Vec::new());
    settings.tls.clone_from(&source.tls);
    let address = Address::Socket(address);
    let member = Member::new(&settings, &endpoint, address, Standing::default());
    let member = member.ok_or(FetchError::Untrusted)?;
    let dialed = dial(&member, limit).await.map_err(|fault| match fault {
        Fault::Untrusted => FetchError::Untrusted,
        Fault::ConnectTimeout => FetchError::TimedOut(limit),
        _ => FetchError::Unreachable,
    })?;
    let mut connection = Connection::from(dialed);
    let mut request = request(source);
    connection.prepare(&mut request, &member);
    let response = connection.send(request).await.map_err(|_| FetchError::Broken)?;
    let (head, body) = response.into_parts();
    match head.status.as_u16() {
        200 => {}
        status @ 300..400 => return Err(FetchError::Redirected(status)),
        status => return Err(FetchError::Status(status)),
    }
    match Limited::new(body, max_bytes).collect().await {
        Ok(body) => {
            let fresh_for = freshness::of(&head.headers);
            Ok(Document { bytes: body.to_bytes(), fresh_for })
        }
        Err(error) if error.is::<LengthLimitError>() => Err(FetchError::TooLarge(max_bytes)),
        Err(_) => Err(FetchError::Broken),
    }
}

/// A GET for the document. It names the host as browsers do: without the port that
/// is usual.
fn request(source: &DocumentSource) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::EMPTY);
    let (scheme, usual) = match source.target {
        Target::Https(..) => (Scheme::HTTPS, ":443"),
        _ => (Scheme::HTTP, ":80"),
    };
    let authority = source.target.authority().map(|authority| authority.as_str());
    let host = authority.map(|it| it.strip_suffix(usual).unwrap_or(it)).unwrap_or_default();
    let uri = Uri::builder().scheme(scheme).authority(host).path_and_query(source.path.clone());
    if let Ok(uri) = uri.build() {
        *request.uri_mut() = uri;
    }
    let fields = request.headers_mut();
    fields.insert(ACCEPT, source.accept.clone());
    fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    fields.insert(USER_AGENT, check::WHO);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_host_without_the_usual_port() {
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
