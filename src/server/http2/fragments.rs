//! Finds a `#` in the `:path` of HTTP/2 requests as they arrive.
//!
//! A target has no fragment (RFC 9113, section 8.3.1), but the HTTP/2 library removes one
//! and continues. This module replaces each `#` of a path with `>`, for which the library
//! resets the stream. Other streams are not affected: in each encoding both characters
//! have the same size, so the dynamic tables of client and library stay equal, and a path
//! from the table is refused again.
//!
//! Nothing is decoded: fields are skipped by their lengths (RFC 7541, section 6). If the
//! name of a path comes from the dynamic table, which no known client does, the path loses
//! its fragment, and both the rules and the backend see the rest.

#[cfg(test)]
mod tests;

/// Inspects the fields of one head.
#[derive(Debug, Default)]
pub struct Fragments(State);

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// At the start of a field.
    #[default]
    Field,
    /// In a number, which a text follows, or the next field.
    Number(Option<Text>),
    /// At the length of a text.
    Length(Text),
    /// In a length of several bytes.
    LongLength { text: Text, is_coded: bool, length: usize, shift: u32 },
    /// In a name that equals `:path` so far, with `left` bytes to come.
    PathName { name: &'static [u8], left: usize },
    /// In a text, with `left` bytes to come.
    Text { text: Text, left: usize },
    /// In a path in the Huffman code, with `left` bytes to come.
    CodedPath { left: usize, code: Code },
    /// The encoding is invalid; the library will report it.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Name,
    Value,
    Path,
}

impl Fragments {
    /// Inspects the next bytes of the fields.
    pub fn inspect(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let len = match self.0 {
                State::Text { left, .. } => left.min(bytes.len()),
                _ => 1,
            };
            let (part, rest) = bytes.split_at_mut(len);
            self.0 = match self.0 {
                State::Text { text, left } => text.pass(part, left),
                state => state.after(&mut part[0]),
            };
            bytes = rest;
        }
    }
}

impl State {
    /// The state after this byte, which is not part of a text.
    fn after(self, byte: &mut u8) -> Self {
        let low = usize::from(*byte & 0x7f);
        let is_high = *byte & 0x80 != 0;
        match self {
            Self::Field => of_field(*byte),
            Self::Number(then) if is_high => Self::Number(then),
            Self::Number(then) => then.map_or(Self::Field, Self::Length),
            Self::Length(text) if low == 0x7f => {
                Self::LongLength { text, is_coded: is_high, length: low, shift: 0 }
            }
            Self::Length(text) => text.of(low, is_high),
            Self::LongLength { text, is_coded, length, shift: shift @ ..28 } => {
                let length = length + (low << shift);
                if is_high {
                    Self::LongLength { text, is_coded, length, shift: shift + 7 }
                } else {
                    text.of(length, is_coded)
                }
            }
            Self::PathName { name, left } => {
                let is_path = name[name.len() - left] == *byte;
                match (is_path, left - 1) {
                    (true, 0) => Self::Length(Text::Path),
                    (true, left) => Self::PathName { name, left },
                    (false, left) => Text::Name.goes_on(left),
                }
            }
            Self::CodedPath { left, mut code } => match (code.add(byte), left) {
                (true, 1) => Text::Path.then(),
                (true, _) => Self::CodedPath { left: left - 1, code },
                (false, _) => Self::Lost,
            },
            Self::LongLength { .. } | Self::Text { .. } | Self::Lost => Self::Lost,
        }
    }
}

/// The state after the first byte of a field.
fn of_field(byte: u8) -> State {
    let (prefix, then) = match byte {
        0x80.. => (0x7f, None),
        0x40.. => (0x3f, Some(Text::Value)),
        // A change of the size of the dynamic table.
        0x20.. => (0x1f, None),
        _ => (0x0f, Some(Text::Value)),
    };
    match (byte & prefix, then) {
        (number, then) if number == prefix => State::Number(then),
        (_, None) => State::Field,
        (0, Some(_)) => State::Length(Text::Name),
        // `:path` (RFC 7541, appendix A).
        (4 | 5, Some(_)) => State::Length(Text::Path),
        (_, Some(text)) => State::Length(text),
    }
}

impl Text {
    /// The state at the start of a text of this length.
    const fn of(self, length: usize, is_coded: bool) -> State {
        /// Plain, and in the Huffman code.
        const PATH: [&[u8]; 2] = [b":path", b"\xb9\x58\xd3\x3f"];
        let name = if is_coded { PATH[1] } else { PATH[0] };
        match (self, length) {
            (_, 0) => self.then(),
            (Self::Name, left) if left == name.len() => State::PathName { name, left },
            (Self::Path, left) if is_coded => State::CodedPath { left, code: Code::NONE },
            (text, left) => State::Text { text, left },
        }
    }

    /// Inspects a part of the text, which has `left` bytes to come.
    fn pass(self, part: &mut [u8], left: usize) -> State {
        if self == Self::Path {
            part.iter_mut().filter(|byte| **byte == b'#').for_each(|byte| *byte = b'>');
        }
        self.goes_on(left - part.len())
    }

    /// The state with `left` bytes of the text to come.
    const fn goes_on(self, left: usize) -> State {
        if left == 0 { self.then() } else { State::Text { text: self, left } }
    }

    /// The state after the text.
    const fn then(self) -> State {
        match self {
            Self::Name => State::Length(Self::Value),
            Self::Value | Self::Path => State::Field,
        }
    }
}

/// The bits of an incomplete character.
#[derive(Clone, Copy, Debug)]
struct Code {
    bits: u64,
    count: u32,
}

impl Code {
    const NONE: Self = Self { bits: 0, count: 0 };

    /// Reads another byte, and changes a `#` that ends in it to `>`, which differs in the
    /// last bit. Returns false if the code is invalid.
    fn add(&mut self, byte: &mut u8) -> bool {
        const HASH: (u32, u64) = (12, 0xffa);
        self.bits = self.bits << 8 | u64::from(*byte);
        self.count += 8;
        while let Some((length, code)) = self.first() {
            self.count -= length;
            self.bits &= (1 << self.count) - 1;
            if (length, code) == HASH {
                *byte |= 1 << self.count;
            }
        }
        self.count <= LONGEST
    }

    /// The number of bits and the code of the first character, if it is complete.
    fn first(self) -> Option<(u32, u64)> {
        (SHORTEST..=self.count.min(LONGEST))
            .map(|length| (length, self.bits >> (self.count - length)))
            .find(|(length, code)| *code < ENDS[*length as usize])
    }
}

const SHORTEST: u32 = 5;
const LONGEST: u32 = 30;

/// For each number of bits, the end of its codes: codes of one length are consecutive, and
/// precede all longer ones (RFC 7541, appendix B).
const ENDS: [u64; 31] = {
    const COUNTS: [u64; 31] = [
        0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15,
        19, 29, 0, 4,
    ];
    let mut ends = [0; 31];
    let mut end = 0;
    let mut length = 0;
    while length < ends.len() {
        end = end * 2 + COUNTS[length];
        ends[length] = end;
        length += 1;
    }
    assert!(end == 1 << LONGEST, "the code is complete");
    ends
};
