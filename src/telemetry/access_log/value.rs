//! The value of a field, and how JSON writes it.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use tollgate_core::digest::PrincipalId;
use tollgate_core::policy::MaskedAddress;
use tollgate_core::price::Money;
use tollgate_core::request::push_address;
use tollgate_core::text::push_json;

use crate::telemetry::record::{Name, Record};
use crate::telemetry::settings::ClientAddress;

/// The value of a field.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// Any text, which a client may have sent.
    Text(&'a str),
    /// A text without characters that a format escapes: one of ours, or a token (RFC 9110,
    /// section 5.6.2).
    Word(&'a str),
    /// An address.
    Client(Client),
    /// A number.
    Number(u64),
    /// An amount of money.
    Amount(Money),
    /// Whose counters were charged how much.
    Keys(&'a Record),
}

impl Value<'_> {
    pub fn write_json(&self, line: &mut String) -> fmt::Result {
        match self {
            Self::Text(text) => push_json(line, text),
            Self::Word(word) => quote(line, word),
            Self::Client(client) => {
                line.push('"');
                client.write(line);
                line.push('"');
            }
            Self::Number(number) => push_number(line, *number),
            Self::Amount(amount) => push_amount(line, *amount),
            Self::Keys(record) => write_json_keys(line, record)?,
        }
        Ok(())
    }

    /// Writes a value in such a way that no client can end a quoted part or the line.
    pub fn write_plain(&self, line: &mut String) -> fmt::Result {
        match self {
            Self::Text("") | Self::Word("") | Self::Keys(_) => line.push('-'),
            Self::Text(text) => write_escaped(line, text)?,
            Self::Word(word) => line.push_str(word),
            Self::Client(client) => client.write(line),
            Self::Number(number) => push_number(line, *number),
            Self::Amount(amount) => push_amount(line, *amount),
        }
        Ok(())
    }
}

/// Writes a text as nginx does: `"`, `\` and what is not printable ASCII as `\xHH`.
pub fn write_escaped(line: &mut String, text: &str) -> fmt::Result {
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
pub fn write_json_keys(line: &mut String, record: &Record) -> fmt::Result {
    line.write_char('[')?;
    let known = record.policies.iter().filter_map(|it| Some((it, it.client?)));
    for (index, (policy, client)) in known.enumerate() {
        line.write_str(if index > 0 { ",{\"policy\":" } else { "{\"policy\":" })?;
        push_json(line, policy.name.as_str());
        let id = PrincipalId::from(client);
        let cost = policy.cost.unwrap_or(0);
        write!(line, ",\"id\":\"{id}\",\"cost\":{cost}")?;
        if let Some(plan) = policy.plan.as_ref().map(Name::as_str) {
            line.write_str(",\"plan\":")?;
            push_json(line, plan);
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

/// Adds a text between quotes, as it is.
fn quote(line: &mut String, text: &str) {
    line.push('"');
    line.push_str(text);
    line.push('"');
}

/// Adds a number in decimal digits.
pub fn push_number(line: &mut String, number: impl itoa::Integer) {
    line.push_str(itoa::Buffer::new().format(number));
}

/// Adds an amount of money without its currency, so that programs can add such numbers up. It has
/// decimals also if they are zeros, because some indexes take the type of a field from its first
/// value, and would cut the decimals of later ones off.
pub fn push_amount(line: &mut String, amount: Money) {
    let _ = write!(line, "{}", amount.number());
}

/// The client's address, as far as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub address: IpAddr,
    pub shown: ClientAddress,
}

impl Client {
    /// Writes the address, or its network with the length.
    pub fn write(self, line: &mut String) {
        match self.shown {
            ClientAddress::Hidden => line.push('-'),
            ClientAddress::Full => push_address(line, self.address.to_canonical()),
            ClientAddress::Masked => {
                let (network, length) = MaskedAddress(self.address).network();
                push_address(line, network);
                line.push('/');
                push_number(line, length);
            }
        }
    }

    /// The same without the length, for formats that know only addresses.
    pub fn write_alone(self, line: &mut String) {
        match self.shown {
            ClientAddress::Masked => push_address(line, MaskedAddress(self.address).network().0),
            ClientAddress::Hidden | ClientAddress::Full => self.write(line),
        }
    }
}
