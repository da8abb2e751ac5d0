//! Finds the values at several places of one JSON document (RFC 8259) in one pass.
//!
//! Backends must find the same values. A document of which some backends read another value has
//! none: one that is no valid JSON, and one with a member on the path of a pointer that occurs
//! twice, or whose name differs only in case from the one that is searched for. Go reads such a
//! member as the one that is meant, also with U+017F for `s` and U+212A for `k`. A number at a
//! pointer that is an integer only after it is rounded to a float has none either.
//!
//! No part of the document is kept but the values, each of which has a bound.

use super::files::{FileStrings, Files};
use super::follow::Follow;
use super::json::Document;
use super::number::Number;
use super::pointer::Token;
use super::sought::{Sought, SoughtPointers};

/// The most bytes of a value. A longer string counts as missing.
pub const MAX_VALUE_BYTES: usize = 1024;

/// The bytes of a key or a value that need no more memory than most others.
const USUAL_TEXT_BYTES: usize = 64;

/// Why a document has no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// It is not valid: its syntax, its UTF-8, or more than 128 levels.
    #[error("is not valid JSON")]
    Invalid,
    /// Programs replace such a half by different characters.
    #[error("has half of a surrogate pair")]
    Surrogate,
    /// Some programs take the first one, and some the last.
    #[error("has a member twice")]
    Twice,
    /// Some programs ignore case.
    #[error("has a member whose name differs only in case from one that counts")]
    Case,
    /// Some programs read numbers as floats.
    #[error("has a number that some programs round to an integer")]
    Fraction,
}

/// What was found in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentValues {
    /// The value at each pointer: a string, an integer in decimal digits, or `true` or `false`.
    /// None: there is another value or none, or it is longer than [`MAX_VALUE_BYTES`].
    pub values: Vec<Option<Box<str>>>,
    /// Whether there is a value at each pointer that is not `null` and not an empty string.
    pub is_set: Vec<bool>,
    /// Its strings that are files, if they are counted.
    pub files: FileStrings,
    /// Whether the whole document is an array.
    pub is_array: bool,
}

/// Finds the values at several pointers in one document, which arrives in chunks.
#[derive(Clone, Debug)]
pub struct ValueScanner<'p>(Document<Values<'p>>);

impl<'p> ValueScanner<'p> {
    /// Searches a document for the values at these pointers.
    pub fn new(pointers: &'p SoughtPointers) -> Self {
        Self(Document::new(Values::new(pointers, None)))
    }

    /// The same. It also counts the strings that are files.
    pub fn with_files(pointers: &'p SoughtPointers) -> Self {
        Self(Document::new(Values::new(pointers, Some(Files::default()))))
    }

    /// Reads the next bytes of the document, which may end anywhere.
    pub fn read(&mut self, chunk: &[u8]) {
        self.0.read(chunk);
    }

    /// How many bytes of the document it keeps now, besides values that are complete.
    #[cfg(test)]
    pub(super) fn kept_bytes(&mut self) -> usize {
        self.0.follower().text.capacity()
    }

    /// The values, after the document has ended.
    ///
    /// # Errors
    /// If the document is not valid, or some backends read other values.
    pub fn end(mut self) -> Result<DocumentValues, DocumentFault> {
        let is_valid = self.0.end();
        let found = self.0.follower();
        match found.fault {
            _ if !is_valid => Err(DocumentFault::Invalid),
            Some(fault) => Err(fault),
            None => {
                let is_set = found.places.iter().map(|place| place.is_set).collect();
                let values = found.places.iter_mut().map(|place| place.value.take()).collect();
                let files = found.files.as_ref().map(Files::found).unwrap_or_default();
                Ok(DocumentValues { values, is_set, files, is_array: found.is_array })
            }
        }
    }
}

/// The values, as far as the document has been read.
#[derive(Clone, Debug)]
struct Values<'p> {
    places: Box<[Place<'p>]>,
    /// The number of open containers.
    depth: usize,
    /// The most of them that are on the path of one pointer. If there are others, the document is
    /// read where no pointer leads to.
    matched: usize,
    string: Current,
    /// The decoded bytes of the current string, if it matters.
    text: Vec<u8>,
    /// The most bytes of a key that can be one of those that are searched for.
    max_key_bytes: usize,
    /// None: they are not counted.
    files: Option<Files>,
    is_array: bool,
    fault: Option<DocumentFault>,
}

/// What the current string is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Current {
    /// It does not matter.
    Ignored,
    /// A key of a container on the path of a pointer.
    Key,
    /// The value at a pointer.
    Value,
}

/// One pointer, and how far the open containers match it.
#[derive(Clone, Debug)]
struct Place<'p> {
    sought: &'p Sought,
    /// The number of open containers on the path. If that is less than the number of open
    /// containers, the document is read elsewhere.
    matched: usize,
    /// Whether the current member of the innermost container on the path is on the path too.
    is_next: bool,
    /// The current index in that container, if it is an array.
    index: u64,
    /// Whether that container, if it is an object, has had the member on the path.
    is_seen: bool,
    value: Option<Box<str>>,
    is_set: bool,
}

impl<'p> Place<'p> {
    fn new(sought: &'p Sought) -> Self {
        Self {
            sought,
            matched: 0,
            is_next: true,
            index: 0,
            is_seen: false,
            value: None,
            is_set: false,
        }
    }

    fn tokens(&self) -> &'p [Token] {
        self.sought.pointer.tokens()
    }

    /// The index of the token for the innermost container on the path, if it is the innermost of
    /// all and not inside of the value.
    fn level(&self, depth: usize) -> Option<usize> {
        let level = self.matched.checked_sub(1).filter(|_| self.matched == depth)?;
        (level < self.tokens().len()).then_some(level)
    }

    /// Whether the current value is the one at the pointer.
    fn is_at_end(&self, depth: usize) -> bool {
        self.matched == depth && self.is_next && depth == self.tokens().len()
    }

    /// Reads a key of the innermost container. None: the key is too long.
    fn key(&mut self, depth: usize, key: Option<&str>) -> Option<DocumentFault> {
        let level = self.level(depth)?;
        let token = &self.tokens()[level];
        self.is_next = key == Some(&*token.key);
        if self.is_next {
            let is_twice = std::mem::replace(&mut self.is_seen, true);
            return is_twice.then_some(DocumentFault::Twice);
        }
        self.sought.is_alike(level, key?).then_some(DocumentFault::Case)
    }

    fn set_index(&mut self, depth: usize, index: u64) {
        self.index = index;
        let level = self.level(depth);
        self.is_next = level.is_some_and(|at| self.tokens()[at].index == Some(index));
    }
}

impl<'p> Values<'p> {
    fn new(pointers: &'p SoughtPointers, files: Option<Files>) -> Self {
        Self {
            places: pointers.all.iter().map(Place::new).collect(),
            depth: 0,
            matched: 0,
            string: Current::Ignored,
            text: Vec::with_capacity(USUAL_TEXT_BYTES),
            max_key_bytes: pointers.max_key_bytes,
            files,
            is_array: false,
            fault: None,
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.string != Current::Ignored {
            // One byte more than the longest text shows that it is too long.
            let most = self.max_key_bytes.max(MAX_VALUE_BYTES) + 1;
            let room = most.saturating_sub(self.text.len());
            self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn begin(&mut self, string: Current) {
        self.string = string;
        self.text.clear();
    }

    /// Ends the current string, which is `expected`, and calls `see` with it. None: it has more than
    /// `max_bytes`. The text of a string with half of a surrogate pair does not matter.
    fn end(
        &mut self,
        expected: Current,
        max_bytes: usize,
        see: impl FnOnce(&mut Self, Option<&str>),
    ) {
        if std::mem::replace(&mut self.string, Current::Ignored) == expected {
            let text = std::mem::take(&mut self.text);
            let is_short = text.len() <= max_bytes;
            see(self, std::str::from_utf8(&text).ok().filter(|_| is_short));
            // Its space is used again.
            self.text = text;
        }
    }

    /// Whether the innermost container is on the path of a pointer.
    const fn is_on_path(&self) -> bool {
        self.matched == self.depth
    }

    /// Calls `change` with the pointers on whose path the innermost container is, and the number of
    /// open containers.
    fn for_each_on_path(&mut self, change: impl Fn(&mut Place<'p>, usize)) {
        if self.is_on_path() {
            let depth = self.depth;
            let places = self.places.iter_mut().filter(|place| place.matched == depth);
            places.for_each(|place| change(place, depth));
        }
    }

    /// The pointers to the current value.
    fn ends(&mut self) -> impl Iterator<Item = &mut Place<'p>> {
        let depth = self.depth;
        let places = if self.is_on_path() { &mut self.places[..] } else { &mut [] };
        places.iter_mut().filter(move |place| place.is_at_end(depth))
    }

    fn found(&mut self, value: &str) {
        self.ends().for_each(|place| place.value = Some(value.into()));
    }

    /// The current value is not `null`.
    fn set(&mut self) {
        self.ends().for_each(|place| place.is_set = true);
    }
}

impl Follow for Values<'_> {
    fn wants_text(&self) -> bool {
        self.string != Current::Ignored || self.files.as_ref().is_some_and(Files::is_open)
    }

    fn byte(&mut self, byte: u8) {
        self.keep(&[byte]);
        if let Some(files) = &mut self.files {
            files.escaped(byte);
        }
    }

    fn plain(&mut self, run: &[u8]) {
        self.keep(run);
        if let Some(files) = &mut self.files {
            files.plain(run);
        }
    }

    fn lone_half(&mut self) {
        if let Some(files) = &mut self.files {
            files.leave();
        }
        self.fault = self.fault.or(Some(DocumentFault::Surrogate));
    }

    fn open_object(&mut self) {
        self.set();
        if self.is_on_path() {
            for place in &mut self.places {
                if place.matched == self.depth && place.is_next {
                    place.matched += 1;
                    place.is_next = false;
                    place.is_seen = false;
                    self.matched = place.matched;
                }
            }
        }
        self.depth += 1;
    }

    fn open_array(&mut self) {
        self.is_array |= self.depth == 0;
        self.open_object();
        self.for_each_on_path(|place, depth| place.set_index(depth, 0));
    }

    fn close(&mut self) {
        self.for_each_on_path(|place, depth| {
            place.matched -= 1;
            place.is_seen = true;
            // The member was the one that the token of its outer container identifies.
            let level = place.level(depth - 1);
            let index = level.and_then(|at| place.tokens()[at].index);
            place.index = index.unwrap_or_default();
        });
        self.depth -= 1;
        self.matched = self.matched.min(self.depth);
    }

    fn next_element(&mut self) {
        self.for_each_on_path(|place, depth| {
            place.set_index(depth, place.index.saturating_add(1));
        });
    }

    fn begin_key(&mut self) {
        let depth = self.depth;
        let matters =
            self.is_on_path() && self.places.iter().any(|place| place.level(depth).is_some());
        self.begin(if matters { Current::Key } else { Current::Ignored });
    }

    fn end_key(&mut self) {
        self.end(Current::Key, self.max_key_bytes, |values, key| {
            for place in &mut values.places {
                let fault = place.key(values.depth, key);
                values.fault = values.fault.or(fault);
            }
        });
    }

    fn begin_value(&mut self) {}

    fn begin_text(&mut self) {
        if let Some(files) = &mut self.files {
            files.begin();
        }
        let matters = self.ends().next().is_some();
        self.begin(if matters { Current::Value } else { Current::Ignored });
    }

    fn end_text(&mut self) {
        if let Some(files) = &mut self.files {
            files.end();
        }
        self.end(Current::Value, MAX_VALUE_BYTES, |values, text| {
            if text != Some("") {
                values.set();
            }
            if let Some(text) = text {
                values.found(text);
            }
        });
    }

    fn number(&mut self, number: &Number) {
        if self.ends().next().is_some() {
            self.set();
            match number.integer() {
                Some(integer) => self.found(&integer),
                None if number.is_integer_as_float() => {
                    self.fault = self.fault.or(Some(DocumentFault::Fraction));
                }
                None => {}
            }
        }
    }

    fn truth(&mut self, value: bool) {
        self.set();
        self.found(if value { "true" } else { "false" });
    }
}
