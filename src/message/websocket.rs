//! The handshake of a WebSocket (RFC 6455, section 4), the only change of protocol that
//! the gateway forwards. Over HTTP/2 the handshake has another form (RFC 8441), which the
//! server converts to that of HTTP/1.1, so that the other modules know only one form.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Version};

use super::tokens::has_token;

const WEBSOCKET: &str = "websocket";
/// RFC 6455, section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a request asks for a WebSocket and for no other protocol: the gateway cannot
/// limit other protocols, and `h2c` would bypass all limits.
pub fn wants_websocket(head: &Parts) -> bool {
    head.method == Method::GET
        && head.version >= Version::HTTP_11
        && is_switch(&head.headers)
        && head.headers.contains_key(SEC_WEBSOCKET_KEY)
}

/// Whether a message changes the protocol to WebSocket.
fn is_switch(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all(UPGRADE).iter();
    let Some(protocol) = protocols.next() else { return false };
    let mut named = headers.get_all(CONNECTION).iter();
    protocol.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes())
        && protocols.next().is_none()
        && named.any(|line| has_token(line, "upgrade"))
}

/// Adds the fields that change the protocol to WebSocket.
pub fn switch_to_websocket(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(WEBSOCKET));
}

/// A key for a client over HTTP/2, where the handshake has no key.
pub fn websocket_key(random: u128) -> HeaderValue {
    let key = STANDARD.encode(random.to_be_bytes());
    HeaderValue::try_from(key).expect("base64 is visible ASCII")
}

/// Whether a response to a request with `key` accepts the WebSocket. A backend that has
/// not understood the request cannot compute the value that belongs to the key.
pub fn accepts_websocket(key: Option<&HeaderValue>, answer: &HeaderMap) -> bool {
    let Some(key) = key else { return false };
    let expected = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), GUID].concat());
    let expected = STANDARD.encode(expected.as_ref());
    is_switch(answer)
        && answer.get(SEC_WEBSOCKET_ACCEPT).is_some_and(|it| it.as_bytes() == expected.as_bytes())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn request(change: impl FnOnce(&mut Parts)) -> Parts {
        let (mut head, ()) = Request::new(()).into_parts();
        head.headers.insert(SEC_WEBSOCKET_KEY, websocket_key(7));
        switch_to_websocket(&mut head.headers);
        change(&mut head);
        head
    }

    fn set(name: http::HeaderName, value: &'static str) -> impl FnOnce(&mut Parts) {
        move |head| {
            head.headers.insert(name, HeaderValue::from_static(value));
        }
    }

    #[test]
    fn only_a_complete_request_for_a_websocket_is_recognised() {
        assert!(wants_websocket(&request(|_| {})));
        assert!(wants_websocket(&request(set(UPGRADE, "WebSocket"))));
        assert!(wants_websocket(&request(set(CONNECTION, "keep-alive, upgrade"))));
        assert!(!wants_websocket(&request(set(CONNECTION, "keep-alive"))));
        assert!(!wants_websocket(&request(set(UPGRADE, "h2c"))));
        assert!(!wants_websocket(&request(set(UPGRADE, "websocket, h2c"))));
        assert!(!wants_websocket(&request(|head| head.method = Method::POST)));
        assert!(!wants_websocket(&request(|head| head.version = Version::HTTP_10)));
        assert!(!wants_websocket(&request(|head| {
            head.headers.remove(SEC_WEBSOCKET_KEY);
        })));
        assert!(!wants_websocket(&request(|head| {
            head.headers.append(UPGRADE, HeaderValue::from_static("h2c"));
        })));
    }

    /// The example of RFC 6455, section 1.3.
    #[test]
    fn a_response_must_contain_the_value_that_belongs_to_the_key() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        let mut answer = HeaderMap::new();
        switch_to_websocket(&mut answer);
        assert!(!accepts_websocket(Some(&key), &answer));
        let accept = HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        answer.insert(SEC_WEBSOCKET_ACCEPT, accept);
        assert!(accepts_websocket(Some(&key), &answer));
        assert!(!accepts_websocket(Some(&websocket_key(7)), &answer));
        assert!(!accepts_websocket(None, &answer));
        answer.remove(UPGRADE);
        assert!(!accepts_websocket(Some(&key), &answer));
    }
}
