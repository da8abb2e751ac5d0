//! Cross-origin requests (Fetch Standard, section 3.2): the fields that tell a browser whether
//! a script of another origin may read a response. Pure.
//!
//! On a route with these settings the gateway is the only author of the fields: those of the
//! upstream are removed, and every response gets those of the gateway, whichever part of the
//! gateway makes it. A browser that is not told so does not show a script the status of a 429.

mod origin;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

pub use origin::{OriginError, OriginPattern};

/// The fields of responses that the gateway owns on a route with these settings.
pub static OWNED_FIELDS: [HeaderName; 8] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE,
    HeaderName::from_static("access-control-allow-private-network"),
    HeaderName::from_static("access-control-allow-local-network"),
];

/// Methods that need no preflight (Fetch Standard, section 2.2.1).
const SAFE_METHODS: [Method; 3] = [Method::GET, Method::HEAD, Method::POST];

/// Fields that need no preflight, if their values are simple enough (Fetch Standard, section
/// 2.2.2). The browser checks the values.
const SAFE_FIELDS: [&str; 5] =
    ["accept", "accept-language", "content-language", "content-type", "range"];

/// What a route answers to scripts of other origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsSettings {
    /// The origins whose scripts may read responses.
    pub origins: Vec<OriginPattern>,
    /// The methods of requests, besides GET, HEAD and POST.
    pub methods: Vec<Method>,
    /// The fields that requests may have, besides those that need no preflight.
    pub headers: Vec<HeaderName>,
    /// The fields of responses that scripts may read, besides those about limits.
    pub expose: Vec<HeaderName>,
    /// Whether requests have cookies and other credentials.
    pub credentials: bool,
    /// For how long a browser may remember the answer to a preflight.
    pub max_age_s: Option<u64>,
}

/// Answers scripts of other origins on a route.
#[derive(Debug)]
pub struct Cors {
    origins: Vec<OriginPattern>,
    allows_all: bool,
    methods: Vec<Method>,
    /// In lower case, sorted.
    headers: Vec<Box<str>>,
    credentials: bool,
    allow_methods: HeaderValue,
    allow_headers: Option<HeaderValue>,
    expose: Option<HeaderValue>,
    max_age: Option<HeaderValue>,
}

impl Cors {
    /// Answers by these settings.
    pub fn new(settings: CorsSettings) -> Self {
        let CorsSettings { origins, methods, headers, expose, credentials, max_age_s } = settings;
        let own: Vec<Method> =
            methods.into_iter().filter(|method| !SAFE_METHODS.contains(method)).collect();
        let all: Vec<Method> = SAFE_METHODS.into_iter().chain(own).collect();
        let mut names: Vec<Box<str>> = headers.iter().map(|name| name.as_str().into()).collect();
        names.sort_unstable();
        Self {
            allows_all: origins.contains(&OriginPattern::Any),
            origins,
            allow_methods: list(all.iter().map(Method::as_str))
                .unwrap_or(HeaderValue::from_static("")),
            allow_headers: list(headers.iter().map(HeaderName::as_str)),
            expose: list(expose.iter().map(HeaderName::as_str)),
            methods: all,
            headers: names,
            credentials,
            max_age: max_age_s.map(HeaderValue::from),
        }
    }

    /// The value of `Access-Control-Allow-Origin` for a request with these fields. None: it has
    /// no origin, or one that is not allowed. If all origins are allowed, it has the value without an
    /// origin, too: a cache may give the response to a script (Fetch, "CORS protocol and HTTP caches").
    pub fn allowed_origin(&self, request: &HeaderMap) -> Option<HeaderValue> {
        if self.allows_all && !request.contains_key(ORIGIN) {
            return Some(HeaderValue::from_static("*"));
        }
        let mut origins = request.get_all(ORIGIN).iter();
        let origin = origins.next().filter(|_| origins.next().is_none());
        let is_allowed = |origin: &&HeaderValue| {
            let text = origin.to_str().ok();
            text.is_some_and(|text| OriginPattern::any_of(&self.origins, text))
        };
        origin.filter(is_allowed).map(|origin| match self.allows_all {
            true => HeaderValue::from_static("*"),
            false => origin.clone(),
        })
    }

    /// The answer to an allowed preflight, without the fields that every response gets. None:
    /// what the preflight asks for is not allowed, or its origin is not.
    pub fn preflight(&self, request: &HeaderMap) -> Option<Response<Bytes>> {
        let is_allowed = self.allowed_origin(request).is_some()
            && self.allows_method(request)
            && self.allows_fields(request);
        is_allowed.then(|| self.permission())
    }

    /// Whether cookies and other credentials of browsers may be sent.
    pub const fn allows_credentials(&self) -> bool {
        self.credentials
    }

    fn allows_method(&self, request: &HeaderMap) -> bool {
        let mut asked = request.get_all(ACCESS_CONTROL_REQUEST_METHOD).iter();
        let method = asked.next().filter(|_| asked.next().is_none());
        method.is_some_and(|asked| self.methods.iter().any(|method| asked == method.as_str()))
    }

    fn allows_fields(&self, request: &HeaderMap) -> bool {
        let mut lines = request.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
        lines.all(|line| {
            let names = line.to_str().ok().map(|text| text.split(','));
            names.is_some_and(|mut names| {
                names.all(|name| self.allows_field(name.trim_matches([' ', '\t'])))
            })
        })
    }

    /// Whether scripts may set the field with this name.
    pub fn allows_field(&self, name: &str) -> bool {
        let lower = |byte: u8| byte.to_ascii_lowercase();
        let compared = |known: &str| known.bytes().cmp(name.bytes().map(lower));
        name.is_empty()
            || self.headers.binary_search_by(|known| compared(known)).is_ok()
            || SAFE_FIELDS.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    fn permission(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, self.allow_methods.clone());
        if let Some(names) = &self.allow_headers {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        if let Some(seconds) = &self.max_age {
            headers.insert(ACCESS_CONTROL_MAX_AGE, seconds.clone());
        }
        let asked = "Access-Control-Request-Method, Access-Control-Request-Headers";
        headers.insert(VARY, HeaderValue::from_static(asked));
        response
    }
}

impl Cors {
    /// Removes what an upstream has written into its response.
    pub fn remove_others(headers: &mut HeaderMap) {
        for name in &OWNED_FIELDS {
            headers.remove(name);
        }
    }

    /// Adds the fields about origins to a response, which has no others. `allowed` is the
    /// [allowed origin](Self::allowed_origin) of its request.
    pub fn write(&self, allowed: Option<HeaderValue>, headers: &mut HeaderMap) {
        if !self.allows_all && !varies_by_origin(headers) {
            headers.append(VARY, HeaderValue::from_static("Origin"));
        }
        let Some(origin) = allowed else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        if let Some(names) = &self.expose {
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, names.clone());
        }
    }

    /// Adds to a response that scripts of its allowed origin may read the field with this name.
    pub fn expose(name: &HeaderName, headers: &mut HeaderMap) {
        if !names(ACCESS_CONTROL_EXPOSE_HEADERS, headers).any(|it| name == it) {
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, name.clone().into());
        }
    }
}

/// Whether a response says already that it differs by origin.
fn varies_by_origin(headers: &HeaderMap) -> bool {
    names(VARY, headers).any(|name| name == "*" || name.eq_ignore_ascii_case("origin"))
}

/// The names in the list of this field.
fn names(list: HeaderName, headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let texts = headers.get_all(list).into_iter().filter_map(|line| line.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim)
}

/// The names as the value of a field. None, if there are none.
fn list<'n>(names: impl Iterator<Item = &'n str>) -> Option<HeaderValue> {
    let text = names.collect::<Vec<_>>().join(", ");
    HeaderValue::try_from(text).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(origins: &[&str]) -> CorsSettings {
        CorsSettings {
            origins: origins.iter().map(|it| it.parse().expect("a pattern")).collect(),
            methods: vec![Method::GET, Method::PUT],
            headers: ["x-b", "authorization", "x-a"].map(HeaderName::from_static).to_vec(),
            expose: vec![HeaderName::from_static("etag")],
            credentials: true,
            max_age_s: Some(600),
        }
    }

    fn cors(origins: &[&str]) -> Cors {
        Cors::new(settings(origins))
    }

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        lines.iter().map(line).collect()
    }

    const APP: (&str, &str) = ("origin", "https://app.test");

    fn written(cors: &Cors, request: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        cors.write(cors.allowed_origin(&fields(request)), &mut headers);
        headers
    }

    #[test]
    fn an_allowed_origin_gets_the_fields_and_another_only_vary() {
        let cors = cors(&["https://app.test"]);
        let expected = fields(&[
            ("vary", "Origin"),
            ("access-control-allow-origin", "https://app.test"),
            ("access-control-allow-credentials", "true"),
            ("access-control-expose-headers", "etag"),
        ]);
        assert_eq!(written(&cors, &[APP]), expected);
        let vary = fields(&[("vary", "Origin")]);
        assert_eq!(written(&cors, &[("origin", "https://evil.test")]), vary);
        assert_eq!(written(&cors, &[]), vary);
        assert_eq!(written(&cors, &[APP, APP]), vary, "a request has one origin");
    }

    #[test]
    fn a_star_is_told_as_a_star_and_does_not_vary() {
        let open = CorsSettings { credentials: false, expose: vec![], ..settings(&["*"]) };
        let open = Cors::new(open);
        let headers = written(&open, &[APP]);
        assert_eq!(headers, fields(&[("access-control-allow-origin", "*")]));
        // Regression: the response without an origin had no field, and a cache gave it to scripts.
        assert_eq!(written(&open, &[]), headers);
    }

    #[test]
    fn vary_is_not_told_twice() {
        for told in ["Accept, origin", "*"] {
            let mut headers = fields(&[]);
            headers.insert(VARY, told.parse().expect("a value"));
            let cors = cors(&["https://app.test"]);
            cors.write(cors.allowed_origin(&fields(&[APP])), &mut headers);
            assert_eq!(headers.get_all(VARY).iter().count(), 1, "{told}");
        }
    }

    #[test]
    fn a_field_is_exposed_once() {
        let mut headers = written(&cors(&["https://app.test"]), &[APP]);
        for name in ["etag", "retry-after", "retry-after"].map(HeaderName::from_static) {
            Cors::expose(&name, &mut headers);
        }
        let exposed: Vec<_> = names(ACCESS_CONTROL_EXPOSE_HEADERS, &headers).collect();
        assert_eq!(exposed, ["etag", "retry-after"]);
    }

    fn is_permitted(lines: &[(&'static str, &'static str)]) -> bool {
        cors(&["https://app.test"]).preflight(&fields(lines)).is_some()
    }

    const METHOD: &str = "access-control-request-method";
    const FIELDS: &str = "access-control-request-headers";

    #[test]
    fn a_preflight_is_allowed_if_origin_method_and_all_fields_are() {
        for method in ["PUT", "GET", "HEAD", "POST"] {
            assert!(is_permitted(&[APP, (METHOD, method)]), "{method}");
        }
        for method in ["DELETE", "put", "PUT, GET", ""] {
            assert!(!is_permitted(&[APP, (METHOD, method)]), "{method}");
        }
        assert!(!is_permitted(&[("origin", "https://evil.test"), (METHOD, "PUT")]));
        assert!(!is_permitted(&[APP, (METHOD, "PUT"), (METHOD, "GET")]));
        for names in ["x-a", "authorization,X-B", "content-type, x-a", "", "accept,,x-b"] {
            assert!(is_permitted(&[APP, (METHOD, "PUT"), (FIELDS, names)]), "{names}");
        }
        for names in ["x-c", "x-a,x-c", "x-a x-b", "*", "x", "x-aa"] {
            assert!(!is_permitted(&[APP, (METHOD, "PUT"), (FIELDS, names)]), "{names}");
        }
        assert!(!is_permitted(&[APP, (METHOD, "PUT"), (FIELDS, "x-a"), (FIELDS, "x-c")]));
    }

    #[test]
    fn the_permission_lists_what_is_allowed() {
        let cors = cors(&["https://app.test"]);
        let response = cors.preflight(&fields(&[APP, (METHOD, "PUT")])).expect("it is allowed");
        assert_eq!(response.status(), 204);
        let expected = fields(&[
            ("access-control-allow-methods", "GET, HEAD, POST, PUT"),
            ("access-control-allow-headers", "x-b, authorization, x-a"),
            ("access-control-max-age", "600"),
            ("vary", "Access-Control-Request-Method, Access-Control-Request-Headers"),
        ]);
        assert_eq!(response.headers(), &expected);
    }

    #[test]
    fn what_an_upstream_says_is_removed() {
        let mut headers = fields(&[
            ("access-control-allow-origin", "*"),
            ("access-control-allow-private-network", "true"),
            ("x-a", "1"),
        ]);
        Cors::remove_others(&mut headers);
        assert_eq!(headers, fields(&[("x-a", "1")]));
    }
}
