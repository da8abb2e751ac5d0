//! `settle` of a cost: where a response says what its request cost.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::meter::{MeterSpec, UsageApi, Weights};
use tollgate_core::policy::spec::SettleSpec;

use crate::config::field::Field;
use crate::config::node::TextSpan;
use crate::config::scalar::{FieldName, PointerText, Size, Weight};
use crate::config::sections::context::Context;
use crate::config::words::{Word, words};

/// Where a response says what its request cost: exactly one of these fields.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "settle", default)]
#[schemars(deny_unknown_fields)]
pub struct RawSettle {
    /// In this response field.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"x-tokens-used")]
    header: Field<FieldName>,
    /// At this place in its body. The `Content-Type` says whether the body is one JSON document,
    /// server-sent events with JSON, or lines of JSON. The last event or line that has the place
    /// counts.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"/usage/total_tokens")]
    body: Field<PointerText>,
    /// As the tokens that the answer of a language model states, as this API does.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"openai")]
    usage: Field<Word<UsageApi>>,
    /// With `usage`: how much a token of each kind counts.
    #[schemars(extend("x-default" = "each token is one unit"))]
    weights: Field<RawWeights>,
    /// With `usage`: what a request counts whose answer does not state its tokens.
    #[schemars(extend("x-default" = "keep"))]
    #[schemars(example = &"estimate")]
    unsettled: Field<Word<OnUnsettled>>,
    /// With `usage: openai`: whether the gateway asks for the tokens of a streamed chat completion, if
    /// its client does not. It sets `stream_options.include_usage` in the request, and withholds the
    /// event with the tokens from the client.
    #[schemars(extend("x-default" = "false"))]
    #[schemars(example = true)]
    ask_usage: Field<bool>,
    /// At this place in its body, which is a JSON document, whatever its `Content-Type` says.
    #[schemars(extend("x-default" = "none"))]
    json: Field<PointerText>,
    /// At this place in its body, which consists of server-sent events with JSON. The last event
    /// that has the place counts.
    #[schemars(extend("x-default" = "none"))]
    sse_json: Field<PointerText>,
    /// The number of body bytes that cost one unit. A part of this number costs one unit too.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"1KiB")]
    response_bytes: Field<Size>,
}

/// How much a token of each kind counts, as a share of a unit. The sum of a request is rounded up.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "weights", default)]
#[schemars(deny_unknown_fields)]
struct RawWeights {
    /// A token of the input that is in no cache.
    #[schemars(extend("default" = "100%"))]
    #[schemars(example = &"25%")]
    input: Field<Weight>,
    /// A token of the input that was read from a cache.
    #[schemars(extend("default" = "100%"))]
    #[schemars(example = &"10%")]
    cache_read: Field<Weight>,
    /// A token of the input that was written to a cache.
    #[schemars(extend("default" = "100%"))]
    #[schemars(example = &"125%")]
    cache_write: Field<Weight>,
    /// A token of the output.
    #[schemars(extend("default" = "100%"))]
    #[schemars(example = &"400%")]
    output: Field<Weight>,
}

impl RawWeights {
    fn weights(&self) -> Weights {
        let default = Weights::default();
        let of = |field: &Field<Weight>, default| field.value().map_or(default, |it| it.0);
        Weights {
            input: of(&self.input, default.input),
            cache_read: of(&self.cache_read, default.cache_read),
            cache_write: of(&self.cache_write, default.cache_write),
            output: of(&self.output, default.output),
        }
    }
}

words! {
    /// The API whose answers state the tokens.
    UsageApi as "usage" {
        /// Chat completions and responses of OpenAI, and servers that are compatible, such as vLLM.
        "openai" => UsageApi::OpenAi,
        /// Messages of Anthropic.
        "anthropic" => UsageApi::Anthropic,
        /// Gemini.
        "gemini" => UsageApi::Gemini,
        /// `Converse`, `ConverseStream` and `InvokeModel` of Amazon Bedrock.
        "bedrock" => UsageApi::Bedrock,
        /// The own API of Ollama.
        "ollama" => UsageApi::Ollama,
    }
}

/// What a request counts whose answer does not state its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnUnsettled {
    /// What was reserved.
    Keep,
    /// What can be estimated.
    Estimate,
}

words! {
    /// What a request counts whose answer does not state its tokens.
    OnUnsettled as "unsettled" {
        /// What was reserved, or the tokens that the answer has stated so far, if these are more.
        "keep" => OnUnsettled::Keep,
        /// The tokens that the answer has stated so far. If it has stated none: the estimated input,
        /// and its text.
        "estimate" => OnUnsettled::Estimate,
    }
}

impl RawSettle {
    pub fn spec(&self, span: TextSpan, cx: &Context<'_>) -> Option<SettleSpec> {
        let Self { header, body, usage, weights, unsettled, ask_usage, json, sse_json, .. } = self;
        let response_bytes = &self.response_bytes;
        let sources = [
            header.is_absent(),
            body.is_absent(),
            usage.is_absent(),
            json.is_absent(),
            sse_json.is_absent(),
            response_bytes.is_absent(),
        ];
        if sources.iter().filter(|absent| !**absent).count() != 1 {
            let message = "a cost is settled by one of \"header\", \"body\", \"usage\", \"json\", \
                           \"sse_json\" and \"response_bytes\"";
            cx.error(span, message, "write exactly one of them");
            return None;
        }
        for (span, field) in [
            (weights.span(), "weights"),
            (unsettled.span(), "unsettled"),
            (ask_usage.span(), "ask_usage"),
        ] {
            if let Some(span) = span.filter(|_| usage.is_absent()) {
                let message = format!("\"{field}\" belongs to \"usage\"");
                cx.error(span, &message, "leave it out, or write \"usage\" too");
            }
        }
        if let Some(span) = ask_usage.span().filter(|_| self.asks_usage())
            && usage.value().is_some_and(|Word(api)| *api != UsageApi::OpenAi)
        {
            let message = "only chat completions of OpenAI can be asked for their tokens";
            cx.error(span, message, "leave it out: the streams of other APIs state their tokens");
        }
        if let Some(Size(bytes)) = response_bytes.value() {
            return Some(SettleSpec::Bytes(*bytes));
        }
        let header = header.value().map(|name| MeterSpec::Header(name.0.clone()));
        let usage = || {
            let api = usage.value()?.0;
            let weights = weights.value().map(RawWeights::weights).unwrap_or_default();
            Some(MeterSpec::Usage { api, tariff: weights.into() })
        };
        let body = || body.value().map(|pointer| MeterSpec::Body(pointer.0.clone()));
        let json = || json.value().map(|pointer| MeterSpec::Json(pointer.0.clone()));
        let sse_json = || sse_json.value().map(|pointer| MeterSpec::SseJson(pointer.0.clone()));
        let meter = header.or_else(body).or_else(usage).or_else(json).or_else(sse_json);
        match unsettled.word() {
            Some(OnUnsettled::Estimate) => meter.map(SettleSpec::Estimated),
            Some(OnUnsettled::Keep) | None => meter.map(SettleSpec::Meter),
        }
    }

    /// Whether requests are changed so that their answers state their tokens.
    pub fn asks_usage(&self) -> bool {
        self.ask_usage.copied() == Some(true)
    }

    /// Where `unsettled` is written.
    pub fn unsettled_span(&self) -> Option<TextSpan> {
        self.unsettled.span()
    }

    /// Where `response_bytes` is written.
    pub fn response_bytes_span(&self) -> Option<TextSpan> {
        self.response_bytes.span()
    }
}
