//! Words, quoted texts, numbers and addresses in a line.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use memchr::{memchr, memchr2, memrchr};

use super::fields::{Client, Line};

/// Walks over the parts of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'l> {
    rest: &'l [u8],
}

impl<'l> Cursor<'l> {
    pub(super) const fn new(rest: &'l [u8]) -> Self {
        Self { rest }
    }

    /// What follows.
    pub(super) const fn rest(&self) -> &'l [u8] {
        self.rest
    }

    fn skip_blanks(&mut self) {
        while let [b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// The first byte of the next part.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.rest.first().copied()
    }

    /// The next word, up to a blank.
    pub(super) fn word(&mut self) -> Option<&'l [u8]> {
        self.skip_blanks();
        let end = memchr(b' ', self.rest).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// The next word, or the next list of words with commas between them.
    pub(super) fn list(&mut self) -> Option<&'l [u8]> {
        self.skip_blanks();
        let start = self.rest;
        while self.word()?.ends_with(b",") || self.peek() == Some(b',') {}
        Some(start[..start.len() - self.rest.len()].trim_ascii_end())
    }

    /// The next text in double quotes, with its escapes.
    pub(super) fn quoted(&mut self) -> Option<&'l [u8]> {
        self.skip_blanks();
        let inner = self.rest.strip_prefix(b"\"")?;
        let end = end_of_quoted(inner)?;
        self.rest = &inner[end + 1..];
        Some(&inner[..end])
    }

    /// The next `NAME=VALUE`; the value may be in double quotes, and then has its escapes.
    pub(super) fn named(&mut self) -> Option<(&'l [u8], &'l [u8])> {
        self.skip_blanks();
        let equals = memchr(b'=', self.rest)?;
        let name = &self.rest[..equals];
        let value = &self.rest[equals + 1..];
        self.rest = value;
        let value = if value.first() == Some(&b'"') { self.quoted() } else { self.word() };
        Some((name, value?))
    }

    /// The next text in square brackets.
    pub(super) fn bracketed(&mut self) -> Option<&'l [u8]> {
        self.skip_blanks();
        let inner = self.rest.strip_prefix(b"[")?;
        let end = memchr(b']', inner)?;
        self.rest = &inner[end + 1..];
        Some(&inner[..end])
    }
}

/// Where a quoted text ends: at the first quote without a backslash before it.
pub(super) fn end_of_quoted(inner: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + memchr2(b'"', b'\\', inner.get(at..)?)?;
        if inner[found] == b'"' {
            return Some(found);
        }
        at = found + 2;
    }
}

/// The number in `12 lines dropped`, which our own access log writes.
pub(super) fn dropped(text: &[u8]) -> Option<u64> {
    number(text.strip_suffix(b" lines dropped")?)
}

/// A quoted text without its escapes: `\xHH` (nginx), `\"` and `\\` (Apache).
pub(super) fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        match (first, after) {
            (b'\\', [b'x' | b'X', high, low, after @ ..]) if hex(*high, *low).is_some() => {
                plain.extend(hex(*high, *low));
                rest = after;
            }
            (b'\\', [other, after @ ..]) => {
                plain.push(*other);
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(plain)
}

/// The byte that two hexadecimal digits write.
pub(super) fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? * 16 + digit(low)?)
}

/// A text in which a byte may be written as `%HH`. Other uses of `%` stay as they are.
pub(super) fn percent_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    percent_encoding::percent_decode(text).into()
}

/// A whole number of decimal digits.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// A decimal number, such as `0.125` or `1.5e-3`, times `unit`, rounded down.
pub(super) fn scaled(text: &[u8], unit: u64) -> Option<u64> {
    let e = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match e {
        Some(at) => (&text[..at], signed(&text[at + 1..])?),
        None => (text, 0),
    };
    let point = memchr(b'.', mantissa).unwrap_or(mantissa.len());
    let whole = &mantissa[..point];
    let fraction = mantissa.get(point + 1..).unwrap_or_default();
    // 18 digits fit together with any unit that is used here.
    let fraction = &fraction[..fraction.len().min(18_usize.saturating_sub(whole.len()))];
    let whole_number = if whole.is_empty() { 0 } else { number(whole)? };
    let mut value = u128::from(whole_number);
    for byte in fraction {
        let digit = byte.is_ascii_digit().then(|| u128::from(byte - b'0'))?;
        value = value * 10 + digit;
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let power = 10_u128.checked_pow(shift.unsigned_abs())?;
    let value = value.checked_mul(u128::from(unit))?;
    let value = if shift < 0 { value / power } else { value.checked_mul(power)? };
    u64::try_from(value).ok()
}

fn signed(text: &[u8]) -> Option<i32> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    i32::try_from(number(digits)?).ok().map(|number| sign * number)
}

/// An address, also with a port, in brackets, with a zone or as a network.
pub(super) fn client(text: &[u8]) -> Option<Client> {
    let text = str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(whole(address));
    }
    if let Some((network, bits)) = text.split_once('/') {
        let address: IpAddr = network.parse().ok()?;
        let all: u8 = if address.is_ipv4() { 32 } else { 128 };
        let bits: u8 = bits.parse().ok().filter(|bits| *bits <= all)?;
        return Some(Client { is_masked: bits < all, ..whole(address) });
    }
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(whole(socket.ip()));
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    // The zone of a link-local address (RFC 4007, section 11) is a name of this machine.
    bare.split('%').next()?.parse().ok().map(whole)
}

/// The address in `ADDRESS:PORT`, where an IPv6 address has no brackets: the last group is the
/// port, also where the text is an address by itself, such as `2001:db8::1:4711`.
pub(super) fn client_before_port(text: &[u8]) -> Option<Client> {
    let at_port = memrchr(b':', text).map(|colon| (&text[..colon], &text[colon + 1..]));
    let address = at_port.filter(|(_, port)| number(port).is_some());
    address.and_then(|(address, _)| client(address)).or_else(|| client(text))
}

fn whole(address: IpAddr) -> Client {
    Client { address: address.to_canonical(), is_masked: false }
}

/// The client that the last element of a list of forwarded addresses names.
pub(super) fn last_forwarded(list: &[u8]) -> Option<Client> {
    client(list.rsplit(|&byte| byte == b',').next()?.trim_ascii())
}

/// Whether an element of a list is an address.
pub(super) fn has_address(list: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|element| client(element.trim_ascii()).is_some())
}

/// Reads `METHOD TARGET PROTOCOL` into the line. What is no request line stays out.
pub(super) fn request_line<'l>(line: &mut Line<'l>, text: Cow<'l, [u8]>) {
    let Some(space) = memchr(b' ', &text) else { return };
    let after = &text[space + 1..];
    let end = memchr(b' ', after).unwrap_or(after.len());
    // HTTP/0.9 has no protocol; what else lacks one is no request.
    let has_protocol = after.get(end + 1..).is_some_and(|rest| rest.starts_with(b"HTTP/"));
    if !has_protocol || end == 0 {
        return;
    }
    let target = space + 1..space + 1 + end;
    match text {
        Cow::Borrowed(text) => {
            (line.method, line.target) =
                (Cow::Borrowed(&text[..space]), Cow::Borrowed(&text[target]));
        }
        Cow::Owned(text) => {
            (line.method, line.target) =
                (Cow::Owned(text[..space].to_vec()), Cow::Owned(text[target].to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_numbers_are_scaled_exactly() {
        let cases: [(&str, u64, Option<u64>); 14] = [
            ("0.125", 1_000_000, Some(125_000)),
            ("12", 1000, Some(12_000)),
            ("1.5e-3", 1_000_000, Some(1500)),
            ("2E2", 1, Some(200)),
            (".5", 10, Some(5)),
            ("1795246126.123456", 1_000_000, Some(1_795_246_126_123_456)),
            ("0.1234567890123456789012345", 1_000_000, Some(123_456)),
            ("", 1, None),
            (".", 1, None),
            ("-1", 1, None),
            ("1e999", 1, None),
            ("1.55e-2147483647", 1, None),
            ("1.55e2147483647", 1, None),
            ("99999999999999999999", 1, None),
        ];
        for (text, unit, expected) in cases {
            assert_eq!(scaled(text.as_bytes(), unit), expected, "{text}");
        }
    }

    #[test]
    fn addresses_have_ports_and_networks() {
        let cases = [
            ("192.0.2.7", Some(("192.0.2.7", false))),
            ("192.0.2.7:443", Some(("192.0.2.7", false))),
            ("203.0.113.0/24", Some(("203.0.113.0", true))),
            ("2001:db8:1::/48", Some(("2001:db8:1::", true))),
            ("[2001:db8::1]:80", Some(("2001:db8::1", false))),
            ("::ffff:192.0.2.7", Some(("192.0.2.7", false))),
            ("[2001:db8::1]", Some(("2001:db8::1", false))),
            ("fe80::1%eth0", Some(("fe80::1", false))),
            ("[fe80::1%2]:80", Some(("fe80::1", false))),
            ("192.0.2.7/33", None),
            ("unix:", None),
            ("-", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(address, is_masked)| Client {
                address: address.parse().unwrap(),
                is_masked,
            });
            assert_eq!(client(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn the_last_group_of_an_address_with_a_port_is_the_port() {
        let cases = [
            ("192.0.2.7:50718", Some("192.0.2.7")),
            (
                "2001:db8:4538:1:bcf4:5264:e01c:f215:50718",
                Some("2001:db8:4538:1:bcf4:5264:e01c:f215"),
            ),
            ("2001:db8:1::f215:50718", Some("2001:db8:1::f215")),
            ("2001:db8:1::f215:4711", Some("2001:db8:1::f215")),
            ("2001:db8:::4711", Some("2001:db8::")),
            ("::1:80", Some("::1")),
            ("::ffff:192.0.2.7:80", Some("192.0.2.7")),
            ("[2001:db8::1]:80", Some("2001:db8::1")),
            ("192.0.2.7", Some("192.0.2.7")),
            ("2001:db8::f215", Some("2001:db8::f215")),
            ("unix:1", None),
            ("-", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|address| whole(address.parse().expect("an address")));
            assert_eq!(client_before_port(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn escapes_of_both_servers_are_removed() {
        assert_eq!(&*unescaped(br#"a\x22b\"c\\d\xzz\"#), br#"a"b"c\dxzz\"#);
        assert_eq!(end_of_quoted(br#"a\"b" c"#), Some(4));
        assert_eq!(end_of_quoted(br"a\"), None);
    }
}
