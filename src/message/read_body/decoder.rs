//! Reads the bytes of a compressed body. The compressed bytes are what is forwarded.
//!
//! A body is one member of gzip, or one frame of zstd. What follows would be read by some backends
//! and not by others.

use std::collections::VecDeque;
use std::io::{self, BufRead, ErrorKind, Read};

use bytes::{Buf as _, Bytes};
use flate2::bufread::GzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::Coding;

/// The largest window of a frame of zstd. A decoder need not support a larger one (RFC 8878,
/// section 3.1.1.1.2), and the memory for it is taken at once.
const MAX_WINDOW: u64 = 8 * 1024 * 1024;
/// The compressed bytes that are read without a pause, besides the rest of a block of zstd. Many of them can stand for no text at all: a block
/// of gzip without text has ten bits, and one of zstd three bytes.
const STEP_BYTES: usize = 8 * 1024;

/// Why the bytes cannot be read: they are not in the coding, or something follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// What one step of a decoder gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// So many bytes, at least one.
    Bytes(usize),
    /// None now. This is the time for other work: compressed bytes stand for less text than it takes
    /// to read them, or for none.
    NoneYet,
    /// None, and nothing follows.
    End,
}

/// Reads the bytes of a compressed body.
pub enum Decoder {
    /// The bytes themselves.
    Identity(Blocks),
    /// Boxed, because their tables are large.
    Gzip(Box<GzDecoder<Blocks>>),
    /// The same.
    Zstd(Box<Zstd>),
}

/// Reads a frame of zstd.
pub struct Zstd {
    frame: FrameDecoder,
    blocks: Blocks,
}

/// The blocks of a body, read one after another.
pub struct Blocks {
    blocks: VecDeque<Bytes>,
    /// The bytes that may still be read before the next pause.
    left: usize,
}

impl Decoder {
    /// Reads these blocks.
    ///
    /// # Errors
    /// If they do not begin as the coding does.
    pub fn new(coding: Coding, blocks: impl Iterator<Item = Bytes>) -> Result<Self, Fault> {
        let blocks = blocks.filter(|block| !block.is_empty()).collect();
        let blocks = Blocks { blocks, left: STEP_BYTES };
        Ok(match coding {
            Coding::Identity => Self::Identity(blocks),
            Coding::Gzip => Self::Gzip(Box::new(GzDecoder::new(blocks))),
            Coding::Zstd => Self::Zstd(Box::new(Zstd::new(blocks)?)),
        })
    }

    /// Reads the next bytes into `buffer`, which is not empty.
    ///
    /// # Errors
    /// If the bytes are not in the coding, break off, or something follows.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Decoded, Fault> {
        let read = match self {
            Self::Identity(blocks) => blocks.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        };
        match read {
            Ok(0) if self.blocks_mut().blocks.is_empty() => Ok(Decoded::End),
            Ok(0) => Err(Fault),
            Ok(read) => Ok(Decoded::Bytes(read)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.blocks_mut().left = STEP_BYTES;
                Ok(Decoded::NoneYet)
            }
            Err(_) => Err(Fault),
        }
    }

    fn blocks_mut(&mut self) -> &mut Blocks {
        match self {
            Self::Identity(blocks) => blocks,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zstd(decoder) => &mut decoder.blocks,
        }
    }
}

impl Zstd {
    fn new(mut blocks: Blocks) -> Result<Self, Fault> {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(MAX_WINDOW);
        frame.init(&mut blocks).map_err(|_| Fault)?;
        Ok(Self { frame, blocks })
    }
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.can_collect() == 0 && !self.frame.is_finished() {
            if self.blocks.left == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let one = BlockDecodingStrategy::UptoBlocks(1);
            self.frame.decode_blocks(&mut self.blocks, one).map_err(io::Error::other)?;
        }
        self.frame.read(buffer)
    }
}

impl BufRead for Blocks {
    /// The rest of the present block, as far as it may be read before the next pause. The decoder of
    /// gzip goes on after an error of the kind `WouldBlock`.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.blocks.front() {
            None => Ok(&[]),
            Some(_) if self.left == 0 => Err(ErrorKind::WouldBlock.into()),
            Some(block) => Ok(&block[..block.len().min(self.left)]),
        }
    }

    fn consume(&mut self, bytes: usize) {
        if let Some(block) = self.blocks.front_mut() {
            block.advance(bytes.min(block.len()));
            self.left = self.left.saturating_sub(bytes);
            if block.is_empty() {
                self.blocks.pop_front();
            }
        }
    }
}

impl Read for Blocks {
    /// A decoder that reads in this way, and not by [`BufRead`], gets all bytes that it wants.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let block = self.blocks.front().map_or(&[][..], |block| block);
        let read = block.len().min(buffer.len());
        buffer[..read].copy_from_slice(&block[..read]);
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::write::GzEncoder;
    use flate2::{Compression, Crc};
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
                Decoded::Bytes(read) => text.extend_from_slice(&buffer[..read]),
                Decoded::NoneYet => {}
                Decoded::End => return Ok(text),
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

    /// A text of several blocks of zstd, and of many steps in both codings: a half of its bytes
    /// cannot be compressed.
    #[test]
    fn a_body_of_many_steps_is_read_whole() {
        let mut rng = fastrand::Rng::with_seed(1);
        let text: Vec<u8> =
            (0..1_000_000).map(|at| if at % 2 == 0 { rng.u8(..) } else { b'x' }).collect();
        for (coding, body) in [(Coding::Gzip, gzip(&text)), (Coding::Zstd, zstd(&text))] {
            assert!(body.len() > 50 * STEP_BYTES, "{coding:?}");
            assert!(decode(coding, &body, 5000).as_ref() == Ok(&text), "{coding:?}");
            assert_eq!(decode(coding, &body[..body.len() - 1], 5000), Err(Fault), "{coding:?}");
        }
    }

    /// How many pauses there are before the end, and how many bytes of text.
    fn pauses(coding: Coding, body: &[u8]) -> (usize, usize) {
        let blocks = body.chunks(100_000).map(Bytes::copy_from_slice).collect::<Vec<_>>();
        let mut decoder = Decoder::new(coding, blocks.into_iter()).expect("it begins well");
        let mut pauses = 0;
        let mut text = 0;
        loop {
            match decoder.read(&mut [0; 100]).expect("it is in the coding") {
                Decoded::Bytes(read) => text += read,
                Decoded::NoneYet => pauses += 1,
                Decoded::End => return (pauses, text),
            }
        }
    }

    #[test]
    fn many_bytes_with_little_or_no_text_have_many_pauses() {
        // Blocks of ten bits, and at the end the last block, the checksum and the length.
        let header = &gzip(b"")[..10];
        let empty = [2, 8, 32, 128, 0].repeat(200_000 / 4);
        let body = [header, &empty, &[3, 0], &[0; 8]].concat();
        let (count, text) = pauses(Coding::Gzip, &body);
        assert!(count >= body.len() / STEP_BYTES && text == 0, "{count}");
        // The same with a byte of text after each 8,000.
        let part = [&empty[..8_000], &[0, 1, 0, 0xFE, 0xFF, b' ']].concat();
        let mut sum = Crc::new();
        sum.update(&[b' '; 30]);
        let end = [sum.sum().to_le_bytes(), sum.amount().to_le_bytes()].concat();
        let body = [header, &part.repeat(30), &[3, 0], &end].concat();
        let (count, text) = pauses(Coding::Gzip, &body);
        assert!(count >= body.len() / STEP_BYTES && text == 30, "{count}");
        // Blocks of three bytes, and at the end the last one.
        let header = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 12 << 3];
        let body = [&header[..], &[0; 300_000], &[1, 0, 0]].concat();
        let (count, text) = pauses(Coding::Zstd, &body);
        assert!(count >= body.len() / STEP_BYTES && text == 0, "{count}");
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
