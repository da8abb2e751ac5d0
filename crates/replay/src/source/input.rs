//! Opens a log, decompresses it if its first bytes say that it is compressed, and removes a byte
//! order mark. Text in UTF-16, which PowerShell writes with `>`, becomes UTF-8.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::PathBuf;
use std::rc::Rc;

use encoding_rs_io::DecodeReaderBytesBuilder;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

const BUFFER_BYTES: usize = 64 * 1024;
/// RFC 1952, section 2.3.1.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// RFC 8878, section 3.1.1.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl Input {
    /// How many bytes it has, if this is known.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Self::Stdin => None,
            Self::File(path) => {
                let metadata = std::fs::metadata(path).ok();
                metadata.filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
            }
        }
    }

    /// Whether it can be read once only, as a pipe.
    pub(crate) fn is_read_once(&self) -> bool {
        match self {
            Self::Stdin => true,
            Self::File(path) => !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()),
        }
    }

    /// Opens it as text. Bytes that are read from it are added to `count`, before they are
    /// decompressed.
    pub(super) fn open(&self, count: Rc<Cell<u64>>) -> io::Result<Box<dyn Read>> {
        let reader: Box<dyn Read> = match self {
            Self::Stdin => Box::new(io::stdin()),
            Self::File(path) => Box::new(File::open(path)?),
        };
        Ok(unmarked(decompressed(Counted { reader, count })?))
    }
}

/// Counts the bytes that are read.
struct Counted {
    reader: Box<dyn Read>,
    count: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.count.set(self.count.get().saturating_add(u64::try_from(read).unwrap_or(0)));
        Ok(read)
    }
}

fn decompressed(reader: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, reader);
    let mut first = [0; 4];
    let mut known = 0;
    while known < first.len() {
        match reader.read(&mut first[known..])? {
            0 => break,
            read => known += read,
        }
    }
    let whole = Cursor::new(first[..known].to_vec()).chain(reader);
    Ok(if first[..known].starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(whole))
    } else if first == ZSTD {
        Box::new(ZstdFrames::new(Box::new(whole)))
    } else {
        Box::new(whole)
    })
}

/// The same without a byte order mark. Without one, or after that of UTF-8, bytes stay as they
/// are.
fn unmarked(reader: Box<dyn Read>) -> Box<dyn Read> {
    let mut text = DecodeReaderBytesBuilder::new();
    Box::new(text.utf8_passthru(true).strip_bom(true).build(reader))
}

/// All frames of a zstd file, one after another.
struct ZstdFrames {
    state: Frames,
}

enum Frames {
    /// Between two frames.
    Between(Box<dyn Read>),
    Inside(Box<StreamingDecoder<Box<dyn Read>, ruzstd::decoding::FrameDecoder>>),
    Ended,
}

impl ZstdFrames {
    fn new(reader: Box<dyn Read>) -> Self {
        Self { state: Frames::Between(reader) }
    }
}

impl Read for ZstdFrames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, Frames::Ended) {
                Frames::Ended => return Ok(0),
                Frames::Between(mut reader) => {
                    let mut first = [0];
                    if reader.read(&mut first)? == 0 {
                        return Ok(0);
                    }
                    let whole: Box<dyn Read> = Box::new(Cursor::new(first).chain(reader));
                    let decoder = StreamingDecoder::new(whole).map_err(io::Error::other)?;
                    self.state = Frames::Inside(Box::new(decoder));
                }
                Frames::Inside(mut decoder) => match decoder.read(buffer)? {
                    0 if !buffer.is_empty() => self.state = Frames::Between(decoder.into_inner()),
                    read => {
                        self.state = Frames::Inside(decoder);
                        return Ok(read);
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const TEXT: &[u8] = b"one line\nanother line\n";

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        unmarked(decompressed(Cursor::new(bytes))?).read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn a_log_is_recognised_by_its_first_bytes() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(TEXT).expect("written");
        let gzip = gzip.finish().expect("finished");
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = ruzstd::encoding::compress_to_vec(TEXT, level);
        let twice = TEXT.repeat(2);
        assert_eq!(read(TEXT.to_vec()).expect("text"), TEXT);
        assert_eq!(read(gzip.clone()).expect("gzip"), TEXT);
        assert_eq!(read(gzip.repeat(2)).expect("two members"), twice);
        assert_eq!(read(zstd.clone()).expect("zstd"), TEXT);
        assert_eq!(read(zstd.repeat(2)).expect("two frames"), twice);
        assert_eq!(read(b"ab".to_vec()).expect("short"), b"ab");
        assert_eq!(read(Vec::new()).expect("empty"), b"");
        assert!(read(gzip[..gzip.len() - 9].to_vec()).is_err(), "a torn file is an error");
    }

    /// Notepad, and PowerShell with `>`, write a mark. The first request had no client then.
    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let marked = |text: &[u8]| [&b"\xef\xbb\xbf"[..], text].concat();
        assert_eq!(read(marked(TEXT)).expect("UTF-8"), TEXT);
        assert_eq!(read(marked(b"\xff\x00\n")).expect("bytes"), b"\xff\x00\n");
        assert_eq!(read(marked(b"")).expect("empty"), b"");
        let text = "one line\nanother line \u{e4}\u{1f600}\n";
        let units = || std::iter::once(0xfeff).chain(text.encode_utf16());
        for bytes in [
            units().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(),
            units().flat_map(u16::to_be_bytes).collect(),
        ] {
            assert_eq!(read(bytes).expect("UTF-16"), text.as_bytes());
        }
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&marked(TEXT)).expect("written");
        assert_eq!(read(gzip.finish().expect("finished")).expect("gzip"), TEXT);
    }
}
