//! The address of an OpenTelemetry collector: `http://127.0.0.1:4317`.

use std::str::FromStr;

use tollgate_core::scalar::ScalarError;

use super::document_url::DocumentUrl;
use super::text::written_as_text;

const ADVICE: &str = "write http://host:port or https://host:port";

/// The URL of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorUrl {
    /// The URL without a path.
    pub server: String,
    /// The path, if there is one.
    pub path: Option<String>,
}

written_as_text!(
    CollectorUrl,
    "The address of an OpenTelemetry collector",
    "http://127.0.0.1:4317"
);

impl FromStr for CollectorUrl {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let url: DocumentUrl =
            text.parse().map_err(|error: ScalarError| ScalarError::new(error.message, ADVICE))?;
        let given = text.strip_suffix(url.path.as_str());
        if given.is_none() && text.contains('?') {
            return Err(ScalarError::new("this address has a query without a path", ADVICE));
        }
        Ok(match given {
            Some(server) if url.path != "/" => {
                Self { server: server.to_owned(), path: Some(url.path.to_string()) }
            }
            _ => Self { server: text.trim_end_matches('/').to_owned(), path: None },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_server_and_perhaps_a_path() {
        for (text, server, path) in [
            ("http://127.0.0.1:4317", "http://127.0.0.1:4317", None),
            ("https://otel.example/", "https://otel.example", None),
            ("https://otel.example/in/v1/traces", "https://otel.example", Some("/in/v1/traces")),
        ] {
            let url: CollectorUrl = text.parse().expect(text);
            assert_eq!((url.server.as_str(), url.path.as_deref()), (server, path), "{text}");
        }
    }

    #[test]
    fn other_texts_are_mistakes() {
        for text in [
            "127.0.0.1:4317",
            "grpc://otel:4317",
            "",
            "http://",
            "http://otel:4317/#x",
            "http://otel:4318?x=y",
        ] {
            let error = text.parse::<CollectorUrl>().expect_err(text);
            assert_eq!(error.advice, ADVICE, "{text}");
        }
    }
}
