//! One line of the access log, in each format.

use std::cell::Ref;
use std::fmt::{self, Write as _};

use http::Version;
use tollgate_core::api_keys::KeyId;
use tollgate_core::log_fields::{DROPPED_LINES, ECS_VERSION, Field, FieldNames};
use tollgate_core::text::push_json;
use tollgate_core::time::{Span, Timestamp};

use super::clock_text::ClockText;
use super::terminal::Shown;
use super::value::{Client, write_escaped};
use super::visitor::{Json, Prefixes, Values, Visitor};
use crate::telemetry::record::{Name, PolicyRecord, Record};
use crate::telemetry::settings::{AccessLogSettings, LineFormat, Terminal};
use crate::telemetry::template::{Part, Template};

/// How one worker writes its lines.
#[derive(Debug)]
pub struct Lines {
    settings: AccessLogSettings,
    format: LineFormat,
    names: FieldNames,
    prefixes: Prefixes,
    clock_text: ClockText,
}

impl Lines {
    pub fn new(settings: AccessLogSettings, format: LineFormat) -> Self {
        let names = match format {
            LineFormat::Json(names) => names,
            LineFormat::Text
            | LineFormat::Terminal(_)
            | LineFormat::Combined
            | LineFormat::Template(_) => FieldNames::Own,
        };
        let prefixes = Prefixes::new(names);
        Self { settings, format, names, prefixes, clock_text: ClockText::default() }
    }

    pub const fn settings(&self) -> &AccessLogSettings {
        &self.settings
    }

    /// Adds the line of a record, of which `sample` out of 100 are written if the log is a
    /// sample.
    pub fn add(&self, record: &Record, sample: Option<u8>, to: &mut String) -> fmt::Result {
        let line = Line::of(record, self, sample);
        match &self.format {
            LineFormat::Json(_) => line.write_json(to),
            LineFormat::Text => line.write_text(to),
            LineFormat::Terminal(terminal) => {
                line.write_at(*terminal, to);
                Ok(())
            }
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
    /// The name of the last upstream.
    upstream: Option<Ref<'a, Name>>,
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
            upstream: record.attempts.upstream(),
            endpoint: record.attempts.endpoint(),
            client: Client { address: record.client, shown: lines.settings.client },
            status: record.status.map_or(0, |status| status.as_u16()),
            route: record.route.as_ref().map(Name::as_str),
            binding: policies.clone().find(|policy| policy.is_binding),
            shadow: policies.find(|policy| policy.is_shadow_refused).map(|it| it.name.as_str()),
            sample,
        }
    }

    /// Passes the fields that the request has to `to`, in the order of the table of fields.
    fn visit<'s>(&'s self, to: &mut impl Visitor<'s>) {
        let record = self.record;
        let binding = self.binding;
        to.word(Field::Time, &self.time);
        to.text(Field::RequestId, record.request_id.to_str().unwrap_or_default());
        to.optional_text(Field::TraceId, record.trace_id());
        to.client(Field::Client, self.client);
        to.word(Field::Method, record.method.as_str());
        to.text(Field::Path, record.path());
        to.optional_text(Field::Host, record.host());
        to.word(Field::Protocol, self.protocol());
        to.number(Field::Status, self.status.into());
        to.number(Field::Bytes, record.bytes);
        to.number(Field::Duration, self.duration());
        to.optional_number(Field::UpstreamTime, record.upstream_us);
        to.optional_text(Field::Upstream, self.upstream.as_deref().map(Name::as_str));
        to.optional_text(Field::Endpoint, self.endpoint.as_deref().map(Name::as_str));
        to.optional_number(Field::Attempts, record.attempts.count());
        to.optional_number(Field::Queued, record.attempts.queued_us());
        to.optional_text(Field::Route, self.route);
        to.word(Field::Outcome, record.outcome);
        if let Some(policy) = binding {
            to.text(Field::Policy, policy.name.as_str());
            to.optional_text(Field::Plan, policy.plan.as_ref().map(Name::as_str));
            to.optional_number(Field::Remaining, policy.remaining);
            to.optional_number(Field::Cost, policy.cost);
            if let Some(source) = policy.source {
                to.word(Field::Source, source);
            }
        }
        to.optional_number(Field::StoreTime, record.store_us);
        to.optional_number(Field::Wait, record.wait.map(Span::as_millis_ceil));
        to.optional_text(Field::ShadowRefusedBy, self.shadow);
        if let Some(auth) = record.auth {
            to.word(Field::Auth, auth);
        }
        to.optional_text(Field::KeyId, record.key_id.as_ref().map(KeyId::as_str));
        to.optional_text(Field::Team, record.team.as_deref());
        to.optional_text(Field::Class, record.class.as_deref());
        to.optional_text(Field::Agent, record.agent.as_deref());
        to.optional_text(Field::DeniedBy, record.denied_by.as_deref());
        to.optional_text(Field::ShadowDeniedBy, record.shadow_denied_by.as_deref());
        to.optional_text(Field::Model, record.model.as_deref());
        if let Some(usage) = record.usage {
            to.number(Field::TokensIn, usage.all_input());
            to.number(Field::TokensCached, usage.cache_read);
            to.number(Field::TokensOut, usage.output);
        }
        if let Some(spent) = record.spent {
            to.amount(Field::Spent, spent);
        }
        if let Some(cause) = record.unsettled {
            to.word(Field::Unsettled, cause.word());
        }
        to.optional_text(Field::Overflow, record.overflow.as_ref().map(Name::as_str));
        to.optional_number(Field::Sample, self.sample.map(u64::from));
        if self.lines.settings.has_keys {
            to.number(Field::TimeUs, record.decided().as_micros());
            to.optional_number(Field::SettledUs, record.settled.map(Timestamp::as_micros));
            to.keys(Field::Keys, record);
        }
    }

    fn protocol(&self) -> &'static str {
        let of = if self.lines.names == FieldNames::Own { protocol } else { version };
        of(self.record.version)
    }

    fn duration(&self) -> u64 {
        // The Elastic Common Schema counts nanoseconds.
        let units = if self.lines.names == FieldNames::Ecs { 1000 } else { 1 };
        self.record.duration_us.saturating_mul(units)
    }

    fn values(&self) -> Values<'_> {
        let mut values = Values::NONE;
        self.visit(&mut values);
        values
    }

    fn write_json(&self, line: &mut String) -> fmt::Result {
        self.visit(&mut Json { prefixes: &self.lines.prefixes, line });
        if self.lines.names == FieldNames::Ecs {
            let (name, version) = ECS_VERSION;
            write!(line, ",\"{name}\":\"{version}\"")?;
        }
        line.write_str("}\n")
    }

    fn write_by(&self, template: &Template, line: &mut String) -> fmt::Result {
        let values = self.values();
        for part in template.parts() {
            match part {
                Part::Text(text) => line.push_str(text),
                Part::Field(field) => match values.get(*field) {
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
        client.write_alone(line);
        write!(line, " - - [{}] \"", CombinedTime(time))?;
        write_escaped(line, record.method.as_str())?;
        line.write_char(' ')?;
        write_escaped(line, record.path())?;
        writeln!(line, " {}\" {status} {} \"-\" \"-\"", protocol(record.version), record.bytes)
    }

    fn write_at(&self, terminal: Terminal, line: &mut String) {
        let mut client = String::new();
        self.client.write(&mut client);
        let Record { method, outcome, wait, duration_us, .. } = self.record;
        let shown = Shown {
            time: &self.time,
            status: self.status,
            method: method.as_str(),
            path: self.record.path(),
            client: &client,
            duration_us: *duration_us,
            outcome,
            policy: self.binding.map(|it| it.name.as_str()),
            remaining: self.binding.and_then(|it| it.remaining),
            wait_ms: wait.map(Span::as_millis_ceil),
        };
        terminal.write(&shown, line);
    }

    fn write_text(&self, line: &mut String) -> fmt::Result {
        let Self { record, time, client, status, .. } = self;
        let Record { method, bytes, duration_us, outcome, .. } = record;
        write!(line, "{} ", &**time)?;
        client.write(line);
        write!(line, " {method} ")?;
        push_json(line, record.path());
        write!(line, " {status} {bytes}B {duration_us}us {outcome}")?;
        let values = self.values();
        for (name, field) in [
            ("host", Field::Host),
            ("route", Field::Route),
            ("policy", Field::Policy),
            ("plan", Field::Plan),
            ("remaining", Field::Remaining),
            ("wait_ms", Field::Wait),
            ("shadow_refused_by", Field::ShadowRefusedBy),
            ("auth", Field::Auth),
            ("key_id", Field::KeyId),
            ("team", Field::Team),
            ("class", Field::Class),
            ("agent", Field::Agent),
            ("denied_by", Field::DeniedBy),
            ("shadow_denied_by", Field::ShadowDeniedBy),
            ("model", Field::Model),
            ("tokens_in", Field::TokensIn),
            ("tokens_out", Field::TokensOut),
            ("spent", Field::Spent),
            ("unsettled", Field::Unsettled),
            ("overflow", Field::Overflow),
            ("upstream", Field::Upstream),
            ("endpoint", Field::Endpoint),
            ("attempts", Field::Attempts),
            ("queue_us", Field::Queued),
            ("sample", Field::Sample),
        ] {
            if let Some(value) = values.get(field) {
                write!(line, " {name}=")?;
                value.write_json(line)?;
            }
        }
        writeln!(line, " id={}", record.request_id.to_str().unwrap_or_default())
    }
}

/// The line, with its end, that says how many lines are missing.
pub const fn dropped(format: &LineFormat) -> fn(u64) -> String {
    match format {
        LineFormat::Json(FieldNames::Own) => |lines| format!("{{\"{DROPPED_LINES}\":{lines}}}\n"),
        LineFormat::Json(_) => |lines| format!("{{\"tollgate.{DROPPED_LINES}\":{lines}}}\n"),
        LineFormat::Text
        | LineFormat::Terminal(_)
        | LineFormat::Combined
        | LineFormat::Template(_) => |lines| format!("{lines} lines dropped\n"),
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
