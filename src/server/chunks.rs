//! The chunked coding of a request's body (RFC 9112, section 7.1), followed byte
//! by byte to know where the body ends.
//!
//! What it guarantees: what it lets pass is read the same way by everybody. Lines
//! end with CR and LF here: readers differ on a lone LF, and no client sends one.

#[cfg(test)]
mod tests;

use super::head::{HeadBounds, ODD, TOKEN, is, is_field_value};
use crate::request::Malformed;

/// Bytes of all extensions of one body. Nobody uses them; they are read over.
const MAX_EXTENSION_BYTES: usize = 8 * 1024;
/// As many as the largest size has.
const MAX_SIZE_DIGITS: u8 = 16;

/// Where in a chunked body one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    place: Place,
    /// Of the size, digits; then bytes that are still missing of the chunk.
    digits: u8,
    size: u64,
    extension_bytes: usize,
    trailers: usize,
    trailer_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Size,
    BlankAfterSize,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer field or of the last line.
    Line,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    End,
}

impl Chunks {
    /// At the start of a body.
    pub(super) const fn new() -> Self {
        Self {
            place: Place::Size,
            digits: 0,
            size: 0,
            extension_bytes: 0,
            trailers: 0,
            trailer_bytes: 0,
        }
    }

    /// Whether the body has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.place == Place::End
    }

    /// How many of `bytes` belong to the body; all, unless it ends there.
    ///
    /// # Errors
    /// If it is no body of chunks, and how many bytes came before that shows.
    pub(super) fn follow(
        &mut self,
        bytes: &[u8],
        bounds: &HeadBounds,
    ) -> Result<usize, (usize, Malformed)> {
        let mut at = 0;
        while at < bytes.len() && !self.has_ended() {
            if self.place == Place::Data {
                at += self.skip_data(bytes.len() - at);
            } else {
                self.step(bytes[at], bounds).map_err(|malformed| (at, malformed))?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// Goes over up to `available` bytes of a chunk, and says how many.
    fn skip_data(&mut self, available: usize) -> usize {
        let skipped = usize::try_from(self.size).map_or(available, |size| size.min(available));
        self.size -= u64::try_from(skipped).expect("it is at most the size");
        if self.size == 0 {
            self.place = Place::DataCr;
        }
        skipped
    }

    fn step(&mut self, byte: u8, bounds: &HeadBounds) -> Result<(), Malformed> {
        self.place = match (self.place, byte) {
            (Place::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte)?,
            (Place::Size, b'\r') if self.digits > 0 => Place::SizeLf,
            (Place::Size, b' ' | b'\t') if self.digits > 0 => self.extend(Place::BlankAfterSize)?,
            (Place::Size, b';') if self.digits > 0 => Place::Extension,
            (Place::BlankAfterSize, b' ' | b'\t') => self.extend(Place::BlankAfterSize)?,
            (Place::BlankAfterSize, b';') => Place::Extension,
            (Place::Extension, b'\r') => Place::SizeLf,
            (Place::Extension, _) if is_field_value(&[byte]) => self.extend(Place::Extension)?,
            (Place::SizeLf, b'\n') if self.size > 0 => Place::Data,
            (Place::SizeLf, b'\n') => Place::Line,
            (Place::DataCr, b'\r') => Place::DataLf,
            (Place::DataLf, b'\n') => {
                self.digits = 0;
                Place::Size
            }
            (Place::Line, b'\r') => Place::LastLf,
            (Place::LastLf, b'\n') => Place::End,
            (Place::Line | Place::TrailerName, _) if is(TOKEN | ODD, byte) => {
                self.trail(Place::TrailerName, bounds)?
            }
            (Place::TrailerName, b':') => self.trail(Place::TrailerValue, bounds)?,
            (Place::TrailerValue, b'\r') => Place::TrailerLf,
            (Place::TrailerValue, _) if is_field_value(&[byte]) => {
                self.trail(Place::TrailerValue, bounds)?
            }
            (Place::TrailerLf, b'\n') => self.end_trailer(bounds)?,
            (
                Place::Line
                | Place::TrailerName
                | Place::TrailerValue
                | Place::TrailerLf
                | Place::LastLf,
                _,
            ) => return Err(Malformed::BadTrailer),
            _ => return Err(Malformed::BadChunk),
        };
        Ok(())
    }

    fn digit(&mut self, byte: u8) -> Result<Place, Malformed> {
        if self.digits == MAX_SIZE_DIGITS {
            return Err(Malformed::BadChunk);
        }
        self.digits += 1;
        let value = char::from(byte).to_digit(16).ok_or(Malformed::BadChunk)?;
        // Sixteen digits fill all bits, and the first chunk leaves 0 behind.
        self.size = self.size << 4 | u64::from(value);
        Ok(Place::Size)
    }

    fn extend(&mut self, place: Place) -> Result<Place, Malformed> {
        self.extension_bytes += 1;
        let is_within = self.extension_bytes <= MAX_EXTENSION_BYTES;
        if is_within { Ok(place) } else { Err(Malformed::ExtensionsTooLarge) }
    }

    fn trail(&mut self, place: Place, bounds: &HeadBounds) -> Result<Place, Malformed> {
        self.trailer_bytes += 1;
        let is_within = self.trailer_bytes <= bounds.bytes;
        if is_within { Ok(place) } else { Err(Malformed::TrailersTooLarge) }
    }

    fn end_trailer(&mut self, bounds: &HeadBounds) -> Result<Place, Malformed> {
        self.trailers += 1;
        let is_within = self.trailers <= bounds.fields;
        if is_within { Ok(Place::Line) } else { Err(Malformed::TrailersTooLarge) }
    }
}
