//! One line of the access log, in each format.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use http::Version;
use tollgate_limiter::digest::PrincipalId;
use tollgate_limiter::policy::MaskedAddress;

use crate::telemetry::record::{Name, PolicyRecord, Record};
use crate::telemetry::settings::{AccessLogSettings, ClientAddress};

/// The fields of a record that a line contains, beside those that every line has.
pub(super) struct Line<'a> {
    record: &'a Record,
    client: Client,
    /// Whether the ids of clients are written.
    has_keys: bool,
    /// The status; 0 without a response.
    status: u16,
    route: Option<&'a str>,
    /// The policy whose numbers the client is told.
    binding: Option<&'a PolicyRecord>,
    /// The first policy in shadow mode that would have refused.
    shadow: Option<&'a str>,
}

impl<'a> Line<'a> {
    pub(super) fn of(record: &'a Record, settings: &AccessLogSettings) -> Self {
        let mut policies = record.policies.iter();
        Self {
            record,
            client: Client { address: record.client, shown: settings.client },
            has_keys: settings.has_keys,
            status: record.status.map_or(0, |status| status.as_u16()),
            route: record.route.as_ref().map(Name::as_str),
            binding: policies.clone().find(|policy| policy.is_binding),
            shadow: policies.find(|policy| policy.is_shadow_refused).map(|it| it.name.as_str()),
        }
    }

    pub(super) fn write_json(&self, line: &mut String) -> fmt::Result {
        let Self { record, client, status, .. } = self;
        let Record { time, bytes, duration_us, outcome, .. } = record;
        write!(line, "{{\"time\":\"{time}\",\"request_id\":")?;
        write_json_text(line, request_id(record))?;
        write!(line, ",\"client\":\"{}\",\"method\":", client)?;
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
        self.write_json_details(line)?;
        line.write_str("}\n")
    }

    /// The fields that only some requests have.
    fn write_json_details(&self, line: &mut String) -> fmt::Result {
        let record = self.record;
        write!(line, ",\"protocol\":\"{}\"", protocol(record.version))?;
        let attempts = record.attempts.get();
        if attempts > 0 {
            write!(line, ",\"attempts\":{attempts}")?;
        }
        if let Some(wait) = record.wait {
            write!(line, ",\"wait_ms\":{}", wait.as_micros().div_ceil(1000))?;
        }
        if let Some(policy) = self.binding {
            if let Some(cost) = policy.cost {
                write!(line, ",\"cost\":{cost}")?;
            }
            if let Some(source) = policy.source {
                write!(line, ",\"source\":\"{source}\"")?;
            }
        }
        if self.has_keys {
            self.write_json_keys(line)?;
        }
        Ok(())
    }

    /// The exact time, and whose counters were charged how much.
    fn write_json_keys(&self, line: &mut String) -> fmt::Result {
        write!(line, ",\"time_us\":{},\"keys\":[", self.record.time.as_micros())?;
        let known = self.record.policies.iter().filter_map(|it| Some((it, it.client?)));
        for (index, (policy, client)) in known.enumerate() {
            line.write_str(if index > 0 { ",{\"policy\":" } else { "{\"policy\":" })?;
            write_json_text(line, policy.name.as_str())?;
            let (id, cost) = (PrincipalId::from(client), policy.cost.unwrap_or(0));
            write!(line, ",\"id\":\"{id}\",\"cost\":{cost}}}")?;
        }
        line.write_char(']')
    }

    /// The format that Apache and nginx call combined, so that other programs read it.
    /// `Referer` and `User-Agent` are not recorded.
    pub(super) fn write_combined(&self, line: &mut String) -> fmt::Result {
        let Self { record, client, status, .. } = self;
        let time = record.time.to_string();
        write!(line, "{client:#} - - [{}] \"", CombinedTime(&time))?;
        write_combined_text(line, record.method.as_str())?;
        line.write_char(' ')?;
        write_combined_text(line, record.path())?;
        writeln!(line, " {}\" {status} {} \"-\" \"-\"", protocol(record.version), record.bytes)
    }

    pub(super) fn write_text(&self, line: &mut String) -> fmt::Result {
        let Self { record, client, status, .. } = self;
        let Record { time, method, bytes, duration_us, outcome, .. } = record;
        write!(line, "{time} {} {method} ", client)?;
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
fn write_json_text(line: &mut String, text: &str) -> fmt::Result {
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

/// Writes a text as nginx does: `"`, `\` and what is not printable ASCII as `\xHH`.
fn write_combined_text(line: &mut String, text: &str) -> fmt::Result {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => write!(line, "\\x{byte:02X}")?,
            b' '..=b'~' => line.write_char(char::from(byte))?,
            _ => write!(line, "\\x{byte:02X}")?,
        }
    }
    Ok(())
}

/// The client's address, as far as it is shown. The alternate form is one address without
/// a length of a network, for formats that know nothing else.
struct Client {
    address: IpAddr,
    shown: ClientAddress,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shown {
            ClientAddress::Full => self.address.to_canonical().fmt(f),
            ClientAddress::Hidden => f.write_str("-"),
            ClientAddress::Masked if f.alternate() => {
                let masked = MaskedAddress(self.address).to_string();
                f.write_str(masked.split('/').next().unwrap_or_default())
            }
            ClientAddress::Masked => MaskedAddress(self.address).fmt(f),
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
