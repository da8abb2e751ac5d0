//! Targets of requests and names of servers: `/healthz?deep=1`, `api.example.com`.

use std::str::FromStr;

use http::uri::PathAndQuery;
use rustls::pki_types::ServerName;

use tollgate_core::scalar::ScalarError;

use super::text::written_as_text;

/// A path with or without a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetText(pub PathAndQuery);

written_as_text!(TargetText, text PATH, "A path, which may have a query", "/healthz");

impl FromStr for TargetText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let parsed = text.parse().ok().filter(|_| text.starts_with('/'));
        let whole = parsed.filter(|it: &PathAndQuery| it.as_str() == text);
        let invalid = || ScalarError::new(format!("\"{text}\" is not a path"), "like /healthz");
        whole.map(Self).ok_or_else(invalid)
    }
}

/// The name or the address in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNameText(pub ServerName<'static>);

written_as_text!(ServerNameText, "The name in a certificate", "api.example.com");

impl FromStr for ServerNameText {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let invalid = |_| {
            let message = format!("\"{text}\" cannot be the name in a certificate");
            ScalarError::new(message, "write a host, like api.example.com")
        };
        ServerName::try_from(text.to_owned()).map(Self).map_err(invalid)
    }
}
