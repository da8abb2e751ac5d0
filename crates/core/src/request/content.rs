//! The values in the content of a request that policies use.

use std::fmt;

/// What is known of the content of a request.
#[derive(Clone, Copy, Debug, Default)]
pub enum Content<'a> {
    /// It has no values, because the description of the request does not have it.
    #[default]
    Unknown,
    /// There is no content.
    Empty,
    /// It has not been read yet, and can be read.
    Unread,
    /// These are its values.
    Read(&'a ContentValues),
}

/// A value in the content of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ContentWord {
    /// `json:POINTER`: the value at this JSON Pointer.
    Json(Box<str>),
    /// `form:NAME`: the parameter of a form, decoded.
    Form(Box<str>),
    /// `mcp:method`: the method of a message of the Model Context Protocol.
    McpMethod,
    /// `mcp:tool`: the name of the tool, in a call of a tool.
    McpTool,
    /// The number of calls in a message of JSON-RPC or in a batch. It is a cost, and not a key.
    Calls,
    /// Whether a chat asks for the tokens of its answer. It has no value, and is not a key. It is a
    /// fault if programs read different members.
    AskUsage,
}

/// Why a value cannot be used: backends may read another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentFault {
    /// Its syntax.
    #[error("is not valid JSON")]
    Invalid,
    /// Half of a surrogate pair.
    #[error("has half of a surrogate pair")]
    Surrogate,
    /// A member of a document occurs twice.
    #[error("has a member twice by which a limit counts")]
    Twice,
    /// The names of two members differ only in case.
    #[error("has a member whose name differs only in case from one by which a limit counts")]
    Case,
    /// A number that is an integer for programs that read numbers as floats.
    #[error("has a number by which a limit counts and which programs round to an integer")]
    Fraction,
    /// A parameter of a form.
    #[error("has a parameter by which a limit counts in a form that programs read differently")]
    Parameter,
    /// The compressed form.
    #[error("cannot be decompressed")]
    Compression,
    /// `Content-Type` has several lines, or names another character set than UTF-8.
    #[error("has a Content-Type that programs read differently")]
    Type,
    /// Several messages at once.
    #[error("is a batch of messages, of which a limit counts each one")]
    Batch,
    /// The fields of the Model Context Protocol.
    #[error("differs from the fields Mcp-Method and Mcp-Name of the request")]
    McpField,
}

/// The value of a word: absent, or of no use.
pub type ContentValue = Result<Option<Box<[u8]>>, ContentFault>;

/// How much input for a language model a content is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentSize {
    /// All of its bytes, without its content coding.
    pub bytes: u64,
    /// Its strings that are files, such as images.
    pub files: u64,
    /// The bytes of these strings.
    pub file_bytes: u64,
    /// Whether it names input that the backend has stored before.
    pub names_stored_input: bool,
}

/// The values in the content of a request, one for each word that was searched for.
#[derive(Clone, Debug, Default)]
pub struct ContentValues {
    values: Vec<(ContentWord, ContentValue)>,
    size: Option<ContentSize>,
}

impl ContentValues {
    /// These values.
    pub const fn new(values: Vec<(ContentWord, ContentValue)>) -> Self {
        Self { values, size: None }
    }

    /// The same values of a content that has this size.
    #[must_use]
    pub fn with_size(self, size: Option<ContentSize>) -> Self {
        Self { size, ..self }
    }

    /// Its size, if it was measured.
    pub const fn size(&self) -> Option<ContentSize> {
        self.size
    }

    /// The value of a word. A word that was not searched for is absent.
    ///
    /// # Errors
    /// If backends may read another value.
    pub fn get(&self, word: &ContentWord) -> Result<Option<&[u8]>, ContentFault> {
        let found = self.values.iter().find(|(own, _)| own == word);
        match found {
            Some((_, Ok(value))) => Ok(value.as_deref()),
            Some((_, Err(fault))) => Err(*fault),
            None => Ok(None),
        }
    }
}

impl ContentWord {
    /// Whether it is a part of a message of the Model Context Protocol.
    pub const fn is_mcp(&self) -> bool {
        matches!(self, Self::McpMethod | Self::McpTool)
    }

    /// Whether it is a value at a JSON Pointer.
    pub const fn is_json(&self) -> bool {
        matches!(self, Self::Json(_))
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Json(name) | Self::Form(name) => Some(name),
            Self::McpMethod | Self::McpTool | Self::Calls | Self::AskUsage => None,
        }
    }
}

/// As the configuration writes it.
impl fmt::Display for ContentWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(pointer) => write!(f, "json:{pointer}"),
            Self::Form(name) => write!(f, "form:{name}"),
            Self::McpMethod => f.write_str("mcp:method"),
            Self::McpTool => f.write_str("mcp:tool"),
            Self::Calls => f.write_str("messages"),
            Self::AskUsage => f.write_str("ask_usage"),
        }
    }
}
