//! The value of a field, and how JSON writes it.

use std::cell::Ref;
use std::fmt::{self, Write as _};
use std::net::IpAddr;

use tollgate_limiter::digest::PrincipalId;
use tollgate_limiter::policy::MaskedAddress;
use tollgate_limiter::time::Timestamp;

use crate::telemetry::record::{Name, Record};
use crate::telemetry::settings::ClientAddress;

/// The value of a field.
pub(super) enum Value<'a> {
    /// Any text, which a client may have sent.
    Text(&'a str),
    /// A name of ours.
    Shared(Ref<'a, Name>),
    /// A time.
    Time(Timestamp),
    /// An address.
    Client(Client),
    /// A number.
    Number(u64),
    /// Whose counters were charged how much.
    Keys(&'a Record),
}

impl Value<'_> {
    pub(super) fn write_json(&self, line: &mut String) -> fmt::Result {
        match self {
            Self::Text(text) => write_json_text(line, text),
            Self::Shared(name) => write_json_text(line, name.as_str()),
            Self::Time(time) => write!(line, "\"{time}\""),
            Self::Client(client) => write!(line, "\"{client}\""),
            Self::Number(number) => write!(line, "{number}"),
            Self::Keys(record) => write_json_keys(line, record),
        }
    }

    /// Writes a value in such a way that no client can end a quoted part or the line.
    pub(super) fn write_plain(&self, line: &mut String) -> fmt::Result {
        match self {
            Self::Text("") | Self::Keys(_) => line.write_char('-'),
            Self::Text(text) => write_escaped(line, text),
            Self::Shared(name) => write_escaped(line, name.as_str()),
            Self::Time(time) => write!(line, "{time}"),
            Self::Client(client) => write!(line, "{client}"),
            Self::Number(number) => write!(line, "{number}"),
        }
    }
}

/// Writes a text as nginx does: `"`, `\` and what is not printable ASCII as `\xHH`.
pub(super) fn write_escaped(line: &mut String, text: &str) -> fmt::Result {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => write!(line, "\\x{byte:02X}")?,
            b' '..=b'~' => line.write_char(char::from(byte))?,
            _ => write!(line, "\\x{byte:02X}")?,
        }
    }
    Ok(())
}

/// One object for each policy that has a key: what `replay` needs to decide in the same way.
fn write_json_keys(line: &mut String, record: &Record) -> fmt::Result {
    line.write_char('[')?;
    let known = record.policies.iter().filter_map(|it| Some((it, it.client?)));
    for (index, (policy, client)) in known.enumerate() {
        line.write_str(if index > 0 { ",{\"policy\":" } else { "{\"policy\":" })?;
        write_json_text(line, policy.name.as_str())?;
        let (id, cost) = (PrincipalId::from(client), policy.cost.unwrap_or(0));
        write!(line, ",\"id\":\"{id}\",\"cost\":{cost}")?;
        if let Some(plan) = policy.plan.as_ref().map(Name::as_str) {
            line.write_str(",\"plan\":")?;
            write_json_text(line, plan)?;
        }
        if let Some((limit, window)) = policy.own_limit {
            write!(line, ",\"limit\":{limit},\"window_us\":{}", window.as_micros())?;
        }
        for (is, name) in [(policy.is_elastic, "elastic"), (policy.is_preflight, "preflight")] {
            if is {
                write!(line, ",\"{name}\":true")?;
            }
        }
        if let Some(units) = policy.settled {
            write!(line, ",\"settled\":{units}")?;
        }
        line.write_char('}')?;
    }
    line.write_char(']')
}

/// Writes a JSON string (RFC 8259, section 7), so that no client can break the line or
/// end the string.
pub(super) fn write_json_text(line: &mut String, text: &str) -> fmt::Result {
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

/// The client's address, as far as it is shown. The alternate form is one address without
/// a length of a network, for formats that know nothing else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) address: IpAddr,
    pub(super) shown: ClientAddress,
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
