//! A client of the admin listeners of running gateways: over TCP, TLS or a Unix socket.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
pub use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, IF_MATCH};
use http::uri::Authority;
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_local;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tollgate_top::clean;

pub use super::admin_error::AdminError;
pub use super::credentials::CredentialArgs;

/// The longest time of most calls. A gateway answers within 5 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// A client of one admin listener. Each call has a connection of its own.
pub struct AdminClient {
    target: Target,
    token: Option<HeaderValue>,
    patience: Duration,
}

/// An answer that is no error.
#[derive(Debug)]
pub struct Answer {
    pub document: Value,
    /// The entity tag.
    pub tag: Option<String>,
}

enum Target {
    Tcp(Authority),
    Tls(Authority, ServerName<'static>, TlsConnector),
    Unix(PathBuf),
}

impl fmt::Debug for AdminClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminClient(..)")
    }
}

impl AdminClient {
    /// A client of the listener at `url`. Over a Unix socket no token is needed.
    ///
    /// # Errors
    /// If the URL or a file cannot be used.
    pub fn new(
        url: &str,
        credentials: &CredentialArgs,
        known: Option<String>,
    ) -> Result<Self, AdminError> {
        let target = match url.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Target::Unix(path.into()),
            Some(_) => return Err(AdminError::Url),
            None => Target::of(url, credentials)?,
        };
        Ok(Self { target, token: credentials.token(known)?, patience: PATIENCE })
    }

    /// The same, with another longest time of a call.
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The longest time of a call.
    pub const fn patience(&self) -> Duration {
        self.patience
    }

    /// The process that has opened the Unix socket, if it is one and the system tells it.
    pub async fn process(&self) -> Option<i32> {
        let Target::Unix(path) = &self.target else { return None };
        let stream = UnixStream::connect(path).await.ok()?;
        // Zero means a process of another namespace.
        stream.peer_cred().ok()?.pid().filter(|pid| *pid > 0)
    }

    /// The answer to a GET.
    ///
    /// # Errors
    /// If there is no answer, or it is an error.
    pub async fn get(&self, path: &str) -> Result<Value, AdminError> {
        Ok(self.call(Method::GET, path, None, None).await?.document)
    }

    /// The same with its entity tag.
    ///
    /// # Errors
    /// If there is no answer, or it is an error.
    pub async fn tagged(&self, path: &str) -> Result<Answer, AdminError> {
        self.call(Method::GET, path, None, None).await
    }

    /// The answer to a POST of a JSON document.
    ///
    /// # Errors
    /// If there is no answer, or it is an error.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, AdminError> {
        Ok(self.call(Method::POST, path, Some(body), None).await?.document)
    }

    /// The answer to a POST without a body.
    ///
    /// # Errors
    /// If there is no answer, or it is an error.
    pub async fn post_nothing(&self, path: &str) -> Result<Value, AdminError> {
        Ok(self.call(Method::POST, path, None, None).await?.document)
    }

    /// The answer to a DELETE.
    ///
    /// # Errors
    /// If there is no answer, or it is an error.
    pub async fn delete(&self, path: &str) -> Result<Value, AdminError> {
        Ok(self.call(Method::DELETE, path, None, None).await?.document)
    }

    /// The answer to a call that changes what has this entity tag; `*` means any.
    ///
    /// # Errors
    /// If there is no answer, or it is an error.
    pub async fn change(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        tag: &str,
    ) -> Result<Answer, AdminError> {
        self.call(method, path, body, Some(tag)).await
    }

    /// The status of the answer to a GET, and its document if it has one.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn look(&self, path: &str) -> Result<(StatusCode, Value), AdminError> {
        let reply = self.reply(self.request(Method::GET, path, None, None)?).await?;
        Ok((reply.status, reply.document.unwrap_or_default()))
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        if_match: Option<&str>,
    ) -> Result<Answer, AdminError> {
        let reply = self.reply(self.request(method, path, body, if_match)?).await?;
        let answer = reply.answer();
        answer.map_err(|error| match error {
            AdminError::Answer { status: StatusCode::UNAUTHORIZED, .. } if self.token.is_none() => {
                AdminError::NoToken
            }
            other => other,
        })
    }

    async fn reply(&self, request: Request<Full<Bytes>>) -> Result<Reply, AdminError> {
        let late = |_| AdminError::Late(self.patience);
        timeout(self.patience, self.send(request)).await.map_err(late)?
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        if_match: Option<&str>,
    ) -> Result<Request<Full<Bytes>>, AdminError> {
        let host = match &self.target {
            Target::Tcp(authority) | Target::Tls(authority, ..) => authority.as_str(),
            Target::Unix(_) => "localhost",
        };
        let mut request = Request::builder().method(method).uri(path).header(HOST, host);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(tag) = if_match {
            request = request.header(IF_MATCH, tag);
        }
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        request.body(Full::new(bytes)).map_err(|error| AdminError::Broken(error.to_string()))
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Reply, AdminError> {
        match &self.target {
            Target::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(AdminError::Connect)?;
                exchange(stream, request).await
            }
            Target::Tcp(authority) => exchange(connect(authority, 80).await?, request).await,
            Target::Tls(authority, name, tls) => {
                let stream = connect(authority, 443).await?;
                let refused = |error: io::Error| match AdminError::of_connection(&error) {
                    refused @ AdminError::Certificate(_) => refused,
                    _ => AdminError::Connect(error),
                };
                let stream = tls.connect(name.clone(), stream).await.map_err(refused)?;
                exchange(stream, request).await
            }
        }
    }
}

impl Target {
    fn of(url: &str, credentials: &CredentialArgs) -> Result<Self, AdminError> {
        let uri: Uri = url.parse().map_err(|_| AdminError::Url)?;
        let authority = uri.authority().ok_or(AdminError::Url)?.clone();
        if !matches!(uri.path(), "" | "/") || authority.as_str().contains('@') {
            return Err(AdminError::Url);
        }
        match uri.scheme_str() {
            Some("http") => Ok(Self::Tcp(authority)),
            Some("https") => {
                let host = authority.host().trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(host).map_err(|_| AdminError::Url)?;
                Ok(Self::Tls(authority, name, credentials.connector()?))
            }
            _ => Err(AdminError::Url),
        }
    }
}

async fn connect(authority: &Authority, port: u16) -> Result<TcpStream, AdminError> {
    let host = authority.host().trim_matches(['[', ']']);
    let address = (host, authority.port_u16().unwrap_or(port));
    TcpStream::connect(address).await.map_err(AdminError::Connect)
}

/// Any answer.
struct Reply {
    status: StatusCode,
    tag: Option<String>,
    /// None: it is not JSON.
    document: Option<Value>,
}

impl Reply {
    /// The answer, if it is no error.
    fn answer(self) -> Result<Answer, AdminError> {
        let Self { status, tag, document } = self;
        if status.is_success() {
            let document =
                document.ok_or_else(|| AdminError::Broken("the answer is not JSON".to_owned()))?;
            return Ok(Answer { document, tag });
        }
        let problem = document.unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or("no admin listener answers there");
        let mistakes = problem["errors"].as_array().into_iter().flatten();
        let mut mistakes: Vec<String> = mistakes.map(|it| clean::text(&mistake(it))).collect();
        let mut detail = clean::text(detail);
        // The only mistake of a change is its detail.
        if mistakes.len() == 1 && mistakes[0].starts_with(&detail) {
            detail = mistakes.remove(0);
        }
        Err(AdminError::Answer { status, detail, mistakes })
    }
}

/// A mistake, or a warning, in a line.
pub fn mistake(it: &Value) -> String {
    let place = match (it["line"].as_u64(), it["column"].as_u64()) {
        (Some(line @ 1..), Some(column)) => format!("line {line}, column {column}: "),
        _ => String::new(),
    };
    let message = it["message"].as_str().unwrap_or("?");
    let help = it["help"].as_str().filter(|help| !help.is_empty());
    let help = help.map(|help| format!(": {help}")).unwrap_or_default();
    format!("{place}{message}{help}")
}

/// Sends a request over a new connection, and reads the answer.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Reply, AdminError> {
    let broken = |error: hyper::Error| AdminError::of_connection(&error);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    spawn_local(connection);
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    let tag = response.headers().get(ETAG).and_then(|it| it.to_str().ok()).map(str::to_owned);
    let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
    let body = body.map_err(|error| AdminError::Broken(error.to_string()))?.to_bytes();
    Ok(Reply { status, tag, document: serde_json::from_slice(&body).ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_listeners_are_taken() {
        for url in ["http://127.0.0.1:9901", "http://[::1]:9901/", "https://gw.test", "unix:/run/s"]
        {
            assert!(AdminClient::new(url, &CredentialArgs::default(), None).is_ok(), "{url}");
        }
        let wrong =
            ["", "127.0.0.1:9901", "ftp://a", "http://", "http://a/v1", "unix:s", "http://u@a"];
        for url in wrong {
            let error = AdminClient::new(url, &CredentialArgs::default(), None).expect_err(url);
            assert!(matches!(error, AdminError::Url) && error.is_usage(), "{url}: {error}");
        }
    }
}
