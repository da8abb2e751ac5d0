//! Fuzz targets of this layer: costs that upstreams state, and parts of a request that
//! are inserted into another target or another message.

use std::iter;

use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, HOST, TE, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use serde_json::Value;
use tollgate_core::meter::{Meter, MeterSpec, Metered, Pointer, Progress, Tariff, UsageApi};
use tollgate_core::request::{Fields, RequestView, normal_path};

pub use super::authorizer::fuzzing::verdicts;
use super::fields::KEPT;
use super::tokens::tokens;
use super::{
    Encoding, Location, Prefix, Redirect, Rewrite, accepted, decrement_max_forwards, join_cookies,
    request_id, strip_hop_by_hop, write_encoding, write_vary,
};

/// Cuts `bytes` into pieces whose lengths follow from `seed`. With 0 they are single bytes.
pub fn pieces(bytes: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let lengths = [1 + usize::from(seed & 7), 1 + usize::from(seed >> 3) * 7];
    let mut rest = bytes;
    let mut lengths = lengths.into_iter().cycle();
    iter::from_fn(move || {
        let length = lengths.next().unwrap_or(1).min(rest.len());
        let (piece, behind) = rest.split_at(length);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The fields in `text`, one in each line. Invalid lines are skipped.
pub fn fields(text: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.split(|byte| *byte == b'\n').take(64) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// The cost that a response states.
pub fn meters(input: &[u8]) {
    let Some((&[seed, kind], rest)) = input.split_first_chunk() else { return };
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return };
    let pointer = &rest[..end];
    let body = &rest[end + 1..];
    let Ok(pointer) = std::str::from_utf8(pointer) else { return };
    let Ok(parsed) = pointer.parse::<Pointer>() else { return };
    let tariff = Tariff::default();
    let spec = match kind % 8 {
        0 => MeterSpec::Json(parsed),
        1 => MeterSpec::SseJson(parsed),
        2 => MeterSpec::Body(parsed),
        3 => MeterSpec::Usage { api: UsageApi::OpenAi, tariff },
        4 => MeterSpec::Usage { api: UsageApi::Anthropic, tariff },
        5 => MeterSpec::Usage { api: UsageApi::Gemini, tariff },
        6 => MeterSpec::Usage { api: UsageApi::Bedrock, tariff },
        _ => MeterSpec::Usage { api: UsageApi::Ollama, tariff },
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    let cost = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut meter = Meter::new(&spec, &headers);
        pieces.for_each(|piece| meter.observe(piece));
        match meter.finish(StatusCode::OK, Progress::Ended).0 {
            Metered::Cost(units) => Some(units),
            Metered::AtLeast(..) | Metered::Estimated(..) | Metered::Unanswered => None,
        }
    };
    let whole = cost(&mut [body].into_iter());
    assert_eq!(cost(&mut pieces(body, seed)), whole, "pieces make a difference");
    if matches!(spec, MeterSpec::Json(_))
        && let Ok(document) = serde_json::from_slice::<Value>(body)
    {
        let expected = document.pointer(pointer);
        match expected {
            Some(Value::Number(number)) if number.is_u64() => assert_eq!(whole, number.as_u64()),
            Some(Value::Number(number)) if number.is_f64() => {}
            Some(Value::Number(_)) | None => assert_eq!(whole, None, "it has no such cost"),
            Some(_) => assert_eq!(whole, None, "what is no number is no cost"),
        }
    }
}

/// The `Location` of a redirect, and the rewritten target of a request.
pub fn targets(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.splitn(3, '\n');
    let (Some(template), Some(add), Some(target)) = (lines.next(), lines.next(), lines.next())
    else {
        return;
    };
    let Ok(uri) = Uri::try_from(target) else { return };
    if uri.scheme().is_some() || !target.starts_with('/') || target.contains('#') {
        return;
    }
    let Ok(path) = normal_path(uri.path()) else { return };
    if let Ok(to) = template.parse::<Location>() {
        redirect(to, &uri, &path);
    }
    let segments = add.len() % 4;
    let is_prefix = add.starts_with('/')
        && !add.ends_with('/')
        && !add.contains(['?', '#'])
        && Uri::try_from(add).is_ok();
    let rewrite = Rewrite {
        strip: (segments > 0)
            .then(|| Prefix { segments, text: HeaderValue::from_static("/prefix") }),
        add: is_prefix.then(|| add.into()),
        host: None,
    };
    let (mut head, ()) = Request::new(()).into_parts();
    head.uri = uri.clone();
    let long = uri.path().len() + uri.query().map_or(0, str::len) + add.len();
    match rewrite.apply(&mut head) {
        Ok(()) => {
            assert_eq!(head.uri.query(), uri.query(), "the query is another one");
            let added = rewrite.add.as_deref().unwrap_or_default();
            let rest = head.uri.path().strip_prefix(added).expect("what was added comes first");
            assert!(rewrite.is_empty() || (rest.starts_with('/') && !rest.starts_with("//")));
            assert!(uri.path().ends_with(rest.trim_start_matches('/')), "the rest is another one");
        }
        Err(failure) => assert!(long > 65_000, "{failure}"),
    }
}

fn redirect(to: Location, uri: &Uri, path: &str) {
    let headers = HeaderMap::new();
    let view = RequestView::sample("a.example", path, &headers).with_query(uri.query());
    let last = path.rsplit('/').next();
    let redirect = Redirect { status: StatusCode::FOUND, to };
    let answer = redirect.response(&view, uri.path(), |_| last).expect("the host is named");
    let location = answer.headers()[http::header::LOCATION].to_str().expect("visible ASCII");
    let is_path = location.starts_with('/') && !location.starts_with("//");
    let is_web = location.starts_with("http://") || location.starts_with("https://");
    assert!(is_path || is_web, "{location} leads anywhere");
    assert!(location.bytes().all(|byte| byte.is_ascii_graphic()), "{location:?}");
}

/// What compression reads in fields, and changes in them.
fn compression(mut headers: HeaderMap) {
    let encoding = accepted(&headers, &[Encoding::Gzip]);
    assert!(encoding.is_none() || headers.contains_key(ACCEPT_ENCODING), "nothing was accepted");
    write_vary(&mut headers);
    write_encoding(Encoding::Gzip, &mut headers);
    let once = headers.clone();
    write_vary(&mut headers);
    write_encoding(Encoding::Gzip, &mut headers);
    assert_eq!(headers, once, "what is compressed changes again");
}

/// The fields of a message that is forwarded.
pub fn hops(input: &[u8]) {
    let mut headers = fields(input);
    compression(headers.clone());
    let host = headers.get(HOST).cloned();
    join_cookies(&mut headers);
    let id = request_id(Fields::of(&headers)).write(&mut headers);
    assert!(id.as_bytes().iter().all(u8::is_ascii_graphic), "an id is printable");
    decrement_max_forwards(&Method::OPTIONS, &mut headers);
    let lines: Vec<HeaderValue> = headers.get_all(CONNECTION).iter().cloned().collect();
    strip_hop_by_hop(&mut headers);
    let named = lines.iter().filter_map(|line| line.to_str().ok()).flat_map(tokens);
    // `close` is the option, and names no field.
    for name in named.filter(|name| !name.eq_ignore_ascii_case("close")) {
        let Ok(name) = name.parse() else { continue };
        assert!(KEPT.contains(&name) || !headers.contains_key(&name), "{name} is passed on");
    }
    assert_eq!(headers.get(HOST), host.as_ref(), "Connection takes the host away");
    for name in [CONNECTION, UPGRADE, HeaderName::from_static("keep-alive")] {
        assert!(!headers.contains_key(&name), "{name} is passed on");
    }
    assert!(headers.get_all(TE).iter().all(|value| value == "trailers"), "TE is passed on");
    let again = headers.clone();
    strip_hop_by_hop(&mut headers);
    assert_eq!(headers, again, "what is left loses more");
}
