//! The lines of several logs in the order of their times: of several servers, or of one
//! server whose log is rotated, in whatever order the files are named.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::rc::Rc;

use super::input::Input;
use super::lines::Lines;

/// How many lines are looked at to recognise a format.
const SNIFFED: usize = 64;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {input}: {error}")]
pub(crate) struct SourceError {
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
                number: 0,
                time_us: 0,
            }),
            Err(error) => Err(SourceError { input: input.clone(), error }),
        };
        let sources = inputs.iter().map(open).collect::<Result<_, _>>()?;
        let bytes = inputs.iter().map(Input::bytes).sum();
        Ok(Self { sources, order: BinaryHeap::new(), read, bytes })
    }

    /// The first lines of all logs, which are read again later.
    ///
    /// # Errors
    /// If a log cannot be read.
    pub(crate) fn first_lines(&mut self) -> Result<Vec<Vec<u8>>, SourceError> {
        let each = (SNIFFED / self.sources.len().max(1)).max(1);
        let mut lines = Vec::new();
        for source in &mut self.sources {
            match source.lines.look(each) {
                Ok(found) => lines.extend(found.iter().cloned()),
                Err(error) => return Err(SourceError { input: source.input.clone(), error }),
            }
        }
        Ok(lines)
    }

    /// Calls `see` with each line. `time_of` tells the time of a line, if it has one.
    /// `progress` is told the bytes read, and how many there are.
    ///
    /// # Errors
    /// If a log cannot be read.
    pub(crate) fn each(
        mut self,
        time_of: impl Fn(&[u8]) -> Option<u64>,
        mut see: impl FnMut(Numbered<'_>),
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), SourceError> {
        let is_one = self.sources.len() == 1;
        for index in 0..self.sources.len() {
            self.advance(index, is_one, &time_of)?;
        }
        let mut shown = 0;
        while let Some(Reverse((_, index))) = self.order.pop() {
            let source = &self.sources[index];
            see(Numbered { text: &source.next, input: &source.input, number: source.number });
            self.advance(index, is_one, &time_of)?;
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
        time_of: &impl Fn(&[u8]) -> Option<u64>,
    ) -> Result<(), SourceError> {
        let source = &mut self.sources[index];
        match source.lines.next(&mut source.next) {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) => return Err(SourceError { input: source.input.clone(), error }),
        }
        source.number += 1;
        if !is_one {
            source.time_us = time_of(&source.next).unwrap_or(source.time_us);
        }
        self.order.push(Reverse((source.time_us, index)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that are seen, and the bytes that are read, of a log of so many lines.
    fn work(lines: usize) -> (usize, u64) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        std::fs::write(&path, "0123456789\n".repeat(lines)).expect("a file");
        let (mut seen, mut read) = (0, 0);
        let source = Merged::open(&[Input::File(path)]).expect("a log");
        source.each(|_| None, |_| seen += 1, &mut |bytes, _| read = bytes).expect("readable");
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
        source.each(time_of, see, &mut |_, _| {}).expect("readable");
        assert_eq!(seen, ["1", "2", "3", "4", "-", "5", "6"]);
    }
}
