//! How many tokens a request to a language model may use, by what its body states. Units for these
//! tokens are reserved until the answer states the true ones.
//!
//! The estimate needs no tokenizer. The input counts by its bytes, and the output by the most that
//! the request allows. What the estimate does not see, such as images behind URLs, is settled by
//! the answer.

use std::num::NonZeroU64;

use super::KeyExpr;
use super::model_path::ModelPath;
use super::whole_number::whole_number;
use crate::meter::{Expected, Usage, UsageApi};
use crate::price::PriceEntry;
use crate::request::{ContentFault, ContentSize, ContentValues, ContentWord};

/// How tokens are estimated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveSettings {
    /// Tokens of the output, if the request states no maximum.
    pub output: u64,
    /// The most tokens of the output that are reserved for each choice.
    pub max_output: Option<u64>,
    /// Bytes of the body for each token of the input.
    pub bytes_per_token: NonZeroU64,
    /// Tokens of each string that is a file, instead of its bytes.
    pub image: u64,
    /// More tokens of the input, if the request names input that the backend has stored.
    pub stored_input: u64,
    /// Where the request names the model. None: where its API does.
    pub model: Option<KeyExpr>,
    /// Whether a request whose answer does not tell the cost counts what can be estimated of it,
    /// and not what was reserved.
    pub estimates_unsettled: bool,
}

impl Default for ReserveSettings {
    fn default() -> Self {
        Self {
            output: 4096,
            max_output: None,
            bytes_per_token: NonZeroU64::MIN.saturating_add(2),
            image: 1500,
            stored_input: 8192,
            model: None,
            estimates_unsettled: false,
        }
    }
}

/// The estimate of tokens in requests of one API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    settings: ReserveSettings,
    api: UsageApi,
    /// Where a request states the most tokens of an answer. The largest value counts.
    maxima: Vec<ContentWord>,
    /// Where it states how many answers it wants.
    choices: Option<ContentWord>,
    /// Where it names the model, if that is in the path.
    model: Option<KeyExpr>,
}

/// What a request is expected to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// The tokens. All of the input is [`Usage::input`], because it is not known what caches have.
    /// Without a body there are none. None: the size of the body is not known.
    pub usage: Option<Usage>,
    /// The model that the request names.
    pub model: Option<Box<str>>,
    /// The price of this model, if units are money and it has one.
    pub entry: Option<PriceEntry>,
}

impl Estimate {
    /// Whether the request uses no tokens: it has no body.
    pub(crate) fn is_empty(&self) -> bool {
        self.usage == Some(Usage::default())
    }

    /// Whether the request uses tokens that have no price.
    pub(crate) fn is_unpriced(&self) -> bool {
        self.entry.is_none() && !self.is_empty()
    }
}

impl Reservation {
    /// Estimates by these settings what requests of an API use.
    pub fn new(api: UsageApi, settings: ReserveSettings) -> Self {
        let word = |pointer: &&str| ContentWord::Json((*pointer).into());
        let (maxima, choices): (&[&str], Option<&str>) = match api {
            UsageApi::OpenAi => {
                (&["/max_tokens", "/max_completion_tokens", "/max_output_tokens"], Some("/n"))
            }
            UsageApi::Anthropic => (&["/max_tokens"], None),
            UsageApi::Gemini => {
                (&["/generationConfig/maxOutputTokens"], Some("/generationConfig/candidateCount"))
            }
            UsageApi::Bedrock => (&["/inferenceConfig/maxTokens", "/max_tokens"], None),
            UsageApi::Ollama => (&["/options/num_predict"], None),
        };
        let in_body = !matches!(api, UsageApi::Gemini | UsageApi::Bedrock);
        let usual = in_body.then(|| KeyExpr::Body(ContentWord::Json("/model".into())));
        Self {
            api,
            maxima: maxima.iter().map(word).collect(),
            choices: choices.as_ref().map(word),
            model: settings.model.clone().or(usual),
            settings,
        }
    }

    /// The key that is the model; none if the path names it.
    pub const fn model(&self) -> Option<&KeyExpr> {
        self.model.as_ref()
    }

    /// The settings.
    pub const fn settings(&self) -> &ReserveSettings {
        &self.settings
    }

    /// What counts for a request with this estimate, if its answer does not tell the cost. None:
    /// what was reserved.
    pub fn expected(&self, estimate: &Estimate) -> Option<Expected> {
        let usage = estimate.usage.filter(|_| self.settings.estimates_unsettled)?;
        Some(Expected { input: usage.input, bytes_per_token: self.settings.bytes_per_token })
    }

    /// What it reads in a body.
    pub(super) fn words(&self) -> impl Iterator<Item = &ContentWord> {
        let model = self.model.iter().flat_map(KeyExpr::body_words);
        self.maxima.iter().chain(&self.choices).chain(model)
    }

    /// The places where a body names input that the backend has stored.
    pub(super) fn stored(&self) -> impl Iterator<Item = &'static str> + use<> {
        let stored: &[&str] = match self.api {
            UsageApi::OpenAi => &["/previous_response_id", "/conversation"],
            UsageApi::Gemini => &["/cachedContent"],
            UsageApi::Anthropic | UsageApi::Bedrock | UsageApi::Ollama => &[],
        };
        stored.iter().copied()
    }

    /// The tokens of a request for this path, whose body has this size and these values.
    pub(super) fn usage(
        &self,
        path: &ModelPath<'_>,
        size: &ContentSize,
        values: Option<&ContentValues>,
    ) -> Result<Usage, ContentFault> {
        let number = |word: &ContentWord| -> Result<Option<u64>, ContentFault> {
            let value = values.map_or(Ok(None), |values| values.get(word))?;
            Ok(value.and_then(whole_number))
        };
        let ReserveSettings { output, max_output, bytes_per_token, image, stored_input, .. } =
            &self.settings;
        let mut stated = None;
        let mut choices = 1;
        for word in &self.maxima {
            stated = number(word)?.max(stated);
        }
        if let Some(word) = &self.choices {
            choices = number(word)?.unwrap_or(1).max(1);
        }
        if size.bytes == 0 {
            return Ok(Usage::default());
        }
        let text = size.bytes.saturating_sub(size.file_bytes).div_ceil(bytes_per_token.get());
        let stored = if size.names_stored_input { *stored_input } else { 0 };
        let files = size.files.saturating_mul(*image);
        let input = text.saturating_add(files).saturating_add(stored);
        let each = stated.unwrap_or(*output).min(max_output.unwrap_or(u64::MAX));
        let output = if path.has_output() { each.saturating_mul(choices) } else { 0 };
        Ok(Usage { input, output, ..Usage::default() })
    }

    /// The model in a path, for APIs that name it there.
    pub(super) fn model_in_path<'p>(&self, path: &'p ModelPath<'_>) -> Option<&'p str> {
        match self.api {
            UsageApi::Gemini => path.gemini(),
            UsageApi::Bedrock => path.bedrock(),
            UsageApi::OpenAi | UsageApi::Anthropic | UsageApi::Ollama => None,
        }
    }
}
