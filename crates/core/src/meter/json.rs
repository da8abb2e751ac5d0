//! Reads a JSON document (RFC 8259) that arrives in chunks.
//!
//! No part of the document is kept: the state has a constant size. What [follows](Follow) the
//! document takes from it what it wants. That counts only if the whole document is valid, so a
//! document that is invalid or breaks off has nothing.

use super::follow::{Collect, Follow};
use super::number::Number;
use super::runs::{blank_run, is_blank};
use super::text::{Step, Text};

/// How deep arrays and objects may be nested: one bit each in a `u128`.
const MAX_DEPTH: u32 = u128::BITS;

/// A document of which some bytes have been read.
#[derive(Clone, Debug)]
pub(super) struct Document<F> {
    state: State,
    /// The current string or key.
    text: Text,
    /// The current number.
    number: Number,
    nesting: Nesting,
    follower: F,
}

/// What comes next. The state is small, because it changes with each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Value,
    /// A value or `]`.
    FirstElement,
    /// A key or `}`.
    FirstKey,
    Key,
    Colon,
    /// A comma, or the end of a container or of the document.
    Separator,
    InKey,
    InText,
    InNumber,
    /// The rest of a literal, of which so many bytes have been read.
    InLiteral(Literal, u8),
    /// Nothing, because the document is invalid.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Literal {
    True,
    False,
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

/// The open containers: a stack of bits.
#[derive(Clone, Copy, Debug, Default)]
struct Nesting {
    depth: u32,
    /// One bit for each container, set for an array. The lowest is the innermost.
    arrays: u128,
}

impl Literal {
    const fn written(self) -> &'static [u8] {
        match self {
            Self::True => b"true",
            Self::False => b"false",
            Self::Null => b"null",
        }
    }
}

impl<F: Follow> Document<F> {
    /// A document of which no bytes have been read.
    pub(super) fn new(follower: F) -> Self {
        Self {
            state: State::Value,
            text: Text::default(),
            number: Number::default(),
            nesting: Nesting::default(),
            follower,
        }
    }

    /// What follows the document.
    pub(super) const fn follower(&mut self) -> &mut F {
        &mut self.follower
    }

    /// Reads the next bytes.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        let mut read = 0;
        while read < bytes.len() {
            read += self.advance(&bytes[read..]);
        }
    }

    /// Reads bytes until the follower has what is searched for. Returns how many were read.
    pub(super) fn read_until(&mut self, bytes: &[u8], is_found: impl Fn(&F) -> bool) -> usize {
        let mut read = 0;
        while read < bytes.len() {
            read += self.advance(&bytes[read..]);
            if is_found(&self.follower) {
                return read;
            }
        }
        read
    }

    /// Ends the document. Returns whether it is valid. Then the next document may begin.
    pub(super) fn end(&mut self) -> bool {
        if self.state == State::InNumber {
            self.complete_number();
        }
        let is_valid = self.state == State::Separator && self.nesting.depth == 0;
        self.state = State::Value;
        self.nesting = Nesting::default();
        is_valid
    }

    /// Reads bytes up to the end of the next token, and at least one byte. A number ends with the
    /// byte behind it. Returns how many were read. Only the last byte begins a value, or ends
    /// anything.
    fn advance(&mut self, bytes: &[u8]) -> usize {
        match self.state {
            State::InKey => self.in_string(bytes, State::Colon, F::end_key),
            State::InText => self.in_string(bytes, State::Separator, F::end_text),
            State::InNumber => self.in_number(bytes),
            State::InLiteral(literal, read) => self.in_literal(literal, read, bytes),
            State::Broken => bytes.len(),
            _ => {
                let blanks = blank_run(bytes);
                let Some(byte) = bytes.get(blanks) else { return blanks };
                self.between_tokens(*byte);
                blanks + 1
            }
        }
    }

    fn in_string(&mut self, bytes: &[u8], then: State, end: impl FnOnce(&mut F)) -> usize {
        let reading = self.text.read(bytes, &mut self.follower);
        match reading.last {
            Step::Inside => {}
            Step::End => {
                end(&mut self.follower);
                self.state = then;
            }
            Step::Broken => self.state = State::Broken,
        }
        reading.bytes
    }

    fn in_number(&mut self, bytes: &[u8]) -> usize {
        let digits = bytes.iter().take_while(|byte| self.number.read(**byte)).count();
        let Some(next) = bytes.get(digits) else { return digits };
        self.complete_number();
        self.between_tokens(*next);
        digits + 1
    }

    fn in_literal(&mut self, literal: Literal, read: u8, bytes: &[u8]) -> usize {
        let rest = &literal.written()[usize::from(read)..];
        let same = rest.iter().zip(bytes).take_while(|(expected, byte)| expected == byte).count();
        if same == rest.len() {
            match literal {
                Literal::True => self.follower.truth(true),
                Literal::False => self.follower.truth(false),
                Literal::Null => {}
            }
            self.state = State::Separator;
        } else if same < bytes.len() {
            self.state = State::Broken;
            return same + 1;
        } else {
            let same = u8::try_from(same).expect("a literal has at most five bytes");
            self.state = State::InLiteral(literal, read + same);
        }
        same
    }

    fn between_tokens(&mut self, byte: u8) {
        if is_blank(byte) {
            return;
        }
        self.state = match (self.state, byte) {
            (State::FirstKey | State::Key, b'"') => {
                self.follower.begin_key();
                self.text = Text::default();
                State::InKey
            }
            (State::Colon, b':') => State::Value,
            (State::Separator, b',') => self.next_member(),
            (State::Separator | State::FirstKey, b'}') => self.close(Container::Object),
            (State::Separator | State::FirstElement, b']') => self.close(Container::Array),
            (State::Value | State::FirstElement, _) => self.begin_value(byte),
            _ => State::Broken,
        };
    }

    fn begin_value(&mut self, first: u8) -> State {
        self.follower.begin_value();
        match first {
            b'{' => self.open(Container::Object),
            b'[' => self.open(Container::Array),
            b'"' => {
                self.follower.begin_text();
                self.text = Text::default();
                State::InText
            }
            b't' => State::InLiteral(Literal::True, 1),
            b'f' => State::InLiteral(Literal::False, 1),
            b'n' => State::InLiteral(Literal::Null, 1),
            _ => {
                self.number = Number::default();
                if self.number.read(first) { State::InNumber } else { State::Broken }
            }
        }
    }

    fn complete_number(&mut self) {
        self.state = if self.number.is_complete() { State::Separator } else { State::Broken };
        self.follower.number(&self.number);
    }

    fn open(&mut self, container: Container) -> State {
        if !self.nesting.push(container) {
            return State::Broken;
        }
        match container {
            Container::Object => {
                self.follower.open_object();
                State::FirstKey
            }
            Container::Array => {
                self.follower.open_array();
                State::FirstElement
            }
        }
    }

    fn close(&mut self, container: Container) -> State {
        if self.nesting.top() != Some(container) {
            return State::Broken;
        }
        self.nesting.pop();
        self.follower.close();
        State::Separator
    }

    fn next_member(&mut self) -> State {
        match self.nesting.top() {
            Some(Container::Object) => State::Key,
            Some(Container::Array) => {
                self.follower.next_element();
                State::Value
            }
            None => State::Broken,
        }
    }
}

impl<F: Collect> Document<F> {
    /// Ends the document, of which the follower collects something. Then the next one may begin.
    pub(super) fn complete(&mut self) {
        let is_valid = self.end();
        self.follower.complete(is_valid);
    }

    /// What the follower has collected.
    pub(super) fn into_follower(self) -> F {
        self.follower
    }
}

impl Nesting {
    /// Returns false if the document is nested too deep.
    fn push(&mut self, container: Container) -> bool {
        if self.depth == MAX_DEPTH {
            return false;
        }
        self.depth += 1;
        self.arrays = self.arrays << 1 | u128::from(container == Container::Array);
        true
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.arrays >>= 1;
    }

    fn top(&self) -> Option<Container> {
        let innermost = if self.arrays & 1 == 1 { Container::Array } else { Container::Object };
        (self.depth > 0).then_some(innermost)
    }
}
