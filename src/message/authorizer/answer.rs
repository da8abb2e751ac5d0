//! The answer of an authorizer.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER, SET_COOKIE,
    WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::AuthorizerSettings;

/// The fields of a refusal that the client gets.
pub const OF_REFUSALS: [HeaderName; 6] =
    [CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE];

/// What an authorizer has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The request passes.
    Passed(Taken),
    /// The client gets this response.
    Refused(Refused),
}

/// What is taken from the answer for a request that passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Fields for the request, instead of those of the client.
    pub fields: HeaderMap,
    /// Cookies for the client.
    pub cookies: Vec<HeaderValue>,
}

/// The response to a request that does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    status: StatusCode,
    fields: HeaderMap,
    body: Bytes,
}

impl Answered {
    /// The meaning of an answer. None: its status is neither of success, nor of a refusal.
    pub fn of(
        settings: &AuthorizerSettings,
        status: StatusCode,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Option<Self> {
        match status.as_u16() {
            200..300 => Some(Self::Passed(Taken::new(some(&settings.take, headers), headers))),
            300..500 => Some(Self::Refused(Refused::new(status, headers, body))),
            _ => None,
        }
    }

    /// The bytes that it takes in memory, about.
    pub fn size(&self) -> usize {
        let of = |fields: &HeaderMap| {
            fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
        };
        match self {
            Self::Passed(taken) => of(&taken.fields),
            Self::Refused(refused) => of(&refused.fields) + refused.body.len(),
        }
    }
}

impl Taken {
    /// These fields, and the cookies that `told` gives the client.
    pub fn new(fields: HeaderMap, told: &HeaderMap) -> Self {
        Self { fields, cookies: told.get_all(SET_COOKIE).iter().cloned().collect() }
    }

    /// Gives a request the fields. Those of the client are removed in any case.
    pub fn write(&self, settings: &AuthorizerSettings, headers: &mut HeaderMap) {
        settings.take.iter().for_each(|name| drop(headers.remove(name)));
        for (name, value) in &self.fields {
            headers.append(name, value.clone());
        }
    }
}

impl Refused {
    /// A response with those of the fields that a client needs.
    pub fn new(status: StatusCode, headers: &HeaderMap, body: Bytes) -> Self {
        Self { status, fields: some(&OF_REFUSALS, headers), body }
    }

    /// The response for the client.
    pub fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(self.body.clone());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.clone_from(&self.fields);
        // It is an answer to this client at this time.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// All lines of the fields with these names.
fn some(names: &[HeaderName], headers: &HeaderMap) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for name in names {
        for value in headers.get_all(name) {
            fields.append(name, value.clone());
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn settings() -> AuthorizerSettings {
        AuthorizerSettings {
            name: Arc::from("sso"),
            upstream: 0,
            target: "/".parse().expect("a target"),
            is_grpc: false,
            send: None,
            take: ["remote-user", "remote-groups"].map(HeaderName::from_static).to_vec(),
            timeout: Duration::from_secs(1),
            allows_on_failure: false,
            max_response_bytes: 1024,
            cache: None,
        }
    }

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        lines.iter().map(line).collect()
    }

    fn answered(status: u16, lines: &[(&'static str, &'static str)]) -> Option<Answered> {
        let status = StatusCode::from_u16(status).expect("a status");
        Answered::of(&settings(), status, &fields(lines), Bytes::from_static(b"body"))
    }

    #[test]
    fn the_class_of_the_status_decides() {
        for status in [200, 202, 204, 299] {
            assert!(matches!(answered(status, &[]), Some(Answered::Passed(_))), "{status}");
        }
        for status in [300, 302, 401, 403, 429, 499] {
            assert!(matches!(answered(status, &[]), Some(Answered::Refused(_))), "{status}");
        }
        for status in [101, 500, 503, 599] {
            assert_eq!(answered(status, &[]), None, "{status}");
        }
    }

    #[test]
    fn a_request_that_passes_has_only_the_identity_of_the_answer() {
        let lines = [("remote-user", "ann"), ("x-other", "1"), ("set-cookie", "s=1")];
        let Some(Answered::Passed(taken)) = answered(200, &lines) else { panic!("it passes") };
        let mut request = fields(&[
            ("remote-user", "admin"),
            ("remote-user", "root"),
            ("remote-groups", "admins"),
            ("x-own", "1"),
        ]);
        taken.write(&settings(), &mut request);
        assert_eq!(request, fields(&[("remote-user", "ann"), ("x-own", "1")]));
        assert_eq!(taken.cookies, ["s=1"]);
    }

    #[test]
    fn a_refusal_has_the_fields_that_a_client_needs() {
        let lines = [
            ("location", "https://login.test/"),
            ("www-authenticate", "Basic"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("retry-after", "3"),
            ("content-type", "text/html"),
            ("cache-control", "max-age=60"),
            ("remote-user", "ann"),
            ("transfer-encoding", "chunked"),
        ];
        let Some(Answered::Refused(refused)) = answered(302, &lines) else { panic!("it refuses") };
        let response = refused.response();
        assert_eq!((response.status().as_u16(), &response.body()[..]), (302, &b"body"[..]));
        let mut expected = fields(&lines[..6]);
        expected.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        assert_eq!(response.headers(), &expected);
    }
}
