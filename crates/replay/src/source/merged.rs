//! The lines of several logs in the order of their times: of several servers, or of one
//! server whose log is rotated, in whatever order the files are named.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::rc::Rc;

use super::input::Input;
use super::lines::{Lines, MAX_LINE_BYTES};
use crate::line::Envelopes;

/// How many lines are looked at to recognise a format.
pub(crate) const FEW: usize = 64;
/// How many are looked at if none of these is a request.
pub(crate) const MANY: usize = 16_384;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {input}: {error}")]
pub struct SourceError {
    input: Input,
    error: io::Error,
}

/// Several logs.
pub(crate) struct Merged {
    sources: Vec<Source>,
    /// The time of the next line of each source, and the source.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    read: Rc<Cell<u64>>,
    bytes: Option<u64>,
}

struct Source {
    input: Input,
    lines: Lines,
    next: Vec<u8>,
    /// The line with its envelopes.
    enclosed: Vec<u8>,
    number: u64,
    time_us: u64,
}

/// A line and where it stands.
pub(crate) struct Numbered<'s> {
    /// The text.
    pub(crate) text: &'s [u8],
    /// The log.
    pub(crate) input: &'s Input,
    /// Its number, from 1.
    pub(crate) number: u64,
}

impl Merged {
    /// Opens all logs.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub(crate) fn open(inputs: &[Input]) -> Result<Self, SourceError> {
        let read = Rc::new(Cell::new(0));
        let open = |input: &Input| match input.open(Rc::clone(&read)) {
            Ok(reader) => Ok(Source {
                input: input.clone(),
                lines: Lines::new(reader),
                next: Vec::new(),
                enclosed: Vec::new(),
                number: 0,
                time_us: 0,
            }),
            Err(error) => Err(SourceError { input: input.clone(), error }),
        };
        let sources = inputs.iter().map(open).collect::<Result<_, _>>()?;
        let bytes = inputs.iter().map(Input::bytes).sum();
        Ok(Self { sources, order: BinaryHeap::new(), read, bytes })
    }

    /// The first lines of all logs, at most `count`, which are read again later.
    ///
    /// # Errors
    /// If a log cannot be read.
    pub(crate) fn first_lines(&mut self, count: usize) -> Result<Vec<Vec<u8>>, SourceError> {
        let each = (count / self.sources.len().max(1)).max(1);
        let mut lines = Vec::new();
        for source in &mut self.sources {
            match source.lines.look(each) {
                Ok(found) => lines.extend(found.iter().cloned()),
                Err(error) => return Err(SourceError { input: source.input.clone(), error }),
            }
        }
        Ok(lines)
    }

    /// Calls `see` with each line, without its envelopes. `time_of` tells the time of a line, if
    /// it has one. `progress` is told the bytes read, and how many there are.
    ///
    /// # Errors
    /// If a log cannot be read.
    pub(crate) fn each(
        mut self,
        envelopes: &Envelopes,
        time_of: impl Fn(&[u8]) -> Option<u64>,
        mut see: impl FnMut(Numbered<'_>),
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), SourceError> {
        let is_one = self.sources.len() == 1;
        for index in 0..self.sources.len() {
            self.advance(index, is_one, envelopes, &time_of)?;
        }
        let mut shown = 0;
        while let Some(Reverse((_, index))) = self.order.pop() {
            let source = &self.sources[index];
            see(Numbered { text: &source.next, input: &source.input, number: source.number });
            self.advance(index, is_one, envelopes, &time_of)?;
            if self.read.get() != shown {
                shown = self.read.get();
                progress(shown, self.bytes);
            }
        }
        Ok(())
    }

    /// Reads the next line of a source. Without others, its time does not matter.
    fn advance(
        &mut self,
        index: usize,
        is_one: bool,
        envelopes: &Envelopes,
        time_of: &impl Fn(&[u8]) -> Option<u64>,
    ) -> Result<(), SourceError> {
        let source = &mut self.sources[index];
        match source.read(envelopes) {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) => return Err(SourceError { input: source.input.clone(), error }),
        }
        if !is_one {
            source.time_us = time_of(&source.next).unwrap_or(source.time_us);
        }
        self.order.push(Reverse((source.time_us, index)));
        Ok(())
    }
}

impl Source {
    /// Reads the next line. Parts of a line that were split by an envelope are joined. A line
    /// that is not in these envelopes stays as it is. False: there is none.
    fn read(&mut self, envelopes: &Envelopes) -> io::Result<bool> {
        if envelopes.is_empty() {
            let is_any = self.lines.next(&mut self.next)?;
            self.number += u64::from(is_any);
            return Ok(is_any);
        }
        self.next.clear();
        let mut is_any = false;
        while self.lines.next(&mut self.enclosed)? {
            (self.number, is_any) = (self.number + 1, true);
            let Some(content) = envelopes.open(&self.enclosed) else {
                self.next.extend_from_slice(&self.enclosed);
                break;
            };
            let room = MAX_LINE_BYTES.saturating_sub(self.next.len());
            self.next.extend_from_slice(&content.text[..content.text.len().min(room)]);
            if !content.is_part {
                break;
            }
        }
        Ok(is_any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Envelope;

    /// The lines that are seen, and the bytes that are read, of a log of so many lines.
    fn work(lines: usize) -> (usize, u64) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        std::fs::write(&path, "0123456789\n".repeat(lines)).expect("a file");
        let mut seen = 0;
        let mut read = 0;
        let source = Merged::open(&[Input::File(path)]).expect("a log");
        source
            .each(&Envelopes::default(), |_| None, |_| seen += 1, &mut |bytes, _| read = bytes)
            .expect("readable");
        (seen, read)
    }

    #[test]
    fn twice_the_log_is_twice_the_work() {
        assert_eq!(work(20_000), (20_000, 220_000));
        assert_eq!(work(40_000), (40_000, 440_000));
    }

    #[test]
    fn lines_of_several_logs_come_in_the_order_of_their_times() {
        let directory = tempfile::tempdir().expect("a directory");
        let logs = ["1\n4\n-\n6\n", "2\n3\n5\n"].iter().zip(0..).map(|(text, name)| {
            let path = directory.path().join(format!("{name}"));
            std::fs::write(&path, text).expect("a file");
            Input::File(path)
        });
        let source = Merged::open(&logs.collect::<Vec<_>>()).expect("logs");
        let mut seen = Vec::new();
        let time_of = |text: &[u8]| str::from_utf8(text).ok()?.parse().ok();
        let see = |line: Numbered<'_>| seen.push(String::from_utf8_lossy(line.text).into_owned());
        source.each(&Envelopes::default(), time_of, see, &mut |_, _| {}).expect("readable");
        assert_eq!(seen, ["1", "2", "3", "4", "-", "5", "6"]);
    }

    /// Kubernetes splits lines of 16 KiB.
    #[test]
    fn parts_of_a_line_are_joined() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let time = "2026-11-21T07:28:46Z";
        let parts = ["stdout F a", "stdout P b", "stdout P c", "stderr F d", "stdout F e"];
        let mut text: String = parts.iter().map(|part| format!("{time} {part}\n")).collect();
        text += "bare\n";
        text += &format!("{time} stdout P {}\n", "x".repeat(60_000)).repeat(3);
        std::fs::write(&path, text).expect("a file");
        let source = Merged::open(&[Input::File(path)]).expect("a log");
        let envelopes = Envelopes::of(&[Envelope::Cri]);
        let mut seen = Vec::new();
        let see = |line: Numbered<'_>| seen.push((line.number, line.text.to_vec()));
        source.each(&envelopes, |_| None, see, &mut |_, _| {}).expect("readable");
        let last = seen.pop().expect("a long line");
        assert_eq!((last.0, last.1.len()), (9, MAX_LINE_BYTES));
        let expected: [(u64, &[u8]); 4] = [(1, b"a"), (4, b"bcd"), (5, b"e"), (6, b"bare")];
        assert_eq!(seen, expected.map(|(number, text)| (number, text.to_vec())));
    }
}
