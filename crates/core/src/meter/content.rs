//! What a body consists of, by its `Content-Type` (RFC 9110, section 8.3).

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::event_stream::EventStream;
use super::events::Events;
use super::follow::Collect;
use super::json::Document;
use super::lines::Lines;

/// What a body consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One document.
    Document,
    /// Server-sent events.
    Events,
    /// Lines that are documents.
    Lines,
    /// An event stream of AWS.
    EventStream,
}

/// A body of which some bytes have been read.
#[derive(Clone, Debug)]
pub(super) enum Content<F> {
    Document(Document<F>),
    Events(Events<F>),
    Lines(Lines<F>),
    EventStream(EventStream<F>),
}

impl<F: Collect> Content<F> {
    /// A body of which no bytes have been read. `follower` follows each of its documents.
    pub(super) fn new(form: Form, follower: F) -> Self {
        match form {
            Form::Document => Self::Document(Document::new(follower)),
            Form::Events => Self::Events(Events::new(follower)),
            Form::Lines => Self::Lines(Lines::new(follower)),
            Form::EventStream => Self::EventStream(EventStream::new(follower)),
        }
    }

    /// Reads the next bytes.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        match self {
            Self::Document(document) => document.read(bytes),
            Self::Events(events) => events.read(bytes),
            Self::Lines(lines) => lines.read(bytes),
            Self::EventStream(stream) => stream.read(bytes),
        }
    }

    /// Whether the body, which has ended, breaks off or is not what its type says.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self, Self::EventStream(stream) if stream.is_broken())
    }

    /// The body has ended. Returns what follows it.
    pub(super) fn end(self) -> F {
        match self {
            Self::Document(mut document) => {
                document.complete();
                document.into_follower()
            }
            Self::Events(events) => events.end(),
            Self::Lines(lines) => lines.end(),
            Self::EventStream(stream) => stream.end(),
        }
    }
}

/// The names of bodies that consist of lines. None of them is registered.
const LINES: [&str; 5] = [
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonl",
    "application/jsonlines",
];

/// What the body of the response with these fields consists of. If it has several types, the
/// first counts.
pub(super) fn form(headers: &HeaderMap) -> Form {
    let value = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let end = value.iter().position(|byte| matches!(byte, b';' | b','));
    let name = value[..end.unwrap_or(value.len())].trim_ascii();
    if name.eq_ignore_ascii_case(b"text/event-stream") {
        return Form::Events;
    }
    if name.eq_ignore_ascii_case(b"application/vnd.amazon.eventstream") {
        return Form::EventStream;
    }
    let is_lines = LINES.iter().any(|lines| name.eq_ignore_ascii_case(lines.as_bytes()));
    if is_lines { Form::Lines } else { Form::Document }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_name_of_the_type_decides() {
        let cases = [
            ("application/json", Form::Document),
            ("", Form::Document),
            ("text/plain", Form::Document),
            ("text/event-streams", Form::Document),
            ("text/event-stream", Form::Events),
            ("Text/Event-Stream; charset=utf-8", Form::Events),
            ("text/event-stream ;charset=utf-8", Form::Events),
            ("application/x-ndjson", Form::Lines),
            ("application/jsonl;charset=utf-8", Form::Lines),
            ("application/JSONLines", Form::Lines),
            ("application/vnd.amazon.EventStream", Form::EventStream),
            ("application/vnd.amazon.event", Form::Document),
        ];
        for (value, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            assert_eq!(form(&headers), expected, "{value}");
        }
        assert_eq!(form(&HeaderMap::new()), Form::Document);
    }
}
