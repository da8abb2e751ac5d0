//! Which responses are compressed, and how.

/// Which responses of a route are compressed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressSettings {
    /// The encodings that the gateway prefers, the best one first.
    pub encodings: Vec<Encoding>,
    /// The least length of a response, in bytes. A response without a length may be compressed.
    pub min_size: u64,
    /// The media types.
    pub types: Vec<MediaRange>,
}

/// An encoding of a body (RFC 9110, section 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Encoding {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// A media type, or all types of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaRange {
    /// The part before the slash, in lower case.
    pub kind: Box<str>,
    /// The part behind it, in lower case. None: all of them.
    pub subtype: Option<Box<str>>,
}
