//! A line for every request.
//!
//! Each worker gathers its lines and hands them over in batches to the one
//! thread that writes, so that a slow disk slows nobody: when the queue is full
//! the batch is dropped, and the next one that gets through says how many lines
//! are missing. Keys, queries, values of path parameters and whole
//! addresses are never written.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use super::{AccessLogSettings, Format, Output};
use crate::time::Timestamp;

/// Bytes that a worker gathers before it hands them over without waiting.
const BATCH_BYTES: usize = 32 * 1024;
/// Batches that may wait for the writing thread.
const QUEUE_BATCHES: usize = 64;

/// One request, when it is over.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// When its head had arrived.
    pub time: Timestamp,
    /// Its id.
    pub request_id: &'a str,
    /// Whose it was; only the network part is written.
    pub client: IpAddr,
    /// Its method.
    pub method: &'a str,
    /// Its path, without the query and the values of its route's parameters.
    pub path: &'a str,
    /// The status it got.
    pub status: u16,
    /// Bytes of the response's body that were sent.
    pub bytes: u64,
    /// From its head to the end of the response, in microseconds.
    pub duration_us: u64,
    /// Until the upstream's head came, in microseconds, if one was asked.
    pub upstream_us: Option<u64>,
    /// The name of its route, if one matched.
    pub route: Option<&'a str>,
    /// What the limiter said, or what went wrong.
    pub outcome: &'a str,
    /// The policy that bound.
    pub policy: Option<&'a str>,
    /// What remained of that policy.
    pub remaining: Option<u64>,
    /// A policy in shadow that would have refused.
    pub shadow: Option<&'a str>,
}

/// The writing end of the access log: one thread.
#[derive(Debug)]
pub struct AccessLog {
    queue: SyncSender<Vec<u8>>,
    format: Format,
    writer: JoinHandle<()>,
}

impl AccessLog {
    /// Opens the output and starts the writing thread.
    ///
    /// # Errors
    /// If the file cannot be opened for appending, or no thread be started.
    pub fn open(settings: &AccessLogSettings) -> io::Result<Self> {
        let output: Box<dyn Write + Send> = match &settings.output {
            Output::Stdout => Box::new(io::stdout()),
            Output::Stderr => Box::new(io::stderr()),
            Output::File(path) => {
                Box::new(OpenOptions::new().append(true).create(true).open(path)?)
            }
        };
        let (queue, batches) = sync_channel(QUEUE_BATCHES);
        let writer = thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_all(output, &batches))?;
        Ok(Self { queue, format: settings.format, writer })
    }

    /// The end that one worker writes to.
    pub fn worker(&self) -> WorkerLog {
        WorkerLog {
            queue: self.queue.clone(),
            format: self.format,
            batch: RefCell::default(),
            lines: Cell::new(0),
            dropped: Cell::new(0),
        }
    }

    /// Writes what is left. All workers' ends must be gone.
    pub fn close(self) {
        drop(self.queue);
        // A panic there has been reported by the thread itself.
        let _ = self.writer.join();
    }
}

/// An output that fails, such as a closed pipe or a full disk, loses lines but
/// ends nothing; that it failed is said once.
fn write_all(mut output: Box<dyn Write + Send>, batches: &Receiver<Vec<u8>>) {
    let mut failing = false;
    for batch in batches {
        match output.write_all(&batch).and_then(|()| output.flush()) {
            Ok(()) => failing = false,
            Err(error) if !failing => {
                failing = true;
                tracing::error!(%error, "cannot write the access log; its lines are lost");
            }
            Err(_) => {}
        }
    }
}

/// One worker's end of the access log.
#[derive(Debug)]
pub struct WorkerLog {
    queue: SyncSender<Vec<u8>>,
    format: Format,
    batch: RefCell<String>,
    /// Lines in the batch.
    lines: Cell<u64>,
    /// Lines lost since the last batch that got through.
    dropped: Cell<u64>,
}

impl WorkerLog {
    /// Adds a line.
    pub fn write(&self, record: &Record<'_>) {
        let full = {
            let mut batch = self.batch.borrow_mut();
            // Writing to a String cannot fail.
            let _ = match self.format {
                Format::Json => record.write_json(&mut batch),
                Format::Text => record.write_text(&mut batch),
            };
            batch.len() >= BATCH_BYTES
        };
        self.lines.set(self.lines.get() + 1);
        if full {
            self.flush();
        }
    }

    /// Hands over what has been gathered. To be called now and then, so that a
    /// line does not wait for others to come.
    pub fn flush(&self) {
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
            }
        }
    }
}

impl Drop for WorkerLog {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Record<'_> {
    fn write_json(&self, line: &mut String) -> std::fmt::Result {
        write!(line, "{{\"time\":\"{}\",\"request_id\":", self.time)?;
        write_json_text(line, self.request_id)?;
        write!(line, ",\"client\":\"{}\",\"method\":", Masked(self.client))?;
        write_json_text(line, self.method)?;
        line.write_str(",\"path\":")?;
        write_json_text(line, self.path)?;
        let Self { status, bytes, duration_us, .. } = self;
        write!(line, ",\"status\":{status},\"bytes\":{bytes},\"duration_us\":{duration_us}")?;
        if let Some(upstream_us) = self.upstream_us {
            write!(line, ",\"upstream_us\":{upstream_us}")?;
        }
        if let Some(route) = self.route {
            line.write_str(",\"route\":")?;
            write_json_text(line, route)?;
        }
        write!(line, ",\"outcome\":\"{}\"", self.outcome)?;
        if let Some(policy) = self.policy {
            line.write_str(",\"policy\":")?;
            write_json_text(line, policy)?;
        }
        if let Some(remaining) = self.remaining {
            write!(line, ",\"remaining\":{remaining}")?;
        }
        if let Some(policy) = self.shadow {
            line.write_str(",\"shadow_refused_by\":")?;
            write_json_text(line, policy)?;
        }
        line.write_str("}\n")
    }

    fn write_text(&self, line: &mut String) -> std::fmt::Result {
        let Self { time, method, status, bytes, duration_us, outcome, .. } = self;
        write!(line, "{time} {} {method} ", Masked(self.client))?;
        write_json_text(line, self.path)?;
        write!(line, " {status} {bytes}B {duration_us}us {outcome}")?;
        if let Some(route) = self.route {
            line.write_str(" route=")?;
            write_json_text(line, route)?;
        }
        if let Some(policy) = self.policy {
            line.write_str(" policy=")?;
            write_json_text(line, policy)?;
        }
        if let Some(remaining) = self.remaining {
            write!(line, " remaining={remaining}")?;
        }
        if let Some(policy) = self.shadow {
            line.write_str(" shadow_refused_by=")?;
            write_json_text(line, policy)?;
        }
        writeln!(line, " id={}", self.request_id)
    }
}

/// A JSON string (RFC 8259, section 7): no client can break a line or leave the
/// quotes.
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

/// An address without the part that tells people apart: 24 bits are left of an
/// IPv4 address, 48 of an IPv6 address.
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
    use super::*;

    fn record() -> Record<'static> {
        Record {
            time: Timestamp::from_micros(1_795_246_126_123_456),
            request_id: "id-1",
            client: IpAddr::from([203, 0, 113, 9]),
            method: "GET",
            path: "/a\"b\\c\n",
            status: 429,
            bytes: 12,
            duration_us: 34,
            upstream_us: None,
            route: Some("orders"),
            outcome: "refused",
            policy: Some("per-client"),
            remaining: Some(0),
            shadow: Some("candidate"),
        }
    }

    fn logged(format: Format, records: &[Record<'_>]) -> String {
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
    fn a_line_is_json_whatever_the_client_sent() {
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
    fn a_line_for_people_is_one_line() {
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
    }
}
