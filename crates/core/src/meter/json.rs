//! Finds one number in a JSON document (RFC 8259) that arrives in chunks.
//!
//! No part of the document is kept: the state has a constant size. The number counts only
//! if the whole document is valid, so a document that is invalid or breaks off has none.

use super::number::Number;
use super::pointer::Pointer;
use super::text::{Step, Text};
use super::trail::Trail;

/// How deep arrays and objects may be nested: one bit each in a `u128`.
const MAX_DEPTH: u32 = u128::BITS;

/// A document of which some bytes have been read.
#[derive(Clone, Debug)]
pub(super) struct Document {
    state: State,
    nesting: Nesting,
    trail: Trail,
    /// The number that the pointer identifies, as far as the document has been read.
    number: Option<u64>,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
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
    InKey(Text),
    InText(Text),
    InNumber(Number),
    /// The rest of `true`, `false` or `null`.
    InLiteral(&'static [u8]),
    /// Nothing, because the document is invalid.
    Broken,
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

impl Document {
    /// A document of which no bytes have been read, in which `pointer` is searched.
    pub(super) fn new(pointer: Pointer) -> Self {
        Self {
            state: State::Value,
            nesting: Nesting::default(),
            trail: Trail::new(pointer),
            number: None,
        }
    }

    /// Reads the next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        loop {
            bytes = &bytes[self.inert_run(bytes)..];
            let [byte, rest @ ..] = bytes else {
                return;
            };
            self.step(*byte);
            bytes = rest;
        }
    }

    /// Ends the document. Returns its number, if it is valid and has one. Then the next
    /// document may begin.
    pub(super) fn end(&mut self) -> Option<u64> {
        if let State::InNumber(number) = self.state {
            self.end_number(number);
        }
        let is_valid = matches!(self.state, State::Separator) && self.nesting.depth == 0;
        let number = self.number.take().filter(|_| is_valid);
        self.state = State::Value;
        self.nesting = Nesting::default();
        self.trail.restart();
        number
    }

    /// The number of leading bytes that change nothing.
    fn inert_run(&self, bytes: &[u8]) -> usize {
        match &self.state {
            State::Broken => bytes.len(),
            State::InKey(text) | State::InText(text) if !self.trail.reads_key() => {
                text.plain_run(bytes)
            }
            _ => 0,
        }
    }

    fn step(&mut self, byte: u8) {
        match &mut self.state {
            State::InKey(text) => match text.read(byte, &mut self.trail) {
                Step::Inside => {}
                Step::End => {
                    self.trail.end_key();
                    self.state = State::Colon;
                }
                Step::Broken => self.state = State::Broken,
            },
            State::InText(text) => match text.read(byte, &mut self.trail) {
                Step::Inside => {}
                Step::End => self.state = State::Separator,
                Step::Broken => self.state = State::Broken,
            },
            State::InNumber(number) => {
                if !number.read(byte) {
                    let number = *number;
                    self.end_number(number);
                    self.between_tokens(byte);
                }
            }
            State::InLiteral(rest) => {
                self.state = match rest.split_first() {
                    Some((expected, [])) if *expected == byte => State::Separator,
                    Some((expected, rest)) if *expected == byte => State::InLiteral(rest),
                    _ => State::Broken,
                };
            }
            _ => self.between_tokens(byte),
        }
    }

    fn between_tokens(&mut self, byte: u8) {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return;
        }
        self.state = match (&self.state, byte) {
            (State::FirstKey | State::Key, b'"') => {
                self.trail.begin_key();
                State::InKey(Text::default())
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
        if self.trail.is_on_path() {
            // If a key occurs twice, the last one counts.
            self.number = None;
        }
        match first {
            b'{' => self.open(Container::Object),
            b'[' => self.open(Container::Array),
            b'"' => State::InText(Text::default()),
            b't' => State::InLiteral(b"rue"),
            b'f' => State::InLiteral(b"alse"),
            b'n' => State::InLiteral(b"ull"),
            _ => {
                let mut number = Number::default();
                if number.read(first) { State::InNumber(number) } else { State::Broken }
            }
        }
    }

    fn end_number(&mut self, number: Number) {
        self.state = if number.is_complete() { State::Separator } else { State::Broken };
        if self.trail.is_at_end() {
            self.number = number.rounded_up();
        }
    }

    fn open(&mut self, container: Container) -> State {
        if !self.nesting.push(container) {
            return State::Broken;
        }
        match container {
            Container::Object => {
                self.trail.open_object();
                State::FirstKey
            }
            Container::Array => {
                self.trail.open_array();
                State::FirstElement
            }
        }
    }

    fn close(&mut self, container: Container) -> State {
        if self.nesting.top() != Some(container) {
            return State::Broken;
        }
        self.nesting.pop();
        self.trail.close();
        State::Separator
    }

    fn next_member(&mut self) -> State {
        match self.nesting.top() {
            Some(Container::Object) => State::Key,
            Some(Container::Array) => {
                self.trail.next_element();
                State::Value
            }
            None => State::Broken,
        }
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
