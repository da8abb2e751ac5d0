//! Chains of proxies, with and without forged elements.

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::*;

const PROXIES: [&str; 2] = ["10.0.0.0/8", "2001:db8:ffff::/48"];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn seen(peer: &str, header: &ForwardedHeader, lines: &[(&'static str, &[u8])]) -> IpAddr {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_bytes(value).unwrap());
    }
    let request = RequestView::sample("", "/", &headers).with_peer(ip(peer));
    let trusted = CidrSet::new(&PROXIES.map(|net| net.parse().unwrap()));
    client_ip(&request, &trusted, header).0
}

/// How the address is known, by `X-Forwarded-For` or by `X-Real-IP`.
fn origin(peer: &str, field: Option<(&'static str, &str)>) -> AddressOrigin {
    let lines = field.into_iter().map(|(name, value)| (HeaderName::from_static(name), value));
    let line = |(name, value)| (name, HeaderValue::from_str(value).unwrap());
    let headers: HeaderMap = lines.map(line).collect();
    let request = RequestView::sample("", "/", &headers).with_peer(ip(peer));
    let trusted = CidrSet::new(&PROXIES.map(|net| net.parse().unwrap()));
    let single = ForwardedHeader::Single(HeaderName::from_static("x-real-ip"));
    let is_single = field.is_some_and(|(name, _)| name == "x-real-ip");
    let header = if is_single { single } else { ForwardedHeader::XForwardedFor };
    let (client, origin) = client_ip(&request, &trusted, &header);
    let hidden = request.clone().with_forwarding(false);
    assert_eq!(client_ip(&hidden, &trusted, &header), (ip(peer), AddressOrigin::HiddenPeer));
    assert_eq!(client != ip(peer), origin == AddressOrigin::Named, "{client}");
    origin
}

#[test]
fn it_is_told_how_an_address_is_known() {
    let field = "x-forwarded-for";
    let single = "x-real-ip";
    let cases = [
        ("192.0.2.1", Some((field, "198.51.100.1")), AddressOrigin::UntrustedPeer),
        ("10.0.0.1", None, AddressOrigin::Unnamed),
        ("10.0.0.1", Some((field, " , ")), AddressOrigin::Unnamed),
        ("10.0.0.1", Some((field, "198.51.100.1")), AddressOrigin::Named),
        ("10.0.0.1", Some((field, "10.3.3.3")), AddressOrigin::Named),
        ("10.0.0.1", Some((field, "unknown")), AddressOrigin::Malformed),
        ("10.0.0.1", Some((single, "198.51.100.1")), AddressOrigin::Named),
        ("10.0.0.1", Some((single, "me")), AddressOrigin::Malformed),
    ];
    for (peer, field, expected) in cases {
        assert_eq!(origin(peer, field), expected, "{peer} {field:?}");
    }
}

fn by_x_forwarded_for(peer: &str, lines: &[&str]) -> IpAddr {
    let lines: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", line.as_bytes())).collect();
    seen(peer, &ForwardedHeader::XForwardedFor, &lines)
}

#[test]
fn the_rightmost_untrusted_hop_is_the_client() {
    let cases: &[(&str, &[&str], &str)] = &[
        ("192.0.2.1", &["198.51.100.1"], "192.0.2.1"),
        ("10.0.0.1", &[], "10.0.0.1"),
        ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["1.1.1.1, 198.51.100.1 , 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", &["1.1.1.1, 198.51.100.1", "10.9.9.9,10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", &["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
        ("::ffff:10.0.0.1", &["::ffff:198.51.100.1"], "198.51.100.1"),
        ("2001:db8:ffff::1", &["[2001:db8::7%eth0]:4711"], "2001:db8::7"),
        ("10.0.0.1", &["198.51.100.1,, ,10.0.0.2,"], "198.51.100.1"),
    ];
    for (peer, lines, client) in cases {
        assert_eq!(by_x_forwarded_for(peer, lines), ip(client), "{peer} {lines:?}");
    }
}

#[test]
fn garbage_ends_the_chain_at_the_last_good_hop() {
    let cases = [
        ("unknown", "10.0.0.1"),
        ("198.51.100.1, nonsense, 10.0.0.2", "10.0.0.2"),
        ("198.51.100.1, 10.0.0.2:x", "10.0.0.1"),
    ];
    for (line, client) in cases {
        assert_eq!(by_x_forwarded_for("10.0.0.1", &[line]), ip(client), "{line}");
    }
}

#[test]
fn a_chain_is_followed_for_a_bounded_number_of_hops() {
    let chain = |hops: usize| format!("198.51.100.1{}", ", 10.0.0.2".repeat(hops));
    assert_eq!(by_x_forwarded_for("10.0.0.1", &[&chain(MAX_HOPS - 1)]), ip("198.51.100.1"));
    assert_eq!(by_x_forwarded_for("10.0.0.1", &[&chain(MAX_HOPS)]), ip("10.0.0.2"));
    let empty = format!("198.51.100.1{}", ",".repeat(MAX_HOPS));
    assert_eq!(by_x_forwarded_for("10.0.0.1", &[&empty]), ip("10.0.0.1"));
}

#[test]
fn the_standard_field_is_read_like_the_customary_one() {
    let cases: &[(&[&str], &str)] = &[
        (&["for=1.1.1.1, for=198.51.100.1;proto=https, for=10.0.0.2"], "198.51.100.1"),
        (&["for=198.51.100.1", r#"for="10.0.0.2:80";by=_x, for=10.0.0.3"#], "198.51.100.1"),
        (&[r#"for=1.1.1.1, for="[2001:db8::1]:4711""#], "2001:db8::1"),
        (&["for=198.51.100.1, for=unknown, for=10.0.0.2"], "10.0.0.2"),
        (&["for=198.51.100.1, for=_hidden"], "10.0.0.1"),
        (&[r#"for="1.1.1.1, for=198.51.100.1"#], "198.51.100.1"),
        (&[r#"for="1.1.1.1\", for="[2001:db8::1]""#], "2001:db8::1"),
    ];
    for (lines, client) in cases {
        let fields: Vec<_> = lines.iter().map(|line| ("forwarded", line.as_bytes())).collect();
        let seen = seen("10.0.0.1", &ForwardedHeader::Forwarded, &fields);
        assert_eq!(seen, ip(client), "{lines:?}");
    }
}

#[test]
fn a_field_with_one_address_is_taken_at_its_last_line() {
    let header = ForwardedHeader::Single(HeaderName::from_static("x-real-ip"));
    let cases: &[(&str, &[&str], &str)] = &[
        ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["10.7.7.7"], "10.7.7.7"),
        ("10.0.0.1", &["1.1.1.1, 198.51.100.1"], "10.0.0.1"),
        ("10.0.0.1", &[], "10.0.0.1"),
        ("192.0.2.1", &["198.51.100.1"], "192.0.2.1"),
    ];
    for (peer, lines, client) in cases {
        let fields: Vec<_> = lines.iter().map(|line| ("x-real-ip", line.as_bytes())).collect();
        assert_eq!(seen(peer, &header, &fields), ip(client), "{peer} {lines:?}");
    }
}

fn header() -> impl Strategy<Value = ForwardedHeader> {
    prop_oneof![
        Just(ForwardedHeader::XForwardedFor),
        Just(ForwardedHeader::Forwarded),
        Just(ForwardedHeader::Single(HeaderName::from_static("x-real-ip"))),
    ]
}

/// Any bytes that a field may have, often bytes with a meaning in these fields.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        2 => proptest::sample::select(b"\",;=\\ [].:10for".to_vec()),
        1 => (0x20_u8..=0xff).prop_filter("a field has no DEL", |&byte| byte != 0x7f),
    ];
    proptest::collection::vec(byte, 0..48)
}

proptest! {
    #[test]
    fn an_untrusted_peer_never_changes_who_it_is(
        header in header(),
        lines in proptest::collection::vec(line(), 0..4),
    ) {
        for name in ["x-forwarded-for", "forwarded", "x-real-ip"] {
            let fields: Vec<_> = lines.iter().map(|line| (name, &line[..])).collect();
            prop_assert_eq!(seen("192.0.2.1", &header, &fields), ip("192.0.2.1"));
        }
    }

    #[test]
    fn what_a_client_sends_left_of_its_address_never_matters(
        earlier in proptest::collection::vec(line(), 0..3),
        left in line(),
        behind in 0_usize..4,
        brackets in any::<bool>(),
    ) {
        let (client, quoted) = if brackets {
            ("2001:db8::1", r#"for="[2001:db8::1]:4711""#)
        } else {
            ("198.51.100.1", "for=198.51.100.1")
        };
        for (header, name, own, proxy) in [
            (ForwardedHeader::XForwardedFor, "x-forwarded-for", client, "10.0.0.2"),
            (ForwardedHeader::Forwarded, "forwarded", quoted, r#"for="10.0.0.2:80";by=_x"#),
        ] {
            let trail = format!(", {own}{}", format!(", {proxy}").repeat(behind));
            let last = [&left[..], trail.as_bytes()].concat();
            let fields: Vec<_> = earlier.iter().chain([&last]).map(|line| (name, &line[..])).collect();
            prop_assert_eq!(seen("10.0.0.1", &header, &fields), ip(client));
        }
    }
}

#[test]
fn a_proxy_that_asks_names_its_client_in_x_forwarded_for_alone() {
    let cases: &[(&str, &[&str], &str)] = &[
        ("192.0.2.1", &[], "192.0.2.1"),
        ("192.0.2.1", &["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
        ("192.0.2.1", &["1.1.1.1, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("192.0.2.1", &["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
        ("192.0.2.1", &["1.1.1.1, 192.0.2.1"], "192.0.2.1"),
        ("192.0.2.1", &["198.51.100.1, unknown"], "192.0.2.1"),
        ("192.0.2.1", &["198.51.100.1, unknown, 10.0.0.2"], "10.0.0.2"),
    ];
    let trusted = CidrSet::new(&PROXIES.map(|net| net.parse().unwrap()));
    let single = ForwardedHeader::Single(HeaderName::from_static("x-real-ip"));
    for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded, single] {
        for (peer, lines, expected) in cases {
            let mut headers: HeaderMap = lines
                .iter()
                .map(|line| (X_FORWARDED_FOR.clone(), HeaderValue::from_str(line).unwrap()))
                .collect();
            headers.insert("x-real-ip", HeaderValue::from_static("203.0.113.9"));
            headers.insert(FORWARDED, HeaderValue::from_static("for=203.0.113.9"));
            let request = RequestView::sample("", "/", &headers).with_peer(ip(peer));
            let (client, _) = client_ip(&request.asked_by_peer(), &trusted, &header);
            assert_eq!(client, ip(expected), "{peer} {lines:?} {header:?}");
        }
    }
}

/// What a peer names that is not believed: the field and the client.
fn not_believed(peer: &str, lines: &[(&'static str, &str)]) -> Option<(&'static str, IpAddr)> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let request = RequestView::sample("", "/", &headers).with_peer(ip(peer));
    let trusted = CidrSet::new(&PROXIES.map(|net| net.parse().unwrap()));
    assert_eq!(unbelieved(&request.clone().with_forwarding(false), &trusted), None);
    let found = unbelieved(&request, &trusted)?;
    assert_eq!(found.peer, ip(peer));
    Some((found.field, found.client))
}

#[test]
fn a_peer_that_is_not_trusted_and_names_a_client_is_seen() {
    let list = "x-forwarded-for";
    let forwarded = "forwarded";
    let name = |field, client| Some((field, ip(client)));
    for (peer, lines, expected) in [
        ("192.0.2.1", vec![], None),
        ("192.0.2.1", vec![("x-forwarded-proto", "https")], None),
        ("10.0.0.1", vec![(list, "198.51.100.1")], None),
        ("192.0.2.1", vec![(list, "198.51.100.1")], name("X-Forwarded-For", "198.51.100.1")),
        // What a client has forged stands to the left of what the proxy has added.
        (
            "192.0.2.1",
            vec![(list, "1.1.1.1, 198.51.100.1")],
            name("X-Forwarded-For", "198.51.100.1"),
        ),
        (
            "192.0.2.1",
            vec![(list, "198.51.100.1, 10.0.0.2")],
            name("X-Forwarded-For", "198.51.100.1"),
        ),
        ("192.0.2.1", vec![(forwarded, "for=198.51.100.1")], name("Forwarded", "198.51.100.1")),
        (
            "192.0.2.1",
            vec![(list, "unknown"), (forwarded, "for=198.51.100.1")],
            name("Forwarded", "198.51.100.1"),
        ),
        ("192.0.2.1", vec![(list, "192.0.2.1")], None),
        ("192.0.2.1", vec![(list, " , ")], None),
        ("192.0.2.1", vec![(forwarded, "proto=https")], None),
    ] {
        assert_eq!(not_believed(peer, &lines), expected, "{peer} {lines:?}");
    }
}
