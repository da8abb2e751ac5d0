//! The URL of a document: `https://issuer.example/.well-known/jwks.json`.

use std::str::FromStr;

use http::uri::PathAndQuery;

use super::endpoint::Endpoint;
use super::target::TargetText;
use crate::proxy::Target;
use tollgate_core::scalar::ScalarError;

const ADVICE: &str = "write the whole URL, like https://issuer.example/.well-known/jwks.json";

/// A document on an HTTP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentUrl {
    pub target: Target,
    pub path: PathAndQuery,
}

impl DocumentUrl {
    /// Whether a text is a URL, and not a path.
    pub fn is_url(text: &str) -> bool {
        text.contains("://")
    }

    /// Whether a machine between the gateway and the server could change the document.
    pub fn is_exposed(&self) -> bool {
        match &self.target {
            Target::Http(authority) => !is_loopback(authority.host()),
            _ => false,
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |address: std::net::IpAddr| address.is_loopback();
    bare == "localhost" || bare.parse().is_ok_and(is_loopback)
}

impl FromStr for DocumentUrl {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let invalid = |what: &str| ScalarError::new(what, ADVICE);
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| invalid("this URL has no scheme"))?;
        if !["http", "https"].contains(&scheme) {
            return Err(invalid("a document is fetched by https or http"));
        }
        if rest.contains('#') {
            return Err(invalid("this URL has a fragment, which is not sent"));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let Endpoint(target) = format!("{scheme}://{authority}").parse()?;
        let TargetText(path) = path.parse()?;
        Ok(Self { target, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_server_and_a_path() {
        for (text, authority, path, is_exposed) in [
            ("https://a.test/keys", "a.test:443", "/keys", false),
            ("https://a.test:8443/k?x=y", "a.test:8443", "/k?x=y", false),
            ("https://a.test", "a.test:443", "/", false),
            ("https://a.test?x", "a.test:443", "/?x", false),
            ("http://a.test/k", "a.test:80", "/k", true),
            ("http://127.0.0.1:81/k", "127.0.0.1:81", "/k", false),
            ("http://[::1]/k", "[::1]:80", "/k", false),
            ("http://localhost:81/k", "localhost:81", "/k", false),
        ] {
            let url: DocumentUrl = text.parse().unwrap();
            let (Target::Http(found) | Target::Https(found, _)) = &url.target else {
                panic!("{text}")
            };
            assert_eq!((found.as_str(), url.path.as_str()), (authority, path), "{text}");
            assert_eq!(url.is_exposed(), is_exposed, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "keys.json",
            "ftp://a.test/keys",
            "unix:///run/keys",
            "h2c://a.test/keys",
            "https:///keys",
            "https://user:secret@a.test/keys",
            "https://a.test/keys#first",
            "https://a.test/a b",
            "https://a.test:99999/",
            "https://a.test:0/",
        ] {
            assert!(text.parse::<DocumentUrl>().is_err(), "{text}");
        }
    }
}
