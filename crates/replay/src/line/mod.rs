//! Lines of access logs, from bytes to fields. Pure: no input panics, and a line is read
//! without what stood before it.

mod alb;
mod cloudfront;
mod common;
mod duration;
mod envelope;
mod envoy;
mod fields;
mod format;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod haproxy;
mod json;
mod known;
mod names;
mod own_text;
mod recognise;
#[cfg(test)]
mod shapes;
mod text;
mod time;

#[cfg(test)]
pub(crate) use envelope::Envelope;
pub(crate) use envelope::Envelopes;
pub(crate) use fields::{Known, KnownKey, Line, Mark, Parsed};
pub use format::Format;
pub use names::{MapError, Names};
pub(crate) use recognise::Recognised;

/// A line with another byte at `cut`, and the same cut off there. Parsers must not panic.
#[cfg(test)]
fn damaged(line: impl Into<Vec<u8>>, cut: usize, with: u8) -> [Vec<u8>; 2] {
    let mut line = line.into();
    if let Some(byte) = line.get_mut(cut) {
        *byte = with;
    }
    let start = line[..cut.min(line.len())].to_vec();
    [line, start]
}
