//! The request that is to be explained.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_core::request::{is_disguised, method_of, target_of};

use super::fields::Fields;

/// The most header fields.
const MAX_FIELDS: usize = 128;
/// The most bytes of the target, and of the names and values of all fields together.
const MAX_BYTES: usize = 64 * 1024;

/// The description of a request: the body of `POST /v1/explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The method. GET if it is absent.
    #[serde(default = "get")]
    pub method: String,
    /// The URL, with its host.
    pub url: String,
    /// The header fields.
    #[serde(default)]
    pub headers: Fields,
    /// The address of the peer on the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Address>")]
    pub peer: Option<IpAddr>,
    /// The subject of the peer's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_subject: Option<String>,
    /// The body. If it is absent, keys that are in the body are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// An address, for the schema.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum Address {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

fn get() -> String {
    Method::GET.to_string()
}

/// A request that is to be explained.
#[derive(Debug)]
pub struct Asked {
    pub head: Parts,
    pub peer: IpAddr,
    /// Whether the peer was not given.
    pub is_peer_assumed: bool,
    pub identity: Option<String>,
    /// The body, if it is known.
    pub body: Option<String>,
}

impl Asked {
    /// The head of the request.
    pub const fn head(&self) -> &Parts {
        &self.head
    }

    /// The address of the peer.
    pub const fn peer(&self) -> IpAddr {
        self.peer
    }
}

/// Why a description is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// The method has a character that no method has, or is a common one with a lower-case letter.
    #[error("{0:?} is not a method; methods are written in capitals, like GET")]
    Method(String),
    /// The text is not a URL.
    #[error("{0:?} is not a URL such as https://api.example.com/v1/orders")]
    Url(String),
    /// The name or the value of a field is not valid.
    #[error("{0:?} is not a header field")]
    Field(String),
    /// Some servers take the name of a field for another one.
    #[error("some servers take the name {0:?} for another one: write it with dashes")]
    Disguised(String),
    /// There are too many fields, or too long ones.
    #[error(
        "a request to explain has at most {MAX_FIELDS} fields, {MAX_BYTES} bytes in all, and a body \
         of as many"
    )]
    TooLarge,
}

impl Description {
    /// The request. It came over HTTP/1.1, with the host of the URL if it has no other.
    ///
    /// # Errors
    /// If it is not a request that a listener accepts, or too large.
    pub fn into_asked(self) -> Result<Asked, DescriptionError> {
        let fields: Vec<(String, String)> = match self.headers {
            Fields::List(list) => list,
            Fields::Map(map) => map.into_iter().collect(),
        };
        let bytes = fields.iter().map(|(name, value)| name.len() + value.len());
        let body = self.body.as_ref().map_or(0, String::len);
        let is_long = bytes.sum::<usize>() + self.url.len() > MAX_BYTES || body > MAX_BYTES;
        if fields.len() > MAX_FIELDS || is_long {
            return Err(DescriptionError::TooLarge);
        }
        let wrong_method = |_| DescriptionError::Method(self.method.clone());
        let method = method_of(self.method.as_bytes()).map_err(wrong_method)?;
        let wrong_url = || DescriptionError::Url(self.url.clone());
        // A fragment is never sent.
        let url = self.url.split('#').next().unwrap_or_default();
        let uri = target_of(url.as_bytes()).map_err(|_| wrong_url())?;
        let is_whole = matches!(uri.scheme_str(), Some("http" | "https"));
        let is_path = uri.authority().is_none() && (url.starts_with('/') || url == "*");
        if !is_whole && !is_path {
            return Err(wrong_url());
        }
        let mut headers = HeaderMap::with_capacity(fields.len() + 1);
        for (name, value) in fields {
            if is_disguised(name.as_bytes()) {
                return Err(DescriptionError::Disguised(name));
            }
            let wrong = || DescriptionError::Field(format!("{name}: {value}"));
            let field = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let value = HeaderValue::from_str(value.trim_ascii()).map_err(|_| wrong())?;
            headers.append(field, value);
        }
        if let Some(authority) = uri.authority()
            && !headers.contains_key(HOST)
        {
            let host = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong_url())?;
            headers.insert(HOST, host);
        }
        let (mut head, ()) = Request::new(()).into_parts();
        let target = uri.path_and_query().map_or("/", |it| it.as_str());
        head.uri = target.parse().map_err(|_| wrong_url())?;
        (head.method, head.headers, head.version) = (method, headers, Version::HTTP_11);
        Ok(Asked {
            head,
            peer: self.peer.unwrap_or(Ipv4Addr::LOCALHOST.into()),
            is_peer_assumed: self.peer.is_none(),
            identity: self.tls_subject,
            body: self.body,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(body: serde_json::Value) -> Result<Asked, String> {
        let description: Description =
            serde_json::from_value(body).map_err(|error| error.to_string())?;
        description.into_asked().map_err(|error| error.to_string())
    }

    #[test]
    fn a_description_becomes_the_request_that_a_client_would_send() {
        let asked = asked(json!({
            "url": "https://api.test:8443/v1/a?b=c#d",
            "headers": [["X-A", "1"], ["x-a", "2"]],
            "peer": "203.0.113.7",
        }))
        .unwrap();
        assert_eq!(asked.head.uri, "/v1/a?b=c");
        assert_eq!(
            (&asked.head.method, &asked.head.headers[HOST]),
            (&Method::GET, &"api.test:8443".parse().unwrap())
        );
        assert_eq!(asked.head.headers.get_all("x-a").iter().count(), 2);
        assert!(!asked.is_peer_assumed);
    }

    #[test]
    fn a_host_among_the_fields_replaces_that_of_the_url() {
        let body = json!({ "method": "POST", "url": "http://127.0.0.1", "headers": { "Host": "a.test", "Content-Length": "3" } });
        let asked = asked(body).unwrap();
        assert_eq!(
            (asked.head.uri.path(), &asked.head.headers[HOST]),
            ("/", &"a.test".parse().unwrap())
        );
        assert!(asked.is_peer_assumed);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let many: Vec<_> = (0..=MAX_FIELDS).map(|it| (format!("x-{it}"), "1")).collect();
        for body in [
            json!({}),
            json!({ "url": "ftp://a/" }),
            json!({ "url": "a.test/path" }),
            json!({ "url": "http://a b/" }),
            json!({ "url": "/a`b" }),
            json!({ "url": "/", "method": "G T" }),
            json!({ "url": "/", "method": "get" }),
            json!({ "url": "/", "method": "pOST" }),
            json!({ "url": "/", "headers": { "X_Forwarded_For": "192.0.2.1" } }),
            json!({ "url": "/", "headers": { "a b": "c" } }),
            json!({ "url": "/", "headers": { "a": "c\r\nd: e" } }),
            json!({ "url": "/", "headers": [["a"]] }),
            json!({ "url": "/", "peer": "not an address" }),
            json!({ "url": "/", "unknown": 1 }),
            json!({ "url": "/", "headers": many }),
            json!({ "url": format!("/{}", "x".repeat(MAX_BYTES)) }),
            json!({ "url": "/", "body": "x".repeat(MAX_BYTES + 1) }),
        ] {
            assert!(asked(body.clone()).is_err(), "{body}");
        }
    }
}
