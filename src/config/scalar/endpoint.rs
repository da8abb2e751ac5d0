//! Endpoints: `http://host:port`, `https://`, `h2c://`, `unix:/path` or `builtin:echo`.

use std::path::PathBuf;
use std::str::FromStr;

use http::uri::Authority;
use rustls::pki_types::ServerName;

use tollgate_core::scalar::ScalarError;

use super::address::port_number;
use super::text::written_as_text;
use crate::proxy::Target;

const ADVICE: &str = "write http://host:port, https://host, h2c://host:port or unix:/path";

/// The bound of the kernel (`sun_path` in unix(7), with a zero at its end).
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// The address of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(pub Target);

written_as_text!(
    Endpoint, text ENDPOINT,
    "http://host:port, https://host:port, h2c://host:port, unix:/path, or builtin:echo",
    "http://127.0.0.1:9000",
    "https://api.example.com",
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
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path);
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| {
            ScalarError::new(format!("the endpoint \"{text}\" has no scheme"), ADVICE)
        })?;
        let target = match scheme {
            "http" => Target::Http(authority(rest, 80)?),
            "h2c" => Target::H2c(authority(rest, 80)?),
            "https" => {
                let authority = authority(rest, 443)?;
                let host = server_name(authority.host())?;
                Target::Https(authority, host)
            }
            _ => {
                let message = format!("\"{scheme}\" is not a scheme of an endpoint");
                return Err(ScalarError::new(message, ADVICE));
            }
        };
        Ok(Self(target))
    }
}

fn unix(path: &str) -> Result<Endpoint, ScalarError> {
    // `unix:///run/app.sock` is the same as a URL.
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.len() > MAX_SOCKET_PATH_BYTES {
        let message = format!("a socket's path has at most {MAX_SOCKET_PATH_BYTES} bytes");
        return Err(ScalarError::new(message, "choose a shorter one"));
    }
    if path.starts_with('/') {
        return Ok(Endpoint(Target::Unix(PathBuf::from(path))));
    }
    let message = format!("\"unix:{path}\" is not the path of a socket");
    Err(ScalarError::new(message, "write the whole path, like unix:/run/app.sock"))
}

/// The host in the form that certificates contain.
fn server_name(host: &str) -> Result<ServerName<'static>, ScalarError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(bare.to_owned()).map_err(|_| {
        let message = format!("\"{host}\" cannot be the name in a certificate");
        ScalarError::new(message, "write a host, like https://api.example.com")
    })
}

/// The authority with a port, which is `usual` if none is written.
fn authority(rest: &str, usual: u16) -> Result<Authority, ScalarError> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#']) {
        let advice = "write the host and port only; the request's own path is sent";
        return Err(ScalarError::new("an endpoint has no path", advice));
    }
    if rest.contains('@') {
        let message = "an endpoint has no user or password";
        return Err(ScalarError::new(message, ADVICE));
    }
    let invalid = || ScalarError::new(format!("\"{rest}\" is not a host with a port"), ADVICE);
    let parsed: Authority = rest.parse().map_err(|_| invalid())?;
    let port = match rest.get(parsed.host().len()..).and_then(|tail| tail.strip_prefix(':')) {
        Some(port) => port_number(port)?,
        None => usual,
    };
    if port == 0 {
        return Err(ScalarError::new("an endpoint cannot have port 0", ADVICE));
    }
    if parsed.host().is_empty() {
        return Err(invalid());
    }
    format!("{}:{port}", parsed.host()).parse().map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: such an endpoint was accepted, and every request to it failed.
    #[test]
    fn the_path_of_a_socket_has_the_bound_of_the_kernel() {
        for (bytes, is_good) in [(107, true), (108, false)] {
            let path = format!("/{}", "x".repeat(bytes - 1));
            assert_eq!(format!("unix:{path}").parse::<Endpoint>().is_ok(), is_good, "{bytes}");
            let address = std::os::unix::net::SocketAddr::from_pathname(&path);
            assert_eq!(address.is_ok(), is_good, "{bytes}");
        }
    }
}
