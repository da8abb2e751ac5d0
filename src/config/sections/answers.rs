//! Responses that the configuration itself contains: `response` of a policy, `respond` and
//! `redirect` of a route.

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderValue;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::Template;

use super::context::Context;
use crate::config::field::{Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{FieldValue, LocationText, PathText};
use crate::message::Redirect;
use crate::snapshot::FixedResponse;

/// `Content-Type` of bodies that do not say theirs.
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// The names that a template may contain.
const PLACEHOLDERS: [&str; 4] = ["retry_after", "limit", "remaining", "policy"];

/// The response to a refused request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "response", default)]
#[schemars(deny_unknown_fields)]
pub struct RawResponse {
    /// The status, from 400 to 599.
    #[schemars(extend("default" = 429))]
    #[schemars(example = 503)]
    #[schemars(range(min = 400, max = 599))]
    status: Field<u64>,
    /// The media type of the body.
    #[schemars(extend("x-default" = "text/plain; charset=utf-8"))]
    #[schemars(example = &"application/json")]
    content_type: Field<FieldValue>,
    /// The body. The gateway replaces `{retry_after}`, `{limit}`, `{remaining}` and `{policy}`.
    #[schemars(extend("x-default" = "empty"))]
    #[schemars(example = &"slow down, retry in {retry_after} s")]
    body: Field<String>,
}

/// A response without an upstream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "respond", default)]
#[schemars(deny_unknown_fields)]
pub struct RawRespond {
    /// The status, from 200 to 599.
    #[schemars(extend("default" = 200))]
    #[schemars(example = 404)]
    #[schemars(range(min = 200, max = 599))]
    status: Field<u64>,
    /// The media type of the body.
    #[schemars(extend("x-default" = "text/plain; charset=utf-8"))]
    #[schemars(example = &"application/json")]
    content_type: Field<FieldValue>,
    /// The body.
    #[schemars(extend("x-default" = "empty"))]
    #[schemars(example = &"ok")]
    body: Field<String>,
}

/// A redirect to another address.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "redirect", default)]
#[schemars(deny_unknown_fields, extend("required" = ["to"]))]
pub struct RawRedirect {
    /// A path or a URL. The gateway replaces {host}, {path}, {query} (with its question mark) and
    /// the parameters of the route's path.
    to: Field<LocationText>,
    /// The status: 301, 302, 303, 307 or 308.
    #[schemars(extend("default" = 308))]
    #[schemars(example = 302)]
    #[schemars(range(min = 300, max = 399))]
    status: Field<u64>,
}

impl RawResponse {
    pub fn compile(&self, cx: &Context<'_>) -> Template {
        if let Some(body) = self.body.given() {
            check_placeholders(body, cx);
        }
        Template {
            status: cx.status(&self.status, "status", 400..=599, StatusCode::TOO_MANY_REQUESTS),
            content_type: content_type(&self.content_type),
            body: self.body.value().map_or_else(|| "".into(), |body| body.as_str().into()),
        }
    }
}

impl RawRespond {
    pub fn compile(&self, cx: &Context<'_>) -> FixedResponse {
        let status = cx.status(&self.status, "status", 200..=599, StatusCode::OK);
        let has_no_body =
            [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED]
                .contains(&status);
        if let Some(body) = self.body.given().filter(|it| has_no_body && !it.value.is_empty()) {
            let message = format!("a response with status {} has no body", status.as_u16());
            cx.error(body.span, &message, "leave the body out, or use another status");
        }
        FixedResponse {
            status,
            content_type: content_type(&self.content_type),
            body: self.body.value().map_or_else(Bytes::new, |body| Bytes::from(body.clone())),
        }
    }
}

impl RawRedirect {
    /// The redirect of a route with this path. The section is written at `span`.
    pub fn compile(
        &self,
        span: TextSpan,
        path: Option<&PathText>,
        cx: &Context<'_>,
    ) -> Option<Redirect> {
        let advice = "write the new address, like to: https://{host}{path}{query}";
        let to = cx.required(&self.to, span, "the redirect has no \"to\"", advice);
        let status = cx.status(&self.status, "status", 300..=399, StatusCode::PERMANENT_REDIRECT);
        let redirects = [301, 302, 303, 307, 308].contains(&status.as_u16());
        if let Some(given) = self.status.given().filter(|_| !redirects) {
            let message = format!("{} is not the status of a redirect", given.value);
            cx.error(given.span, &message, "write 301, 302, 303, 307 or 308");
        }
        let known =
            |name: &str| path.is_none_or(|path| path.0.param_names().any(|param| param == name));
        if let Some(to) = self.to.given()
            && let Some(name) = to.value.0.param_names().find(|name| !known(name))
        {
            let message = match &to.written {
                Some(written) => format!(
                    "the value of \"{written}\" needs a parameter that the path does not have"
                ),
                None => format!("the path of the route has no parameter {{{name}}}"),
            };
            let advice = "there are {host}, {path}, {query} and the path's own parameters";
            cx.error(to.span, &message, advice);
        }
        Some(Redirect { status, to: to?.0.clone() })
    }
}

fn content_type(field: &Field<FieldValue>) -> HeaderValue {
    field.value().map_or(CONTENT_TYPE, |value| value.0.clone())
}

fn check_placeholders(body: &Spanned<String>, cx: &Context<'_>) {
    for name in placeholders(&body.value).filter(|name| !PLACEHOLDERS.contains(name)) {
        let message = match &body.written {
            Some(written) => format!("the value of \"{written}\" has an unknown placeholder"),
            None => format!("there is no placeholder {{{name}}}"),
        };
        let advice = "there are {retry_after}, {limit}, {remaining} and {policy}";
        cx.error(body.span, &message, advice);
    }
}

/// The words in braces. Braces around anything else, as in JSON, are text.
fn placeholders(body: &str) -> impl Iterator<Item = &str> {
    let is_word =
        |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    body.split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(name, _)| name)
        .filter(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_of_json_are_no_placeholders() {
        let body = r#"{"retry_after":{retry_after},"a":{},"b":{"c":{wait}}}"#;
        assert_eq!(placeholders(body).collect::<Vec<_>>(), ["retry_after", "wait"]);
    }
}
