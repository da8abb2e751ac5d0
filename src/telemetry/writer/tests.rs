//! The thread of a log: rotation, outputs that accept nothing, and lost lines.

use std::fs;
use std::io::{Read as _, Write};
use std::path::Path;
use std::sync::mpsc;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::*;

fn kind(batches: usize) -> LogKind {
    let dropped = |lines| format!("{lines} lost\n");
    LogKind { name: "test", batches, dropped, lost: LostLines::default() }
}

fn soon() -> Instant {
    monotonic() + Duration::from_secs(10)
}

#[test]
fn a_file_is_opened_again_after_it_was_renamed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let old = directory.path().join("log.1");
    let writer = LogWriter::start(kind(64), &Output::File(path.clone())).expect("a file");
    let queue = writer.queue();
    queue.send(b"one\n".to_vec(), 1);
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let wait_for = |path: &Path, text: &str| {
        while read(path) != text {
            thread::sleep(Duration::from_millis(1));
        }
    };
    wait_for(&path, "one\n");
    fs::rename(&path, &old).expect("it is there");
    queue.send(b"two\n".to_vec(), 1);
    wait_for(&old, "one\ntwo\n");
    writer.reopener().reopen();
    queue.send(b"three\n".to_vec(), 1);
    assert!(writer.close_by(soon()), "although a queue is left");
    assert_eq!((read(&old), read(&path)), ("one\ntwo\n".into(), "three\n".into()));
}

/// To open it waited for a process that reads it, and the gateway did not start.
#[test]
fn a_fifo_that_no_process_reads_is_an_error_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &path, FileType::Fifo, mode, 0).expect("a FIFO");
    let (sender, started) = mpsc::channel();
    let output = Output::File(path.clone());
    let open = move || LogWriter::start(kind(64), &output);
    let other = open.clone();
    thread::spawn(move || sender.send(other().err().map(|error| error.to_string())));
    let error = started.recv_timeout(Duration::from_secs(10)).expect("it does not wait");
    assert_eq!(error.as_deref(), Some("it is a FIFO (a pipe) that no process reads"));
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
    let mut reader = fs::File::from(reader.expect("a reader"));
    let writer = open().expect("a process reads it");
    writer.queue().send(b"one\n".to_vec(), 1);
    assert!(writer.close_by(soon()));
    let mut read = String::new();
    reader.read_to_string(&mut read).expect("it is read");
    assert_eq!(read, "one\n");
}

#[test]
fn a_file_is_opened_again_while_no_lines_come() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let writer = LogWriter::start(kind(64), &Output::File(path.clone())).expect("a file");
    fs::remove_file(&path).expect("it is there");
    writer.reopener().reopen();
    while !path.exists() {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(writer.close_by(soon()));
}

/// Accepts nothing until it is told to, and then passes on what it accepts.
struct Stuck {
    go: mpsc::Receiver<()>,
    accepted: mpsc::Sender<Vec<u8>>,
}

impl Write for Stuck {
    fn write(&mut self, batch: &[u8]) -> io::Result<usize> {
        let _ = self.go.recv();
        let _ = self.accepted.send(batch.to_vec());
        Ok(batch.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_an_output_does_not_accept_are_counted_and_reported_when_it_does() {
    let go = mpsc::channel();
    let accepted_by = mpsc::channel();
    let kind = kind(4);
    let lost = kind.lost.clone();
    let target = Target::of(Stuck { go: go.1, accepted: accepted_by.0 });
    let writer = LogWriter::with(kind, target).expect("a thread");
    let queue = writer.queue();
    for _ in 0..100 {
        queue.send(b"line\n".to_vec(), 1);
    }
    // Four lines are queued, and the thread may have taken another one at any time.
    let missing = lost.count();
    assert!((95..=96).contains(&missing), "{missing}");
    // No further line comes: the report needs none.
    drop(go.0);
    let mut lines = 0;
    let mut reported = 0;
    while reported < missing {
        let batch = accepted_by.1.recv().expect("a batch");
        match str::from_utf8(&batch).expect("UTF-8").trim_end() {
            "line" => lines += 1,
            report => {
                reported += report
                    .strip_suffix(" lost")
                    .expect("a report")
                    .parse::<u64>()
                    .expect("a number")
            }
        }
    }
    assert_eq!((lines, reported), (100 - missing, missing));
    queue.send(b"line\n".to_vec(), 1);
    assert_eq!(accepted_by.1.recv().expect("a batch"), b"line\n", "it is reported once");
    assert!(writer.close_by(soon()));
    queue.send(b"late\n".to_vec(), 1);
    assert_eq!(lost.count(), missing + 1, "after the end, lines are lost");
}

#[test]
fn an_output_that_accepts_nothing_delays_the_end_until_the_limit() {
    let go = mpsc::channel();
    let accepted_by = mpsc::channel();
    let target = Target::of(Stuck { go: go.1, accepted: accepted_by.0 });
    let writer = LogWriter::with(kind(4), target).expect("a thread");
    (0..100).for_each(|_| writer.queue().send(b"line\n".to_vec(), 1));
    let end = monotonic() + Duration::from_millis(50);
    assert!(!writer.close_by(end), "the lines are lost");
    assert!(monotonic() >= end);
    drop((go.0, accepted_by.1));
}

/// Fails the first time.
struct Failing(bool);

impl Write for Failing {
    fn write(&mut self, batch: &[u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.0, false) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(batch.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_of_a_full_disk_are_counted() {
    let kind = kind(4);
    let lost = kind.lost.clone();
    let writer = LogWriter::with(kind, Target::of(Failing(true))).expect("a thread");
    let queue = writer.queue();
    queue.send(b"one\ntwo\n".to_vec(), 2);
    queue.send(b"three\n".to_vec(), 1);
    assert!(writer.close_by(soon()));
    assert_eq!(lost.count(), 2);
}

/// A disk that becomes full within a line, and later has room again.
struct Filling {
    /// How many bytes it accepts at each turn; none: it fails.
    turns: std::vec::IntoIter<Option<usize>>,
    has: mpsc::Sender<Vec<u8>>,
}

impl Write for Filling {
    fn write(&mut self, batch: &[u8]) -> io::Result<usize> {
        let accepted = match self.turns.next() {
            None => batch,
            Some(Some(room)) => &batch[..room.min(batch.len())],
            Some(None) => return Err(io::ErrorKind::StorageFull.into()),
        };
        let _ = self.has.send(accepted.to_vec());
        Ok(accepted.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a file has after batches of two lines, if it accepts so much at each turn, and how
/// many lines are counted as lost.
fn after_filling(turns: Vec<Option<usize>>, batches: usize) -> (String, u64) {
    let accepted_by = mpsc::channel();
    let state = State::new(kind(batches));
    let target = Target::of(Filling { turns: turns.into_iter(), has: accepted_by.0 });
    let mut writing = Writing { target, state: Arc::clone(&state), is_failing: false };
    for number in 0..batches {
        let batch = state.batch(format!("a{number}\nb{number}\n").into_bytes());
        writing.write(&batch);
    }
    writing.report();
    drop(writing);
    let has: Vec<u8> = accepted_by.1.iter().flatten().collect();
    (String::from_utf8(has).expect("UTF-8"), state.kind.lost.count())
}

/// The line about lost lines was appended to the torn line, and its number was that of the
/// last batch alone.
#[test]
fn after_a_full_disk_the_number_of_lost_lines_is_right_and_in_a_line_of_its_own() {
    // The first batch fails within its second line, the next two as a whole.
    let (has, lost) = after_filling(vec![Some(4), None, None, None], 4);
    assert_eq!((&*has, lost), ("a0\nb\n5 lost\na3\nb3\n", 5));
    // At the end of a line, nothing is torn.
    let (has, lost) = after_filling(vec![Some(3), None], 2);
    assert_eq!((&*has, lost), ("a0\n1 lost\na1\nb1\n", 1));
    // The report itself is torn, and then the line end before it fails.
    let turns = vec![None, Some(3), None, None, Some(1), None];
    let (has, lost) = after_filling(turns, 4);
    assert_eq!((&*has, lost), ("2 l\n8 lost\n", 8));
}

#[test]
fn an_empty_file_that_is_opened_again_has_no_torn_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let mut target = Target::open(&Output::File(path.clone())).expect("a file");
    target.write(&mut &b"torn"[..]).expect("it is written");
    target.reopen();
    target.write(&mut &b"one\n"[..]).expect("it is written");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "torn\none\n", "the same file");
    target.write(&mut &b"torn"[..]).expect("it is written");
    fs::remove_file(&path).expect("it is there");
    target.reopen();
    target.write(&mut &b"one\n"[..]).expect("it is written");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "one\n");
}

/// Another process may make the file description of a terminal or a pipe non-blocking.
struct NonBlocking(u32);

impl Write for NonBlocking {
    fn write(&mut self, batch: &[u8]) -> io::Result<usize> {
        self.0 += 1;
        if self.0 % 2 == 1 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(batch.len().min(3)) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_does_not_block_is_tried_again() {
    let kind = kind(4);
    let lost = kind.lost.clone();
    let writer = LogWriter::with(kind, Target::of(NonBlocking(0))).expect("a thread");
    writer.queue().send(b"one\ntwo\n".to_vec(), 2);
    assert!(writer.close_by(soon()));
    assert_eq!(lost.count(), 0);
}
