//! A look at the `:path` of HTTP/2 requests as they come in, for a `#`.
//!
//! A target has no fragment (RFC 9113, section 8.3.1), but the HTTP/2 library
//! cuts one off and goes on. Here each `#` of a path becomes a `>`, for which the
//! library resets the stream. The other streams go on: in each form of a string
//! both characters have the same size, so that the dynamic tables of client and
//! library stay equal, and what the library remembers is refused again.
//!
//! Nothing is decoded: fields are passed over by their lengths (RFC 7541,
//! section 6). A path whose name is only named by the dynamic table, as no client
//! does, loses its fragment, and both the rules and the backend see what is left.

#[cfg(test)]
mod tests;

/// Looks at the fields of one head.
#[derive(Debug, Default)]
pub(super) struct Fragments(State);

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// A field begins.
    #[default]
    Field,
    /// A number goes on, and then comes a text or the next field.
    Number(Option<Text>),
    /// The length of a text begins.
    Length(Text),
    /// It goes on.
    LongLength { text: Text, is_coded: bool, length: usize, shift: u32 },
    /// So many bytes are left of a name that is `:path` so far.
    PathName { name: &'static [u8], left: usize },
    /// So many bytes of a text are left.
    Text { text: Text, left: usize },
    /// So many bytes of a path in the code of Huffman are left.
    CodedPath { left: usize, code: Code },
    /// No field is so written; the library says so.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Name,
    Value,
    Path,
}

impl Fragments {
    /// Follows the next bytes of a head's fields.
    pub(super) fn follow(&mut self, mut bytes: &mut [u8]) {
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
    /// What is expected behind this byte, which is not one of a text.
    fn after(self, byte: &mut u8) -> Self {
        let (low, is_high) = (usize::from(*byte & 0x7f), *byte & 0x80 != 0);
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

/// What follows the first byte of a field.
fn of_field(byte: u8) -> State {
    let (prefix, then) = match byte {
        0x80.. => (0x7f, None),
        0x40.. => (0x3f, Some(Text::Value)),
        // A change of the dynamic table's size.
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
    /// A text of this length begins.
    const fn of(self, length: usize, is_coded: bool) -> State {
        /// As it is, and in the code of Huffman.
        const PATH: [&[u8]; 2] = [b":path", b"\xb9\x58\xd3\x3f"];
        let name = if is_coded { PATH[1] } else { PATH[0] };
        match (self, length) {
            (_, 0) => self.then(),
            (Self::Name, left) if left == name.len() => State::PathName { name, left },
            (Self::Path, left) if is_coded => State::CodedPath { left, code: Code::NONE },
            (text, left) => State::Text { text, left },
        }
    }

    /// A part of it, of which so many bytes were left.
    fn pass(self, part: &mut [u8], left: usize) -> State {
        if self == Self::Path {
            part.iter_mut().filter(|byte| **byte == b'#').for_each(|byte| *byte = b'>');
        }
        self.goes_on(left - part.len())
    }

    /// So many bytes of it are left.
    const fn goes_on(self, left: usize) -> State {
        if left == 0 { self.then() } else { State::Text { text: self, left } }
    }

    /// What comes behind it.
    const fn then(self) -> State {
        match self {
            Self::Name => State::Length(Self::Value),
            Self::Value | Self::Path => State::Field,
        }
    }
}

/// The bits of the character that is being read.
#[derive(Clone, Copy, Debug)]
struct Code {
    bits: u64,
    count: u32,
}

impl Code {
    const NONE: Self = Self { bits: 0, count: 0 };

    /// Reads one byte more, in which a `#` may end, whose last bit tells it from `>`.
    /// False if there is no such code.
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

    /// The first character's number of bits and code, if all of it is there.
    fn first(self) -> Option<(u32, u64)> {
        (SHORTEST..=self.count.min(LONGEST))
            .map(|length| (length, self.bits >> (self.count - length)))
            .find(|(length, code)| *code < ENDS[*length as usize])
    }
}

const SHORTEST: u32 = 5;
const LONGEST: u32 = 30;

/// For each number of bits the first code that is longer: codes of one length
/// follow each other, and stand before all longer ones (RFC 7541, appendix B).
const ENDS: [u64; 31] = {
    const COUNTS: [u64; 31] = [
        0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15,
        19, 29, 0, 4,
    ];
    let (mut ends, mut end, mut length) = ([0; 31], 0, 0);
    while length < ends.len() {
        end = end * 2 + COUNTS[length];
        ends[length] = end;
        length += 1;
    }
    assert!(end == 1 << LONGEST, "the code is complete");
    ends
};
