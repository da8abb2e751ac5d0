//! Header fields that a route sets and removes, in requests and in responses.
//!
//! Fields that frame a message or lead it to its next hop cannot be edited: a fixed value
//! would make a different message of it. Such names are refused when the configuration is
//! read, see [`FieldEdits::is_reserved`].

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue};

/// Header fields that a route sets and removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldEdits {
    /// Each of these fields gets one line with this value instead of all others.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// These fields are removed. No name is in both lists.
    pub remove: Vec<HeaderName>,
}

impl FieldEdits {
    /// Whether nothing is edited.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    /// The names of all fields that are edited.
    pub fn names(&self) -> impl Iterator<Item = &HeaderName> {
        self.remove.iter().chain(self.set.iter().map(|(name, _)| name))
    }

    /// Whether a field with this name cannot be edited: it frames a message, names its
    /// host, or belongs to one connection (RFC 9110, sections 7.2, 7.6.1 and 8.6).
    pub fn is_reserved(name: &HeaderName) -> bool {
        let text = name.as_str();
        matches!(
            *name,
            HOST | CONTENT_LENGTH
                | TRANSFER_ENCODING
                | TRAILER
                | CONNECTION
                | UPGRADE
                | TE
                | EXPECT
        ) || text == "keep-alive"
            || text == "http2-settings"
            || text == "proxy-connection"
    }

    /// Edits a message that is forwarded.
    pub fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
    }

    /// Edits a response of the gateway itself. Its own fields stay, because they describe
    /// its body: only fields that it does not have are set, and none is removed.
    pub fn complete(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.set {
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X_A: HeaderName = HeaderName::from_static("x-a");
    const X_B: HeaderName = HeaderName::from_static("x-b");

    fn edits() -> FieldEdits {
        FieldEdits { set: vec![(X_A, HeaderValue::from_static("new"))], remove: vec![X_B] }
    }

    fn fields(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn all_lines_of_a_field_are_replaced_or_removed() {
        let mut headers = fields(&[(X_A, "1"), (X_A, "2"), (X_B, "1"), (X_B, "2")]);
        edits().apply(&mut headers);
        assert_eq!(headers, fields(&[(X_A, "new")]));
        edits().apply(&mut headers);
        assert_eq!(headers, fields(&[(X_A, "new")]));
    }

    #[test]
    fn a_response_of_the_gateway_is_completed_and_loses_no_field() {
        let mut headers = fields(&[(X_B, "own")]);
        edits().complete(&mut headers);
        assert_eq!(headers, fields(&[(X_A, "new"), (X_B, "own")]));
        let mut headers = fields(&[(X_A, "own")]);
        edits().complete(&mut headers);
        assert_eq!(headers, fields(&[(X_A, "own")]));
    }

    #[test]
    fn fields_that_frame_or_address_a_message_cannot_be_edited() {
        for name in ["Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive"] {
            assert!(FieldEdits::is_reserved(&name.parse().expect("a name")), "{name}");
        }
        for name in ["Server", "Authorization", "Proxy-Authorization", "X-Forwarded-For", "Date"] {
            assert!(!FieldEdits::is_reserved(&name.parse().expect("a name")), "{name}");
        }
    }
}
