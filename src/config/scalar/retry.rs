//! The failures after which a request is sent again: `connect`, `reset`, `502`, `503`, `504`.

use std::str::FromStr;

use tollgate_core::scalar::ScalarError;

use super::text::written_as_text;
use crate::proxy::RetryCause;

/// A failure after which a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOn(pub RetryCause);

written_as_text!(RetryOn, form RETRY, "connect, reset, 502, 503 or 504", "connect", "503");

impl FromStr for RetryOn {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        Ok(Self(match text {
            "connect" => RetryCause::Connect,
            "reset" => RetryCause::Reset,
            "502" => RetryCause::BadGateway,
            "503" => RetryCause::Unavailable,
            "504" => RetryCause::GatewayTimeout,
            _ => {
                let message = format!("\"{text}\" is not a reason to send a request again");
                return Err(ScalarError::new(message, "one of: connect, reset, 502, 503, 504"));
            }
        }))
    }
}
