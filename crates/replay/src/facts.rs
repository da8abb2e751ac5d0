//! What a log contains, and what it lacks.

use http::HeaderName;
use http::header::AUTHORIZATION;
use memchr::memchr;

use super::line::Line;
use super::wanted::Wanted;

/// What a log contains.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The word for its format.
    pub(super) format: &'static str,
    /// The words for what was around its lines.
    pub(super) inside: Option<String>,
    /// All lines, but for empty ones.
    pub(super) lines: u64,
    /// Lines that describe a request.
    pub(super) requests: u64,
    /// Lines that are well formed and describe no request.
    pub(super) no_request: u64,
    /// Lines that have another format.
    pub(super) unread: u64,
    /// Where the first of these is.
    pub(super) first_unread: Option<String>,
    /// Lines that the writer of the log says it has dropped.
    pub(super) dropped: u64,
    /// Requests with a masked client.
    pub(super) masked: u64,
    /// Requests without a client.
    pub(super) no_client: u64,
    /// Requests whose client stands in a list of addresses of a log that has it in
    /// the place of the client.
    pub(super) lists: u64,
    /// Requests whose peer is a trusted proxy.
    pub(super) trusted: u64,
    /// Requests with the method OPTIONS.
    pub(super) options: u64,
    /// Requests with a host.
    pub(super) with_host: u64,
    /// Requests with a query.
    pub(super) with_query: u64,
    /// Requests whose path has the name of a parameter where its value was, as `/users/{id}`.
    pub(super) with_parameter: u64,
    /// Requests with a duration.
    pub(super) with_duration: u64,
    /// Requests with the size of their body.
    pub(super) with_body: u64,
    /// Requests whose keys are known.
    pub(super) with_keys: u64,
    /// Of these, requests for which a server was asked.
    pub(super) by_server: u64,
    /// Requests of a log that is a sample.
    pub(super) sampled: u64,
    /// How many of 100 requests the sample has at least.
    pub(super) least_sample: Option<u64>,
    /// Requests with a status.
    pub(super) with_status: u64,
    /// Header fields that rules read and at least one request has.
    pub(super) headers: Vec<HeaderName>,
    /// The first and the last time, in microseconds.
    pub(super) first_us: Option<u64>,
    pub(super) last_us: u64,
    /// Requests that were too late for their turn.
    pub(super) late: u64,
    /// Requests that the gateway refuses before any limit applies.
    pub(super) malformed: u64,
    /// Whether times are noted in whole seconds.
    pub(super) has_whole_seconds: bool,
}

/// Whether a segment of a path is a name in braces. Our own log has these in the place of values.
fn has_parameter(target: &[u8]) -> bool {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    memchr(b'{', path).is_some()
        && path.split(|byte| *byte == b'/').any(|segment| {
            segment.len() > 2 && segment.starts_with(b"{") && segment.ends_with(b"}")
        })
}

impl Facts {
    /// Notes what the line of a request contains.
    pub(super) fn note(&mut self, line: &Line<'_>, wanted: &Wanted) {
        let count = |is: bool| u64::from(is);
        self.requests += 1;
        self.masked += count(line.client.is_some_and(|client| client.is_masked));
        self.no_client += count(line.client.is_none());
        self.lists += count(line.is_client_of_list);
        self.options += count(*line.method == *b"OPTIONS");
        self.with_host += count(line.host.is_some());
        self.with_query += count(line.target.contains(&b'?'));
        self.with_parameter += count(has_parameter(&line.target));
        self.with_duration += count(line.duration_us.is_some());
        self.with_body += count(line.request_bytes.is_some());
        self.with_status += count(line.status != 0);
        self.with_keys += count(line.known.is_some());
        self.by_server += count(line.known.as_ref().is_some_and(|known| known.is_by_server));
        if let Some(sample) = line.sample {
            self.sampled += 1;
            self.least_sample = Some(self.least_sample.map_or(sample, |least| least.min(sample)));
        }
        for (name, _) in &line.headers {
            if let Some(name) = wanted.find(name)
                && !self.headers.contains(name)
            {
                self.headers.push(name.clone());
            }
        }
        self.first_us = Some(self.first_us.map_or(line.time.us, |first| first.min(line.time.us)));
        self.last_us = self.last_us.max(line.time.us);
    }

    /// Whether each request has the keys by which it was judged.
    pub(super) const fn has_keys(&self) -> bool {
        self.with_keys == self.requests
    }

    /// Whether any request has this field.
    pub(super) fn has(&self, name: &HeaderName) -> bool {
        self.headers.contains(name)
    }

    /// Whether any request has a token.
    pub(super) fn has_tokens(&self) -> bool {
        self.has(&AUTHORIZATION)
    }

    /// Whether more than one line in a hundred could not be read.
    pub(super) const fn is_mostly_other(&self) -> bool {
        self.unread * 100 > self.lines
    }
}
