//! `refusals` of a route: the form of the responses that the gateway itself makes.

use std::ops::RangeInclusive;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::decision::FieldApi;
use tollgate_core::refusal::{ApiForm, ToolErrors};

use super::read_body::{RawReadBody, of_refusals};
use crate::config::field::{Either, Field};
use crate::config::node::TextSpan;
use crate::config::sections::context::Context;
use crate::config::words::{Word, words};
use crate::message::RefusalSettings;

/// A style, or the section with more fields.
pub type RefusalsForm = Either<Word<Option<ApiForm>>, RawRefusals>;

/// The statuses by which clients know that a request was not served.
const ERRORS: RangeInclusive<u64> = 400..=599;

words! {
    /// The form of the responses that the gateway itself makes.
    Option<ApiForm> as "style of refusals" {
        /// Problem details (RFC 9457), text or a page, as the client accepts.
        "problem" => None,
        /// Errors as of the API of OpenAI and of servers that are compatible with it.
        "openai" => Some(ApiForm::OpenAi),
        /// Errors as of the API of Anthropic.
        "anthropic" => Some(ApiForm::Anthropic),
        /// Errors as of the API of Gemini, and of other APIs of Google.
        "gemini" => Some(ApiForm::Gemini),
        /// Errors of JSON-RPC 2.0, with the identifier of the call.
        "jsonrpc" => Some(ApiForm::JsonRpc),
        /// The same for the Model Context Protocol: a call of a tool gets a result.
        "mcp" => Some(ApiForm::Mcp(ToolErrors::Result)),
    }
}

words! {
    /// How a refused call of a tool is answered.
    ToolErrors as "tool_errors" {
        /// By a result with `isError`, which agents show to the language model.
        "result" => ToolErrors::Result,
        /// By an error of JSON-RPC.
        "error" => ToolErrors::Error,
    }
}

/// The form of the responses that the gateway itself makes on a route.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "refusals", default)]
#[schemars(deny_unknown_fields, extend("required" = ["style"]))]
pub struct RawRefusals {
    /// The form.
    #[schemars(example = &"mcp")]
    style: Field<Word<Option<ApiForm>>>,
    /// The status of refusals by limits, from 400 to 599. With `jsonrpc` and `mcp` it can be 200, too.
    #[schemars(extend("x-default" = "429; 200 with jsonrpc and mcp, if the call has an identifier"))]
    #[schemars(example = 503)]
    status: Field<u64>,
    /// With `openai` and `anthropic`: whether all responses have the fields about limits as the API
    /// has them, such as `x-ratelimit-remaining-tokens`.
    #[schemars(extend("x-default" = "true"))]
    #[schemars(example = false)]
    fields: Field<bool>,
    /// With `mcp`: how a refused call of a tool is answered.
    #[schemars(extend("x-default" = "result"))]
    #[schemars(example = &"error")]
    tool_errors: Field<Word<ToolErrors>>,
}

/// The form of the responses on a route with this `read_body`. None: that of the node.
pub fn of_route(
    raw: &Field<RefusalsForm>,
    read_body: &Field<RawReadBody>,
    cx: &Context<'_>,
) -> Option<Box<RefusalSettings>> {
    let given = raw.given()?;
    let mut settings = match &given.value {
        Either::Short(style) => RefusalSettings { form: style.0, ..RefusalSettings::default() },
        Either::Long(long) => long.settings(given.span, cx)?,
    };
    let with_fields = match &given.value {
        Either::Short(_) => true,
        Either::Long(long) => long.with_fields(settings.form, cx),
    };
    settings.fields = api_of(settings.form).filter(|_| with_fields);
    let needs_message = settings.form.is_some_and(ApiForm::needs_message);
    settings.read_body = needs_message.then(|| of_refusals(read_body));
    (settings.form.is_some() || settings.status.is_some()).then(|| Box::new(settings))
}

/// The API whose fields about limits belong to a form.
const fn api_of(form: Option<ApiForm>) -> Option<FieldApi> {
    match form {
        Some(ApiForm::OpenAi) => Some(FieldApi::OpenAi),
        Some(ApiForm::Anthropic) => Some(FieldApi::Anthropic),
        _ => None,
    }
}

impl RawRefusals {
    fn settings(&self, span: TextSpan, cx: &Context<'_>) -> Option<RefusalSettings> {
        let Self { style, status, tool_errors, .. } = self;
        let advice = "like style: mcp";
        let form = cx.required(style, span, "\"refusals\" has no \"style\"", advice)?.0;
        let form = match form {
            Some(ApiForm::Mcp(default)) => {
                Some(ApiForm::Mcp(tool_errors.value().map_or(default, |word| word.0)))
            }
            other => {
                if let Some(span) = tool_errors.span() {
                    let message = "\"tool_errors\" belongs to the style \"mcp\"";
                    cx.error(span, message, "leave it out, or write style: mcp");
                }
                other
            }
        };
        let status = match status.value() {
            Some(200) if form.is_some_and(ApiForm::needs_message) => Some(StatusCode::OK),
            Some(_) => {
                let code: Option<u16> = cx.number(status, "status", ERRORS);
                code.and_then(|code| StatusCode::from_u16(code).ok())
            }
            None => None,
        };
        Some(RefusalSettings { form, status, ..RefusalSettings::default() })
    }

    fn with_fields(&self, form: Option<ApiForm>, cx: &Context<'_>) -> bool {
        if let Some(span) = self.fields.span().filter(|_| api_of(form).is_none()) {
            let message = "\"fields\" belongs to the styles \"openai\" and \"anthropic\"";
            cx.error(span, message, "leave it out, or write style: openai");
        }
        self.fields.copied().unwrap_or(true)
    }
}
