//! The access log: one line for every request.
//!
//! Each worker collects its lines and passes them in batches to one writing thread, so
//! that a slow disk does not slow the workers. If the queue is full, the batch is dropped,
//! and the next batch says how many lines are missing. Keys, queries, values of path
//! parameters and whole addresses are never written.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use super::lost_lines::LostLines;
use super::record::{Name, PolicyRecord, Record};
use super::settings::{AccessLogSettings, Format, Output};

/// Bytes after which a worker passes its batch on at once.
const BATCH_BYTES: usize = 32 * 1024;
/// Batches that may wait for the writing thread.
const QUEUE_BATCHES: usize = 64;

/// The access log of the process, with its writing thread.
#[derive(Debug)]
pub(crate) struct AccessLog {
    queue: SyncSender<Vec<u8>>,
    format: Format,
    writer: JoinHandle<()>,
    lost: LostLines,
}

impl AccessLog {
    /// Opens the output and starts the writing thread.
    ///
    /// # Errors
    /// If the file cannot be opened for appending, or the thread cannot be started.
    pub(crate) fn open(settings: &AccessLogSettings) -> io::Result<Self> {
        let output: Box<dyn Write + Send> = match &settings.output {
            Output::Stdout => Box::new(io::stdout()),
            Output::Stderr => Box::new(io::stderr()),
            Output::File(path) => {
                Box::new(OpenOptions::new().append(true).create(true).open(path)?)
            }
        };
        let (queue, batches) = sync_channel(QUEUE_BATCHES);
        let lost = LostLines::default();
        let counted = lost.clone();
        let writer = thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_all(output, &batches, &counted))?;
        Ok(Self { queue, format: settings.format, writer, lost })
    }

    /// The part of one worker.
    pub(crate) fn worker(&self) -> WorkerLog {
        WorkerLog {
            queue: self.queue.clone(),
            format: self.format,
            batch: RefCell::default(),
            lines: Cell::new(0),
            dropped: Cell::new(0),
            lost: self.lost.clone(),
        }
    }

    /// Counts the lines that are lost.
    pub(crate) fn lost_lines(&self) -> LostLines {
        self.lost.clone()
    }

    /// Writes the remaining batches. All [`WorkerLog`]s must have been dropped.
    pub(crate) fn close(self) {
        drop(self.queue);
        // The thread itself has reported a panic.
        let _ = self.writer.join();
    }
}

/// Writes all batches. If the output fails, as with a closed pipe or a full disk, lines
/// are lost, and the failure is logged once.
fn write_all(mut output: Box<dyn Write + Send>, batches: &Receiver<Vec<u8>>, lost: &LostLines) {
    let mut failing = false;
    for batch in batches {
        let written = output.write_all(&batch).and_then(|()| output.flush());
        if written.is_err() {
            let lines = memchr::memchr_iter(b'\n', &batch).count();
            lost.add(u64::try_from(lines).unwrap_or(u64::MAX));
        }
        match written {
            Ok(()) => failing = false,
            Err(error) if !failing => {
                failing = true;
                tracing::error!(%error, "cannot write the access log; its lines are lost");
            }
            Err(_) => {}
        }
    }
}

/// The part of the access log that belongs to one worker.
#[derive(Debug)]
pub(crate) struct WorkerLog {
    queue: SyncSender<Vec<u8>>,
    format: Format,
    batch: RefCell<String>,
    /// Lines in the batch.
    lines: Cell<u64>,
    /// Lines that were lost since the last batch that was passed on.
    dropped: Cell<u64>,
    lost: LostLines,
}

impl WorkerLog {
    /// Adds the line of a request.
    pub(super) fn write(&self, record: &Record) {
        let full = {
            let mut batch = self.batch.borrow_mut();
            let line = Line::of(record);
            // Writing to a String cannot fail.
            let _ = match self.format {
                Format::Json => line.write_json(&mut batch),
                Format::Text => line.write_text(&mut batch),
            };
            batch.len() >= BATCH_BYTES
        };
        self.lines.set(self.lines.get() + 1);
        if full {
            self.flush();
        }
    }

    /// Passes the batch on to the writing thread.
    pub(super) fn flush(&self) {
        if self.lines.get() == 0 {
            return;
        }
        let mut batch = self.batch.take();
        let lines = self.lines.take();
        let dropped = self.dropped.take();
        if dropped > 0 {
            let _ = match self.format {
                Format::Json => writeln!(batch, "{{\"dropped_lines\":{dropped}}}"),
                Format::Text => writeln!(batch, "{dropped} lines dropped"),
            };
        }
        match self.queue.try_send(batch.into_bytes()) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.set(dropped + lines);
                self.lost.add(lines);
            }
        }
    }
}

impl Drop for WorkerLog {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The fields of a record that a line contains, beside those that every line has.
struct Line<'a> {
    record: &'a Record,
    /// The status; 0 without a response.
    status: u16,
    route: Option<&'a str>,
    /// The policy whose numbers the client is told.
    binding: Option<&'a PolicyRecord>,
    /// The first policy in shadow mode that would have refused.
    shadow: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(record: &'a Record) -> Self {
        let mut policies = record.policies.iter();
        Self {
            record,
            status: record.status.map_or(0, |status| status.as_u16()),
            route: record.route.as_ref().map(Name::as_str),
            binding: policies.clone().find(|policy| policy.is_binding),
            shadow: policies.find(|policy| policy.is_shadow_refused).map(|it| it.name.as_str()),
        }
    }

    fn write_json(&self, line: &mut String) -> std::fmt::Result {
        let Self { record, status, .. } = self;
        let Record { time, client, bytes, duration_us, outcome, .. } = record;
        write!(line, "{{\"time\":\"{time}\",\"request_id\":")?;
        write_json_text(line, request_id(record))?;
        write!(line, ",\"client\":\"{}\",\"method\":", Masked(*client))?;
        write_json_text(line, record.method.as_str())?;
        line.write_str(",\"path\":")?;
        write_json_text(line, record.path())?;
        write!(line, ",\"status\":{status},\"bytes\":{bytes},\"duration_us\":{duration_us}")?;
        if let Some(upstream_us) = record.upstream_us {
            write!(line, ",\"upstream_us\":{upstream_us}")?;
        }
        if let Some(route) = self.route {
            line.write_str(",\"route\":")?;
            write_json_text(line, route)?;
        }
        write!(line, ",\"outcome\":\"{outcome}\"")?;
        if let Some(policy) = self.binding {
            line.write_str(",\"policy\":")?;
            write_json_text(line, policy.name.as_str())?;
        }
        if let Some(remaining) = self.binding.and_then(|policy| policy.remaining) {
            write!(line, ",\"remaining\":{remaining}")?;
        }
        if let Some(policy) = self.shadow {
            line.write_str(",\"shadow_refused_by\":")?;
            write_json_text(line, policy)?;
        }
        line.write_str("}\n")
    }

    fn write_text(&self, line: &mut String) -> std::fmt::Result {
        let Self { record, status, .. } = self;
        let Record { time, client, method, bytes, duration_us, outcome, .. } = record;
        write!(line, "{time} {} {method} ", Masked(*client))?;
        write_json_text(line, record.path())?;
        write!(line, " {status} {bytes}B {duration_us}us {outcome}")?;
        if let Some(route) = self.route {
            line.write_str(" route=")?;
            write_json_text(line, route)?;
        }
        if let Some(policy) = self.binding {
            line.write_str(" policy=")?;
            write_json_text(line, policy.name.as_str())?;
        }
        if let Some(remaining) = self.binding.and_then(|policy| policy.remaining) {
            write!(line, " remaining={remaining}")?;
        }
        if let Some(policy) = self.shadow {
            line.write_str(" shadow_refused_by=")?;
            write_json_text(line, policy)?;
        }
        writeln!(line, " id={}", request_id(record))
    }
}

fn request_id(record: &Record) -> &str {
    record.request_id.to_str().unwrap_or_default()
}

/// Writes a JSON string (RFC 8259, section 7), so that no client can break the line or
/// end the string.
fn write_json_text(line: &mut String, text: &str) -> std::fmt::Result {
    line.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '\\' || c.is_control()) {
        line.push_str(&rest[..at]);
        let special = rest[at..].chars().next().unwrap_or_default();
        match special {
            '"' | '\\' => line.extend(['\\', special]),
            _ => write!(line, "\\u{:04x}", u32::from(special))?,
        }
        rest = &rest[at + special.len_utf8()..];
    }
    line.push_str(rest);
    line.push('"');
    Ok(())
}

/// An address without the part that identifies a person: 24 bits of an IPv4 address, or
/// 48 bits of an IPv6 address.
struct Masked(IpAddr);

impl std::fmt::Display for Masked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                write!(f, "{a}.{b}.{c}.0/24")
            }
            IpAddr::V6(address) => {
                let [a, b, c, ..] = address.segments();
                write!(f, "{a:x}:{b:x}:{c:x}::/48")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method, Request, StatusCode};
    use tollgate_limiter::time::Timestamp;

    use super::*;

    fn record() -> Record {
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = Method::GET;
        let client = IpAddr::from([203, 0, 113, 9]);
        let time = Timestamp::from_micros(1_795_246_126_123_456);
        let policy = |name: &str, is_binding| PolicyRecord {
            name: name.into(),
            remaining: Some(0),
            is_binding,
            is_shadow_refused: !is_binding,
        };
        let mut record = Record::new(&head, client, time, HeaderValue::from_static("id-1"));
        record.masked_path = Some("/a\"b\\c\n".into());
        record.route = Some("orders".into());
        record.policies = [policy("candidate", false), policy("per-client", true)].into();
        record.outcome = "refused";
        record.status = Some(StatusCode::TOO_MANY_REQUESTS);
        (record.bytes, record.duration_us) = (12, 34);
        record
    }

    fn logged(format: Format, records: &[Record]) -> String {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("access.log");
        let settings = AccessLogSettings { output: Output::File(path.clone()), format };
        let log = AccessLog::open(&settings).expect("a file that can be written");
        let worker = log.worker();
        for record in records {
            worker.write(record);
        }
        drop(worker);
        log.close();
        std::fs::read_to_string(path).expect("the file")
    }

    #[test]
    fn a_line_is_valid_json_whatever_the_client_sent() {
        let text = logged(Format::Json, &[record()]);
        assert_eq!(
            text,
            "{\"time\":\"2026-11-21T07:28:46.123Z\",\"request_id\":\"id-1\",\"client\":\"203.0.113.0/24\",\
             \"method\":\"GET\",\"path\":\"/a\\\"b\\\\c\\u000a\",\"status\":429,\"bytes\":12,\"duration_us\":34,\
             \"route\":\"orders\",\"outcome\":\"refused\",\"policy\":\"per-client\",\"remaining\":0,\
             \"shadow_refused_by\":\"candidate\"}\n"
        );
        let line: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(line["path"], "/a\"b\\c\n");
    }

    #[test]
    fn a_line_of_text_is_one_line() {
        let text = logged(Format::Text, &[record()]);
        assert_eq!(
            text,
            "2026-11-21T07:28:46.123Z 203.0.113.0/24 GET \"/a\\\"b\\\\c\\u000a\" 429 12B 34us refused \
             route=\"orders\" policy=\"per-client\" remaining=0 shadow_refused_by=\"candidate\" id=id-1\n"
        );
    }

    #[test]
    fn an_address_of_version_6_is_masked_too() {
        let address: IpAddr = "2001:db8:1:2::3".parse().expect("an address");
        assert_eq!(Masked(address).to_string(), "2001:db8:1::/48");
    }

    #[test]
    fn a_full_queue_drops_lines_and_says_how_many() {
        let (queue, batches) = sync_channel(1);
        let worker = WorkerLog {
            queue,
            format: Format::Json,
            batch: RefCell::default(),
            lines: Cell::new(0),
            dropped: Cell::new(0),
            lost: LostLines::default(),
        };
        for _ in 0..3 {
            worker.write(&record());
            worker.flush();
        }
        let first = batches.recv().expect("a batch");
        assert!(!String::from_utf8_lossy(&first).contains("dropped"));
        worker.write(&record());
        worker.flush();
        let second = String::from_utf8(batches.recv().expect("a batch")).expect("UTF-8");
        assert!(second.ends_with("{\"dropped_lines\":2}\n"), "{second}");
        assert_eq!(worker.lost.count(), 2);
    }

    #[test]
    fn lines_that_an_output_refuses_are_counted() {
        let (queue, batches) = sync_channel(2);
        for batch in ["a\nb\n", "c\n"] {
            queue.send(batch.into()).expect("it has room");
        }
        drop(queue);
        let lost = LostLines::default();
        write_all(Box::new(io::Cursor::new([0; 0])), &batches, &lost); // it has no room
        assert_eq!(lost.count(), 3);
    }
}
