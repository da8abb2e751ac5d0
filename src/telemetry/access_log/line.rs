//! One line of the access log, in each format.

use std::cell::Ref;
use std::fmt::{self, Write as _};
use std::iter;

use http::Version;

use super::clock_text::ClockText;
use super::value::{Client, Value, write_escaped, write_json_text};
use crate::telemetry::field::{DROPPED_LINES, ECS_VERSION, FIELDS, Field, FieldNames};
use crate::telemetry::record::{Name, PolicyRecord, Record};
use crate::telemetry::settings::{AccessLogSettings, LineFormat};
use crate::telemetry::template::{Part, Template};

/// How one worker writes its lines.
#[derive(Debug)]
pub(super) struct Lines {
    settings: AccessLogSettings,
    format: LineFormat,
    names: FieldNames,
    /// What JSON has before the value of each field: a brace or a comma, and the name.
    prefixes: Box<[String]>,
    clock_text: ClockText,
}

impl Lines {
    pub(super) fn new(settings: AccessLogSettings, format: LineFormat) -> Self {
        let names = match format {
            LineFormat::Json(names) => names,
            LineFormat::Text | LineFormat::Combined | LineFormat::Template(_) => FieldNames::Own,
        };
        // All lines have the first field, which is the time.
        let first = format!("{{\"{}\":", FIELDS[0].name(names));
        let others = FIELDS[1..].iter().map(|it| format!(",\"{}\":", it.name(names)));
        let prefixes = iter::once(first).chain(others).collect();
        Self { settings, format, names, prefixes, clock_text: ClockText::default() }
    }

    pub(super) const fn settings(&self) -> &AccessLogSettings {
        &self.settings
    }

    /// Adds the line of a record, of which `sample` out of 100 are written if the log is a
    /// sample.
    pub(super) fn add(&self, record: &Record, sample: Option<u8>, to: &mut String) -> fmt::Result {
        let line = Line::of(record, self, sample);
        match &self.format {
            LineFormat::Json(_) => line.write_json(to),
            LineFormat::Text => line.write_text(to),
            LineFormat::Combined => line.write_combined(to),
            LineFormat::Template(template) => line.write_by(template, to),
        }
    }
}

/// The fields of a record that a line contains, beside those that every line has.
struct Line<'a> {
    record: &'a Record,
    lines: &'a Lines,
    time: Ref<'a, str>,
    /// The address of the last endpoint.
    endpoint: Option<Ref<'a, Name>>,
    client: Client,
    /// The status; 0 without a response.
    status: u16,
    route: Option<&'a str>,
    /// The policy whose numbers the client is told.
    binding: Option<&'a PolicyRecord>,
    /// The first policy in shadow mode that would have refused.
    shadow: Option<&'a str>,
    /// How many of 100 such requests are written, if the log is a sample.
    sample: Option<u8>,
}

impl<'a> Line<'a> {
    fn of(record: &'a Record, lines: &'a Lines, sample: Option<u8>) -> Self {
        let mut policies = record.policies.iter();
        Self {
            record,
            lines,
            time: lines.clock_text.of(record.time),
            endpoint: record.attempts.endpoint(),
            client: Client { address: record.client, shown: lines.settings.client },
            status: record.status.map_or(0, |status| status.as_u16()),
            route: record.route.as_ref().map(Name::as_str),
            binding: policies.clone().find(|policy| policy.is_binding),
            shadow: policies.find(|policy| policy.is_shadow_refused).map(|it| it.name.as_str()),
            sample,
        }
    }

    /// The value of a field, if the request has one.
    fn value(&self, field: Field) -> Option<Value<'_>> {
        let (record, binding) = (self.record, self.binding);
        let Lines { settings: AccessLogSettings { has_keys, .. }, names, .. } = self.lines;
        let optional = |name: Option<&'a str>| name.map(Value::Text);
        Some(match field {
            Field::Time => Value::Word(&self.time),
            Field::RequestId => Value::Text(record.request_id.to_str().unwrap_or_default()),
            Field::TraceId => return record.trace_id().map(Value::Text),
            Field::Client => Value::Client(self.client),
            Field::Method => Value::Word(record.method.as_str()),
            Field::Path => Value::Text(record.path()),
            Field::Host => return record.host().map(Value::Text),
            Field::Protocol if *names == FieldNames::Own => Value::Word(protocol(record.version)),
            Field::Protocol => Value::Word(version(record.version)),
            Field::Status => Value::Number(self.status.into()),
            Field::Bytes => Value::Number(record.bytes),
            // The Elastic Common Schema counts nanoseconds.
            Field::Duration if *names == FieldNames::Ecs => {
                Value::Number(record.duration_us.saturating_mul(1000))
            }
            Field::Duration => Value::Number(record.duration_us),
            Field::Upstream => Value::Number(record.upstream_us?),
            Field::Endpoint => Value::Text(self.endpoint.as_ref()?.as_str()),
            Field::Attempts => Value::Number(record.attempts.count()?),
            Field::Route => return optional(self.route),
            Field::Outcome => Value::Word(record.outcome),
            Field::Policy => Value::Text(binding?.name.as_str()),
            Field::Plan => return optional(binding?.plan.as_ref().map(Name::as_str)),
            Field::Remaining => Value::Number(binding?.remaining?),
            Field::Cost => Value::Number(binding?.cost?),
            Field::Source => Value::Word(binding?.source?),
            Field::StoreTime => Value::Number(record.store_us?),
            Field::Wait => Value::Number(record.wait?.as_millis_ceil()),
            Field::ShadowRefusedBy => return optional(self.shadow),
            Field::Sample => Value::Number(self.sample?.into()),
            Field::TimeUs if *has_keys => Value::Number(record.decided().as_micros()),
            Field::SettledUs if *has_keys => Value::Number(record.settled?.as_micros()),
            Field::Keys if *has_keys => Value::Keys(record),
            Field::TimeUs | Field::SettledUs | Field::Keys => return None,
        })
    }

    fn write_json(&self, line: &mut String) -> fmt::Result {
        for (named, prefix) in FIELDS.iter().zip(&self.lines.prefixes) {
            let Some(value) = self.value(named.field) else { continue };
            line.push_str(prefix);
            value.write_json(line)?;
        }
        if self.lines.names == FieldNames::Ecs {
            let (name, version) = ECS_VERSION;
            write!(line, ",\"{name}\":\"{version}\"")?;
        }
        line.write_str("}\n")
    }

    fn write_by(&self, template: &Template, line: &mut String) -> fmt::Result {
        for part in template.parts() {
            match part {
                Part::Text(text) => line.push_str(text),
                Part::Field(field) => match self.value(*field) {
                    Some(value) => value.write_plain(line)?,
                    None => line.push('-'),
                },
            }
        }
        line.write_char('\n')
    }

    /// The format that Apache and nginx call combined, so that other programs read it.
    /// `Referer` and `User-Agent` are not recorded.
    fn write_combined(&self, line: &mut String) -> fmt::Result {
        let Self { record, time, client, status, .. } = self;
        client.write_alone(line)?;
        write!(line, " - - [{}] \"", CombinedTime(time))?;
        write_escaped(line, record.method.as_str())?;
        line.write_char(' ')?;
        write_escaped(line, record.path())?;
        writeln!(line, " {}\" {status} {} \"-\" \"-\"", protocol(record.version), record.bytes)
    }

    fn write_text(&self, line: &mut String) -> fmt::Result {
        let Self { record, time, client, status, .. } = self;
        let Record { method, bytes, duration_us, outcome, .. } = record;
        write!(line, "{} ", &**time)?;
        client.write(line)?;
        write!(line, " {method} ")?;
        write_json_text(line, record.path())?;
        write!(line, " {status} {bytes}B {duration_us}us {outcome}")?;
        for (name, field) in [
            ("host", Field::Host),
            ("route", Field::Route),
            ("policy", Field::Policy),
            ("plan", Field::Plan),
            ("remaining", Field::Remaining),
            ("wait_ms", Field::Wait),
            ("shadow_refused_by", Field::ShadowRefusedBy),
            ("endpoint", Field::Endpoint),
            ("attempts", Field::Attempts),
            ("sample", Field::Sample),
        ] {
            if let Some(value) = self.value(field) {
                write!(line, " {name}=")?;
                value.write_json(line)?;
            }
        }
        writeln!(line, " id={}", record.request_id.to_str().unwrap_or_default())
    }
}

/// The line, with its end, that says how many lines are missing.
pub(super) const fn dropped(format: &LineFormat) -> fn(u64) -> String {
    match format {
        LineFormat::Json(FieldNames::Own) => |lines| format!("{{\"{DROPPED_LINES}\":{lines}}}\n"),
        LineFormat::Json(_) => |lines| format!("{{\"tollgate.{DROPPED_LINES}\":{lines}}}\n"),
        LineFormat::Text | LineFormat::Combined | LineFormat::Template(_) => {
            |lines| format!("{lines} lines dropped\n")
        }
    }
}

/// `10/Oct/2026:13:55:36 +0000`, from a time as `2026-10-10T13:55:36.123Z`.
struct CombinedTime<'a>(&'a str);

impl fmt::Display for CombinedTime<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let part = |range| self.0.get(range).unwrap_or_default();
        let month: usize = part(5..7).parse().unwrap_or(1);
        let month = MONTHS.get(month.saturating_sub(1)).copied().unwrap_or_default();
        write!(f, "{}/{month}/{}:{} +0000", part(8..10), part(0..4), part(11..19))
    }
}

/// The name of a version of HTTP in a request line.
const fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_11 => "HTTP/1.1",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP",
    }
}

/// The number of a version of HTTP, as the vocabularies of others write it.
const fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_11 => "1.1",
        Version::HTTP_2 => "2",
        _ => "",
    }
}
