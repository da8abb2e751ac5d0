//! The tokens that an answer of a language model states.
//!
//! An answer may state a counter several times: in several events, or split over events. APIs
//! repeat counters or state what was counted so far, so the largest value of each counter counts.

use http::{HeaderMap, HeaderName};

use super::field::in_field;
use super::follow::{Collect, Follow};
use super::model::ModelName;
use super::number::Number;
use super::pointer::Pointer;
use super::texts::Texts;
use super::trail::Trail;
use crate::price::Usage;

/// The API whose answers state the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageApi {
    /// Chat completions and responses of OpenAI, and servers that are compatible, such as vLLM.
    OpenAi,
    /// Messages of Anthropic.
    Anthropic,
    /// `generateContent` and `streamGenerateContent` of Gemini.
    Gemini,
    /// `Converse` and `InvokeModel` of Amazon Bedrock.
    Bedrock,
    /// Ollama's own API.
    Ollama,
}

/// How much a token of each kind counts, in percent of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// A token of [`Usage::input`].
    pub input: u32,
    /// A token of [`Usage::cache_read`].
    pub cache_read: u32,
    /// A token of [`Usage::cache_write`].
    pub cache_write: u32,
    /// A token of [`Usage::output`].
    pub output: u32,
}

impl Default for Weights {
    /// Each token is one unit.
    fn default() -> Self {
        Self { input: 100, cache_read: 100, cache_write: 100, output: 100 }
    }
}

impl Weights {
    /// The units of these tokens. The sum is rounded up once.
    pub fn units(&self, usage: &Usage) -> u64 {
        let parts = [
            (self.input, usage.input),
            (self.cache_read, usage.cache_read),
            (self.cache_write, usage.cache_write),
            (self.output, usage.output),
        ];
        // Four products of 32 and 64 bits have less than 99 bits.
        let percent: u128 =
            parts.iter().map(|(weight, tokens)| u128::from(*weight) * u128::from(*tokens)).sum();
        u64::try_from(percent.div_ceil(100)).unwrap_or(u64::MAX)
    }

    /// The units that are reserved for these tokens, of which [`Usage::input`] are all of the
    /// input. Whether a cache has them is not known before the answer, so they count by the dearer
    /// of input and cache write. Tokens reserve one unit at least: a request that reserves nothing
    /// is never refused.
    pub fn estimated_units(&self, usage: &Usage) -> u64 {
        if *usage == Usage::default() {
            return 0;
        }
        let input = self.input.max(self.cache_write);
        Self { input, ..*self }.units(usage).max(1)
    }
}

/// A number that an API states. What it contains differs: see [`Counted::usage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    Input,
    CacheRead,
    CacheWrite,
    Output,
    /// Tokens of the input beside those of `Input`.
    MoreInput,
    /// Tokens of the output beside those of `Output`.
    MoreOutput,
}

const COUNTERS: usize = 6;

impl UsageApi {
    /// Where the counters are. For Gemini these are the places in one chunk of an answer.
    const fn places(self) -> &'static [(&'static str, Counter)] {
        match self {
            Self::OpenAi => &[
                ("/prompt_tokens", Counter::Input),
                ("/input_tokens", Counter::Input),
                ("/prompt_tokens_details/cached_tokens", Counter::CacheRead),
                ("/input_tokens_details/cached_tokens", Counter::CacheRead),
                ("/prompt_tokens_details/cache_write_tokens", Counter::CacheWrite),
                ("/input_tokens_details/cache_write_tokens", Counter::CacheWrite),
                ("/completion_tokens", Counter::Output),
                ("/output_tokens", Counter::Output),
            ],
            Self::Anthropic => &[
                ("/input_tokens", Counter::Input),
                ("/cache_read_input_tokens", Counter::CacheRead),
                ("/cache_creation_input_tokens", Counter::CacheWrite),
                ("/output_tokens", Counter::Output),
            ],
            Self::Gemini => &[
                ("/promptTokenCount", Counter::Input),
                ("/toolUsePromptTokenCount", Counter::MoreInput),
                ("/cachedContentTokenCount", Counter::CacheRead),
                ("/candidatesTokenCount", Counter::Output),
                ("/thoughtsTokenCount", Counter::MoreOutput),
            ],
            Self::Bedrock => &[
                ("/inputTokens", Counter::Input),
                ("/cacheReadInputTokens", Counter::CacheRead),
                ("/cacheWriteInputTokens", Counter::CacheWrite),
                ("/outputTokens", Counter::Output),
            ],
            Self::Ollama => {
                &[("/prompt_eval_count", Counter::Input), ("/eval_count", Counter::Output)]
            }
        }
    }

    /// The objects that contain the counters.
    const fn objects(self) -> &'static [&'static str] {
        match self {
            // Events of the Responses API contain the response.
            Self::OpenAi => &["/usage", "/response/usage"],
            // The first event of a stream contains the message.
            Self::Anthropic => &["/usage", "/message/usage"],
            Self::Gemini => &["/usageMetadata"],
            Self::Bedrock => &["/usage"],
            Self::Ollama => &[""],
        }
    }

    /// Where an answer states its model. Bedrock states none.
    const fn models(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi => &["/model", "/response/model"],
            Self::Anthropic => &["/model", "/message/model"],
            Self::Gemini => &["/modelVersion"],
            Self::Bedrock => &[],
            Self::Ollama => &["/model"],
        }
    }

    /// Response fields with counters.
    const fn fields(self) -> &'static [(&'static str, Counter)] {
        match self {
            Self::Bedrock => &[
                ("x-amzn-bedrock-input-token-count", Counter::Input),
                ("x-amzn-bedrock-output-token-count", Counter::Output),
            ],
            _ => &[],
        }
    }

    /// Whether [`Counter::Input`] contains what is read from caches and written to them.
    const fn input_has_cache(self) -> bool {
        matches!(self, Self::OpenAi | Self::Gemini)
    }

    fn pointers(self) -> impl Iterator<Item = (Pointer, Counter)> {
        self.objects().iter().flat_map(move |object| {
            self.places().iter().flat_map(move |(place, counter)| {
                let pointers = self.with_elements([format!("{object}{place}")]);
                pointers.map(move |pointer| (pointer, *counter))
            })
        })
    }

    /// These places. Without `alt=sse` a stream of Gemini is an array, and they are also in each of
    /// its elements.
    pub(super) fn with_elements(
        self,
        places: impl IntoIterator<Item = String>,
    ) -> impl Iterator<Item = Pointer> {
        let is_array = self == Self::Gemini;
        places.into_iter().flat_map(move |place| {
            let pointer: Pointer = place.parse().expect("the tables have pointers only");
            let each = is_array.then(|| pointer.in_each_element());
            std::iter::once(pointer).chain(each)
        })
    }
}

/// The counters of an answer, as far as it has been read. They count also if a document is invalid
/// or breaks off: what was stated was spent.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    api: UsageApi,
    /// The position in the current document, for each place of a counter.
    places: Box<[(Trail, Counter)]>,
    /// The largest values so far.
    largest: [Option<u64>; COUNTERS],
    /// The text that the answer has. None: it is not counted.
    texts: Option<Texts>,
    /// The name of the model, if it matters.
    model: Option<Box<ModelName>>,
}

impl Counted {
    /// Before the body of a response with these fields, whose text is counted if `counts_text`, and
    /// whose model matters if `reads_model`.
    pub(super) fn new(
        api: UsageApi,
        headers: &HeaderMap,
        counts_text: bool,
        reads_model: bool,
    ) -> Self {
        let places = api.pointers().map(|(pointer, counter)| (Trail::new(pointer), counter));
        let texts = counts_text.then(Texts::default);
        let model = reads_model.then(|| {
            let places = api.models().iter().map(|place| (*place).to_owned());
            Box::new(ModelName::new(api.with_elements(places)))
        });
        let places = places.collect();
        let largest = [None; COUNTERS];
        let mut counted = Self { api, places, largest, texts, model };
        for (name, counter) in api.fields() {
            counted.count(*counter, in_field(headers, &HeaderName::from_static(name)));
        }
        counted
    }

    fn count(&mut self, counter: Counter, value: Option<u64>) {
        let largest = &mut self.largest[counter as usize];
        // None is less than any value.
        *largest = (*largest).max(value);
    }

    /// The bytes of text in the answer, if they are counted.
    pub(super) fn text_bytes(&self) -> u64 {
        self.texts.as_ref().map_or(0, Texts::bytes)
    }

    fn reads_key(&self) -> bool {
        self.places.iter().any(|(trail, _)| trail.reads_key())
    }

    fn tell(&mut self, tell: impl FnOnce(&mut Texts)) {
        if let Some(texts) = &mut self.texts {
            tell(texts);
        }
    }

    /// The tokens, if the answer states any.
    pub(super) fn usage(&self) -> Option<Usage> {
        if self.largest.iter().all(Option::is_none) {
            return None;
        }
        let of = |counter: Counter| self.largest[counter as usize].unwrap_or(0);
        let cache_read = of(Counter::CacheRead);
        let cache_write = of(Counter::CacheWrite);
        let stated = of(Counter::Input).saturating_add(of(Counter::MoreInput));
        let input = match self.api.input_has_cache() {
            true => stated.saturating_sub(cache_read.saturating_add(cache_write)),
            false => stated,
        };
        let output = of(Counter::Output).saturating_add(of(Counter::MoreOutput));
        Some(Usage { input, cache_read, cache_write, output })
    }

    /// The model that the answer states, if it was read.
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_ref()?.name()
    }

    fn each(&mut self, follow: impl Fn(&mut Trail)) {
        self.places.iter_mut().for_each(|(trail, _)| follow(trail));
        if let Some(model) = &mut self.model {
            model.each(follow);
        }
    }
}

impl Collect for Counted {
    fn complete(&mut self, _: bool) {
        self.places.iter_mut().for_each(|(trail, _)| trail.restart());
        if let Some(model) = &mut self.model {
            model.restart();
        }
    }
}

impl Follow for Counted {
    fn wants_text(&self) -> bool {
        self.reads_key()
            || self.texts.as_ref().is_some_and(Texts::is_open)
            || self.model.as_ref().is_some_and(|model| model.wants_text())
    }

    fn byte(&mut self, byte: u8) {
        self.plain(&[byte]);
    }

    fn plain(&mut self, run: &[u8]) {
        if self.reads_key() {
            let places = &mut self.places;
            run.iter().for_each(|byte| {
                places.iter_mut().for_each(|(trail, _)| trail.key_byte(*byte));
            });
        }
        if let Some(model) = &mut self.model {
            run.iter().for_each(|byte| model.byte(*byte));
        }
        self.tell(|texts| texts.read(run));
    }

    fn lone_half(&mut self) {
        self.each(Trail::lone_half);
    }

    fn open_object(&mut self) {
        self.each(Trail::open_object);
    }

    fn open_array(&mut self) {
        self.each(Trail::open_array);
    }

    fn close(&mut self) {
        self.each(Trail::close);
    }

    fn next_element(&mut self) {
        self.each(Trail::next_element);
    }

    fn begin_key(&mut self) {
        self.each(Trail::begin_key);
        self.tell(Texts::begin_key);
    }

    fn end_key(&mut self) {
        self.each(Trail::end_key);
        self.tell(Texts::end_key);
    }

    fn begin_value(&mut self) {
        self.tell(Texts::begin_value);
    }

    fn begin_text(&mut self) {
        if let Some(model) = &mut self.model {
            model.begin_text();
        }
        self.tell(Texts::begin_text);
    }

    fn end_text(&mut self) {
        if let Some(model) = &mut self.model {
            model.end_text();
        }
        self.tell(Texts::end_text);
    }

    fn number(&mut self, number: &Number) {
        for index in 0..self.places.len() {
            let (trail, counter) = &self.places[index];
            if trail.is_at_end() {
                self.count(*counter, number.rounded_up());
            }
        }
    }

    fn truth(&mut self, _: bool) {}
}

#[cfg(test)]
mod tests;
