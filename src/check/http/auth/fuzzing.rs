//! The fuzz target of questions of other proxies.

use http::header::HOST;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};
use tollgate_core::request::{method_of, target_of};

use super::family::Family;
use crate::message::fuzzing::fields;

/// A question: a line with the method and the target, and fields.
pub fn families(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, rest) = input.split_at(end);
    let Some(space) = line.iter().position(|byte| *byte == b' ') else { return };
    let method = &line[..space];
    let target = &line[space + 1..];
    // The server has read both, and the limits of the head are its own.
    let (Ok(method), Ok(target)) = (method_of(method), target_of(target)) else { return };
    let head = || {
        let (mut head, ()) = Request::new(()).into_parts();
        (head.method, head.uri) = (method.clone(), target.clone());
        head.version = if rest.len() % 2 == 0 { Version::HTTP_11 } else { Version::HTTP_2 };
        head.headers = fields(rest);
        head
    };
    let Some(family) = Family::of(target.path()) else { return };
    let read = restored(family, head());
    // The fields of other families are those of a client.
    let mut forged = head();
    for name in ["x-forwarded-uri", "x-original-uri", "x-original-url", "x-original-method"] {
        let name = HeaderName::from_static(name);
        if !family.fields().contains(&name) {
            forged.headers.append(name, HeaderValue::from_static("/forged"));
        }
    }
    assert_eq!(restored(family, forged), read, "another family is believed");
}

/// The method, the target and the host of the request that a question describes.
fn restored(family: Family, mut head: Parts) -> Option<(Method, Uri, HeaderValue)> {
    let before = (head.method.clone(), head.uri.clone(), head.headers.clone());
    if family.restore(&mut head).is_err() {
        assert_eq!((head.method, head.uri, head.headers), before, "a faulty question has changed");
        return None;
    }
    let Parts { method, uri, headers, version, .. } = head;
    assert_eq!(version, Version::HTTP_11);
    assert!(!family.fields().iter().any(|name| headers.contains_key(name)), "a field remains");
    assert_eq!(headers.get_all(HOST).iter().count(), 1, "a request has one host");
    assert_eq!(method_of(method.as_str().as_bytes()).as_ref(), Ok(&method));
    assert_eq!(target_of(uri.to_string().as_bytes()).as_ref(), Ok(&uri));
    Some((method, uri, headers[HOST].clone()))
}
