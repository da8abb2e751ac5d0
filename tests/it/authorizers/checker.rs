//! A model of an authorizer that is asked over gRPC: `Check` of Envoy's service for external
//! authorization. Its messages are written here, so that the tests do not use the types of the
//! program. It answers as the model over HTTP does: users have a cookie, `/admin` is for `root`,
//! and `/public` for all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use prost::{Message, Oneof};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

#[derive(Clone, PartialEq, Message)]
struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    attributes: Option<Attributes>,
}

#[derive(Clone, PartialEq, Message)]
struct Attributes {
    #[prost(message, optional, tag = "1")]
    source: Option<Wrapped>,
    #[prost(message, optional, tag = "4")]
    request: Option<Described>,
}

/// The peer with its address, which has a socket address.
#[derive(Clone, PartialEq, Message)]
struct Wrapped {
    #[prost(message, optional, tag = "1")]
    address: Option<Address>,
}

#[derive(Clone, PartialEq, Message)]
struct Address {
    #[prost(message, optional, tag = "1")]
    socket: Option<Socket>,
}

#[derive(Clone, PartialEq, Message)]
struct Socket {
    #[prost(string, tag = "2")]
    address: String,
}

#[derive(Clone, PartialEq, Message)]
struct Described {
    #[prost(message, optional, tag = "2")]
    http: Option<Http>,
}

/// The request that is asked about.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Http {
    #[prost(string, tag = "2")]
    pub(super) method: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(super) headers: BTreeMap<String, String>,
    #[prost(string, tag = "4")]
    pub(super) path: String,
    #[prost(string, tag = "5")]
    pub(super) host: String,
    #[prost(string, tag = "6")]
    pub(super) scheme: String,
    #[prost(string, tag = "10")]
    pub(super) protocol: String,
    #[prost(string, tag = "11")]
    pub(super) body: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<Status>,
    #[prost(oneof = "Verdict", tags = "2, 3")]
    verdict: Option<Verdict>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
}

#[derive(Clone, PartialEq, Oneof)]
enum Verdict {
    #[prost(message, tag = "2")]
    Denied(Denied),
    #[prost(message, tag = "3")]
    Passed(Passed),
}

#[derive(Clone, PartialEq, Message)]
struct Denied {
    #[prost(message, optional, tag = "1")]
    status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    headers: Vec<Field>,
    #[prost(string, tag = "3")]
    body: String,
}

#[derive(Clone, PartialEq, Message)]
struct Passed {
    #[prost(message, repeated, tag = "2")]
    headers: Vec<Field>,
    #[prost(string, repeated, tag = "5")]
    removed: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    told: Vec<Field>,
}

#[derive(Clone, PartialEq, Message)]
struct Field {
    #[prost(message, optional, tag = "1")]
    header: Option<Pair>,
}

#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// An answer as a client of the service reads it.
#[derive(Debug)]
pub(crate) struct Told {
    /// The code of its status.
    pub(crate) code: i32,
    /// The status of HTTP, if the request is denied.
    pub(crate) denied: Option<i32>,
    pub(crate) fields: Vec<(String, String)>,
}

impl Told {
    /// Reads the message in its frame.
    pub(crate) fn of(framed: &[u8]) -> Self {
        let response = CheckResponse::decode(&framed[5..]).expect("an answer");
        let (denied, fields) = match response.verdict.expect("it decides") {
            Verdict::Denied(denied) => (denied.status.map(|it| it.code), denied.headers),
            Verdict::Passed(passed) => (None, passed.told),
        };
        let fields = fields.into_iter().filter_map(|field| field.header);
        let fields = fields.map(|pair| (pair.key, pair.value)).collect();
        Self { code: response.status.expect("a status").code, denied, fields }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

fn fields(lines: &[(&str, &str)]) -> Vec<Field> {
    let pair = |(key, value): &(&str, &str)| Pair { key: (*key).into(), value: (*value).into() };
    lines.iter().map(|line| Field { header: Some(pair(line)) }).collect()
}

/// The request passes with these fields, loses others, and its client is told others.
pub(super) fn pass(headers: &[(&str, &str)], removed: &[&str], told: &[(&str, &str)]) -> Reply {
    let removed = removed.iter().map(|name| (*name).to_owned()).collect();
    let passed = Passed { headers: fields(headers), removed, told: fields(told) };
    let verdict = Some(Verdict::Passed(passed));
    Reply::Message(CheckResponse { status: Some(Status { code: 0 }), verdict })
}

/// The request does not pass. The status of HTTP is left out if it is 0.
pub(super) fn deny(status: i32, headers: &[(&str, &str)], body: &str) -> Reply {
    let status = (status != 0).then_some(Status { code: status });
    let denied = Denied { status, headers: fields(headers), body: body.into() };
    let verdict = Some(Verdict::Denied(denied));
    Reply::Message(CheckResponse { status: Some(Status { code: 7 }), verdict })
}

/// A message with this code, and no more.
pub(super) fn code(code: Option<i32>) -> Reply {
    let status = code.map(|code| Status { code });
    Reply::Message(CheckResponse { status, verdict: None })
}

/// What the model does with a question.
pub(super) enum Reply {
    /// It answers.
    Message(CheckResponse),
    /// It sends this status of HTTP, body and status of gRPC.
    Raw(u16, Vec<u8>, Option<&'static str>),
    /// It resets the stream.
    Reset,
    /// It never answers.
    Never,
}

/// A question as the model has received it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) metadata: HeaderMap,
    pub(super) client: String,
    pub(super) http: Http,
}

impl Asked {
    /// The user of the session.
    fn user(&self) -> Option<&str> {
        let mut pairs = self.http.headers.get("cookie")?.split("; ");
        pairs.find_map(|pair| pair.strip_prefix("session="))
    }
}

/// The model.
pub(super) struct Checker {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Checker {
    pub(super) fn start() -> Self {
        Self::answering(usual)
    }

    /// The same, which answers otherwise.
    pub(super) fn answering(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            LocalSet::new().block_on(&runtime, async move {
                let answer = Arc::new(answer);
                let listener = TcpListener::from_std(listener).expect("a listener");
                while let Ok((stream, _)) = listener.accept().await {
                    spawn_local(serve(stream, Arc::clone(&log), Arc::clone(&answer)));
                }
            });
        });
        Self { address, asked }
    }

    /// The address at which a gateway asks.
    pub(super) fn url(&self) -> String {
        format!("h2c://{}", self.address)
    }

    /// All questions so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no thread panics with it").clone()
    }

    pub(super) fn last(&self) -> Asked {
        self.asked().pop().expect("it was asked")
    }
}

async fn serve<F>(stream: TcpStream, log: Arc<Mutex<Vec<Asked>>>, answer: Arc<F>)
where
    F: Fn(&Asked) -> Reply + 'static,
{
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let log = Arc::clone(&log);
        let answer = Arc::clone(&answer);
        spawn_local(async move {
            let asked = read(request).await;
            log.lock().expect("no thread panics with it").push(asked.clone());
            reply(respond, answer(&asked)).await;
        });
    }
}

async fn read(request: Request<RecvStream>) -> Asked {
    let (head, mut body) = request.into_parts();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.expect("the body is complete");
        bytes.extend_from_slice(&data);
        let _ = body.flow_control().release_capacity(data.len());
    }
    let length = bytes.get(1..5).map(|it| u32::from_be_bytes(it.try_into().expect("four bytes")));
    assert_eq!(length, u32::try_from(bytes.len() - 5).ok(), "it has one message");
    let message = CheckRequest::decode(&bytes[5..]).expect("a question");
    let attributes = message.attributes.expect("attributes");
    let address = attributes.source.and_then(|source| source.address);
    let client = address.and_then(|it| it.socket).map(|it| it.address).unwrap_or_default();
    let http = attributes.request.and_then(|request| request.http).expect("a request");
    Asked { path: head.uri.path().to_owned(), metadata: head.headers, client, http }
}

async fn reply(mut respond: SendResponse<Bytes>, reply: Reply) {
    let (status, body, grpc_status) = match reply {
        Reply::Message(message) => {
            let message = message.encode_to_vec();
            let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
            (200, [&[0][..], &length, &message].concat(), Some("0"))
        }
        Reply::Raw(status, body, grpc_status) => (status, body, grpc_status),
        Reply::Reset => return respond.send_reset(Reason::INTERNAL_ERROR),
        Reply::Never => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            return;
        }
    };
    let response = Response::builder().status(status).header("content-type", "application/grpc");
    // The gateway may have left.
    let Ok(mut stream) = respond.send_response(response.body(()).expect("a head"), false) else {
        return;
    };
    let Some(grpc_status) = grpc_status else {
        let _ = stream.send_data(body.into(), true);
        return;
    };
    let _ = stream.send_data(body.into(), false);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", grpc_status.parse().expect("a value"));
    let _ = stream.send_trailers(trailers);
}

fn usual(asked: &Asked) -> Reply {
    match asked.user() {
        None if asked.http.path.starts_with("/public") => code(Some(0)),
        None => deny(401, &[("www-authenticate", "Basic realm=\"a\"")], "log in"),
        Some(user) if asked.http.path.starts_with("/admin") && user != "root" => deny(0, &[], ""),
        Some(user) => pass(&[("Remote-User", user), ("remote-groups", "staff")], &[], &[]),
    }
}
