//! Answers that the configuration writes itself.

use bytes::Bytes;
use http::StatusCode;

use super::Compiler;
use crate::config::defaults::CONTENT_TYPE;
use crate::config::field::Spanned;
use crate::config::raw::{RawRespond, RawResponse};
use crate::message::Template;
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
