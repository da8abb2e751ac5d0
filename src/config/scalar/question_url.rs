//! The URL of an authorizer: `http://127.0.0.1:9091/verify`.

use std::str::FromStr;

use tollgate_core::scalar::ScalarError;

use super::document_url::DocumentUrl;
use super::text::written_as_text;

const ADVICE: &str = "write the whole URL, like http://127.0.0.1:9091/verify";

/// Where an authorizer is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionUrl(pub DocumentUrl);

written_as_text!(
    QuestionUrl, text QUESTION_URL,
    "The URL of an authorizer, with the path and the query of a question",
    "http://127.0.0.1:9091/verify",
    "https://login.example.com/api/authz/forward-auth"
);

impl FromStr for QuestionUrl {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let is_http = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        if !is_http {
            return Err(ScalarError::new("an authorizer is asked over http or https", ADVICE));
        }
        text.parse().map(Self).map_err(|error: ScalarError| ScalarError::new(error.message, ADVICE))
    }
}
