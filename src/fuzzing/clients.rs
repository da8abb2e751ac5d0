//! Fuzz targets for the parts of a request that identify its client.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use http::{HeaderMap, HeaderValue, Request, Uri, Version};
use tollgate_core::algorithm::{Algorithm, Quota, SlidingWindow};
use tollgate_core::digest::{Secret, SharedSecret};
use tollgate_core::policy::{
    ApiKeySettings, ClassTable, ClientClass, ClientSettings, Clients, ForwardedHeader, KEY_FORMS,
    KeyExpr, KeyFor, MissingKey, Policy, RouteView, UserSource,
};
use tollgate_core::request::{PathMatch, PathPattern, RequestView};
use tollgate_core::time::{Span, Timestamp};

use crate::message::fuzzing::fields;
use crate::message::{Forwarding, Via};

const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn clients(forwarded_header: ForwardedHeader) -> Clients {
    let secret = Arc::new(SharedSecret::new(Secret::from_bytes([3; 16])));
    Clients::new(client(forwarded_header), [], secret)
}

fn client(forwarded_header: ForwardedHeader) -> ClientSettings {
    ClientSettings {
        trusted_proxies: vec!["10.0.0.0/8".parse().expect("a network")],
        forwarded_header,
        api_key: ApiKeySettings {
            headers: vec!["x-api-key".parse().expect("a name")],
            bearer: true,
            query: Some("api_key".into()),
            cookie: None,
        },
        user: Some(UserSource::Header("x-user".parse().expect("a name"))),
        classes: Some(Arc::new(ClassTable::new(&classes()))),
        ..ClientSettings::default()
    }
}

/// Classes with texts that are parts of each other, and one of a network.
fn classes() -> Vec<ClientClass> {
    let class = |name: &str, texts: &[&str], ips: &[&str]| ClientClass {
        name: name.into(),
        user_agent: texts.iter().map(|text| (*text).to_owned()).collect(),
        ips: ips.iter().map(|block| block.parse().expect("a network")).collect(),
        asns: Vec::new(),
        agents: Vec::new(),
    };
    vec![
        class("own", &["bot", "robot"], &["10.0.0.0/8"]),
        class("bot", &["bot", "bots", "a"], &[]),
        class("near", &[], &["192.0.2.0/24"]),
    ]
}

/// Keys of each kind, and combinations of several keys.
fn every_key() -> Vec<KeyExpr> {
    let words = KEY_FORMS.map(|form| match form {
        "api_key:NAME" => "api_key:plan",
        "cookie:NAME" => "cookie:sid",
        "header:NAME" => "header:x-tenant",
        "query:NAME" => "query:key",
        "jwt:CLAIM" => "jwt:sub",
        "json:POINTER" => "json:/model",
        "form:NAME" => "form:name",
        "authorizer:FIELD" => "authorizer:remote-user",
        "param:NAME" => "param:tenant",
        word => word,
    });
    let mut keys: Vec<KeyExpr> = words.map(|word| word.parse().expect("a key")).into();
    let several = [KeyExpr::First(keys[1..7].to_vec()), KeyExpr::All(keys[4..7].to_vec())];
    keys.extend(several);
    keys
}

/// The values by which a request is counted: its cookies, query, API key and token.
pub fn keys(input: &[u8]) {
    let Some((&flags, rest)) = input.split_first() else { return };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let target = [b"/t/acme?", &rest[..end]].concat();
    let Ok(uri) = Uri::try_from(&target[..]) else { return };
    let mut headers = fields(&rest[end..]);
    static KEYS: LazyLock<Vec<KeyExpr>> = LazyLock::new(every_key);
    static CLIENTS: LazyLock<Clients> = LazyLock::new(|| clients(ForwardedHeader::XForwardedFor));
    static PATTERN: LazyLock<PathPattern> =
        LazyLock::new(|| "/t/{tenant}".parse().expect("a path"));
    let find = |headers: &HeaderMap, missing_key| {
        let peer = if flags & 1 == 1 { PROXY } else { STRANGER };
        let request = RequestView::sample("a.test", "/t/acme", headers)
            .with_query(uri.query())
            .with_peer(peer);
        let route = RouteView { name: "r", path: &PATTERN, path_match: PathMatch::default() };
        let subject = CLIENTS.subject(&request, Some(route), Timestamp::default());
        let key = |key: &KeyExpr| {
            let quota = Quota::new(100, Span::SECOND).expect("a quota");
            let algorithm = Algorithm::SlidingWindow(SlidingWindow::new(quota));
            let policy = Policy { missing_key, ..Policy::new("p", key.clone(), algorithm) };
            subject.key(&policy)
        };
        KEYS.iter().map(key).collect::<Vec<_>>()
    };
    let denying = find(&headers, MissingKey::Deny);
    let counting = find(&headers, MissingKey::Ip);
    for (denied, counted) in denying.iter().zip(&counting) {
        assert!(
            !matches!(counted, KeyFor::Denied),
            "a request that is counted by address is not denied"
        );
        let is_ambiguous = |key: &KeyFor| matches!(key, KeyFor::Ambiguous);
        assert_eq!(is_ambiguous(denied), is_ambiguous(counted), "ambiguous is not missing");
        if let KeyFor::Key(_) = denied {
            assert_eq!(denied, counted, "the treatment of a missing key changes a key");
        }
    }
    headers.append("x-unrelated", HeaderValue::from_static("1"));
    assert_eq!(find(&headers, MissingKey::Deny), denying, "another field changes a key");
}

/// The forwarding fields of proxies, and the fields that backends receive.
pub fn forwarding(input: &[u8]) {
    let (mut head, ()) = Request::new(()).into_parts();
    head.headers = fields(input);
    // Other requests are refused before they are forwarded.
    if RequestView::of(&head, PROXY).is_err() {
        return;
    }
    let headers = head.headers;
    let find = |headers: &HeaderMap, peer, header: &ForwardedHeader| {
        let request = RequestView::sample("a.test", "/", headers).with_peer(peer);
        clients(header.clone()).subject(&request, None, Timestamp::default()).client_ip()
    };
    let own: IpAddr = [198, 51, 100, 1].into();
    for (header, name, element) in [
        (ForwardedHeader::XForwardedFor, "x-forwarded-for", "198.51.100.1"),
        (ForwardedHeader::Forwarded, "forwarded", "for=198.51.100.1"),
    ] {
        assert_eq!(
            find(&headers, STRANGER, &header),
            STRANGER,
            "a field of an untrusted peer is used"
        );
        find(&headers, PROXY, &header);
        let mut more = headers.clone();
        let last = more.get_all(name).iter().next_back().cloned();
        let last = last.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        let line = [last, b", ", element.as_bytes()].concat();
        more.append(name, HeaderValue::from_bytes(&line).expect("made of values"));
        assert_eq!(find(&more, PROXY, &header), own, "a value to the left changes the client");
    }
    let peer = (own, 4711).into();
    let forwarding = Forwarding::new(peer, ([10, 0, 0, 9], 443).into(), true);
    for is_trusted in [false, true] {
        let mut told = headers.clone();
        forwarding.write(&mut told, is_trusted, true);
        Via::write(&mut told, Version::HTTP_11);
        let mut lines = told.get_all("x-forwarded-for").iter();
        assert_eq!(lines.next_back().map(HeaderValue::as_bytes), Some(&b"198.51.100.1"[..]));
        assert!(is_trusted || lines.next().is_none(), "a field of an untrusted peer is forwarded");
        assert_eq!(find(&told, PROXY, &ForwardedHeader::XForwardedFor), own);
        assert_eq!(find(&told, PROXY, &ForwardedHeader::Forwarded), own);
    }
}
