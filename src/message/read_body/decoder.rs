//! Reads the bytes of a compressed body. The compressed bytes are what is forwarded.
//!
//! A body is one member of gzip, or one frame of zstd. What follows would be read by some backends
//! and not by others.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

use bytes::{Buf as _, Bytes};
use flate2::bufread::GzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::Coding;

/// The largest window of a frame of zstd. A decoder need not support a larger one (RFC 8878,
/// section 3.1.1.1.2), and the memory for it is taken at once.
const MAX_WINDOW: u64 = 8 * 1024 * 1024;

/// Why the bytes cannot be read: they are not in the coding, or something follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Reads the bytes of a compressed body.
pub enum Decoder {
    /// The bytes themselves.
    Identity(Blocks),
    /// Boxed, because their tables are large.
    Gzip(Box<GzDecoder<Blocks>>),
    /// The same.
    Zstd(Box<StreamingDecoder<Blocks, FrameDecoder>>),
}

/// The blocks of a body, read one after another.
pub struct Blocks(VecDeque<Bytes>);

impl Decoder {
    /// Reads these blocks.
    ///
    /// # Errors
    /// If they do not begin as the coding does.
    pub fn new(coding: Coding, blocks: impl Iterator<Item = Bytes>) -> Result<Self, Fault> {
        let blocks = Blocks(blocks.filter(|block| !block.is_empty()).collect());
        Ok(match coding {
            Coding::Identity => Self::Identity(blocks),
            Coding::Gzip => Self::Gzip(Box::new(GzDecoder::new(blocks))),
            Coding::Zstd => {
                let decoder = StreamingDecoder::new_with_max_window_size(blocks, MAX_WINDOW);
                Self::Zstd(Box::new(decoder.map_err(|_| Fault)?))
            }
        })
    }

    /// Reads the next bytes into `buffer`, and returns how many. 0: there are no others.
    ///
    /// # Errors
    /// If the bytes are not in the coding, break off, or something follows.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        let read = match self {
            Self::Identity(blocks) => blocks.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        };
        let read = read.map_err(|_| Fault)?;
        if read > 0 || self.is_at_end() { Ok(read) } else { Err(Fault) }
    }

    /// Whether nothing follows.
    fn is_at_end(&self) -> bool {
        match self {
            Self::Identity(_) => true,
            Self::Gzip(decoder) => decoder.get_ref().0.is_empty(),
            Self::Zstd(decoder) => decoder.get_ref().0.is_empty(),
        }
    }
}

impl BufRead for Blocks {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(self.0.front().map_or(&[], |block| block))
    }

    fn consume(&mut self, bytes: usize) {
        if let Some(block) = self.0.front_mut() {
            block.advance(bytes.min(block.len()));
            if block.is_empty() {
                self.0.pop_front();
            }
        }
    }
}

impl Read for Blocks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let block = self.fill_buf()?;
        let read = block.len().min(buffer.len());
        buffer[..read].copy_from_slice(&block[..read]);
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).expect("memory can be written to");
        encoder.finish().expect("memory can be written to")
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    fn decode(coding: Coding, body: &[u8], block: usize) -> Result<Vec<u8>, Fault> {
        let blocks = body.chunks(block).map(Bytes::copy_from_slice).collect::<Vec<_>>();
        let mut decoder = Decoder::new(coding, blocks.into_iter())?;
        let mut text = Vec::new();
        let mut buffer = [0; 100];
        loop {
            match decoder.read(&mut buffer)? {
                0 => return Ok(text),
                read => text.extend_from_slice(&buffer[..read]),
            }
        }
    }

    #[test]
    fn what_is_no_whole_body_of_its_coding_is_a_fault() {
        let text = b"{\"model\":\"m\"}";
        for (coding, body) in [(Coding::Gzip, gzip(text)), (Coding::Zstd, zstd(text))] {
            assert_eq!(decode(coding, &body, 7), Ok(text.to_vec()));
            for end in 0..body.len() {
                assert_eq!(decode(coding, &body[..end], 7), Err(Fault), "{coding:?} {end}");
            }
            for rest in [&b" "[..], &body[..], b"\0"] {
                let longer = [&body[..], rest].concat();
                assert_eq!(decode(coding, &longer, 1000), Err(Fault), "{coding:?}");
                assert_eq!(decode(coding, &longer, body.len()), Err(Fault), "{coding:?}");
            }
            assert_eq!(decode(coding, text, 7), Err(Fault));
        }
    }

    #[test]
    fn a_frame_that_wants_a_large_window_is_a_fault() {
        // The magic number, no checksum, and a window of 16 MiB: an exponent of 14.
        let frame = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 14 << 3, 0x01, 0x00, 0x00];
        assert_eq!(decode(Coding::Zstd, &frame, 100), Err(Fault));
        let small = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 12 << 3, 0x01, 0x00, 0x00];
        assert_eq!(decode(Coding::Zstd, &small, 100), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn every_text_is_read_again(
            text in prop::collection::vec(0..4_u8, 0..2000),
            block in 1..300_usize,
        ) {
            prop_assert_eq!(&decode(Coding::Identity, &text, block), &Ok(text.clone()));
            prop_assert_eq!(&decode(Coding::Gzip, &gzip(&text), block), &Ok(text.clone()));
            prop_assert_eq!(&decode(Coding::Zstd, &zstd(&text), block), &Ok(text));
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(decode(Coding::Gzip, &[&gzip(b"")[..10], &body].concat(), 50));
            drop(decode(Coding::Zstd, &[&zstd(b"")[..4], &body].concat(), 50));
        }
    }
}
