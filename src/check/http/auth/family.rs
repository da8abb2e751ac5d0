//! The ways in which proxies describe the requests of their clients.
//!
//! Each path reads one family of fields. A field of another family is a field of the client
//! there, like any other: a client can send it, and the proxy that asks does not replace it.

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};
use tollgate_core::request::{Ambiguity, Malformed, method_of, target_of};

use crate::message::{BadQuestion, QuestionFault, QuestionParts};

const X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const X_ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
const X_ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");

static FORWARDED_FIELDS: [HeaderName; 3] = [X_FORWARDED_METHOD, X_FORWARDED_URI, X_FORWARDED_HOST];
static ORIGINAL_FIELDS: [HeaderName; 3] = [X_ORIGINAL_METHOD, X_ORIGINAL_URI, X_ORIGINAL_URL];

/// The path of [`Family::Forwarded`].
const FORWARDED_PATH: &str = "/auth";
/// The path of [`Family::Original`].
const ORIGINAL_PATH: &str = "/auth/nginx";
/// The path of [`Family::Prefixed`], which precedes that of the original request.
const PREFIX: &str = "/auth/envoy";

/// How a question describes the request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `X-Forwarded-Method`, `X-Forwarded-Uri` and `X-Forwarded-Host`, as Traefik and Caddy
    /// send them.
    Forwarded,
    /// `X-Original-Method`, and either `X-Original-URI` with `Host`, or a whole URL in
    /// `X-Original-URL`, as configurations of nginx send them.
    Original,
    /// Its own method, its own `Host`, and its path behind a prefix, as Envoy sends them.
    Prefixed,
}

/// The request that a question describes.
struct Described {
    method: Method,
    target: Uri,
    host: HeaderValue,
}

impl Family {
    /// The family that is read on this path, if proxies can ask there.
    pub fn of(path: &str) -> Option<Self> {
        match path {
            FORWARDED_PATH => Some(Self::Forwarded),
            ORIGINAL_PATH => Some(Self::Original),
            _ => path
                .strip_prefix(PREFIX)
                .filter(|rest| rest.starts_with('/') || *rest == "*")
                .map(|_| Self::Prefixed),
        }
    }

    /// Changes the head of a question into that of the request that it describes. The fields
    /// of the family are removed, so that no rule sees them.
    ///
    /// # Errors
    /// If it describes none. Then the head does not change.
    pub fn restore(self, head: &mut Parts) -> Result<(), BadQuestion> {
        let Described { method, target, host } = match self {
            Self::Forwarded => forwarded(&head.headers)?,
            Self::Original => original(head)?,
            Self::Prefixed => prefixed(head)?,
        };
        for name in self.fields() {
            head.headers.remove(name);
        }
        head.headers.insert(HOST, host);
        // A request of this version has one host, whichever version it really had.
        (head.method, head.uri, head.version) = (method, target, Version::HTTP_11);
        Ok(())
    }

    /// The fields that describe the request, and belong to no client.
    pub fn fields(self) -> &'static [HeaderName] {
        match self {
            Self::Forwarded => &FORWARDED_FIELDS,
            Self::Original => &ORIGINAL_FIELDS,
            Self::Prefixed => &[],
        }
    }

    /// The parts of a question that name the target and the host of the request.
    pub const fn parts(self) -> QuestionParts {
        let [target, host] = match self {
            Self::Forwarded => ["X-Forwarded-Uri", "X-Forwarded-Host"],
            Self::Original => ["X-Original-URI", "Host"],
            Self::Prefixed => [BEHIND_PREFIX, "Host"],
        };
        QuestionParts { target, host }
    }
}

/// The name of the target of [`Family::Prefixed`].
const BEHIND_PREFIX: &str = "the path behind /auth/envoy";

fn forwarded(headers: &HeaderMap) -> Result<Described, BadQuestion> {
    let method = one(headers, &X_FORWARDED_METHOD, "X-Forwarded-Method")?;
    let target = one(headers, &X_FORWARDED_URI, "X-Forwarded-Uri")?;
    let host = one(headers, &X_FORWARDED_HOST, "X-Forwarded-Host")?.clone();
    let method = checked_method(method.as_bytes(), "X-Forwarded-Method")?;
    let target = checked_target(target.as_bytes(), "X-Forwarded-Uri")?;
    Ok(Described { method, target, host })
}

fn original(head: &Parts) -> Result<Described, BadQuestion> {
    let headers = &head.headers;
    let method = one(headers, &X_ORIGINAL_METHOD, "X-Original-Method")?;
    let method = checked_method(method.as_bytes(), "X-Original-Method")?;
    if !headers.contains_key(X_ORIGINAL_URL) {
        let target = one(headers, &X_ORIGINAL_URI, "X-Original-URI")?;
        let target = checked_target(target.as_bytes(), "X-Original-URI")?;
        return Ok(Described { method, target, host: own_host(head)? });
    }
    // A proxy that sets one of them may let its client send the other.
    if headers.contains_key(X_ORIGINAL_URI) {
        return Err(BadQuestion { field: "X-Original-URL", fault: QuestionFault::Repeated });
    }
    let target = one(headers, &X_ORIGINAL_URL, "X-Original-URL")?;
    let target = checked_target(target.as_bytes(), "X-Original-URL")?;
    // The question is addressed to this server, so its own host may be the server's.
    match named_in(&target) {
        Some(host) => Ok(Described { method, host, target }),
        None => Err(BadQuestion { field: "X-Original-URL", fault: Malformed::BadTarget.into() }),
    }
}

fn prefixed(head: &Parts) -> Result<Described, BadQuestion> {
    let target = head.uri.path_and_query().and_then(|it| it.as_str().strip_prefix(PREFIX));
    let target = checked_target(target.unwrap_or_default().as_bytes(), BEHIND_PREFIX)?;
    let method = checked_method(head.method.as_str().as_bytes(), "the method")?;
    Ok(Described { method, target, host: own_host(head)? })
}

/// The value of a field that a question must have once.
fn one<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
    field: &'static str,
) -> Result<&'h HeaderValue, BadQuestion> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next().filter(|line| !line.is_empty()), lines.next()) {
        (_, Some(_)) => Err(BadQuestion { field, fault: QuestionFault::Repeated }),
        (None, None) => Err(BadQuestion { field, fault: QuestionFault::Missing }),
        (Some(value), None) => Ok(value),
    }
}

/// The host of the question itself, which its target can name, too.
fn own_host(head: &Parts) -> Result<HeaderValue, BadQuestion> {
    let Some(host) = named_in(&head.uri) else {
        return one(&head.headers, &HOST, "Host").cloned();
    };
    if head.headers.contains_key(HOST) {
        let named = one(&head.headers, &HOST, "Host")?;
        if !named.as_bytes().eq_ignore_ascii_case(host.as_bytes()) {
            return Err(BadQuestion { field: "Host", fault: Ambiguity::TwoHosts.into() });
        }
    }
    Ok(host)
}

/// The host that a target names.
fn named_in(target: &Uri) -> Option<HeaderValue> {
    HeaderValue::from_str(target.authority()?.as_str()).ok()
}

fn checked_method(method: &[u8], field: &'static str) -> Result<Method, BadQuestion> {
    method_of(method).map_err(|fault| BadQuestion { field, fault: fault.into() })
}

fn checked_target(target: &[u8], field: &'static str) -> Result<Uri, BadQuestion> {
    target_of(target).map_err(|fault| BadQuestion { field, fault: fault.into() })
}

#[cfg(test)]
mod tests;
