//! Bodies of which programs read different values. None of them gets a counter of its own.

use super::{FORM, JSON, chunked, once_a_day, post, send, statuses};
use crate::support::{Gateway, Origin};

fn gateway(origin: &Origin) -> Gateway {
    let key = "key: { first: [\"json:/model\", \"form:model\"] }, missing_key: skip";
    once_a_day(origin, key, "")
}

#[test]
fn a_document_that_programs_read_differently_is_refused() {
    let origin = Origin::hello();
    let gateway = gateway(&origin);
    let refused = [
        "",
        "{\"model\":\"a\"",
        "{\"model\":\"a\"}}",
        "{\"model\":\"a\"}{}",
        "\u{feff}{\"model\":\"a\"}",
        r#"{"model":"a","model":"b"}"#,
        r#"{"model":"a","\u006dodel":"a"}"#,
        r#"{"model":"a","Model":"b"}"#,
        r#"{"MODEL":"b"}"#,
        r#"{"model":"\ud800"}"#,
        r#"{"model":"a","x":"\udfff"}"#,
        r#"{'model':'a'}"#,
        r#"{"model":"a",}"#,
        r#"{"model":"a"/**/}"#,
        "{\"model\":\"a\n\"}",
        r#"{"model":01}"#,
        r#"{"model":NaN}"#,
    ];
    for body in &refused[1..] {
        let response = post(&gateway, &[JSON], body.as_bytes());
        assert_eq!(response.status, 400, "{body}");
        assert!(response.text().contains("the body of this request"), "{}", response.text());
    }
    let deep = format!("{{\"model\":\"a\",\"x\":{}{}}}", "[".repeat(128), "]".repeat(128));
    let bodies = [
        &b"{\"model\":\"a\xff\"}"[..],
        b"{\"model\":\"\xc0\xaf\"}",
        b"{\"model\":\"\xed\xa0\x80\"}",
        b"{\"model\":\"a\"}\0",
        b"{\0\"\0m\0",
        deep.as_bytes(),
    ];
    for body in bodies {
        assert_eq!(post(&gateway, &[JSON], body).status, 400, "{body:?}");
        assert_eq!(send(&gateway, &chunked("", &[body])).status, 400, "{body:?}");
    }
    assert!(origin.received().is_empty());
}

#[test]
fn letters_that_some_programs_fold_are_no_other_name() {
    let origin = Origin::hello();
    let gateway = once_a_day(&origin, "key: \"json:/tasks/key\", missing_key: skip", "");
    for body in [
        "{\"ta\u{17f}ks\":{\"key\":1}}",
        "{\"tasks\":{\"\u{212a}ey\":1}}",
        r#"{"tasks":{"\u212aey":1}}"#,
        r#"{"tasks":{"key":1,"KEY":2}}"#,
    ] {
        assert_eq!(post(&gateway, &[JSON], body.as_bytes()).status, 400, "{body}");
    }
    // They are other members at other places.
    let elsewhere = r#"{"tasks":{"key":1},"KEY":2,"x":{"key":1,"key":2}}"#;
    assert_eq!(statuses(&gateway, &[JSON], [elsewhere, elsewhere]), [200, 429]);
}

#[test]
fn a_form_that_programs_read_differently_is_refused() {
    let origin = Origin::hello();
    let gateway = gateway(&origin);
    for body in
        ["model=a&model=b", "Model=a", "model[]=a", "x=1;model=a", "model=%zz", "%20model=a"]
    {
        let response = post(&gateway, &[FORM], body.as_bytes());
        assert_eq!(response.status, 400, "{body}");
    }
    let bodies = ["model=a&x=1", "x=2&mode%6c=%61", "y=1"];
    assert_eq!(statuses(&gateway, &[FORM], bodies), [200, 429, 200]);
}

#[test]
fn fields_that_describe_the_body_in_two_ways_are_refused() {
    let origin = Origin::hello();
    let gateway = gateway(&origin);
    let body = br#"{"model":"a"}"#;
    for fields in [
        &[JSON, "Content-Type: text/plain"][..],
        &["Content-Type: application/json; charset=utf-16"],
        &["Content-Type: application/json;charset=utf-7"],
        &["Content-Type: text/plain, application/json"],
    ] {
        assert_eq!(post(&gateway, fields, body).status, 400, "{fields:?}");
    }
    for coding in ["gzip, gzip", "gzip, identity, zstd", "deflate", "br", "x"] {
        let field = format!("Content-Encoding: {coding}");
        assert_eq!(post(&gateway, &[JSON, &field], body).status, 415, "{coding}");
    }
    assert_eq!(post(&gateway, &[JSON, "Content-Encoding: gzip"], body).status, 400);
    assert!(origin.received().is_empty());
}

#[test]
fn compressed_bodies_have_one_end() {
    let origin = Origin::hello();
    let gateway = once_a_day(&origin, "key: \"form:user\"", "");
    for (coding, compress) in [
        ("gzip", super::bounds::gzip as fn(&[u8]) -> Vec<u8>),
        ("zstd", super::bounds::zstd as fn(&[u8]) -> Vec<u8>),
    ] {
        let field = format!("Content-Encoding: {coding}");
        let one = compress(b"user=a");
        let two = [&one[..], &compress(b"nn")].concat();
        let rest = [&one[..], b"x"].concat();
        let cut = &one[..one.len() - 1];
        for body in [&two[..], &rest, cut] {
            assert_eq!(post(&gateway, &[FORM, &field], body).status, 400, "{coding}");
        }
    }
    assert!(origin.received().is_empty());
}

/// `over: missing` is a choice: a larger body has no key.
#[test]
fn a_value_behind_the_bound_is_missing_only_if_the_route_says_so() {
    let origin = Origin::hello();
    let key = "key: \"json:/model\", missing_key: deny";
    let late = format!("{{\"x\":\"{}\",\"model\":\"a\"}}", "y".repeat(4000));
    let gateway = once_a_day(&origin, key, "read_body: { max: 4KiB }");
    assert_eq!(post(&gateway, &[JSON], late.as_bytes()).status, 200, "it is just small enough");
    let later = format!("{{\"x\":\"{}\",\"model\":\"a\"}}", "y".repeat(4096));
    assert_eq!(post(&gateway, &[JSON], later.as_bytes()).status, 413);
    let missing = once_a_day(&origin, key, "read_body: { max: 4KiB, over: missing }");
    assert_eq!(post(&missing, &[JSON], later.as_bytes()).status, 403);
    assert_eq!(send(&missing, &chunked("", &[later.as_bytes()])).status, 403);
    assert_eq!(origin.received().len(), 1);
}
