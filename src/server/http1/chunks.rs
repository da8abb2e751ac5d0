//! The chunked coding of a request body (RFC 9112, section 7.1), checked byte by byte to
//! find the end of the body.
//!
//! Guarantee: every parser reads an accepted body in the same way. Lines must end with CR
//! and LF: parsers differ on a single LF, and no client sends one.

#[cfg(test)]
mod tests;

use tollgate_core::request::Malformed;

use super::head::{ODD, TOKEN, is, is_field_value};
use crate::server::settings::HeadBounds;

/// The most bytes of all extensions of one body. They are skipped.
const MAX_EXTENSION_BYTES: usize = 8 * 1024;
/// The digits of the largest size.
const MAX_SIZE_DIGITS: u8 = 16;

/// The position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    state: State,
    /// The number of digits of the size; then the bytes of the chunk that are to come.
    digits: u8,
    size: u64,
    extension_bytes: usize,
    trailers: usize,
    trailer_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    BlankAfterSize,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer field, or of the last line.
    Line,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    End,
}

impl Chunks {
    /// At the start of a body.
    pub const fn new() -> Self {
        Self {
            state: State::Size,
            digits: 0,
            size: 0,
            extension_bytes: 0,
            trailers: 0,
            trailer_bytes: 0,
        }
    }

    /// Whether the next byte is content.
    pub fn is_in_data(&self) -> bool {
        self.state == State::Data
    }

    /// Whether the last byte is part of the trailer section, which ends with an empty line.
    pub fn is_in_trailers(&self) -> bool {
        use State::{End, LastLf, Line, TrailerLf, TrailerName, TrailerValue};
        match self.state {
            TrailerName | TrailerValue | TrailerLf | LastLf | End => true,
            Line => self.trailers > 0,
            _ => false,
        }
    }

    /// Whether the body has ended.
    pub fn has_ended(&self) -> bool {
        self.state == State::End
    }

    /// Returns how many of `bytes` belong to the body: all, unless it ends within them.
    ///
    /// # Errors
    /// If the body is malformed, with the number of bytes before the fault.
    pub fn check(
        &mut self,
        bytes: &[u8],
        bounds: &HeadBounds,
    ) -> Result<usize, (usize, Malformed)> {
        let mut at = 0;
        while at < bytes.len() && !self.has_ended() {
            if self.is_in_data() {
                at += self.skip_data(bytes.len() - at);
            } else {
                self.step(bytes[at], bounds).map_err(|malformed| (at, malformed))?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// Skips up to `available` bytes of a chunk. Returns how many.
    pub fn skip_data(&mut self, available: usize) -> usize {
        let skipped = usize::try_from(self.size).map_or(available, |size| size.min(available));
        self.size -= u64::try_from(skipped).expect("it is at most the size");
        if self.size == 0 {
            self.state = State::DataCr;
        }
        skipped
    }

    /// The next byte, which is not content.
    ///
    /// # Errors
    /// If the body is malformed.
    pub fn step(&mut self, byte: u8, bounds: &HeadBounds) -> Result<(), Malformed> {
        self.state = match (self.state, byte) {
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte)?,
            (State::Size, b'\r') if self.digits > 0 => State::SizeLf,
            (State::Size, b' ' | b'\t') if self.digits > 0 => self.extend(State::BlankAfterSize)?,
            (State::Size, b';') if self.digits > 0 => State::Extension,
            (State::BlankAfterSize, b' ' | b'\t') => self.extend(State::BlankAfterSize)?,
            (State::BlankAfterSize, b';') => State::Extension,
            (State::Extension, b'\r') => State::SizeLf,
            (State::Extension, _) if is_field_value(&[byte]) => self.extend(State::Extension)?,
            (State::SizeLf, b'\n') if self.size > 0 => State::Data,
            (State::SizeLf, b'\n') => State::Line,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => {
                self.digits = 0;
                State::Size
            }
            (State::Line, b'\r') => State::LastLf,
            (State::LastLf, b'\n') => State::End,
            (State::Line | State::TrailerName, _) if is(TOKEN | ODD, byte) => {
                self.trail(State::TrailerName, bounds)?
            }
            (State::TrailerName, b':') => self.trail(State::TrailerValue, bounds)?,
            (State::TrailerValue, b'\r') => State::TrailerLf,
            (State::TrailerValue, _) if is_field_value(&[byte]) => {
                self.trail(State::TrailerValue, bounds)?
            }
            (State::TrailerLf, b'\n') => self.end_trailer(bounds)?,
            (
                State::Line
                | State::TrailerName
                | State::TrailerValue
                | State::TrailerLf
                | State::LastLf,
                _,
            ) => return Err(Malformed::BadTrailer),
            _ => return Err(Malformed::BadChunk),
        };
        Ok(())
    }

    fn digit(&mut self, byte: u8) -> Result<State, Malformed> {
        if self.digits == MAX_SIZE_DIGITS {
            return Err(Malformed::BadChunk);
        }
        self.digits += 1;
        let value = char::from(byte).to_digit(16).ok_or(Malformed::BadChunk)?;
        // Sixteen digits fill all bits, so nothing is lost by the shift.
        self.size = self.size << 4 | u64::from(value);
        Ok(State::Size)
    }

    fn extend(&mut self, state: State) -> Result<State, Malformed> {
        self.extension_bytes += 1;
        let is_within = self.extension_bytes <= MAX_EXTENSION_BYTES;
        if is_within { Ok(state) } else { Err(Malformed::ExtensionsTooLarge) }
    }

    fn trail(&mut self, state: State, bounds: &HeadBounds) -> Result<State, Malformed> {
        self.trailer_bytes += 1;
        let is_within = self.trailer_bytes <= bounds.bytes;
        if is_within { Ok(state) } else { Err(Malformed::TrailersTooLarge) }
    }

    fn end_trailer(&mut self, bounds: &HeadBounds) -> Result<State, Malformed> {
        self.trailers += 1;
        let is_within = self.trailers <= bounds.fields;
        if is_within { Ok(State::Line) } else { Err(Malformed::TrailersTooLarge) }
    }
}
