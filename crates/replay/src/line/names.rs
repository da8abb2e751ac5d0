//! JSON logs: the meaning of each name in a log.

use std::borrow::Cow;

use memchr::memmem;
use tollgate_core::log_fields::{DROPPED_LINES, FIELDS, Field, FieldNames};

use super::fields::{Line, Mark, Moment, Parsed, is_redacted, lacks_field};
use super::json::{self, Value};
use super::known::{KEY_PARTS, KnownReading, Part};
use super::text::{client, last_forwarded, number, request_line};
use super::{duration, time};

/// What a value of a JSON log says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    Start,
    End,
    Client,
    /// The client, or a list of addresses as in `X-Forwarded-For`.
    Clients,
    Method,
    /// The path, with or without the query.
    Target,
    /// The query without its `?`.
    Query,
    /// Method, target and protocol in one text.
    RequestLine,
    Host,
    Status,
    Bytes,
    RequestBytes,
    /// A duration, in units of this many nanoseconds.
    Duration(u64),
    Header(Box<str>),
    /// The part of the writer that wrote the line. Only lines of parts whose names begin with
    /// this are requests.
    Writer(&'static str),
    /// What only our own log has.
    Known(Part),
    /// A number of lines that the writer dropped.
    Dropped,
}

const NANOSECOND: u64 = 1;
const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The names of one JSON log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    names: Vec<(Box<str>, Meaning)>,
    /// The object that contains all header fields.
    headers: Option<&'static str>,
    /// How the names of header fields begin in the outermost object.
    header_prefix: Option<&'static str>,
    /// A name that no other writer uses. It tells whose line it is if there is no client.
    own_name: Option<&'static str>,
}

/// Why the text of `--map` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// `time`
    #[error("`{0}` is not of the form FIELD=NAME, such as time=ts or client=remote.ip")]
    Form(String),
    /// `tme=ts`
    #[error(
        "there is no field `{0}`: fields are time (the end), start, client, method, path, query, \
         request (method, path and protocol), host, status, bytes, request_bytes, duration (seconds), duration_ms, duration_us, \
         duration_ns and header:NAME"
    )]
    Field(String),
    /// Nothing for the time.
    #[error("a log needs {0} to be replayed: add it to --map")]
    Missing(&'static str),
}

impl Names {
    /// The access log of this gateway, in one of its vocabularies. Its time is the arrival.
    pub(crate) fn own(vocabulary: FieldNames) -> Self {
        let mut names = Vec::new();
        for named in &FIELDS {
            let name = named.name(vocabulary);
            let meaning = match named.field {
                Field::Time => Meaning::Start,
                Field::Client => Meaning::Client,
                Field::Method => Meaning::Method,
                Field::Path => Meaning::Target,
                Field::Host => Meaning::Host,
                Field::Status => Meaning::Status,
                Field::Bytes => Meaning::Bytes,
                Field::Duration if vocabulary == FieldNames::Ecs => Meaning::Duration(NANOSECOND),
                Field::Duration => Meaning::Duration(MICROSECOND),
                Field::Keys => {
                    let part = |(part, it)| {
                        (format!("{name}.{part}").into(), Meaning::Known(Part::Key(it)))
                    };
                    names.extend(KEY_PARTS.map(part));
                    continue;
                }
                other => match Part::of(other) {
                    Some(part) => Meaning::Known(part),
                    None => continue,
                },
            };
            names.push((name.into(), meaning));
        }
        let namespace = if vocabulary == FieldNames::Own { "" } else { "tollgate." };
        names.push((format!("{namespace}{DROPPED_LINES}").into(), Meaning::Dropped));
        let outcome = FIELDS.iter().find(|named| named.field == Field::Outcome);
        Self { own_name: outcome.map(|named| named.name(vocabulary)), ..Self::default() }
            .with(names)
    }

    /// Caddy's access log. A request that failed has a second line there, of another logger.
    pub(crate) fn caddy() -> Self {
        let names = Self::of(&[
            ("logger", Meaning::Writer("http.log.access")),
            ("ts", Meaning::End),
            ("request.remote_ip", Meaning::Client),
            ("request.remote_addr", Meaning::Client),
            ("request.method", Meaning::Method),
            ("request.uri", Meaning::Target),
            ("request.host", Meaning::Host),
            ("status", Meaning::Status),
            ("size", Meaning::Bytes),
            ("bytes_read", Meaning::RequestBytes),
            ("duration", Meaning::Duration(SECOND)),
        ]);
        Self { headers: Some("request.headers"), own_name: Some("resp_headers"), ..names }
    }

    /// Traefik's access log.
    pub(crate) fn traefik() -> Self {
        let names = Self::of(&[
            ("StartUTC", Meaning::Start),
            // What `X-Forwarded-For` has, if it is there, and else the peer.
            ("ClientHost", Meaning::Clients),
            ("ClientAddr", Meaning::Client),
            ("RequestMethod", Meaning::Method),
            ("RequestPath", Meaning::Target),
            ("RequestHost", Meaning::Host),
            ("DownstreamStatus", Meaning::Status),
            ("DownstreamContentSize", Meaning::Bytes),
            ("RequestContentSize", Meaning::RequestBytes),
            ("Duration", Meaning::Duration(NANOSECOND)),
        ]);
        Self { header_prefix: Some("request_"), own_name: Some("RequestPath"), ..names }
    }

    /// Envoy's JSON log, with the names that Envoy Gateway and Istio use.
    pub(crate) fn envoy() -> Self {
        let names = Self::of(&[
            ("start_time", Meaning::Start),
            ("downstream_remote_address", Meaning::Client),
            ("method", Meaning::Method),
            ("path", Meaning::Target),
            ("x-envoy-origin-path", Meaning::Target),
            ("authority", Meaning::Host),
            (":authority", Meaning::Host),
            ("response_code", Meaning::Status),
            ("bytes_sent", Meaning::Bytes),
            ("bytes_received", Meaning::RequestBytes),
            ("duration", Meaning::Duration(MILLISECOND)),
            ("x_forwarded_for", Meaning::Header("x-forwarded-for".into())),
            ("x-forwarded-for", Meaning::Header("x-forwarded-for".into())),
            ("user_agent", Meaning::Header("user-agent".into())),
            ("user-agent", Meaning::Header("user-agent".into())),
        ]);
        Self { own_name: Some("response_flags"), ..names }
    }

    /// The names that `--map` gives, as in `time=ts,client=remote.ip`.
    ///
    /// # Errors
    /// If a part has another form, or the time, the client or the path is missing.
    pub fn of_map(map: &str) -> Result<Self, MapError> {
        let mut names = Vec::new();
        for part in map.split(',') {
            let (field, name) = part
                .split_once('=')
                .filter(|(field, name)| !field.is_empty() && !name.is_empty())
                .ok_or_else(|| MapError::Form(part.to_owned()))?;
            names.push((name.into(), meaning(field)?));
        }
        let has = |is: fn(&Meaning) -> bool| names.iter().any(|(_, meaning)| is(meaning));
        if !has(|it| matches!(it, Meaning::Start | Meaning::End)) {
            return Err(MapError::Missing("the time (time=NAME or start=NAME)"));
        }
        if !has(|it| matches!(it, Meaning::Clients | Meaning::Header(_))) {
            let what = "the client (client=NAME, or header:NAME=NAME with its key)";
            return Err(MapError::Missing(what));
        }
        if !has(|it| matches!(it, Meaning::Target | Meaning::RequestLine)) {
            return Err(MapError::Missing("the path (path=NAME or request=NAME)"));
        }
        Ok(Self::default().with(names))
    }

    fn of(names: &[(&'static str, Meaning)]) -> Self {
        let names = names.iter().map(|(name, meaning)| ((*name).into(), meaning.clone())).collect();
        Self::default().with(names)
    }

    fn with(self, names: Vec<(Box<str>, Meaning)>) -> Self {
        Self { names, ..self }
    }

    /// Whether a line has the name that only this writer uses.
    pub(super) fn has_own_name(&self, line: &[u8]) -> bool {
        self.own_name
            .is_some_and(|name| memmem::find(line, format!("\"{name}\"").as_bytes()).is_some())
    }

    /// The meaning of a name, and its place among all names.
    fn meaning(&self, names: &[&[u8]]) -> Option<(usize, &Meaning)> {
        let place = self.names.iter().position(|(name, _)| is_named(names, name))?;
        Some((place, &self.names[place].1))
    }

    fn header<'l>(&self, names: &[&'l [u8]]) -> Option<&'l [u8]> {
        let (last, outer) = names.split_last()?;
        if self.headers.is_some_and(|object| is_named(outer, object)) {
            return Some(last);
        }
        last.strip_prefix(self.header_prefix?.as_bytes()).filter(|_| outer.is_empty())
    }

    /// Reads a line. None: it is no such JSON object.
    pub(super) fn parse<'l>(&self, text: &'l [u8]) -> Option<Parsed<'l>> {
        let nothing = Moment { us: 0, is_whole_second: true };
        let mut reading = Reading { line: Line::at(nothing, Mark::End), ..Reading::default() };
        json::scan(text, &mut |names, value| match self.meaning(names) {
            Some((place, Meaning::Clients)) => reading.see_addresses(place, value),
            Some((_, meaning)) => reading.see(meaning, value),
            None => {
                if let (Some(name), Some(value)) = (self.header(names), value.plain())
                    && !is_redacted(&value)
                {
                    reading.line.headers.push((Cow::Borrowed(name), value));
                }
            }
        })?;
        if let Some(lines) = reading.dropped {
            return Some(Parsed::Dropped(lines));
        }
        if reading.is_other_writer {
            return Some(Parsed::NoRequest);
        }
        let Reading { mut line, start, end, query, known, clients, .. } = reading;
        if line.target.is_empty() && line.client.is_none() {
            return Some(Parsed::NoRequest);
        }
        (line.time, line.mark) = match (start, end) {
            (Some(start), _) => (start, Mark::Start),
            (None, end) => (end?, Mark::End),
        };
        known.complete(&mut line);
        if line.method.is_empty() && !self.names.iter().any(|(_, it)| it.names_method()) {
            line.method = Cow::Borrowed(b"GET");
        }
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            line.target = Cow::Owned([&line.target, &b"?"[..], &query].concat());
        }
        let is_list = |name: &[u8]| name.eq_ignore_ascii_case(b"x-forwarded-for");
        if let Some((_, list)) = clients.filter(|(_, list)| list.contains(&b',')) {
            line.is_client_of_list = true;
            // Traefik can have the same list in two places.
            let mut forwarded = line.headers.iter().filter(|(name, _)| is_list(name));
            if forwarded.all(|(_, value)| *value != list) {
                line.header("x-forwarded-for", list);
            }
        }
        if line.client.is_none() {
            let forwarded = line.headers.iter().find(|(name, _)| is_list(name));
            line.client = forwarded.and_then(|(_, list)| last_forwarded(list));
        }
        Some(line.parsed())
    }
}

fn meaning(field: &str) -> Result<Meaning, MapError> {
    Ok(match field {
        "time" => Meaning::End,
        "start" => Meaning::Start,
        "client" => Meaning::Clients,
        "method" => Meaning::Method,
        "path" => Meaning::Target,
        "query" => Meaning::Query,
        "request" => Meaning::RequestLine,
        "host" => Meaning::Host,
        "status" => Meaning::Status,
        "bytes" => Meaning::Bytes,
        "request_bytes" => Meaning::RequestBytes,
        "duration" => Meaning::Duration(SECOND),
        "duration_ms" => Meaning::Duration(MILLISECOND),
        "duration_us" => Meaning::Duration(MICROSECOND),
        "duration_ns" => Meaning::Duration(NANOSECOND),
        _ => match field.strip_prefix("header:") {
            Some(name) if !name.is_empty() => Meaning::Header(name.to_ascii_lowercase().into()),
            _ => return Err(MapError::Field(field.to_owned())),
        },
    })
}

/// Whether `names`, with dots between them, are `name`.
fn is_named(names: &[&[u8]], name: &str) -> bool {
    let mut rest = name.as_bytes();
    for (index, part) in names.iter().enumerate() {
        if index > 0 {
            let Some(after) = rest.strip_prefix(b".") else { return false };
            rest = after;
        }
        let Some(after) = rest.strip_prefix(*part) else { return false };
        rest = after;
    }
    rest.is_empty() && !names.is_empty()
}

/// What has been read of a line.
#[derive(Debug)]
struct Reading<'l> {
    line: Line<'l>,
    start: Option<Moment>,
    end: Option<Moment>,
    query: Option<Cow<'l, [u8]>>,
    /// The addresses of the client and of proxies, with commas between them, and the place of
    /// their name.
    clients: Option<(usize, Cow<'l, [u8]>)>,
    dropped: Option<u64>,
    /// Whether the line is not of the part that writes the access log.
    is_other_writer: bool,
    known: KnownReading<'l>,
}

impl Default for Reading<'_> {
    fn default() -> Self {
        let line = Line::at(Moment { us: 0, is_whole_second: true }, Mark::End);
        Self {
            line,
            start: None,
            end: None,
            query: None,
            clients: None,
            dropped: None,
            is_other_writer: false,
            known: KnownReading::default(),
        }
    }
}

impl<'l> Reading<'l> {
    fn see(&mut self, meaning: &Meaning, value: Value<'l>) {
        let line = &mut self.line;
        match meaning {
            Meaning::Start => self.start = value.plain().and_then(|it| time::in_any_form(&it)),
            Meaning::End => self.end = value.plain().and_then(|it| time::in_any_form(&it)),
            Meaning::Clients | Meaning::Client => {
                line.client = line.client.or_else(|| client(value.raw()))
            }
            Meaning::Method => line.method = value.plain().unwrap_or_default(),
            Meaning::Target => {
                if let Some(target) = value.plain().filter(|target| **target != *b"-") {
                    line.target = target;
                }
            }
            Meaning::Query => self.query = value.plain(),
            Meaning::RequestLine => {
                if let Some(text) = value.plain() {
                    request_line(line, text);
                }
            }
            Meaning::Writer(name) => {
                self.is_other_writer = !value.raw().starts_with(name.as_bytes());
            }
            Meaning::Host => line.host = value.plain().or(line.host.take()),
            Meaning::Status => {
                let status = number(value.raw()).and_then(|status| u16::try_from(status).ok());
                line.status = status.unwrap_or(0);
            }
            Meaning::Bytes => line.bytes = number(value.raw()),
            Meaning::RequestBytes => line.request_bytes = number(value.raw()),
            Meaning::Duration(unit_ns) => {
                line.duration_us = value.plain().and_then(|it| duration::micros(&it, *unit_ns));
            }
            Meaning::Header(name) => {
                if let Some(value) = value.plain().filter(|value| !lacks_field(value)) {
                    line.headers.push((Cow::Owned(name.as_bytes().to_vec()), value));
                }
            }
            Meaning::Known(part) => self.known.see(*part, value),
            Meaning::Dropped => self.dropped = number(value.raw()),
        }
    }

    /// Adds the addresses of a value: of a text, or of an element of an array. The last one is
    /// the peer, as in `X-Forwarded-For`. Of several names, the first one with an address counts.
    fn see_addresses(&mut self, place: usize, value: Value<'l>) {
        let Some(list) = value.plain() else { return };
        let earlier = match self.clients.take() {
            Some((first, earlier)) if first != place && self.line.client.is_some() => {
                self.clients = Some((first, earlier));
                return;
            }
            Some((first, earlier)) if first == place => Some(earlier),
            _ => None,
        };
        self.line.client = last_forwarded(&list).or(self.line.client);
        let list = match earlier.map(Cow::into_owned) {
            // An array may have thousands of elements: they are appended, and not copied anew.
            Some(mut joined) => {
                joined.extend_from_slice(b", ");
                joined.extend_from_slice(&list);
                Cow::Owned(joined)
            }
            None => list,
        };
        self.clients = Some((place, list));
    }
}

impl Meaning {
    /// Whether a log with this has the methods of its requests.
    const fn names_method(&self) -> bool {
        matches!(self, Self::Method | Self::RequestLine)
    }
}

#[cfg(test)]
mod tests;
