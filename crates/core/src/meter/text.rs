//! A JSON string (RFC 8259, section 7), read byte by byte.
//!
//! Its escapes and its UTF-8 (RFC 3629, section 4) are checked, wherever a chunk ends. An
//! escaped surrogate without its other half is accepted, as by the grammar: models that
//! stream tokens write such halves. What [follows](Follow) the document is told of it.

use super::follow::Follow;

/// A string of which some bytes have been read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Text {
    state: State,
    /// The first half of a surrogate pair, when the second may follow.
    high: Option<u16>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Character,
    /// The character after a backslash.
    Escape,
    /// The hexadecimal digits of `\u`.
    Hex { missing: u8, unit: u16 },
    /// Bytes of a UTF-8 sequence. The next byte must be from `least` to `most`.
    Sequence { missing: u8, least: u8, most: u8 },
}

/// The role of a byte in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Part of the string.
    Inside,
    /// The closing quotation mark.
    End,
    /// Invalid.
    Broken,
}

impl Text {
    /// The number of leading bytes that are plain characters. After half of a surrogate pair it
    /// is 0, because the next character shows that the other half is missing.
    pub(super) fn plain_run(&self, bytes: &[u8]) -> usize {
        if self.state == State::Character && self.high.is_none() { plain_run(bytes) } else { 0 }
    }

    /// Reads one byte, and passes its decoded form on.
    pub(super) fn read(&mut self, byte: u8, follower: &mut impl Follow) -> Step {
        match self.state {
            State::Character => self.character(byte, follower),
            State::Escape => self.escape(byte, follower),
            State::Hex { missing, unit } => self.hex(byte, missing, unit, follower),
            State::Sequence { missing, least, most } => {
                if !(least..=most).contains(&byte) {
                    return Step::Broken;
                }
                follower.byte(byte);
                self.state = match missing {
                    1 => State::Character,
                    _ => State::Sequence { missing: missing - 1, least: 0x80, most: 0xBF },
                };
                Step::Inside
            }
        }
    }

    fn character(&mut self, byte: u8, follower: &mut impl Follow) -> Step {
        let sequence = |missing, least, most| State::Sequence { missing, least, most };
        let next = match byte {
            b'\\' => {
                // The other half of a surrogate pair may follow.
                self.state = State::Escape;
                return Step::Inside;
            }
            b'"' | b' '..=0x7F => State::Character,
            0xC2..=0xDF => sequence(1, 0x80, 0xBF),
            0xE0 => sequence(2, 0xA0, 0xBF),
            0xED => sequence(2, 0x80, 0x9F),
            0xE1..=0xEF => sequence(2, 0x80, 0xBF),
            0xF0 => sequence(3, 0x90, 0xBF),
            0xF1..=0xF3 => sequence(3, 0x80, 0xBF),
            0xF4 => sequence(3, 0x80, 0x8F),
            _ => return Step::Broken,
        };
        self.end_half(follower);
        if byte == b'"' {
            return Step::End;
        }
        follower.byte(byte);
        self.state = next;
        Step::Inside
    }

    fn escape(&mut self, byte: u8, follower: &mut impl Follow) -> Step {
        let meaning = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.state = State::Hex { missing: 4, unit: 0 };
                return Step::Inside;
            }
            _ => return Step::Broken,
        };
        self.end_half(follower);
        follower.byte(meaning);
        self.state = State::Character;
        Step::Inside
    }

    fn hex(&mut self, byte: u8, missing: u8, unit: u16, follower: &mut impl Follow) -> Step {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return Step::Broken,
        };
        let unit = unit << 4 | u16::from(digit);
        if missing > 1 {
            self.state = State::Hex { missing: missing - 1, unit };
        } else {
            self.state = State::Character;
            self.unit(unit, follower);
        }
        Step::Inside
    }

    /// Handles a complete unit of UTF-16.
    fn unit(&mut self, unit: u16, follower: &mut impl Follow) {
        if matches!(unit, 0xD800..=0xDBFF) {
            self.end_half(follower);
            self.high = Some(unit);
            return;
        }
        for decoded in char::decode_utf16(self.high.take().into_iter().chain([unit])) {
            match decoded {
                Ok(character) => {
                    let mut bytes = [0; 4];
                    character.encode_utf8(&mut bytes).bytes().for_each(|byte| follower.byte(byte));
                }
                Err(_) => follower.lone_half(),
            }
        }
    }

    /// Handles a surrogate whose other half is missing.
    fn end_half(&mut self, follower: &mut impl Follow) {
        if self.high.take().is_some() {
            follower.lone_half();
        }
    }
}

/// Bytes that are compared together.
const LANES: usize = 16;

/// The number of leading bytes that are plain characters.
fn plain_run(bytes: &[u8]) -> usize {
    let chunks = bytes.chunks_exact(LANES).map_while(|chunk| <&[u8; LANES]>::try_from(chunk).ok());
    // Without branches, so that the compiler compares all bytes of a chunk at once.
    let are_plain = |chunk: &&[u8; LANES]| {
        chunk.iter().fold(u8::MAX, |all, byte| all & u8::from(is_plain(*byte))) != 0
    };
    let whole = LANES * chunks.take_while(are_plain).count();
    whole + bytes[whole..].iter().take_while(|byte| is_plain(**byte)).count()
}

const fn is_plain(byte: u8) -> bool {
    (byte >= b' ') & (byte <= 0x7F) & (byte != b'"') & (byte != b'\\')
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_run_ends_at_the_first_byte_that_is_not_plain(
            run in vec(prop_oneof![b' '..=b'!', b'#'..=b'[', b']'..=0x7F], 0..80),
            rest in vec(any::<u8>(), 0..20),
        ) {
            let bytes = [&run[..], &rest].concat();
            let is_plain = |byte: &u8| (b' '..=0x7F).contains(byte) && !b"\"\\".contains(byte);
            let expected = bytes.iter().take_while(|byte| is_plain(byte)).count();
            prop_assert_eq!(Text::default().plain_run(&bytes), expected);
        }
    }
}
