//! Lines of access logs, from bytes to fields. Pure: no input panics, and a line is read
//! without what stood before it.

mod alb;
mod cloudfront;
mod common;
mod envoy;
mod fields;
mod format;
mod json;
mod known;
mod names;
mod own_text;
mod text;
mod time;

pub(crate) use fields::{Known, KnownKey, Line, Mark, Parsed};
pub(crate) use format::Format;
pub(crate) use names::{MapError, Names};

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
