//! Which responses may be compressed.

use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderName,
    TRAILER,
};
use http::{HeaderMap, StatusCode};

use super::settings::{CompressSettings, MediaRange};
use crate::message::{content_length, has_token};

/// Fields whose value would be wrong for the compressed form: digests of the content or of a
/// representation, in the form of RFC 9530 and in older ones.
const BOUND: [HeaderName; 6] = [
    CONTENT_ENCODING,
    CONTENT_RANGE,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// What is done with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing.
    Unchanged,
    /// It may be compressed.
    Eligible,
    /// It has no body, and stands for one that may be compressed.
    NotModified,
}

impl CompressSettings {
    /// What is done with a response whose body has `length` bytes, if its fields do not say
    /// otherwise.
    pub fn fate(&self, status: StatusCode, headers: &HeaderMap, length: Option<u64>) -> Fate {
        match status {
            StatusCode::NOT_MODIFIED => Fate::NotModified,
            _ if is_eligible(self, status, headers, length) => Fate::Eligible,
            _ => Fate::Unchanged,
        }
    }
}

/// Whether a response may be compressed, if its client can read it. Its body has `length` bytes, if
/// its fields do not say otherwise.
fn is_eligible(
    settings: &CompressSettings,
    status: StatusCode,
    headers: &HeaderMap,
    length: Option<u64>,
) -> bool {
    let has_content = status.is_success() && !is_without_content(status)
        || status.is_client_error()
        || status.is_server_error();
    let stated = headers.get(CONTENT_LENGTH).and_then(|it| content_length(it.as_bytes()));
    has_content
        && stated.or(length).is_none_or(|length| length >= settings.min_size)
        && has_type(settings, headers)
        && !BOUND.iter().any(|name| headers.contains_key(name) || is_trailer(headers, name))
        && !headers.get_all(CACHE_CONTROL).iter().any(|line| has_token(line, "no-transform"))
}

/// Whether the field with this name is announced as a trailer.
fn is_trailer(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(TRAILER).iter().any(|line| has_token(line, name.as_str()))
}

fn is_without_content(status: StatusCode) -> bool {
    [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::PARTIAL_CONTENT]
        .contains(&status)
}

/// Whether the media type is in the list. Calls of gRPC compress their messages themselves, and
/// their readers know no other encoding.
fn has_type(settings: &CompressSettings, headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let media_type = value.split(';').next().unwrap_or_default().trim();
    let Some((kind, subtype)) = media_type.split_once('/') else { return false };
    let is_grpc = subtype.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("grpc"));
    let matches = |range: &MediaRange| {
        range.kind.eq_ignore_ascii_case(kind)
            && range.subtype.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(subtype))
    };
    !is_grpc && settings.types.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::message::compression::settings::Encoding;

    fn settings() -> CompressSettings {
        let range = |kind: &str, subtype: Option<&str>| MediaRange {
            kind: kind.into(),
            subtype: subtype.map(Into::into),
        };
        CompressSettings {
            encodings: vec![Encoding::Gzip],
            min_size: 1000,
            types: vec![range("text", None), range("application", Some("json"))],
        }
    }

    fn judge(status: u16, fields: &[(&'static str, &'static str)], length: Option<u64>) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        let status = StatusCode::from_u16(status).unwrap();
        is_eligible(&settings(), status, &headers, length)
    }

    #[test]
    fn the_status_says_whether_there_is_a_whole_body() {
        let text = [("content-type", "text/plain")];
        for status in [200, 201, 404, 429, 500, 503] {
            assert!(judge(status, &text, Some(1000)), "{status}");
        }
        for status in [101, 204, 205, 206, 301, 304] {
            assert!(!judge(status, &text, Some(1000)), "{status}");
        }
    }

    #[test]
    fn the_type_is_in_the_list() {
        for media_type in [
            "text/plain",
            "Text/Event-Stream",
            "text/html; charset=utf-8",
            "application/json",
            "application/JSON ;charset=utf-8",
        ] {
            assert!(judge(200, &[("content-type", media_type)], None), "{media_type}");
        }
        for media_type in
            ["application/xml", "image/png", "textual/plain", "text", "", "application/json5"]
        {
            assert!(!judge(200, &[("content-type", media_type)], None), "{media_type}");
        }
        assert!(!judge(200, &[], None));
        let all = MediaRange { kind: "application".into(), subtype: None };
        let settings = CompressSettings { types: vec![all], ..settings() };
        for media_type in
            ["application/grpc", "application/grpc-web+proto", "application/GRPC+json"]
        {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            assert!(!is_eligible(&settings, StatusCode::OK, &headers, None), "{media_type}");
        }
    }

    #[test]
    fn the_length_is_large_enough_or_not_known() {
        let sized = |length| [("content-type", "text/plain"), ("content-length", length)];
        assert!(judge(200, &sized("1000"), Some(0)));
        assert!(!judge(200, &sized("999"), None));
        assert!(!judge(200, &sized("999")[..1], Some(999)));
        assert!(judge(200, &sized("999")[..1], None));
    }

    #[test]
    fn fields_that_are_bound_to_the_bytes_forbid_it() {
        for (name, value) in [
            ("content-encoding", "br"),
            ("content-encoding", "identity"),
            ("content-range", "bytes 0-1/2"),
            ("content-digest", "sha-256=:AA==:"),
            ("repr-digest", "sha-256=:AA==:"),
            ("digest", "SHA-256=AA=="),
            ("content-md5", "AA=="),
            ("trailer", "x-sum, Content-Digest"),
            ("cache-control", "public, No-Transform"),
        ] {
            let fields = [("content-type", "text/plain"), (name, value)];
            assert!(!judge(200, &fields, None), "{name}: {value}");
        }
        assert!(judge(200, &[("content-type", "text/plain"), ("cache-control", "public")], None));
    }
}
