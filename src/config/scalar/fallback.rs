//! The failures after which a request goes to the fallback: `connect`, `reset`, and statuses from
//! `500` to `599`.

use std::str::FromStr;

use http::StatusCode;

use tollgate_core::scalar::ScalarError;

use super::text::written_as_text;
use crate::proxy::FallbackCause;

/// A failure after which a request goes to the fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FallbackOn(pub FallbackCause);

written_as_text!(
    FallbackOn, form FALLBACK,
    "connect, reset or a status from 500 to 599",
    "connect",
    "503"
);

impl FromStr for FallbackOn {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        Ok(Self(match text {
            "connect" => FallbackCause::Connect,
            "reset" => FallbackCause::Reset,
            _ => match text.parse::<StatusCode>() {
                Ok(status) if status.is_server_error() => FallbackCause::Status(status),
                _ => {
                    let message = format!("\"{text}\" is not a reason for a fallback");
                    let advice = "one of: connect, reset, and statuses from 500 to 599";
                    return Err(ScalarError::new(message, advice));
                }
            },
        }))
    }
}
