//! Answers that the configuration gives itself.

use bytes::Bytes;
use http::StatusCode;

use super::Compiler;
use crate::config::defaults::CONTENT_TYPE;
use crate::config::field::Spanned;
use crate::config::raw::{RawRedirect, RawRespond, RawResponse};
use crate::config::scalar::PathText;
use crate::message::Redirect;
use crate::policy::Template;
use crate::snapshot::FixedResponse;

/// What a template may fill in.
const PLACEHOLDERS: [&str; 4] = ["retry_after", "limit", "remaining", "policy"];

impl Compiler<'_> {
    /// A policy's answer to those it refuses.
    pub(super) fn template(&self, raw: &RawResponse) -> Template {
        if let Some(body) = raw.body.given() {
            self.check_placeholders(body);
        }
        Template {
            status: self.status(&raw.status, 400..=599, StatusCode::TOO_MANY_REQUESTS),
            content_type: raw.content_type.value().map_or(CONTENT_TYPE, |value| value.0.clone()),
            body: raw.body.value().map_or_else(|| "".into(), |body| body.as_str().into()),
        }
    }

    /// A route's fixed answer.
    pub(super) fn respond(&self, raw: &RawRespond) -> FixedResponse {
        let status = self.status(&raw.status, 200..=599, StatusCode::OK);
        let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
        if let Some(body) = raw.body.given().filter(|body| bodiless && !body.value.is_empty()) {
            let message = format!("an answer with status {} has no body", status.as_u16());
            self.problems.error(body.span, &message, "leave the body out, or use another status");
        }
        FixedResponse {
            status,
            content_type: raw.content_type.value().map_or(CONTENT_TYPE, |value| value.0.clone()),
            body: raw.body.value().map_or_else(Bytes::new, |body| Bytes::from(body.clone())),
        }
    }

    /// The redirect of a route with this path.
    pub(super) fn redirect(
        &self,
        raw: &Spanned<RawRedirect>,
        path: Option<&PathText>,
    ) -> Option<Redirect> {
        let advice = "write where it leads, like to: https://{host}{path}{query}";
        let to = self.required(&raw.value.to, raw.span, "the redirect has no \"to\"", advice);
        let status = self.status(&raw.value.status, 300..=399, StatusCode::PERMANENT_REDIRECT);
        let leads = [301, 302, 303, 307, 308].contains(&status.as_u16());
        if let Some(given) = raw.value.status.given().filter(|_| !leads) {
            let message = format!("{} is no status of a redirect", given.value);
            self.problems.error(given.span, &message, "write 301, 302, 303, 307 or 308");
        }
        let known =
            |name: &str| path.is_none_or(|path| path.0.param_names().any(|param| param == name));
        if let Some(to) = raw.value.to.given()
            && let Some(name) = to.value.0.param_names().find(|name| !known(name))
        {
            let message = match &to.written {
                Some(written) => format!("what \"{written}\" stands for needs another parameter"),
                None => format!("the path of the route has no parameter {{{name}}}"),
            };
            let advice = "there are {host}, {path}, {query} and the path's own parameters";
            self.problems.error(to.span, &message, advice);
        }
        Some(Redirect { status, to: to?.0.clone() })
    }

    fn check_placeholders(&self, body: &Spanned<String>) {
        for name in placeholders(&body.value).filter(|name| !PLACEHOLDERS.contains(name)) {
            let message = match &body.written {
                Some(written) => {
                    format!("what \"{written}\" stands for has an unknown placeholder")
                }
                None => format!("there is no placeholder {{{name}}}"),
            };
            let advice = "there are {retry_after}, {limit}, {remaining} and {policy}";
            self.problems.error(body.span, &message, advice);
        }
    }
}

/// The words that stand alone in braces; other braces, as in JSON, are text.
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
