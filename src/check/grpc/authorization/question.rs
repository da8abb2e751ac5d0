//! From the attributes of a request to the request.

use std::net::{IpAddr, Ipv6Addr};

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tollgate_core::request::{Malformed, is_disguised, method_of, target_of};

use crate::check::grpc::framing::Failed;
use crate::gateway::Question;
use crate::grpc::authorization::{CheckRequest, HttpRequest, Peer};
use crate::message::{BadQuestion, QuestionFault, QuestionParts};

const METHOD: &str = "attributes.request.http.method";
const PATH: &str = "attributes.request.http.path";
const AUTHORITY: &str = "attributes.request.http.host";
const FIELDS: &str = "attributes.request.http.headers";
const SOURCE: &str = "attributes.source.address";

/// The question that `asker` asks.
///
/// # Errors
/// If it has no request of HTTP.
pub fn question(asked: CheckRequest, asker: IpAddr) -> Result<Question, Failed> {
    let attributes = asked.attributes.unwrap_or_default();
    let http = attributes.request.and_then(|request| request.http);
    let http = http.ok_or_else(|| Failed::invalid("attributes.request.http is missing"))?;
    let client = attributes.source.as_ref().map_or(Ok(None), address);
    let has_content = http.size > 0;
    let (mut head, ()) = Request::new(()).into_parts();
    let fault = describe(&mut head, http).err().or(client.err());
    let client = client.unwrap_or_default();
    let parts = QuestionParts { target: PATH, host: AUTHORITY };
    Ok(Question { head, fault, parts, has_content, asker, client, answer_by: None })
}

/// The address of the client, without its scope. None: the client is on no socket of IP.
///
/// # Errors
/// If the address cannot be read. Fields of the request do not stand in for it, because the client
/// may write them.
fn address(source: &Peer) -> Result<Option<IpAddr>, BadQuestion> {
    let address = source.address.as_ref().and_then(|it| it.socket_address.as_ref());
    let Some(text) = address.map(|it| &*it.address) else { return Ok(None) };
    let fault = if text.is_empty() { QuestionFault::Missing } else { QuestionFault::NoAddress };
    let bad = BadQuestion { field: SOURCE, fault };
    match text.split_once('%') {
        // Envoy writes the scope of an address that is valid on one link: `fe80::1%2`.
        Some((host, _scope)) => host.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| bad),
        None => text.parse::<IpAddr>().map_err(|_| bad),
    }
    .map(|address| Some(address.to_canonical()))
}

/// Makes `head` the head of the request.
fn describe(head: &mut Parts, http: HttpRequest) -> Result<(), BadQuestion> {
    let HttpRequest { method, headers, path, host, header_map, .. } = http;
    for (field, value) in [(METHOD, &method), (PATH, &path), (AUTHORITY, &host)] {
        if value.is_empty() {
            return Err(BadQuestion { field, fault: QuestionFault::Missing });
        }
    }
    let bad = |field, fault: Malformed| BadQuestion { field, fault: fault.into() };
    let method = method_of(method.as_bytes()).map_err(|fault| bad(METHOD, fault))?;
    let target = target_of(path.as_bytes()).map_err(|fault| bad(PATH, fault))?;
    let mut fields = HeaderMap::new();
    let mut add = |name: &str, value: &[u8]| add(&mut fields, name, value);
    let added = match header_map {
        Some(lines) => lines.headers.iter().try_for_each(|line| match line.raw_value.is_empty() {
            true => add(&line.key, line.value.as_bytes()),
            false => add(&line.key, &line.raw_value),
        }),
        None => headers.iter().try_for_each(|(name, value)| add(name, value.as_bytes())),
    };
    added.map_err(|fault| bad(FIELDS, fault))?;
    let host = HeaderValue::from_str(&host);
    fields.insert(HOST, host.map_err(|_| bad(AUTHORITY, Malformed::ControlCharacter))?);
    head.method = method;
    head.uri = target;
    head.headers = fields;
    Ok(())
}

/// Adds a line. Envoy also lists `:path` and others, which are no fields.
fn add(fields: &mut HeaderMap, name: &str, value: &[u8]) -> Result<(), Malformed> {
    if name.starts_with(':') {
        return Ok(());
    }
    if is_disguised(name.as_bytes()) {
        return Err(Malformed::DisguisedName);
    }
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Malformed::BadField)?;
    if name == HOST {
        return Ok(());
    }
    let value = HeaderValue::from_bytes(value).map_err(|_| Malformed::ControlCharacter)?;
    fields.try_append(name, value).map(|_| ()).map_err(|_| Malformed::TooManyFields)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::grpc::authorization as messages;
    use crate::grpc::core;

    const ASKER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn asked(http: HttpRequest, source: Option<&str>) -> CheckRequest {
        let address = source.map(|address| messages::SocketAddress { address: address.into() });
        let address = Some(messages::Address { socket_address: address });
        let attributes = messages::AttributeContext {
            source: Some(Peer { address }),
            request: Some(messages::AttributeRequest { http: Some(http) }),
        };
        CheckRequest { attributes: Some(attributes) }
    }

    fn http() -> HttpRequest {
        let headers = [(":path", "/x"), ("x-api-key", "k"), ("host", "other.test")];
        HttpRequest {
            method: "POST".into(),
            path: "/a?b=c".into(),
            host: "shop.test:80".into(),
            headers: headers.map(|(name, value)| (name.into(), value.into())).into(),
            size: -1,
            ..HttpRequest::default()
        }
    }

    fn line(key: &str, value: &str, raw: &[u8]) -> core::HeaderValue {
        core::HeaderValue { key: key.into(), value: value.into(), raw_value: raw.into() }
    }

    #[test]
    fn attributes_describe_the_request_and_its_client() {
        let Question { head, fault, has_content, asker, client, .. } =
            question(asked(http(), Some("::ffff:192.0.2.1")), ASKER).unwrap();
        assert_eq!((fault, has_content, asker), (None, false, ASKER));
        assert_eq!(client, Some("192.0.2.1".parse().unwrap()));
        assert_eq!((head.method, head.uri), (Method::POST, "/a?b=c".parse().unwrap()));
        assert_eq!(head.headers[HOST], "shop.test:80");
        assert_eq!((&head.headers["x-api-key"], head.headers.len()), (&"k".parse().unwrap(), 2));
        let asked = asked(HttpRequest { size: 1, ..http() }, None);
        let question = question(asked, ASKER).unwrap();
        assert_eq!((question.client, question.has_content), (None, true));
        assert!(super::question(CheckRequest::default(), ASKER).is_err());
    }

    /// Regression: the client of an address with a scope, or of one that cannot be read, was the one
    /// that `X-Forwarded-For` names, which a client may write.
    #[test]
    fn the_client_is_always_the_address_that_envoy_tells() {
        let told = |source| question(asked(http(), Some(source)), ASKER).unwrap();
        for source in ["fe80::1%eth0", "fe80::1%2", "fe80::1"] {
            let Question { client, fault, .. } = told(source);
            assert_eq!((client, fault), (Some("fe80::1".parse().unwrap()), None), "{source}");
        }
        for source in ["", "%2", "192.0.2.1:80", "192.0.2.1%2", "a.test"] {
            let Question { client, fault, .. } = told(source);
            assert_eq!((client, fault.map(|it| it.field)), (None, Some(SOURCE)), "{source}");
        }
    }

    #[test]
    fn lines_that_are_told_one_by_one_are_not_joined() {
        let lines = [
            line(":method", "GET", b""),
            line("x-api-key", "", b"one"),
            line("x-api-key", "two", b""),
            line("x-bytes", "", b"\xff"),
        ];
        let header_map = Some(messages::HeaderMap { headers: lines.into() });
        let asked = asked(HttpRequest { header_map, ..http() }, None);
        let Question { head, fault, .. } = question(asked, ASKER).unwrap();
        assert_eq!(fault, None);
        let keys: Vec<_> = head.headers.get_all("x-api-key").iter().collect();
        assert_eq!(keys, ["one", "two"]);
        assert_eq!(head.headers["x-bytes"].as_bytes(), b"\xff");
    }

    #[test]
    fn a_part_that_describes_no_request_is_named() {
        let fault = |change: &dyn Fn(&mut HttpRequest)| {
            let mut http = http();
            change(&mut http);
            let fault = question(asked(http, None), ASKER).unwrap().fault.unwrap();
            (fault.field, fault.fault)
        };
        let malformed = QuestionFault::Malformed;
        let field = |name: &'static str, value: &'static str| {
            move |http: &mut HttpRequest| drop(http.headers.insert(name.into(), value.into()))
        };
        assert_eq!(fault(&|it| it.method.clear()), (METHOD, QuestionFault::Missing));
        assert_eq!(fault(&|it| it.path.clear()), (PATH, QuestionFault::Missing));
        assert_eq!(fault(&|it| it.host.clear()), (AUTHORITY, QuestionFault::Missing));
        let cases = [
            (fault(&|it| it.method = "get".into()), (METHOD, Malformed::BadMethod)),
            (fault(&|it| it.path = "/a b".into()), (PATH, Malformed::BadTarget)),
            (fault(&|it| it.host = "a\nb".into()), (AUTHORITY, Malformed::ControlCharacter)),
            (fault(&field("x_forwarded_for", "1")), (FIELDS, Malformed::DisguisedName)),
            (fault(&field("a b", "1")), (FIELDS, Malformed::BadField)),
            (fault(&field("a", "1\r\n")), (FIELDS, Malformed::ControlCharacter)),
        ];
        for (found, (field, expected)) in cases {
            assert_eq!(found, (field, malformed(expected)));
        }
    }
}
