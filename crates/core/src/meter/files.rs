//! The strings of a document that are files in Base64 (RFC 4648), such as images.
//!
//! A model does not read the bytes of such a string as text. A string is a file if it has more
//! than [`MAX_TEXT_BYTES`] and consists of digits of Base64 in either alphabet, with line ends and
//! padding, or is a `data:` URL (RFC 2397) of this form. No part of it is kept.

/// A string of at most this many bytes is a text.
const MAX_TEXT_BYTES: u64 = 8 * 1024;
/// The most bytes of a `data:` URL before its data.
const MAX_PREFIX_BYTES: u64 = 256;
/// What the prefix of a `data:` URL begins with.
const SCHEME: &[u8] = b"data:";
/// What it ends with.
const MARK: &[u8] = b";base64,";

/// The strings of a document that are files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStrings {
    /// How many there are.
    pub count: u64,
    /// Their bytes, as the document writes them.
    pub bytes: u64,
}

/// The files in a document, as far as it has been read.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    found: FileStrings,
    part: Part,
    /// The bytes of the current string, as the document writes them.
    bytes: u64,
}

/// Where the current string is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// It is no file, or there is none.
    #[default]
    Outside,
    /// It may be a `data:` URL: so many bytes of [`SCHEME`] have matched.
    Scheme(usize),
    /// In the prefix of a `data:` URL: so many bytes of [`MARK`] have matched.
    Prefix(usize),
    Digits,
    Padding(u8),
}

impl Files {
    /// The files so far.
    pub(super) const fn found(&self) -> FileStrings {
        self.found
    }

    /// Whether the current string may be a file.
    pub(super) fn is_open(&self) -> bool {
        self.part != Part::Outside
    }

    /// A string begins, which is a value.
    pub(super) fn begin(&mut self) {
        self.part = Part::Scheme(0);
        self.bytes = 0;
    }

    /// The next bytes of the string, which are written as they are.
    pub(super) fn plain(&mut self, mut run: &[u8]) {
        while let [byte, rest @ ..] = run {
            if !self.is_open() {
                return;
            }
            let digits = match self.part {
                Part::Digits => run.iter().take_while(|byte| is_digit(**byte)).count(),
                _ => 0,
            };
            if digits > 0 {
                self.add(digits);
                run = &run[digits..];
            } else {
                self.add(1);
                self.step(*byte);
                run = rest;
            }
        }
    }

    /// The next byte of the string, which is written as an escape or is part of a character beyond
    /// ASCII.
    pub(super) fn escaped(&mut self, byte: u8) {
        if self.is_open() {
            // PHP escapes each slash by a backslash, and line ends have such escapes.
            self.add(2);
            self.step(byte);
        }
    }

    /// The string is no file.
    pub(super) fn leave(&mut self) {
        self.part = Part::Outside;
    }

    /// The string has ended.
    pub(super) fn end(&mut self) {
        let part = std::mem::take(&mut self.part);
        if matches!(part, Part::Digits | Part::Padding(_)) && self.bytes > MAX_TEXT_BYTES {
            self.found.count += 1;
            self.found.bytes = self.found.bytes.saturating_add(self.bytes);
        }
    }

    fn add(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn step(&mut self, byte: u8) {
        let digits = if is_digit(byte) { Part::Digits } else { Part::Outside };
        self.part = match self.part {
            Part::Outside => Part::Outside,
            Part::Scheme(matched) if byte.eq_ignore_ascii_case(&SCHEME[matched]) => {
                match matched + 1 {
                    all if all == SCHEME.len() => Part::Prefix(0),
                    more => Part::Scheme(more),
                }
            }
            // What has matched the scheme consists of digits, too.
            Part::Scheme(_) => digits,
            Part::Prefix(_) if self.bytes > MAX_PREFIX_BYTES => Part::Outside,
            Part::Prefix(matched) if byte.eq_ignore_ascii_case(&MARK[matched]) => {
                match matched + 1 {
                    all if all == MARK.len() => Part::Digits,
                    more => Part::Prefix(more),
                }
            }
            // The data of another form begin.
            Part::Prefix(_) if byte == b',' => Part::Outside,
            // The mark begins with the only semicolon that it has.
            Part::Prefix(_) => Part::Prefix(usize::from(byte == MARK[0])),
            Part::Digits if byte == b'=' => Part::Padding(1),
            Part::Digits => digits,
            Part::Padding(1) if byte == b'=' => Part::Padding(2),
            Part::Padding(count) if is_line_end(byte) => Part::Padding(count),
            Part::Padding(_) => Part::Outside,
        };
    }
}

const fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_') || is_line_end(byte)
}

const fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}
