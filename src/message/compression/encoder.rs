//! The encoders of the libraries, which write into memory.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;
use zstd::zstd_safe::CParameter;

use super::settings::Encoding;

/// A good compromise of time and size.
const GZIP_LEVEL: u32 = 5;
/// The usual level of the library.
const ZSTD_LEVEL: i32 = 3;
/// A window of 64 KiB and tables of 192 KiB: an encoder then has about 700 KiB, and 3 MiB with the
/// usual sizes of the level.
const ZSTD_SIZES: [CParameter; 3] =
    [CParameter::WindowLog(16), CParameter::HashLog(15), CParameter::ChainLog(14)];
/// Why an encoder does not fail.
const IN_MEMORY: &str = "memory can be written to";

/// An encoder, and what it has written.
pub enum Encoder {
    Gzip(Box<GzEncoder<Vec<u8>>>),
    Zstd(Box<ZstdEncoder<'static, Vec<u8>>>),
}

impl Encoder {
    /// The encoder of a new body.
    pub fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Gzip => {
                let level = Compression::new(GZIP_LEVEL);
                Self::Gzip(Box::new(GzEncoder::new(Vec::new(), level)))
            }
            Encoding::Zstd => {
                let mut encoder =
                    ZstdEncoder::new(Vec::new(), ZSTD_LEVEL).expect("the level is known");
                for size in ZSTD_SIZES {
                    encoder.set_parameter(size).expect("the sizes are allowed");
                }
                Self::Zstd(Box::new(encoder))
            }
        }
    }

    /// Adds a piece of the body.
    pub fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
        .expect(IN_MEMORY);
    }

    /// Writes all that was added in a form that can be read.
    pub fn flush(&mut self) {
        match self {
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
        .expect(IN_MEMORY);
    }

    /// The body has ended.
    pub fn finish(&mut self) {
        match self {
            Self::Gzip(encoder) => encoder.try_finish(),
            Self::Zstd(encoder) => encoder.do_finish(),
        }
        .expect(IN_MEMORY);
    }

    /// What was written and not taken.
    pub fn written(&self) -> &Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.get_ref(),
            Self::Zstd(encoder) => encoder.get_ref(),
        }
    }

    /// The same, to take it.
    pub fn written_mut(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        }
    }
}
