//! Problem details (RFC 9457), the body of the gateway's own responses.

use bytes::Bytes;
#[cfg(test)]
use serde::Serialize;
use tollgate_core::request::scan;

/// Why a request was not served.
#[derive(Debug)]
#[cfg_attr(test, derive(Serialize), serde(rename_all = "kebab-case"))]
pub(super) struct Problem<'a> {
    #[cfg_attr(test, serde(rename = "type", skip_serializing_if = "Option::is_none"))]
    pub(super) kind: Option<&'static str>,
    pub(super) title: &'a str,
    pub(super) status: u16,
    pub(super) detail: &'a str,
    #[cfg_attr(test, serde(skip_serializing_if = "Option::is_none"))]
    pub(super) source: Option<&'static str>,
    #[cfg_attr(test, serde(skip_serializing_if = "<[_]>::is_empty"))]
    pub(super) violated_policies: &'a [&'a str],
    #[cfg_attr(test, serde(skip_serializing_if = "Option::is_none"))]
    pub(super) retry_after_ms: Option<u64>,
    pub(super) request_id: &'a str,
}

impl Problem<'_> {
    /// The problem as JSON.
    ///
    /// It is written without a general serializer, because a refusal must cost little. A test
    /// holds both to the same text.
    pub(super) fn to_json(&self) -> Bytes {
        let mut json = Object(Vec::with_capacity(320));
        if let Some(kind) = self.kind {
            json.text(r#","type":"#, kind);
        }
        json.text(r#","title":"#, self.title);
        json.number(r#","status":"#, self.status.into());
        json.text(r#","detail":"#, self.detail);
        if let Some(source) = self.source {
            json.text(r#","source":"#, source);
        }
        if !self.violated_policies.is_empty() {
            json.texts(r#","violated-policies":"#, self.violated_policies);
        }
        if let Some(wait_ms) = self.retry_after_ms {
            json.number(r#","retry-after-ms":"#, wait_ms);
        }
        json.text(r#","request-id":"#, self.request_id);
        json.close()
    }
}

/// A JSON object that is being written. Names of members come as they are written, after a
/// comma and before a colon.
struct Object(Vec<u8>);

impl Object {
    /// Ends the object. Its first comma becomes the brace.
    fn close(mut self) -> Bytes {
        self.0[0] = b'{';
        self.0.push(b'}');
        Bytes::from(self.0)
    }

    fn number(&mut self, name: &str, number: u64) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    fn text(&mut self, name: &str, text: &str) {
        self.0.extend_from_slice(name.as_bytes());
        self.string(text);
    }

    fn texts(&mut self, name: &str, texts: &[&str]) {
        self.0.extend_from_slice(name.as_bytes());
        for (index, text) in texts.iter().enumerate() {
            self.0.push(if index == 0 { b'[' } else { b',' });
            self.string(text);
        }
        self.0.push(b']');
    }

    fn string(&mut self, text: &str) {
        let is_plain = |byte| (byte >= b' ') & (byte != b'"') & (byte != b'\\');
        if !scan::all(text.as_bytes(), is_plain) {
            serde_json::to_writer(&mut self.0, text).expect("text is always JSON");
            return;
        }
        self.0.push(b'"');
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_text_is_that_of_a_general_serializer(
            kind in of(Just("https://a.test#b")),
            texts in [".{0,9}", "[a\"\\\\\u{7f}\n\u{1}\u{e9}]{0,9}", "[a-z]{0,9}"],
            status in any::<u16>(),
            source in of(Just("client")),
            names in vec("[a-z\"\\\\]{0,4}", 0..4),
            retry_after_ms in of(any::<u64>()),
        ) {
            let [title, detail, request_id] = &texts;
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let violated_policies = &names[..];
            let problem = Problem {
                kind, title, status, detail, source, violated_policies, retry_after_ms, request_id,
            };
            let expected = serde_json::to_vec(&problem).expect("it is JSON");
            let written = problem.to_json();
            prop_assert_eq!(str::from_utf8(&written), str::from_utf8(&expected));
        }
    }
}
