//! A stream of events from which the one with the tokens is withheld.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, HeaderName};
use http_body::Frame;
use tollgate_core::meter::WithheldUsage;

use crate::message::{Coding, has_content_type};
use crate::proxy::BrokenResponse;

/// Fields with a checksum of the content.
const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// Whether the body of a response with these fields consists of events that can be read. If so, its
/// head becomes that of a body from which an event may be missing.
pub fn withholds(headers: &mut HeaderMap) -> bool {
    let has_events = has_content_type(headers, &["text/event-stream"])
        && Coding::of(headers) == Ok(Coding::Identity);
    if has_events {
        headers.remove(CONTENT_LENGTH);
        for name in &DIGESTS {
            headers.remove(name);
        }
    }
    has_events
}

/// What a body says when it is asked for its next frame.
type Next = Option<Result<Frame<Bytes>, BrokenResponse>>;

/// The events, as far as the body has been read.
#[derive(Debug, Default)]
pub struct Withholding {
    events: WithheldUsage,
    /// What follows the last bytes: trailers, a failure, or nothing.
    rest: Option<Next>,
}

impl Withholding {
    /// What is passed on, if it is known without the next frame of the body.
    pub fn known(&mut self) -> Option<Next> {
        self.rest.as_mut().map(Option::take)
    }

    /// What is passed on after this frame of the body. None: nothing yet.
    pub fn add(&mut self, next: Next) -> Option<Next> {
        let bytes = match next.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(bytes))) => self.events.pass(&bytes),
            Some(Ok(Err(trailers))) => self.end(Some(Ok(trailers))),
            Some(Err(broken)) => self.end(Some(Err(broken))),
            None => self.end(None),
        };
        match bytes.is_empty() {
            true => self.known(),
            false => Some(Some(Ok(Frame::data(bytes)))),
        }
    }

    /// Whether nothing follows.
    pub const fn has_ended(&self) -> bool {
        matches!(self.rest, Some(None))
    }

    /// The body has ended. A part of an event passes.
    fn end(&mut self, rest: Next) -> Bytes {
        self.rest = Some(rest);
        self.events.end()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const TEXT: &str = "data: {\"choices\":[{}]}\n\n";
    const USAGE: &str = "data: {\"choices\":[],\"usage\":{}}\n\n";

    fn data(text: &'static str) -> Next {
        Some(Ok(Frame::data(Bytes::from_static(text.as_bytes()))))
    }

    /// The text that passes, if it is no other frame.
    fn text(passed: Option<Next>) -> Option<String> {
        let bytes = passed??.ok()?.into_data().ok()?;
        Some(String::from_utf8(bytes.to_vec()).expect("it is a text"))
    }

    #[test]
    fn the_end_follows_what_is_held() {
        let mut body = Withholding::default();
        assert_eq!(text(body.add(data(TEXT))).as_deref(), Some(TEXT));
        assert!(body.add(data(USAGE)).is_none() && body.known().is_none());
        assert!(body.add(data("data: x")).is_none() && !body.has_ended());
        assert_eq!(text(body.add(None)).as_deref(), Some("data: x"));
        assert!(body.has_ended() && matches!(body.known(), Some(None)));
    }

    #[test]
    fn trailers_and_failures_come_last() {
        let mut body = Withholding::default();
        assert!(body.add(data("data: x")).is_none());
        let trailers = Frame::trailers(HeaderMap::new());
        assert_eq!(text(body.add(Some(Ok(trailers)))).as_deref(), Some("data: x"));
        assert!(matches!(body.known(), Some(Some(Ok(frame))) if frame.is_trailers()));
        assert!(body.has_ended());
        let mut body = Withholding::default();
        assert!(body.add(data("data: x")).is_none());
        let broken = Some(Err(BrokenResponse::Broken));
        assert_eq!(text(body.add(broken)).as_deref(), Some("data: x"));
        assert!(matches!(body.known(), Some(Some(Err(BrokenResponse::Broken)))));
        let mut body = Withholding::default();
        assert!(matches!(body.add(None), Some(None)));
    }

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(field).collect()
    }

    #[test]
    fn the_head_of_a_stream_says_nothing_of_its_length() {
        let length = ("content-length", "70");
        let mut headers = fields(&[("content-type", "text/event-stream; charset=utf-8"), length]);
        assert!(withholds(&mut headers) && headers.len() == 1);
        for others in [
            &[("content-type", "application/json"), length][..],
            &[("content-type", "text/event-stream"), ("content-encoding", "br"), length],
            &[length],
        ] {
            let mut headers = fields(others);
            assert!(!withholds(&mut headers) && headers.len() == others.len());
        }
    }
}
