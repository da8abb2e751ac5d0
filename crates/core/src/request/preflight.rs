//! Whether a request is a preflight (Fetch Standard, section 3.2.2), and what it asks for.

use http::Method;
use http::header::{
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN,
};

use super::RequestView;

impl<'a> RequestView<'a> {
    /// Whether every backend treats this request as a preflight: it has no content, and no
    /// field gives it another method.
    pub fn is_preflight(&self) -> bool {
        *self.method() == Method::OPTIONS
            && self.headers().contains_key(ORIGIN)
            && self.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
            && !self.has_content()
            && self.overriding_method() == Ok(None)
    }

    /// Whether this is a preflight that asks for one of these methods.
    pub(crate) fn asks_for_method(&self, methods: &[Method]) -> bool {
        let asked = self.headers().get(ACCESS_CONTROL_REQUEST_METHOD);
        asked.is_some_and(|asked| methods.iter().any(|it| asked == it.as_str()))
            && self.is_preflight()
    }

    /// Whether this is a preflight that asks for a field with this name.
    pub(crate) fn asks_for_field(&self, name: &HeaderName) -> bool {
        self.asked_fields().any(|asked| asked.eq_ignore_ascii_case(name.as_str()))
            && self.is_preflight()
    }

    /// The names of fields that a preflight asks for.
    fn asked_fields(&self) -> impl Iterator<Item = &'a str> {
        let lines = self.headers().get_all(ACCESS_CONTROL_REQUEST_HEADERS);
        let texts = lines.iter().filter_map(|line| line.to_str().ok());
        texts.flat_map(|text| text.split(',')).map(|name| name.trim_matches([' ', '\t']))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_preflight_asks_for_one_method_and_some_fields() {
        let headers = fields(&[
            ("origin", "https://a.test"),
            ("access-control-request-method", "PUT"),
            ("access-control-request-headers", "x-a, X-Version"),
        ]);
        let view = RequestView::sample("a.test", "/", &headers);
        let preflight = view.clone().with_method(&Method::OPTIONS);
        let version = HeaderName::from_static("x-version");
        assert!(preflight.is_preflight() && !view.is_preflight());
        assert!(preflight.asks_for_method(&[Method::GET, Method::PUT]));
        assert!(!preflight.asks_for_method(&[Method::GET]));
        assert!(!view.asks_for_method(&[Method::PUT]), "a GET is not a preflight");
        assert!(preflight.asks_for_field(&version) && !view.asks_for_field(&version));
        assert!(!preflight.asks_for_field(&HeaderName::from_static("x-b")));
    }
}
