//! The values that policies read in the bodies of requests.
//!
//! Only a body with the content type of a value is read. All backends must find the same value in
//! it, so a body of which some backends read another value has none, see [`ContentFault`].

mod other_calls;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName};

use self::other_calls::OtherCalls;
use super::fields::{Lack, header};
use super::{KeyExpr, Policy, Reservation, pairs};
use crate::meter::{
    AskScanner, DocumentFault, DocumentValues, MAX_VALUE_BYTES, MessageScanner, Messages,
    Replacement, RpcMessage, SoughtPointers, ValueScanner,
};
use crate::request::{ContentFault, ContentSize, ContentValue, ContentValues, ContentWord, Fields};

/// The most JSON Pointers for which one body is searched. `mcp:` needs two of them.
pub const MAX_POINTERS: usize = 16;

/// The method of a message (JSON-RPC 2.0, section 4).
const METHOD: &str = "/method";
/// The name of a tool (Model Context Protocol, "Tools").
const TOOL: &str = "/params/name";
/// The only method of which a tool is a part.
const CALL: &str = "tools/call";
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The words for which the bodies of a route's requests are searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyWords {
    words: Vec<ContentWord>,
    /// The places in a document, without repetition.
    pointers: SoughtPointers,
    /// The same as they are written.
    written: Vec<Box<str>>,
    /// Whether the size of the body is measured.
    measures: bool,
    /// The pointers whose value names input that the backend has stored.
    stored: Vec<Box<str>>,
    /// Whether the body is read as a message of JSON-RPC, too.
    reads_message: bool,
}

/// What was read in the body of a request.
#[derive(Clone, Debug, Default)]
pub struct BodyContent {
    /// The values of the words.
    pub values: ContentValues,
    /// The message of JSON-RPC, if it is searched for and was found.
    pub message: Option<RpcMessage>,
    /// What must be written into the body, without its content coding, so that the answer states
    /// its tokens. None: a policy does not want that, or nothing must be written.
    pub ask_usage: Option<Replacement>,
}

impl From<ContentValues> for BodyContent {
    fn from(values: ContentValues) -> Self {
        Self { values, ..Self::default() }
    }
}

/// The reading of one body.
#[derive(Clone, Debug)]
pub struct BodyReading<'w> {
    words: &'w BodyWords,
    form: Form<'w>,
    calls: Option<Box<OtherCalls>>,
    bytes: u64,
}

#[derive(Clone, Debug)]
enum Form<'w> {
    Json(Box<Json<'w>>),
    /// The whole form: a parameter is searched for in all of it.
    Parameters(Vec<u8>),
    /// Only calls are searched for.
    Other,
}

#[derive(Clone, Debug)]
struct Json<'w> {
    values: ValueScanner<'w>,
    messages: Option<MessageScanner>,
    ask: Option<AskScanner>,
}

/// What was found in a document besides its values.
#[derive(Clone, Debug, Default)]
struct Beside {
    messages: Option<Result<Messages, DocumentFault>>,
    ask: Option<Result<Option<Replacement>, DocumentFault>>,
}

/// What a content type says of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Parameters,
    /// A call of gRPC, which is a stream of messages in frames.
    Grpc,
    Other,
}

impl BodyWords {
    /// The words in these keys. None: they need no body.
    pub fn of<'k>(keys: impl IntoIterator<Item = &'k KeyExpr>) -> Option<Self> {
        Self::new(keys.into_iter().flat_map(KeyExpr::body_words), Vec::new(), false)
    }

    /// The words in the keys and the costs of these policies. None: they need no body.
    pub fn of_policies<'p>(policies: impl Iterator<Item = &'p Policy> + Clone) -> Option<Self> {
        let reservations = policies.clone().filter_map(|policy| policy.cost.reservation());
        let stored = reservations.clone().flat_map(Reservation::stored).map(Box::from);
        let words = policies.flat_map(Policy::body_words);
        Self::new(words, stored.collect(), reservations.count() > 0)
    }

    fn new<'k>(
        all: impl Iterator<Item = &'k ContentWord>,
        stored: Vec<Box<str>>,
        measures: bool,
    ) -> Option<Self> {
        let mut words: Vec<ContentWord> = Vec::new();
        for word in all {
            if !words.contains(word) {
                words.push(word.clone());
            }
        }
        let mut written: Vec<Box<str>> = Vec::new();
        let mut search = |pointer: &str| {
            if !written.iter().any(|own| **own == *pointer) {
                written.push(pointer.into());
            }
        };
        for word in &words {
            match word {
                ContentWord::Json(pointer) => search(pointer),
                ContentWord::McpMethod | ContentWord::McpTool => {
                    [METHOD, TOOL].into_iter().for_each(&mut search)
                }
                ContentWord::Form(_) | ContentWord::Calls | ContentWord::AskUsage => {}
            }
        }
        stored.iter().for_each(|pointer| search(pointer));
        // The words were parsed before.
        let pointers = written.iter().filter_map(|text| text.parse().ok()).collect();
        let is_needed = measures || !words.is_empty();
        let reads_message = false;
        is_needed.then_some(Self { words, pointers, written, measures, stored, reads_message })
    }

    /// No words: the body is read as a message of JSON-RPC only.
    pub fn of_message() -> Self {
        Self {
            words: Vec::new(),
            pointers: SoughtPointers::default(),
            written: Vec::new(),
            measures: false,
            stored: Vec::new(),
            reads_message: true,
        }
    }

    /// The same words, in a body that is read as a message of JSON-RPC, too.
    #[must_use]
    pub fn with_message(self) -> Self {
        Self { reads_message: true, ..self }
    }

    /// The same words. The body is read as a message of JSON-RPC if it is so for `other`.
    #[must_use]
    pub fn as_message_of(self, other: &Self) -> Self {
        Self { reads_message: other.reads_message, ..self }
    }

    /// The number of JSON Pointers for which a body is searched.
    pub fn pointers(&self) -> usize {
        self.pointers.len()
    }

    /// Begins to read the body of a request with these fields.
    ///
    /// # Errors
    /// The values, if they are known without the body: it has another content type.
    pub fn begin(&self, headers: &HeaderMap) -> Result<BodyReading<'_>, ContentValues> {
        let kind = match kind_of(headers) {
            Ok(kind) => kind,
            Err(fault) => return Err(self.all(Err(fault))),
        };
        let is_form = |word: &ContentWord| matches!(word, ContentWord::Form(_));
        let form = match kind {
            Kind::Json if self.reads_documents() => {
                let values = match self.measures {
                    true => ValueScanner::with_files(&self.pointers),
                    false => ValueScanner::new(&self.pointers),
                };
                let messages = self.reads_messages().then(MessageScanner::default);
                let ask = self.asks_usage().then(AskScanner::default);
                Form::Json(Box::new(Json { values, messages, ask }))
            }
            Kind::Parameters if self.words.iter().any(is_form) => Form::Parameters(Vec::new()),
            Kind::Parameters | Kind::Other if self.counts_calls() => Form::Other,
            _ => return Err(self.all(Ok(None))),
        };
        let searches = kind != Kind::Json && self.counts_calls();
        Ok(BodyReading { words: self, form, calls: searches.then(Box::default), bytes: 0 })
    }

    /// What the words have in an empty body: nothing.
    pub fn in_nothing(&self) -> ContentValues {
        self.all(Ok(None)).with_size(self.measures.then(ContentSize::default))
    }

    /// Whether documents are read.
    fn reads_documents(&self) -> bool {
        self.measures || self.reads_messages() || self.asks_usage() || !self.pointers.is_empty()
    }

    /// Whether an answer must state its tokens.
    fn asks_usage(&self) -> bool {
        self.words.contains(&ContentWord::AskUsage)
    }

    /// Whether the calls in the body are counted.
    fn counts_calls(&self) -> bool {
        self.words.contains(&ContentWord::Calls)
    }

    /// Whether the body is read as messages of JSON-RPC.
    fn reads_messages(&self) -> bool {
        self.reads_message || self.counts_calls()
    }

    /// The same value for all words: none, or one that cannot be used.
    pub fn all(&self, value: ContentValue) -> ContentValues {
        self.each(|_| value.clone())
    }

    /// What the words have in a document.
    fn in_document(
        &self,
        found: &DocumentValues,
        beside: &Beside,
        headers: &HeaderMap,
    ) -> ContentValues {
        let at = |pointer: &str| {
            let index = self.written.iter().position(|own| **own == *pointer)?;
            found.values[index].as_deref()
        };
        let method = at(METHOD);
        let tool = at(TOOL).filter(|_| method == Some(CALL));
        let of_mcp = |value: Option<&str>| match () {
            () if found.is_array => Err(ContentFault::Batch),
            () if is_contradicted(headers, method, tool) => Err(ContentFault::McpField),
            () => Ok(bytes(value)),
        };
        let value = |word: &ContentWord| match word {
            ContentWord::Json(pointer) => Ok(bytes(at(pointer))),
            ContentWord::McpMethod => of_mcp(method),
            ContentWord::McpTool => of_mcp(tool),
            ContentWord::AskUsage => match &beside.ask {
                Some(Err(fault)) => Err((*fault).into()),
                Some(Ok(_)) | None => Ok(None),
            },
            ContentWord::Calls => beside.calls(),
            ContentWord::Form(_) => Ok(None),
        };
        self.each(value)
    }

    /// The value of each word.
    fn each(&self, value: impl Fn(&ContentWord) -> ContentValue) -> ContentValues {
        let values = self.words.iter().map(|word| (word.clone(), value(word)));
        ContentValues::new(values.collect())
    }

    fn is_stored_named(&self, found: &DocumentValues) -> bool {
        let mut set = self.written.iter().zip(&found.is_set);
        set.any(|(pointer, is_set)| *is_set && self.stored.contains(pointer))
    }

    /// What the words have in a form.
    fn in_form(&self, form: &[u8], beside: &Beside) -> ContentValues {
        let value = |word: &ContentWord| match word {
            ContentWord::Form(name) => match pairs::form(form, name) {
                Ok(value) if value.len() <= MAX_VALUE_BYTES => Ok(Some((*value).into())),
                Ok(_) | Err(Lack::Absent) => Ok(None),
                Err(_) => Err(ContentFault::Parameter),
            },
            ContentWord::Calls => beside.calls(),
            _ => Ok(None),
        };
        self.each(value)
    }
}

impl Beside {
    /// The number of calls. None: the body was not searched for them, or it has another content type
    /// and is no JSON.
    fn calls(&self) -> ContentValue {
        match &self.messages {
            Some(Ok(found)) => Ok(Some(found.calls.to_string().into_bytes().into())),
            Some(Err(fault)) => Err((*fault).into()),
            None => Ok(None),
        }
    }
}

impl BodyReading<'_> {
    /// Whether [`read`](Self::read) keeps what it reads.
    pub const fn keeps_bytes(&self) -> bool {
        matches!(self.form, Form::Parameters(_))
    }

    /// Reads the next bytes of the body, without its content coding. They may end anywhere.
    pub fn read(&mut self, chunk: &[u8]) {
        let bytes = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
        match &mut self.form {
            Form::Json(json) => {
                json.values.read(chunk);
                if let Some(messages) = &mut json.messages {
                    messages.read(chunk);
                }
                if let Some(ask) = &mut json.ask {
                    ask.read(chunk);
                }
            }
            Form::Parameters(form) => form.extend_from_slice(chunk),
            Form::Other => {}
        }
        if let Some(calls) = &mut self.calls {
            calls.read(chunk);
        }
    }

    /// The values, after the body has ended. The request has these fields.
    pub fn end(self, headers: &HeaderMap) -> ContentValues {
        self.end_all(headers).values
    }

    /// The values and all else, after the body has ended. The request has these fields.
    pub fn end_all(self, headers: &HeaderMap) -> BodyContent {
        let Self { words, form, calls, bytes } = self;
        let mut size = ContentSize { bytes, ..ContentSize::default() };
        let mut beside = Beside { messages: calls.and_then(|calls| calls.end()), ask: None };
        let values = match form {
            Form::Json(json) => {
                beside.messages = json.messages.map(MessageScanner::end);
                beside.ask = json.ask.map(AskScanner::end);
                match json.values.end() {
                    Ok(found) => {
                        size.files = found.files.count;
                        size.file_bytes = found.files.bytes;
                        size.names_stored_input = words.is_stored_named(&found);
                        words.in_document(&found, &beside, headers)
                    }
                    Err(fault) => {
                        beside = Beside::default();
                        words.all(Err(fault.into()))
                    }
                }
            }
            Form::Parameters(form) => words.in_form(&form, &beside),
            Form::Other => words.in_form(&[], &beside),
        };
        let values = values.with_size(words.measures.then_some(size));
        let message = beside.messages.and_then(|found| found.ok()?.message);
        let ask_usage = beside.ask.and_then(|found| found.ok()?);
        BodyContent { values, message, ask_usage }
    }
}

fn bytes(value: Option<&str>) -> Option<Box<[u8]>> {
    value.map(|value| value.as_bytes().into())
}

/// Whether a field that repeats a part of a message has another value (SEP-2243).
fn is_contradicted(headers: &HeaderMap, method: Option<&str>, tool: Option<&str>) -> bool {
    let has_other = |name: HeaderName, value: Option<&str>| {
        let value = value.map(str::as_bytes);
        let is_same = |line: &[u8]| {
            Some(line) == value || value.is_some_and(|value| line == encoded(value).as_bytes())
        };
        headers.get_all(name).iter().any(|line| !is_same(line.as_bytes()))
    };
    // Other methods repeat other parts in `Mcp-Name`.
    has_other(MCP_METHOD, method) || method == Some(CALL) && has_other(MCP_NAME, tool)
}

/// The form of a value that is no text of a field: in Base64 (RFC 4648, section 4).
fn encoded(value: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("=?base64?");
    for chunk in value.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4_u32 {
            let digit = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap_or_default();
            let is_padding = usize::try_from(at).is_ok_and(|at| at > chunk.len());
            text.push(if is_padding { '=' } else { char::from(DIGITS[digit]) });
        }
    }
    text + "?="
}

/// What `Content-Type` says of the body. JSON needs none.
fn kind_of(headers: &HeaderMap) -> Result<Kind, ContentFault> {
    let written = match header(Fields::of(headers), &CONTENT_TYPE) {
        // So most clients write it.
        Ok(b"application/json") => return Ok(Kind::Json),
        Ok(written) => String::from_utf8_lossy(written).to_ascii_lowercase(),
        Err(Lack::Absent) => return Ok(Kind::Json),
        Err(_) => return Err(ContentFault::Type),
    };
    let mut parts = written.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let kind = match essence {
        // Other types that begin so, such as that of gRPC-Web, are not those of its calls.
        "application/grpc" => return Ok(Kind::Grpc),
        _ if essence.starts_with("application/grpc+") => return Ok(Kind::Grpc),
        "application/json" => Kind::Json,
        "application/x-www-form-urlencoded" => Kind::Parameters,
        _ if essence.ends_with("+json") => Kind::Json,
        // A list of types has no meaning.
        _ if essence.contains(',') => return Err(ContentFault::Type),
        _ => return Ok(Kind::Other),
    };
    // A backend that decodes another character set finds other characters.
    let charset = |part: &str| {
        let (name, value) = part.split_once('=')?;
        (name.trim() == "charset").then(|| value.trim().trim_matches('"').to_owned())
    };
    let is_plain = |name: String| matches!(&*name, "utf-8" | "utf8" | "us-ascii" | "ascii");
    if parts.filter_map(charset).all(is_plain) { Ok(kind) } else { Err(ContentFault::Type) }
}

impl From<DocumentFault> for ContentFault {
    fn from(fault: DocumentFault) -> Self {
        match fault {
            DocumentFault::Invalid => Self::Invalid,
            DocumentFault::Surrogate => Self::Surrogate,
            DocumentFault::Twice => Self::Twice,
            DocumentFault::Case => Self::Case,
            DocumentFault::Fraction => Self::Fraction,
        }
    }
}

#[cfg(test)]
mod tests;
