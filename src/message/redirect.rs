//! Redirects: a response with `Location` instead of an upstream's response.
//!
//! Parts of the request that are inserted into `Location` cannot change its structure:
//! they are percent-encoded, only `{host}` may be inserted into the host, and an inserted
//! path begins with exactly one slash. So only the author of the template decides to
//! which host a client is redirected.

use std::str::FromStr;

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use tollgate_core::request::{Ambiguity, RequestView};

/// The characters that a parameter keeps: none that could end its segment. `%` is kept
/// because values are taken from the path with their escapes.
const IN_SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'%');
/// The characters that a path keeps (RFC 3986, section 3.3).
const IN_PATH: &AsciiSet = &IN_SEGMENT
    .remove(b'/')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');
/// The characters that a query keeps (RFC 3986, section 3.4).
const IN_QUERY: &AsciiSet = &IN_PATH.remove(b'?');
/// The characters that a host keeps, including those of an IPv6 address in brackets.
const IN_HOST: &AsciiSet = &IN_SEGMENT.remove(b'[').remove(b']').remove(b':');

/// A redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Its status: 301, 302, 303, 307 or 308.
    pub status: StatusCode,
    /// The template of its `Location`.
    pub to: Location,
}

/// The template of a `Location`: text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    /// `{host}`, without its port.
    Host,
    /// `{path}`, with its first slash.
    Path,
    /// `{query}`, with its question mark; empty if there is no query.
    Query,
    /// `{name}`: a parameter of the route's path.
    Param(Box<str>),
}

/// Why a text is not a valid template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// `orders`, `ftp://x`, `//example.com`
    #[error("a redirect leads to a path, or to http:// or https:// and a host")]
    Start,
    /// `https://{path}`, `https://{tenant}.example.com`
    #[error("only `{{host}}` may be filled in as the host")]
    InHost,
    /// `https:///orders`
    #[error("the host is missing")]
    NoHost,
    /// `/{path}`
    #[error("`{{path}}` begins with a slash itself")]
    DoubleSlash,
    /// `/a?{query}`, `{query}/a`
    #[error("`{{query}}` includes its question mark, and must be at the end")]
    QueryPlace,
    /// `/a b`
    #[error("the character {0:?} never occurs in an address unescaped: write it percent-encoded")]
    Character(char),
    /// `/{`, `/}`
    #[error(
        "a brace has no meaning here: write `{{path}}`, `{{query}}`, `{{host}}` or a parameter"
    )]
    Brace,
}

impl Location {
    /// The names of the path parameters that it uses.
    pub fn param_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Param(name) => Some(&**name),
            Piece::Text(_) | Piece::Host | Piece::Path | Piece::Query => None,
        })
    }

    fn fill<'a>(
        &self,
        request: &RequestView<'_>,
        target: &str,
        param: impl Fn(&str) -> Option<&'a str>,
    ) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(fixed) => text.push_str(fixed),
                Piece::Host => text.extend(utf8_percent_encode(request.host(), IN_HOST)),
                Piece::Path => {
                    text.push('/');
                    let rest = target.trim_start_matches('/');
                    text.extend(utf8_percent_encode(rest, IN_PATH));
                }
                Piece::Query => {
                    if let Some(query) = request.query() {
                        text.push('?');
                        text.extend(utf8_percent_encode(query, IN_QUERY));
                    }
                }
                Piece::Param(name) => {
                    let value = param(name).unwrap_or_default();
                    text.extend(utf8_percent_encode(value, IN_SEGMENT));
                }
            }
        }
        // The path may be one slash, and the text behind it may begin with another. Two
        // slashes at the start would mean another host.
        let slashes = text.len() - text.trim_start_matches('/').len();
        text.drain(..slashes.saturating_sub(1));
        text
    }
}

impl Redirect {
    /// The response to `request`, whose path was sent as `target`. `param` returns the
    /// value of a parameter.
    ///
    /// # Errors
    /// If the template contains `{host}` and the request names no host.
    pub fn response<'a>(
        &self,
        request: &RequestView<'_>,
        target: &str,
        param: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Response<Bytes>, Ambiguity> {
        if request.host().is_empty() && self.to.0.contains(&Piece::Host) {
            return Err(Ambiguity::NoHost);
        }
        let location = self.to.fill(request, target, param);
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = self.status;
        let location = HeaderValue::try_from(location).expect("all of it is printable ASCII");
        response.headers_mut().insert(LOCATION, location);
        Ok(response)
    }
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let pieces = pieces(text)?;
        let authority = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        match authority {
            Some(rest) => check_authority(rest)?,
            None if text.starts_with("//") => return Err(LocationError::Start),
            None if text.starts_with('/') || text.starts_with("{path}") => {}
            None => return Err(LocationError::Start),
        }
        for pair in pieces.windows(2) {
            match pair {
                [Piece::Text(before), Piece::Path] if before.ends_with('/') => {
                    return Err(LocationError::DoubleSlash);
                }
                [Piece::Query, _] => return Err(LocationError::QueryPlace),
                _ => {}
            }
        }
        let asks = |piece: &Piece| matches!(piece, Piece::Text(text) if text.contains(['?', '#']));
        if pieces.last() == Some(&Piece::Query) && pieces.iter().any(asks) {
            return Err(LocationError::QueryPlace);
        }
        Ok(Self(pieces))
    }
}

fn pieces(text: &str) -> Result<Vec<Piece>, LocationError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('{') {
            let (name, behind) = inner.split_once('}').ok_or(LocationError::Brace)?;
            pieces.push(match name {
                "host" => Piece::Host,
                "path" => Piece::Path,
                "query" => Piece::Query,
                _ if is_name(name) => Piece::Param(name.into()),
                _ => return Err(LocationError::Brace),
            });
            rest = behind;
        } else {
            let end = rest.find('{').unwrap_or(rest.len());
            let (fixed, behind) = rest.split_at(end);
            if fixed.contains('}') {
                return Err(LocationError::Brace);
            }
            let invalid = fixed.chars().find(|c| !c.is_ascii_graphic() || "\"<>\\^`|".contains(*c));
            if let Some(invalid) = invalid {
                return Err(LocationError::Character(invalid));
            }
            pieces.push(Piece::Text(fixed.into()));
            rest = behind;
        }
    }
    Ok(pieces)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Checks the authority: the text before the first slash, question mark or `{path}`.
fn check_authority(rest: &str) -> Result<(), LocationError> {
    let end = ["/", "?", "#", "{path}", "{query}"].iter().filter_map(|end| rest.find(end)).min();
    let authority = &rest[..end.unwrap_or(rest.len())];
    if authority.is_empty() {
        return Err(LocationError::NoHost);
    }
    if authority.replace("{host}", "").contains(['{', '@']) {
        return Err(LocationError::InHost);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;

    /// The `Location` of `template` for a request to `host` for `path` and `query`. The
    /// last segment of the path is the parameter `id`.
    fn location(template: &str, host: &str, path: &str, query: Option<&str>) -> String {
        let headers = HeaderMap::new();
        let request = RequestView::sample(host, "/", &headers).with_query(query);
        let status = StatusCode::PERMANENT_REDIRECT;
        let redirect = Redirect { status, to: template.parse().expect("a good template") };
        let id = |name: &str| path.rsplit('/').next().filter(|_| name == "id");
        let response = redirect.response(&request, path, id).expect("the host is named");
        assert_eq!(response.status(), status);
        response.headers()[LOCATION].to_str().expect("ASCII").to_owned()
    }

    #[test]
    fn placeholders_are_replaced_with_parts_of_the_request() {
        let cases = [
            (
                "https://{host}{path}{query}",
                "https://a.example/x/y?q=%20/?",
                "/x/y",
                Some("q=%20/?"),
            ),
            ("https://{host}:8443{path}{query}", "https://a.example:8443/x", "/x", None),
            ("https://www.{host}/", "https://www.a.example/", "/x", None),
            ("/orders/{id}?old=1", "/orders/7?old=1", "/o/7", None),
            ("/orders/{id}", "/orders/a%2Fb%40", "/o/a%2Fb@", None),
            ("{path}{query}", "/evil.example/?", "//evil.example/", Some("")),
            ("/new{path}", "/new/x", "///x", None),
            ("/fixed#part", "/fixed#part", "/x", None),
            ("{path}/login", "/login", "/", None),
            ("{path}/login", "/login", "//", None),
            ("{path}/login", "/a/login", "//a", None),
        ];
        for (template, expected, path, query) in cases {
            assert_eq!(location(template, "a.example", path, query), expected, "{template}");
        }
        let literal = location("https://{host}{path}", "[2001:db8::1]", "/x", None);
        assert_eq!(literal, "https://[2001:db8::1]/x");
    }

    #[test]
    fn a_template_that_could_redirect_to_any_host_is_refused() {
        use LocationError as Error;
        let cases = [
            ("", Error::Start),
            ("orders", Error::Start),
            ("ftp://a.example/", Error::Start),
            ("//a.example/", Error::Start),
            ("{id}", Error::Start),
            ("{query}", Error::Start),
            ("https://", Error::NoHost),
            ("https:///x", Error::NoHost),
            ("https://{path}", Error::NoHost),
            ("https://{id}/", Error::InHost),
            ("https://{id}.a.example/", Error::InHost),
            ("https://a.example{id}", Error::InHost),
            ("https://u@{host}/", Error::InHost),
            ("/{path}", Error::DoubleSlash),
            ("https://{host}/{path}", Error::DoubleSlash),
            ("/x?{query}", Error::QueryPlace),
            ("{path}{query}/x", Error::QueryPlace),
            ("/x#y{query}", Error::QueryPlace),
            ("/a b", Error::Character(' ')),
            ("/a\r\nX: y", Error::Character('\r')),
            ("/\u{e9}", Error::Character('\u{e9}')),
            ("/a\\b", Error::Character('\\')),
            ("/{", Error::Brace),
            ("/}", Error::Brace),
            ("/{}", Error::Brace),
            ("/{a b}", Error::Brace),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Location>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_request_without_a_host_is_not_redirected_to_one() {
        let headers = HeaderMap::new();
        let request = RequestView::sample("", "/", &headers);
        let to = "https://{host}/".parse().expect("a good template");
        let redirect = Redirect { status: StatusCode::FOUND, to };
        let answer = redirect.response(&request, "/", |_| None);
        assert_eq!(answer.map(|_| ()), Err(Ambiguity::NoHost));
    }

    proptest! {
        #[test]
        fn no_request_is_redirected_to_another_host(
            path in "/[ -~\r\n\u{e9}]{0,12}",
            query in "[ -~\r\n\u{e9}]{0,12}",
        ) {
            let stays = |template: &str| {
                let to = location(template, "a.example", &path, Some(&query));
                to.starts_with("https://a.example/") || to.starts_with('/') && !to.starts_with("//")
            };
            for template in ["{path}{query}", "/x/{id}{query}", "https://{host}{path}{query}"] {
                prop_assert!(stays(template), "{template}");
            }
        }
    }
}
