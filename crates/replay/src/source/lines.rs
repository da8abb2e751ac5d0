//! Lines of a reader, with a bound on their length.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};

use memchr::memchr;

/// A longer line is cut, and is then most likely not readable.
pub(super) const MAX_LINE_BYTES: usize = 64 * 1024;
const BUFFER_BYTES: usize = 256 * 1024;
/// The most bytes of lines that are looked at before their turn.
const MAX_AHEAD_BYTES: usize = 4 * 1024 * 1024;

/// The lines of a reader.
pub(super) struct Lines {
    reader: BufReader<Box<dyn Read>>,
    /// Lines that were looked at before their turn.
    ahead: VecDeque<Vec<u8>>,
    ahead_bytes: usize,
}

impl Lines {
    pub(super) fn new(reader: Box<dyn Read>) -> Self {
        let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        Self { reader, ahead: VecDeque::new(), ahead_bytes: 0 }
    }

    /// Reads the first `count` lines without taking them, or fewer if they are long.
    pub(super) fn look(&mut self, count: usize) -> io::Result<&VecDeque<Vec<u8>>> {
        while self.ahead.len() < count && self.ahead_bytes < MAX_AHEAD_BYTES {
            let mut line = Vec::new();
            if !read(&mut self.reader, &mut line)? {
                break;
            }
            self.ahead_bytes += line.len();
            self.ahead.push_back(line);
        }
        Ok(&self.ahead)
    }

    /// Reads the next line, without its end, instead of what is in `line`. False: there is
    /// none.
    pub(super) fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        match self.ahead.pop_front() {
            Some(first) => {
                *line = first;
                Ok(true)
            }
            None => read(&mut self.reader, line),
        }
    }
}

fn read(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut is_any = false;
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if buffer.is_empty() {
            break;
        }
        is_any = true;
        let end = memchr(b'\n', buffer);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = MAX_LINE_BYTES - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            break;
        }
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(is_any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(Box::new(io::Cursor::new(text.to_vec())));
        lines.look(1).expect("readable");
        let mut line = Vec::new();
        std::iter::from_fn(|| lines.next(&mut line).expect("readable").then(|| line.clone()))
            .collect()
    }

    #[test]
    fn lines_have_any_end_and_a_bounded_length() {
        assert_eq!(lines(b"a\nb\r\n\nc"), [&b"a"[..], b"b", b"", b"c"]);
        assert!(lines(b"").is_empty());
        let long = [b"x".repeat(MAX_LINE_BYTES + 9), b"\ny\n".to_vec()].concat();
        let found = lines(&long);
        assert_eq!((found.len(), found[0].len(), &*found[1]), (2, MAX_LINE_BYTES, &b"y"[..]));
    }
}
