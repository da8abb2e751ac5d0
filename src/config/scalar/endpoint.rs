//! Endpoints: `http://host:port` or `builtin:echo`.

use std::str::FromStr;

use http::uri::Authority;

use super::address::port_number;
use super::{ScalarError, written_as_text};
use crate::proxy::Target;

const ADVICE: &str = "write http://host or http://host:port";

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(pub Target);

written_as_text!(
    Endpoint,
    "http://host:port, or builtin:echo",
    "http://127.0.0.1:9000",
    "builtin:echo"
);

impl FromStr for Endpoint {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if text == "builtin:echo" {
            return Ok(Self(Target::Echo));
        }
        if let Some(name) = text.strip_prefix("builtin:") {
            let message = format!("there is no builtin \"{name}\"");
            return Err(ScalarError::new(message, "write builtin:echo"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| {
            ScalarError::new(format!("the endpoint \"{text}\" has no scheme"), ADVICE)
        })?;
        match scheme {
            "http" => authority(rest).map(|authority| Self(Target::Http(authority))),
            "https" | "h2c" => {
                Err(ScalarError::new(format!("{scheme} endpoints are not supported yet"), ADVICE))
            }
            _ => Err(ScalarError::new(format!("\"{scheme}\" is no scheme of an endpoint"), ADVICE)),
        }
    }
}

/// The authority with its port written, 80 if none was.
fn authority(rest: &str) -> Result<Authority, ScalarError> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#']) {
        let advice = "write the host and port only; the request's own path is sent";
        return Err(ScalarError::new("an endpoint has no path", advice));
    }
    if rest.contains('@') {
        let message = "an endpoint has no user or password";
        return Err(ScalarError::new(message, ADVICE));
    }
    let invalid = || ScalarError::new(format!("\"{rest}\" is no host with a port"), ADVICE);
    let parsed: Authority = rest.parse().map_err(|_| invalid())?;
    let port = match rest.get(parsed.host().len()..).and_then(|tail| tail.strip_prefix(':')) {
        Some(port) => port_number(port)?,
        None => 80,
    };
    if port == 0 {
        return Err(ScalarError::new("an endpoint cannot have port 0", ADVICE));
    }
    if parsed.host().is_empty() {
        return Err(invalid());
    }
    format!("{}:{port}", parsed.host()).parse().map_err(|_| invalid())
}
