//! A written key leads to the counter of requests that have this key.

use proptest::prelude::*;

use super::*;
use crate::digest::Key;
use crate::policy::KeyFor;
use crate::policy::tests::{Case, from, policy_of, with};

fn read(key: &KeyExpr, text: &str) -> Result<Principal, KeyTextError> {
    let Case { client, .. } = with(&[]);
    let secret = Secret::from_bytes([3; 16]);
    KeyTexts { client: &client, secret, is_route: &|name| name == "r" }.principal(key, text)
}

fn one(text: &str) -> KeyExpr {
    text.parse().unwrap()
}

/// The principal of this request under `key`.
fn of(case: &Case, key: &KeyExpr) -> Principal {
    match case.key(&policy_of(key.clone())) {
        KeyFor::Key(Key { principal, .. }) => principal,
        other => panic!("{other:?}"),
    }
}

fn case() -> Case {
    Case {
        host: "a.test",
        path: "/t/a%7Cb",
        query: Some("token=x%20y"),
        peer: [10, 9, 8, 7].into(),
        ..with(&[("x-user", "ann"), ("x-api-key", "k=1&2"), ("cookie", "sid=\"s1\"")])
    }
}

#[test]
fn every_word_is_parsed_as_requests_are() {
    let cases = [
        ("ip", "10.9.8.7"),
        ("ip", "::ffff:10.9.8.7"),
        ("api_key", "k=1&2"),
        ("user", "ann"),
        ("cookie:sid", "s1"),
        ("header:x-user", "ann"),
        ("query:token", "x y"),
        ("param:tenant", "a%7cb"),
        ("path", "/t/a%7cb"),
        ("path", "//t/a%7Cb"),
        ("method", "GET"),
        ("host", "A.test"),
        ("route", "r"),
        ("global", "global"),
    ];
    for (word, text) in cases {
        assert_eq!(read(&one(word), text), Ok(of(&case(), &one(word))), "{word} {text}");
    }
    assert_eq!(read(&one("ip"), "2001:db8::1:2:3:4"), Ok(of(&from("2001:db8::9"), &one("ip"))));
}

#[test]
fn several_words_are_written_with_their_names() {
    let first = KeyExpr::First(vec![one("cookie:no"), one("api_key"), one("ip")]);
    assert_eq!(read(&first, "api_key=k%3D1%262"), Ok(of(&case(), &first)));
    assert_eq!(read(&first, "ip=192.0.2.1"), Ok(of(&with(&[]), &first)));
    let all = KeyExpr::All(vec![first.clone(), one("global"), one("path")]);
    assert_eq!(read(&all, "path=/t/a%257Cb&api_key=k%3D1%262"), Ok(of(&case(), &all)));
    let either = KeyExpr::First(vec![KeyExpr::All(vec![one("ip"), one("user")]), one("ip")]);
    assert_eq!(read(&either, "ip=192.0.2.1"), Ok(of(&with(&[]), &either)));
    assert_eq!(read(&either, "user=ann&ip=10.9.8.7"), Ok(of(&case(), &either)));
    // Names of header fields have no case, and a name is escaped like a value.
    let header = KeyExpr::All(vec![one("header:x-user"), one("ip")]);
    assert_eq!(read(&header, "header:X-User=ann&ip=10.9.8.7"), Ok(of(&case(), &header)));
    let odd = KeyExpr::First(vec![one("query:a=b&c"), one("ip")]);
    assert_eq!(odd.form(), "query:a%3Db%26c=... or ip=...");
    assert!(read(&odd, "query:a%3Db%26c=x").is_ok());
}

/// The principal of words and their values.
fn of_words(key: &KeyExpr, words: &[(&str, &'static str)]) -> Result<Principal, KeyTextError> {
    let Case { client, .. } = with(&[]);
    let secret = Secret::from_bytes([3; 16]);
    let value = |word: &KeyExpr| words.iter().find(|(it, _)| one(it) == *word).map(|it| it.1);
    KeyTexts { client: &client, secret, is_route: &|name| name == "r" }.principal_of(key, value)
}

#[test]
fn words_with_values_lead_to_the_request_that_has_them() {
    let first = KeyExpr::First(vec![one("cookie:no"), one("api_key"), one("ip")]);
    let all = KeyExpr::All(vec![first.clone(), one("global"), one("path")]);
    let words = [("api_key", "k=1&2"), ("path", "/t/a%7Cb?c=d&path=/")];
    let whole = of(&case(), &all);
    assert_eq!(of_words(&all, &words), Ok(whole));
    assert_eq!(of_words(&first, &words), Ok(of(&case(), &first)));
    assert_eq!(of_words(&one("path"), &words), Ok(of(&case(), &one("path"))));
    // As in a request, an empty value is absent, and the first that is present counts.
    let ip = ("ip", "192.0.2.1");
    for words in [&[ip][..], &[ip, ("cookie:no", "")], &[("api_key", ""), ip, ("path", "/")]] {
        assert_eq!(of_words(&first, words), Ok(of(&with(&[]), &first)), "{words:?}");
    }
    assert_eq!(of_words(&first, &[ip, ("api_key", "k=1&2")]), Ok(of(&case(), &first)));
    for host in ["a.test", "A.test:80", "a.test."] {
        assert_eq!(of_words(&one("host"), &[("host", host)]), Ok(of(&case(), &one("host"))));
    }
    let header = one("header:X-User");
    assert_eq!(of_words(&header, &[("header:x-USER", "ann")]), Ok(of(&case(), &header)));
    assert_eq!(of_words(&one("global"), &[]), Ok(of(&case(), &one("global"))));
}

#[test]
fn no_value_of_a_word_names_another_word() {
    let first = KeyExpr::First(vec![one("api_key"), one("ip")]);
    let all = KeyExpr::All(vec![one("ip"), one("path")]);
    for value in ["api_key=victim", "ip=192.0.2.1", "192.0.2.1&path=/x", "192.0.2.1%26path=/x"] {
        assert!(of_words(&first, &[("ip", value)]).is_err(), "{value}");
        assert!(of_words(&all, &[("ip", value)]).is_err(), "{value}");
        assert!(of_words(&all, &[("ip", value), ("path", "/")]).is_err(), "{value}");
    }
    let key = |value: &'static str| of_words(&first, &[("api_key", value)]);
    assert_ne!(key("victim"), key("api_key=victim"));
    assert_ne!(key("a&b"), key("a%26b"));
    let path = |value: &'static str| of_words(&all, &[("ip", "192.0.2.1"), ("path", value)]);
    assert!(path("/x").is_ok() && path("/x") != path("/x&ip=192.0.2.2"));
}

#[test]
fn a_key_that_no_request_can_have_is_refused_with_advice() {
    let all = KeyExpr::All(vec![KeyExpr::First(vec![one("api_key"), one("ip")]), one("path")]);
    let cases = [
        (one("user"), "", "the key's user is empty"),
        (one("ip"), "10.0.0", "write an address"),
        (one("ip"), "10.0.0.0/8", "write an address"),
        (one("path"), "orders", "write a path"),
        (one("path"), "/a?b", "write a path"),
        (one("path"), "/a/../b", "write a path"),
        (one("param:id"), "a/b", "write one segment"),
        (one("host"), "a.test:80", "without a port"),
        (one("method"), "G T", "write a method"),
        (one("method"), "get", "write a method in capitals"),
        (one("route"), "other", "no route has this name"),
        (one("global"), "all", "write global"),
        (one("header:x"), " a", "no header field"),
        (one("cookie:x"), "\"a\"", "without quotes"),
        (one("api_key"), "a,b", "no blank, comma or quote"),
        (all.clone(), "10.0.0.1", "has no \"10.0.0.1\"; write it as (api_key=... or ip=...)&path="),
        (all.clone(), "ip=10.0.0.1", "write it as (api_key=... or ip=...)&path=..."),
        (all.clone(), "ip=10.0.0.1&path=/&user=x", "has no \"user\""),
        (all.clone(), "ip=10.0.0.1&ip=10.0.0.2&path=/", "has no \"ip\""),
        (all.clone(), "ip=10.0.0.1&path=/&api_key=k", "has no \"ip\""),
        (all.clone(), "ip=10.0.0.1&path=/&global=x", "has no \"global\""),
        (all.clone(), "api_key=%ff&path=/", "not UTF-8"),
        (all.clone(), &"&".repeat(1 << 20), "has no \"\""),
        (all, "ip=x&path=/", "write an address"),
    ];
    for (key, text, problem) in cases {
        let said = read(&key, text).unwrap_err().to_string();
        assert!(said.contains(problem), "{text}: {said}");
    }
}

proptest! {
    #[test]
    fn any_value_of_a_field_is_read_alone_and_among_others(value in "[!#-+.-~-]{1,22}") {
        let case = with(&[("x-api-key", &value)]);
        prop_assert_eq!(read(&one("api_key"), &value), Ok(of(&case, &one("api_key"))));
        let both = KeyExpr::All(vec![one("api_key"), one("ip")]);
        let escaped = value.replace('%', "%25").replace('&', "%26");
        let text = format!("api_key={escaped}&ip=192.0.2.1");
        prop_assert_eq!(read(&both, &text), Ok(of(&case, &both)));
    }

    #[test]
    fn a_cookie_or_a_query_parameter_is_read_as_requests_have_it(value in "[!#-+.-:<-~-]{1,12}") {
        let case = with(&[("cookie", &format!("x={value}"))]);
        prop_assert_eq!(read(&one("cookie:x"), &value), Ok(of(&case, &one("cookie:x"))));
        let query: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let case = Case { query: Some(format!("x={query}").leak()), ..with(&[]) };
        prop_assert_eq!(read(&one("query:x"), &value), Ok(of(&case, &one("query:x"))));
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,40}") {
        let all = KeyExpr::All(vec![one("path"), KeyExpr::First(vec![one("host"), one("ip")])]);
        for key in [one("path"), one("host"), one("param:a"), all] {
            let _ = read(&key, &text);
        }
    }
}
