//! Questions, the requests that they describe, and the faults of others.

use http::Request;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate_core::request::RequestView;

use super::*;
use crate::message::Failure;

const ASKER: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const FAMILIES: [(Family, &str); 3] = [
    (Family::Forwarded, "/auth"),
    (Family::Original, "/auth/nginx"),
    (Family::Prefixed, "/auth/envoy/own?x=1"),
];

/// A question with this target and these fields, one on each line.
fn question(method: &str, target: &str, fields: &str) -> Parts {
    let mut builder = Request::builder().method(method).uri(target);
    for line in fields.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        builder = builder.header(name, value);
    }
    builder.body(()).unwrap().into_parts().0
}

/// The request that such a question describes: method, target, and host.
fn restored(method: &str, target: &str, fields: &str) -> Result<String, String> {
    let mut head = question(method, target, fields);
    let family = Family::of(head.uri.path()).ok_or("no family")?;
    family.restore(&mut head).map_err(|bad| format!("{}: {:?}", bad.field, bad.fault))?;
    assert_eq!((head.version, head.headers.get_all(HOST).iter().count()), (Version::HTTP_11, 1));
    let host = head.headers[HOST].to_str().unwrap();
    Ok(format!("{} {} {host}", head.method, head.uri))
}

#[test]
fn a_path_has_one_family() {
    for (family, path) in FAMILIES {
        let path = path.split('?').next().unwrap();
        assert_eq!(Family::of(path), Some(family), "{path}");
    }
    assert_eq!(Family::of("/auth/envoy*"), Some(Family::Prefixed));
    for path in
        ["/", "/auth/", "/AUTH", "/auth/nginx/", "/auth/nginx/x", "/auth/envoy", "/auth/envoyx"]
    {
        assert_eq!(Family::of(path), None, "{path}");
    }
}

#[test]
fn each_family_describes_a_request() {
    let cases = [
        (
            "GET /auth",
            "Host: tollgate:9902\nX-Forwarded-Method: POST\nX-Forwarded-Uri: /a/b?c=%20\n\
             X-Forwarded-Host: shop.test:8080",
            "POST /a/b?c=%20 shop.test:8080",
        ),
        (
            "HEAD /auth/nginx",
            "Host: shop.test\nX-Original-Method: DELETE\nX-Original-URI: /a//b?",
            "DELETE /a//b? shop.test",
        ),
        (
            "GET /auth/nginx",
            "Host: tollgate.svc\nX-Original-Method: GET\nX-Original-URL: https://shop.test/a?b=c",
            "GET https://shop.test/a?b=c shop.test",
        ),
        ("PUT /auth/envoy/a/b?c=d", "Host: shop.test", "PUT /a/b?c=d shop.test"),
        ("GET /auth/envoy/", "Host: shop.test", "GET / shop.test"),
        ("OPTIONS /auth/envoy*", "Host: shop.test", "OPTIONS * shop.test"),
        ("GET http://shop.test/auth/envoy/a", "Host: SHOP.test", "GET /a shop.test"),
        ("GET http://shop.test/auth/envoy/a", "", "GET /a shop.test"),
    ];
    for (line, fields, expected) in cases {
        let (method, target) = line.split_once(' ').unwrap();
        assert_eq!(restored(method, target, fields).as_deref(), Ok(expected), "{line} {fields}");
    }
}

#[test]
fn a_field_that_is_missing_or_repeated_is_named() {
    let forwarded = "X-Forwarded-Method: GET\nX-Forwarded-Uri: /\nX-Forwarded-Host: a.test";
    let original = "X-Original-Method: GET\nX-Original-URI: /\nHost: a.test";
    for (target, fields) in [("/auth", forwarded), ("/auth/nginx", original)] {
        assert!(restored("GET", target, fields).is_ok());
        for field in fields.lines() {
            let name = field.split_once(": ").unwrap().0;
            let without: Vec<&str> = fields.lines().filter(|line| *line != field).collect();
            let expected = format!("{name}: Missing");
            assert_eq!(restored("GET", target, &without.join("\n")), Err(expected.clone()));
            let empty = fields.replace(field, &format!("{name}: "));
            assert_eq!(restored("GET", target, &empty), Err(expected));
            for other in [field, &*format!("{name}: x"), &*format!("{name}: ")] {
                let expected = Err(format!("{name}: Repeated"));
                assert_eq!(restored("GET", target, &format!("{fields}\n{other}")), expected);
                assert_eq!(restored("GET", target, &format!("{other}\n{fields}")), expected);
            }
        }
    }
    let both = format!("{original}\nX-Original-URL: http://a.test/");
    assert_eq!(restored("GET", "/auth/nginx", &both), Err("X-Original-URL: Repeated".into()));
    assert_eq!(restored("GET", "/auth/envoy/", ""), Err("Host: Missing".into()));
    let many = "Host: a.test\nHost: a.test";
    assert_eq!(restored("GET", "/auth/envoy/", many), Err("Host: Repeated".into()));
    let other = restored("GET", "http://a.test/auth/envoy/", "Host: b.test");
    assert_eq!(other, Err("Host: Ambiguous(TwoHosts)".into()));
}

#[test]
fn a_request_that_the_server_would_refuse_is_refused() {
    let asked = |method: &str, target: &str| {
        let fields = format!(
            "X-Forwarded-Method: {method}\nX-Forwarded-Uri: {target}\nX-Forwarded-Host: a.test"
        );
        restored("GET", "/auth", &fields)
    };
    for method in ["get", "Post", "G T", "GET/", "-", "(", "\u{e9}"] {
        let expected = Err("X-Forwarded-Method: Malformed(BadMethod)".into());
        assert_eq!(asked(method, "/"), expected, "{method}");
    }
    for target in ["/a b", "/a#b", "a b", "/<a>", "http://", "/a\tb", "/?a b", "ht!tp://a/", " "] {
        let expected = Err("X-Forwarded-Uri: Malformed(BadTarget)".into());
        assert_eq!(asked("GET", target), expected, "{target}");
    }
    let relative = "X-Original-Method: GET\nX-Original-URL: /a\nHost: a.test";
    let expected = Err("X-Original-URL: Malformed(BadTarget)".into());
    assert_eq!(restored("GET", "/auth/nginx", relative), expected);
}

#[test]
fn what_the_view_of_the_request_refuses_has_a_name() {
    let cases = [
        (Family::Forwarded, "/a/../b", "a.test", Some("X-Forwarded-Uri")),
        (Family::Forwarded, "/a%", "a.test", Some("X-Forwarded-Uri")),
        (Family::Forwarded, "*", "a.test", Some("X-Forwarded-Uri")),
        (Family::Forwarded, "http://b.test/", "a.test", Some("X-Forwarded-Host")),
        (Family::Forwarded, "/", "a.test, b.test", Some("X-Forwarded-Host")),
        (Family::Original, "/a/./b", "a.test", Some("X-Original-URI")),
        (Family::Original, "/", "a@b", Some("Host")),
        (Family::Prefixed, "/a;/b/%2e%2e/", "a.test", Some("the path behind /auth/envoy")),
        (Family::Prefixed, "/", "a b", Some("Host")),
        (Family::Prefixed, "/", "a.test", None),
    ];
    for (family, target, host, expected) in cases {
        let (path, fields) = match family {
            Family::Forwarded => (
                "/auth".to_owned(),
                format!(
                    "X-Forwarded-Method: GET\nX-Forwarded-Uri: {target}\nX-Forwarded-Host: {host}"
                ),
            ),
            Family::Original => (
                "/auth/nginx".to_owned(),
                format!("X-Original-Method: GET\nX-Original-URI: {target}\nHost: {host}"),
            ),
            Family::Prefixed => (format!("/auth/envoy{target}"), format!("Host: {host}")),
        };
        let mut head = question("GET", &path, &fields);
        family.restore(&mut head).unwrap();
        let refused = RequestView::of(&head, ASKER).err().map(Failure::from);
        let named = refused.map(|it| it.in_question(family.parts()));
        let field = named.map(|failure| match failure {
            Failure::Question(BadQuestion { field, .. }) => field,
            other => panic!("{other:?}"),
        });
        assert_eq!(field, expected, "{target} {host}");
    }
}

#[test]
fn the_fields_of_the_family_are_removed_and_all_others_stay() {
    let fields = "Host: own.test\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /f\n\
                  X-Forwarded-Host: f.test\nX-Forwarded-For: 192.0.2.1\nX-Original-Method: PUT\n\
                  X-Original-URI: /o\nX-Api-Key: k\nCookie: a=b";
    let described = ["GET /f f.test", "PUT /o own.test", "HEAD /own?x=1 own.test"];
    for ((family, path), expected) in FAMILIES.into_iter().zip(described) {
        assert_eq!(restored("HEAD", path, fields).as_deref(), Ok(expected));
        let mut head = question("HEAD", path, fields);
        let before = head.headers.clone();
        family.restore(&mut head).unwrap();
        for (name, value) in before.iter().filter(|(name, _)| *name != HOST) {
            let is_of_family = family.fields().contains(name);
            let expected = (!is_of_family).then_some(value);
            assert_eq!(head.headers.get(name), expected, "{family:?} {name}");
        }
    }
}

/// Fields that a client may send, among them those of every family.
fn forged() -> impl Strategy<Value = Vec<(HeaderName, HeaderValue)>> {
    const NAMES: [&str; 12] = [
        "x-forwarded-method",
        "x-forwarded-uri",
        "x-forwarded-host",
        "x-original-method",
        "x-original-uri",
        "x-original-url",
        "x-forwarded-path",
        "x-original-host",
        "x-envoy-original-path",
        "x-rewrite-url",
        "forwarded",
        "x-http-method-override",
    ];
    const VALUES: [&str; 6] = ["GET", "POST", "/other", "http://other.test/x", "other.test", ""];
    let field = (select(&NAMES), select(&VALUES))
        .prop_map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    vec(field, 0..8)
}

proptest! {
    /// A field decides in its own family only, and there it must be alone.
    #[test]
    fn no_field_of_another_family_is_read(forged in forged(), which in 0..3_usize) {
        let (family, path) = FAMILIES[which];
        let own = "Host: own.test\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /own\n\
                   X-Forwarded-Host: own.test\nX-Original-Method: GET\nX-Original-URI: /own";
        let own: Vec<&str> = own
            .lines()
            .filter(|line| match family {
                Family::Forwarded => line.starts_with("X-F"),
                Family::Original => line.starts_with("X-O") || line.starts_with("Host"),
                Family::Prefixed => line.starts_with("Host"),
            })
            .collect();
        let mut expected = question("GET", path, &own.join("\n"));
        let mut head = question("GET", path, &own.join("\n"));
        let is_of_family = forged.iter().any(|(name, _)| family.fields().contains(name));
        for (name, value) in forged {
            head.headers.append(name, value);
        }
        prop_assert!(family.restore(&mut expected).is_ok());
        prop_assert_eq!(family.restore(&mut head).is_err(), is_of_family);
        if !is_of_family {
            let parts = |head: &Parts| {
                (head.method.clone(), head.uri.clone(), head.headers[HOST].clone())
            };
            prop_assert_eq!(parts(&head), parts(&expected));
        }
    }

    /// Whatever a question contains: the described request is one that the server accepts, or
    /// the head stays as it was.
    #[test]
    fn a_described_request_is_one_that_the_server_accepts(
        method in "[A-Za-z!-~ ]{0,6}|GET|POST|get",
        target in "/[a-z%./;?# \u{e9}]{0,8}|(http://)?[a-z.:@/]{0,8}|[*]|[ -~]{0,6}",
        host in "[a-z.:,@ ]{0,8}|a[.]test",
    ) {
        let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).unwrap();
        let mut head = question("GET", "/auth", "Host: tollgate");
        head.headers.insert(X_FORWARDED_METHOD, value(&method));
        head.headers.insert(X_FORWARDED_URI, value(&target));
        head.headers.insert(X_FORWARDED_HOST, value(&host));
        let before = (head.uri.clone(), head.headers.clone());
        if Family::Forwarded.restore(&mut head).is_ok() {
            prop_assert_eq!(head.method.as_str(), &method);
            prop_assert!(method_of(method.as_bytes()).is_ok());
            prop_assert!(target_of(target.as_bytes()).is_ok());
            prop_assert_eq!(head.headers[HOST].as_bytes(), host.as_bytes());
        } else {
            prop_assert_eq!((head.uri, head.headers), before);
        }
    }
}
