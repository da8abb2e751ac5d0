//! A JSON string (RFC 8259, section 7).
//!
//! Its escapes and its UTF-8 (RFC 3629, section 4) are checked, wherever a chunk ends. An
//! escaped surrogate without its other half is accepted, as by the grammar: models that
//! stream tokens write such halves. What [follows](Follow) the document is told of it.
//!
//! Runs of characters and whole escapes are read at once. What a chunk has divided is read byte by
//! byte, with the same result.

use super::follow::Follow;
use super::runs::{plain_run, unescaped_run};

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

/// How far bytes were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// How many were read.
    pub(super) bytes: usize,
    /// The role of the last one.
    pub(super) last: Step,
}

impl Text {
    /// Reads bytes to the end of the string or of the bytes, and passes their decoded form on.
    pub(super) fn read(&mut self, bytes: &[u8], follower: &mut impl Follow) -> Reading {
        let mut read = 0;
        loop {
            read += self.whole_run(&bytes[read..], follower);
            let Some(byte) = bytes.get(read) else {
                return Reading { bytes: read, last: Step::Inside };
            };
            read += 1;
            match self.step(*byte, follower) {
                Step::Inside => {}
                last => return Reading { bytes: read, last },
            }
        }
    }

    /// Reads the characters and escapes that are whole. Returns their bytes. The next byte is the
    /// end of the string, or belongs to what is not whole, or is invalid.
    fn whole_run(&mut self, bytes: &[u8], follower: &mut impl Follow) -> usize {
        if self.state != State::Character {
            return 0;
        }
        let mut read = 0;
        loop {
            let rest = &bytes[read..];
            let bytes = match rest.first() {
                None | Some(b'"') => return read,
                Some(b'\\') => self.whole_escape(rest, follower),
                // It shows that the other half of a surrogate pair is missing.
                Some(_) if self.high.is_some() => return read,
                Some(_) => {
                    let run = character_run(rest);
                    if follower.wants_text() {
                        follower.plain(&rest[..run]);
                    }
                    run
                }
            };
            if bytes == 0 {
                return read;
            }
            read += bytes;
        }
    }

    /// Reads the escape that these bytes begin with, if it is whole and valid. Returns its bytes.
    fn whole_escape(&mut self, bytes: &[u8], follower: &mut impl Follow) -> usize {
        if let Some(unit) = escaped_unit(bytes) {
            self.unit(unit, follower);
            return UNIT_BYTES;
        }
        match escaped_character(bytes) {
            Some(meaning) if self.high.is_none() => {
                follower.byte(meaning);
                2
            }
            _ => 0,
        }
    }

    /// Reads one byte, and passes its decoded form on.
    fn step(&mut self, byte: u8, follower: &mut impl Follow) -> Step {
        match self.state {
            State::Character => self.character(byte, follower),
            State::Escape => self.escape(byte, follower),
            State::Hex { missing, unit } => self.hex(byte, missing, unit, follower),
            State::Sequence { missing, least, most } => {
                if !(least..=most).contains(&byte) {
                    return Step::Broken;
                }
                follower.plain(&[byte]);
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
        follower.plain(&[byte]);
        self.state = next;
        Step::Inside
    }

    fn escape(&mut self, byte: u8, follower: &mut impl Follow) -> Step {
        if byte == b'u' {
            self.state = State::Hex { missing: 4, unit: 0 };
            return Step::Inside;
        }
        let Some(meaning) = meaning(byte) else { return Step::Broken };
        self.end_half(follower);
        follower.byte(meaning);
        self.state = State::Character;
        Step::Inside
    }

    fn hex(&mut self, byte: u8, missing: u8, unit: u16, follower: &mut impl Follow) -> Step {
        let Some(digit) = hex_digit(byte) else { return Step::Broken };
        let unit = unit << 4 | digit;
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
        let high = self.high.take();
        // Most units are characters by themselves.
        let alone = if high.is_none() { char::from_u32(unit.into()) } else { None };
        if let Some(character) = alone {
            return pass(character, follower);
        }
        for decoded in char::decode_utf16(high.into_iter().chain([unit])) {
            match decoded {
                Ok(character) => pass(character, follower),
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

/// Passes on a character that is written as an escape.
fn pass(character: char, follower: &mut impl Follow) {
    if follower.wants_text() {
        character.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| follower.byte(byte));
    }
}

/// The bytes of an escaped unit of UTF-16, such as `\u00e9`.
const UNIT_BYTES: usize = 6;

/// The unit that these bytes begin with, if it is whole and valid.
fn escaped_unit(bytes: &[u8]) -> Option<u16> {
    let [b'\\', b'u', digits @ ..] = bytes else { return None };
    let digits: &[u8; 4] = digits.first_chunk()?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | hex_digit(*digit)?))
}

/// The character that these bytes begin with, if it is written as a letter after a backslash.
fn escaped_character(bytes: &[u8]) -> Option<u8> {
    let [b'\\', escape, ..] = bytes else { return None };
    meaning(*escape)
}

fn hex_digit(byte: u8) -> Option<u16> {
    char::from(byte).to_digit(16).and_then(|digit| digit.try_into().ok())
}

/// The character that a letter after a backslash means.
const fn meaning(escape: u8) -> Option<u8> {
    Some(match escape {
        b'"' | b'\\' | b'/' => escape,
        b'b' => 0x08,
        b'f' => 0x0C,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

/// The number of leading bytes that are whole characters without an escape.
fn character_run(bytes: &[u8]) -> usize {
    let plain = plain_run(bytes);
    if bytes.get(plain).is_none_or(u8::is_ascii) {
        return plain;
    }
    let others = &bytes[plain..];
    let others = &others[..unescaped_run(others)];
    plain + std::str::from_utf8(others).map_or_else(|error| error.valid_up_to(), str::len)
}
