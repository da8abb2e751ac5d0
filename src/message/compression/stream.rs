//! Compresses a body piece by piece. It knows no sockets: its caller says when the body pauses.

use std::fmt;

use super::encoder::Encoder;
use super::settings::Encoding;
use bytes::Bytes;

/// Compressed bytes that are passed on together.
const PIECE_BYTES: usize = 8 * 1024;
/// Bytes that are compressed before something is passed on, whatever their compressed size is.
const MAX_HELD_BYTES: usize = 64 * 1024;

/// A body that is compressed.
pub struct Compressor {
    encoder: Encoder,
    /// Bytes that were compressed after the last piece that a reader can decompress.
    held: usize,
    /// Whether each piece is passed on as a whole.
    is_event_stream: bool,
}

/// Whether there is something to pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// More bytes are needed.
    Pending,
    /// [`Compressor::take`] has bytes.
    Ready,
}

impl Compressor {
    /// A body in this encoding. Of an event stream, each piece is passed on at once.
    pub fn new(encoding: Encoding, is_event_stream: bool) -> Self {
        Self { encoder: Encoder::new(encoding), held: 0, is_event_stream }
    }

    /// Adds a piece of the body.
    pub fn add(&mut self, bytes: &[u8]) -> Piece {
        if !bytes.is_empty() {
            self.encoder.write(bytes);
            self.held = self.held.saturating_add(bytes.len());
        }
        if self.is_event_stream || self.held >= MAX_HELD_BYTES {
            return self.pause();
        }
        match self.encoder.written().len() >= PIECE_BYTES {
            true => Piece::Ready,
            false => Piece::Pending,
        }
    }

    /// The body pauses: all that was added can be read now.
    pub fn pause(&mut self) -> Piece {
        if self.held > 0 {
            self.held = 0;
            self.encoder.flush();
        }
        match self.encoder.written().is_empty() {
            true => Piece::Pending,
            false => Piece::Ready,
        }
    }

    /// The body has ended. There are bytes in any case.
    pub fn end(&mut self) -> Piece {
        self.encoder.finish();
        Piece::Ready
    }

    /// The compressed bytes.
    pub fn take(&mut self) -> Bytes {
        std::mem::take(self.encoder.written_mut()).into()
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("held", &self.held).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::*;

    const ENCODINGS: [Encoding; 2] = [Encoding::Gzip, Encoding::Zstd];

    fn decoder<'c>(encoding: Encoding, compressed: &'c [u8]) -> Box<dyn Read + 'c> {
        match encoding {
            Encoding::Gzip => Box::new(GzDecoder::new(compressed)),
            Encoding::Zstd => {
                Box::new(zstd::stream::read::Decoder::new(compressed).expect("there is memory"))
            }
        }
    }

    /// All that can be decompressed of the beginning of a body.
    fn readable(encoding: Encoding, compressed: &[u8]) -> Vec<u8> {
        let mut decoder = decoder(encoding, compressed);
        let mut read = Vec::new();
        let mut piece = [0; 1024];
        while let Ok(bytes @ 1..) = decoder.read(&mut piece) {
            read.extend_from_slice(&piece[..bytes]);
        }
        read
    }

    proptest! {
        #[test]
        fn a_body_is_the_same_after_it_was_decompressed(
            pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3000), any::<bool>()), 0..30),
            is_event_stream: bool,
            encoding in prop::sample::select(&ENCODINGS[..]),
        ) {
            let mut compressor = Compressor::new(encoding, is_event_stream);
            let mut compressed = Vec::new();
            let mut whole = Vec::new();
            for (piece, pauses) in &pieces {
                whole.extend_from_slice(piece);
                let mut result = compressor.add(piece);
                if *pauses {
                    result = compressor.pause();
                }
                if result == Piece::Ready {
                    compressed.extend_from_slice(&compressor.take());
                }
                if *pauses || is_event_stream {
                    prop_assert_eq!(&readable(encoding, &compressed), &whole);
                }
            }
            compressor.end();
            compressed.extend_from_slice(&compressor.take());
            let mut decompressed = Vec::new();
            decoder(encoding, &compressed).read_to_end(&mut decompressed).unwrap();
            prop_assert_eq!(decompressed, whole);
        }
    }

    /// Otherwise a body of zeros would be read to its end before its client gets a byte.
    #[test]
    fn a_body_that_compresses_well_is_passed_on_all_the_same() {
        for encoding in ENCODINGS {
            let mut compressor = Compressor::new(encoding, false);
            let piece = [0; 16 * 1024];
            let results: Vec<_> = (0..4).map(|_| compressor.add(&piece)).collect();
            assert_eq!(results, [Piece::Pending, Piece::Pending, Piece::Pending, Piece::Ready]);
            assert_eq!(readable(encoding, &compressor.take()).len(), 64 * 1024);
            assert_eq!(compressor.pause(), Piece::Pending);
        }
    }
}
