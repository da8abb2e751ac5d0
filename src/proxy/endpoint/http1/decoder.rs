//! The body of a response, as it is read from the bytes of a connection.

use bytes::{Buf as _, Bytes};
use http_body::{Frame, SizeHint};

use super::head::{Framing, parse_trailers};
use crate::message::{MAX_RESPONSE_FIELDS, MAX_RESPONSE_HEAD_BYTES};
use crate::server::{Chunks, HeadBounds};

/// The bounds of the trailer section of a chunked body.
const BOUNDS: HeadBounds = HeadBounds {
    bytes: MAX_RESPONSE_HEAD_BYTES,
    target_bytes: 0,
    fields: MAX_RESPONSE_FIELDS,
    disguised_names: false,
};

/// A body breaks off, or breaks its framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body of the response broke off")]
pub struct BrokenBody;

/// Reads one body.
#[derive(Debug)]
pub enum Decoder {
    /// A body with this number of bytes to come.
    Length(u64),
    Chunked(ChunkedDecoder),
    /// A body that ends with its connection.
    Closed,
}

/// Reads a chunked body (RFC 9112, section 7.1).
#[derive(Debug)]
pub struct ChunkedDecoder {
    chunks: Chunks,
    /// What has come of the trailer section.
    trailers: Vec<u8>,
}

impl Decoder {
    /// No body, or the end of one.
    pub const ENDED: Self = Self::Length(0);

    pub fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(length) => Self::Length(length),
            Framing::Closed => Self::Closed,
            Framing::Without { .. } => Self::ENDED,
            Framing::Chunked => {
                Self::Chunked(ChunkedDecoder { chunks: Chunks::new(), trailers: Vec::new() })
            }
        }
    }

    /// Takes the next frame from the bytes that have come. None: further bytes are needed, or
    /// the body has ended.
    ///
    /// # Errors
    /// If the body breaks its framing.
    pub fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Frame<Bytes>>, BrokenBody> {
        if bytes.is_empty() {
            return Ok(None);
        }
        match self {
            Self::Length(0) => Ok(None),
            Self::Length(left) => {
                let count = usize::try_from(*left).map_or(bytes.len(), |n| n.min(bytes.len()));
                *left -= u64::try_from(count).expect("it is at most what is left");
                Ok(Some(Frame::data(bytes.split_to(count))))
            }
            Self::Chunked(chunked) => chunked.next(bytes),
            Self::Closed => Ok(Some(Frame::data(std::mem::take(bytes)))),
        }
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// If the body has not.
    pub fn close(&mut self) -> Result<(), BrokenBody> {
        match self {
            Self::Closed => {
                *self = Self::ENDED;
                Ok(())
            }
            _ => Err(BrokenBody),
        }
    }

    pub fn has_ended(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.chunks.has_ended(),
            Self::Closed => false,
        }
    }

    pub fn size_hint(&self) -> SizeHint {
        match self {
            Self::Length(left) => SizeHint::with_exact(*left),
            _ if self.has_ended() => SizeHint::with_exact(0),
            _ => SizeHint::new(),
        }
    }
}

impl ChunkedDecoder {
    fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Frame<Bytes>>, BrokenBody> {
        while !bytes.is_empty() && !self.chunks.has_ended() {
            if self.chunks.is_in_data() {
                let count = self.chunks.skip_data(bytes.len());
                return Ok(Some(Frame::data(bytes.split_to(count))));
            }
            let byte = bytes.get_u8();
            self.chunks.step(byte, &BOUNDS).map_err(|_| BrokenBody)?;
            if self.chunks.is_in_trailers() {
                self.trailers.push(byte);
            }
        }
        if !self.chunks.has_ended() {
            return Ok(None);
        }
        let trailers = std::mem::take(&mut self.trailers);
        let trailers = match &trailers[..] {
            b"" | b"\r\n" => return Ok(None),
            _ => parse_trailers(&trailers.into()).map_err(|_| BrokenBody)?,
        };
        Ok(Some(Frame::trailers(trailers)))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;

    /// Reads a body that comes in `pieces`: its content, its trailers, and the bytes behind it.
    fn decode(
        framing: Framing,
        pieces: &[&[u8]],
    ) -> Result<(Decoder, Vec<u8>, Option<HeaderMap>, Bytes), BrokenBody> {
        let mut decoder = Decoder::new(framing);
        let mut unused = Bytes::new();
        let mut content = Vec::new();
        let mut trailers = None;
        for piece in pieces {
            unused = [&unused[..], piece].concat().into();
            while let Some(frame) = decoder.next(&mut unused)? {
                match frame.into_data() {
                    Ok(data) => content.extend_from_slice(&data),
                    Err(frame) => trailers = frame.into_trailers().ok(),
                }
            }
        }
        Ok((decoder, content, trailers, unused))
    }

    proptest! {
        /// However a body is cut into chunks and pieces, it is read to its end and no further.
        #[test]
        fn a_chunked_body_is_its_chunks(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..5),
            has_trailers: bool,
            piece in 1..60_usize,
            behind in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend_from_slice(format!("{:X};a=b\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n");
            text.extend_from_slice(if has_trailers { b"Sum: 7\r\nx:\r\n\r\n" } else { b"\r\n" });
            text.extend_from_slice(&behind);
            let pieces: Vec<&[u8]> = text.chunks(piece).collect();
            let (decoder, content, trailers, unused) = decode(Framing::Chunked, &pieces).unwrap();
            prop_assert!(decoder.has_ended());
            prop_assert_eq!(decoder.size_hint().exact(), Some(0));
            prop_assert_eq!(content, chunks.concat());
            prop_assert_eq!(&unused[..], &behind[..]);
            prop_assert_eq!(trailers.is_some(), has_trailers);
            prop_assert!(trailers.is_none_or(|trailers| trailers["sum"] == "7"));
        }

        #[test]
        fn a_body_with_a_length_ends_after_it(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            length in 0..100_usize,
            piece in 1..60_usize,
        ) {
            let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
            let framing = Framing::Length(length as u64);
            let (decoder, content, _, unused) = decode(framing, &pieces).unwrap();
            let end = length.min(bytes.len());
            prop_assert_eq!((&content[..], &unused[..]), bytes.split_at(end));
            prop_assert_eq!(decoder.has_ended(), bytes.len() >= length);
            prop_assert_eq!(decoder.size_hint().exact(), Some((length - end) as u64));
        }
    }

    #[test]
    fn only_a_body_without_a_length_may_end_with_its_connection() {
        let (mut decoder, content, ..) = decode(Framing::Closed, &[b"a", b"b"]).unwrap();
        assert_eq!((decoder.has_ended(), &content[..]), (false, &b"ab"[..]));
        assert_eq!((decoder.close(), decoder.has_ended()), (Ok(()), true));
        for (framing, text) in [(Framing::Length(3), "ab"), (Framing::Chunked, "2\r\nab\r\n")] {
            let (mut decoder, content, ..) = decode(framing, &[text.as_bytes()]).unwrap();
            assert_eq!((decoder.close(), &content[..]), (Err(BrokenBody), &b"ab"[..]));
        }
    }

    #[test]
    fn a_body_that_breaks_its_framing_is_broken() {
        for text in ["x\r\n", "-1\r\n", "2\r\nabc\r\n", "0\r\nno trailer\r\n\r\n", "1\nx\n0\n\n"] {
            assert_eq!(decode(Framing::Chunked, &[text.as_bytes()]).unwrap_err(), BrokenBody);
        }
    }
}
