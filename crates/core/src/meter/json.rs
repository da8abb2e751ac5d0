//! Reads a JSON document (RFC 8259) that arrives in chunks.
//!
//! No part of the document is kept: the state has a constant size. What [follows](Follow) the
//! document takes from it what it wants. That counts only if the whole document is valid, so a
//! document that is invalid or breaks off has nothing.

use super::follow::{Collect, Follow};
use super::number::Number;
use super::text::{Step, Text};

/// How deep arrays and objects may be nested: one bit each in a `u128`.
const MAX_DEPTH: u32 = u128::BITS;

/// A document of which some bytes have been read.
#[derive(Clone, Debug)]
pub(super) struct Document<F> {
    state: State,
    nesting: Nesting,
    follower: F,
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
    InLiteral(Literal, &'static [u8]),
    /// Nothing, because the document is invalid.
    Broken,
}

#[derive(Clone, Copy, Debug)]
enum Literal {
    Truth(bool),
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

impl<F: Follow> Document<F> {
    /// A document of which no bytes have been read.
    pub(super) fn new(follower: F) -> Self {
        Self { state: State::Value, nesting: Nesting::default(), follower }
    }

    /// What follows the document.
    pub(super) const fn follower(&mut self) -> &mut F {
        &mut self.follower
    }

    /// Reads the next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        loop {
            bytes = &bytes[self.plain_run(bytes)..];
            let [byte, rest @ ..] = bytes else {
                return;
            };
            self.step(*byte);
            bytes = rest;
        }
    }

    /// Reads bytes until the follower has what is searched for. Returns how many were read.
    pub(super) fn read_until(&mut self, bytes: &[u8], is_found: impl Fn(&F) -> bool) -> usize {
        let mut read = 0;
        loop {
            read += self.plain_run(&bytes[read..]);
            let Some(byte) = bytes.get(read) else { return read };
            self.step(*byte);
            read += 1;
            if is_found(&self.follower) {
                return read;
            }
        }
    }

    /// Ends the document. Returns whether it is valid. Then the next document may begin.
    pub(super) fn end(&mut self) -> bool {
        if let State::InNumber(number) = self.state {
            self.complete_number(number);
        }
        let is_valid = matches!(self.state, State::Separator) && self.nesting.depth == 0;
        self.state = State::Value;
        self.nesting = Nesting::default();
        is_valid
    }

    /// The number of leading bytes that do not change the state. Passes them on if they matter.
    fn plain_run(&mut self, bytes: &[u8]) -> usize {
        match &self.state {
            State::Broken => bytes.len(),
            State::InKey(text) | State::InText(text) => {
                let run = text.plain_run(bytes);
                if run > 0 && self.follower.wants_text() {
                    self.follower.plain(&bytes[..run]);
                }
                run
            }
            _ => 0,
        }
    }

    fn step(&mut self, byte: u8) {
        match &mut self.state {
            State::InKey(text) => match text.read(byte, &mut self.follower) {
                Step::Inside => {}
                Step::End => {
                    self.follower.end_key();
                    self.state = State::Colon;
                }
                Step::Broken => self.state = State::Broken,
            },
            State::InText(text) => match text.read(byte, &mut self.follower) {
                Step::Inside => {}
                Step::End => {
                    self.follower.end_text();
                    self.state = State::Separator;
                }
                Step::Broken => self.state = State::Broken,
            },
            State::InNumber(number) => {
                if !number.read(byte) {
                    let number = *number;
                    self.complete_number(number);
                    self.between_tokens(byte);
                }
            }
            State::InLiteral(literal, rest) => {
                self.state = match rest.split_first() {
                    Some((expected, [])) if *expected == byte => {
                        if let Literal::Truth(value) = literal {
                            self.follower.truth(*value);
                        }
                        State::Separator
                    }
                    Some((expected, rest)) if *expected == byte => State::InLiteral(*literal, rest),
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
                self.follower.begin_key();
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
        self.follower.begin_value();
        match first {
            b'{' => self.open(Container::Object),
            b'[' => self.open(Container::Array),
            b'"' => {
                self.follower.begin_text();
                State::InText(Text::default())
            }
            b't' => State::InLiteral(Literal::Truth(true), b"rue"),
            b'f' => State::InLiteral(Literal::Truth(false), b"alse"),
            b'n' => State::InLiteral(Literal::Null, b"ull"),
            _ => {
                let mut number = Number::default();
                if number.read(first) { State::InNumber(number) } else { State::Broken }
            }
        }
    }

    fn complete_number(&mut self, number: Number) {
        self.state = if number.is_complete() { State::Separator } else { State::Broken };
        self.follower.number(&number);
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
