//! The syntax of forwarding fields: lists of the nodes that a request has passed. The lists
//! are read from the right.
//!
//! Trusted proxies write the right end. A client can write only to the left of it, and
//! cannot change how the right end is parsed, not even with a quote that it never closes.

use std::net::{IpAddr, Ipv6Addr};

/// The elements of one line of `Forwarded`, the last one first (RFC 7239, section 4).
pub(super) struct ElementsFromRight<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> ElementsFromRight<'a> {
    pub(super) const fn of(line: &'a [u8]) -> Self {
        Self { rest: Some(line) }
    }
}

impl<'a> Iterator for ElementsFromRight<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.rest.take()?;
        let mut quoted = false;
        for at in (0..line.len()).rev() {
            match line[at] {
                b'"' if !is_escaped(&line[..at]) => quoted = !quoted,
                b',' if !quoted => {
                    self.rest = Some(&line[..at]);
                    return Some(&line[at + 1..]);
                }
                _ => {}
            }
        }
        Some(line)
    }
}

/// Whether the character after `before`, inside of quotes, is escaped by a backslash that
/// is not itself escaped.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// The address in the `for` parameter of an element of `Forwarded`. None if the element is
/// malformed, has not exactly one such parameter, or identifies its node by another name,
/// such as `unknown` or `_hidden` (section 6).
pub(super) fn node_of(element: &[u8]) -> Option<IpAddr> {
    let mut rest = std::str::from_utf8(element).ok()?.trim_matches(BLANK);
    let mut node = None;
    while !rest.is_empty() {
        let (name, value, behind) = pair(rest)?;
        if name.eq_ignore_ascii_case("for") && node.replace(value).is_some() {
            return None;
        }
        rest = behind;
    }
    address(node?.as_bytes())
}

const BLANK: [char; 2] = [' ', '\t'];

/// Splits off the first `name=value`, in which the value may be quoted, and the semicolon
/// after it. Escapes in the value are not decoded, because no address contains one.
fn pair(text: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = text.split_once('=')?;
    let (value, behind) = match rest.strip_prefix('"') {
        Some(quoted) => {
            let is_end = |&(at, _): &(usize, &str)| !is_escaped(&quoted.as_bytes()[..at]);
            let (end, _) = quoted.match_indices('"').find(is_end)?;
            (&quoted[..end], &quoted[end + 1..])
        }
        None => rest.split_at(rest.find(';').unwrap_or(rest.len())),
    };
    let behind = behind.trim_start_matches(BLANK);
    let rest = if behind.is_empty() { behind } else { behind.strip_prefix(';')? };
    Some((name.trim_matches(BLANK), value.trim_matches(BLANK), rest.trim_start_matches(BLANK)))
}

/// The address of a node without its port and zone. An IPv4-mapped address is converted to
/// IPv4. Examples: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[fe80::1%eth0]:80`.
pub(super) fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim_matches(BLANK);
    if let Some(bracketed) = text.strip_prefix('[') {
        let (host, behind) = bracketed.split_once(']')?;
        let complete = behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port);
        return if complete { ipv6(host) } else { None };
    }
    match text.split_once(':') {
        None => text.parse().ok(),
        Some((host, port)) if !port.contains(':') && is_port(port) && !host.is_empty() => {
            host.parse().ok().map(IpAddr::V4)
        }
        Some(_) => ipv6(text),
    }
}

fn ipv6(text: &str) -> Option<IpAddr> {
    let host = text.split_once('%').map_or(text, |(host, _zone)| host);
    host.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical())
}

/// A port, or an obfuscated one (RFC 7239, section 6.2).
fn is_port(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.parse::<u16>().is_ok()
        || text
            .strip_prefix('_')
            .is_some_and(|name| !name.is_empty() && name.bytes().all(is_letter))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_loses_its_port_and_zone() {
        let cases = [
            ("192.0.2.1", "192.0.2.1"),
            (" 192.0.2.1:4711\t", "192.0.2.1"),
            ("192.0.2.1:_hidden", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:DB8::1]:4711", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]:80", "fe80::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("[::ffff:c000:201]:80", "192.0.2.1"),
        ];
        for (text, wanted) in cases {
            assert_eq!(address(text.as_bytes()), Some(wanted.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_an_address_is_ignored() {
        let cases = [
            "",
            "unknown",
            "_hidden",
            "192.0.2",
            "192.0.2.256",
            "192.0.2.1:",
            "192.0.2.1:x",
            ":80",
            "192.0.2.1:99999",
            "[192.0.2.1]",
            "[::1",
            "[::1]80",
            "[::1]:",
            "::1]",
            "1.2.3.4%eth0",
            "1.2.3.4 5.6.7.8",
            "0x7f.1",
            "127.1",
            "\u{661}.2.3.4",
            "localhost",
        ];
        for text in cases {
            assert_eq!(address(text.as_bytes()), None, "{text}");
        }
        assert_eq!(address(b"\xff1.2.3.4"), None);
    }

    #[test]
    fn an_element_names_its_node_in_for() {
        let cases = [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", Some("192.0.2.60")),
            (r#"For="[2001:db8::1]:4711""#, Some("2001:db8::1")),
            (r#" by="a;b\"c" ; for=192.0.2.1"#, Some("192.0.2.1")),
            (r#"by="a\\";for=192.0.2.1"#, Some("192.0.2.1")),
            (r#"proto=http;;for="192.0.2.1:80";"#, None),
            (r#"proto=http;for="192.0.2.1:80""#, Some("192.0.2.1")),
            ("for=unknown", None),
            ("for=_gazonk", None),
            ("proto=https", None),
            ("for=192.0.2.1;for=192.0.2.2", None),
            (r#"for="192.0.2.1"#, None),
            (r#"for="192.0.2.1"x"#, None),
            ("192.0.2.1", None),
        ];
        for (element, node) in cases {
            let node = node.map(|node| node.parse().unwrap());
            assert_eq!(node_of(element.as_bytes()), node, "{element}");
        }
    }

    #[test]
    fn a_comma_in_quotes_does_not_separate_elements() {
        let line = br#"for=a, for="b,\",c";by=d , for=e"#;
        let elements: Vec<_> = ElementsFromRight::of(line).map(<[u8]>::to_vec).collect();
        let wanted: [&[u8]; 3] = [b" for=e", br#" for="b,\",c";by=d "#, b"for=a"];
        assert_eq!(elements, wanted);
    }

    proptest! {
        #[test]
        fn what_stands_left_of_an_element_does_not_change_it(
            left in proptest::collection::vec(any::<u8>(), 0..64),
            element in r#"for=[a-z]{1,5}|for="[a-z,;:\[\]]{0,5}";by="(\\"|\\\\|[a-z,]){0,5}""#,
        ) {
            let line = [&left, &b","[..], element.as_bytes()].concat();
            prop_assert_eq!(ElementsFromRight::of(&line).next(), Some(element.as_bytes()));
        }

        #[test]
        fn no_bytes_make_a_reader_panic(line in proptest::collection::vec(any::<u8>(), 0..64)) {
            for element in ElementsFromRight::of(&line) {
                node_of(element);
                address(element);
            }
        }
    }
}
