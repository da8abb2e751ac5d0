//! Hosts in the form that routes compare.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use http::uri::Authority;

use super::Ambiguity;

/// A host in the form that routes compare: as in a Host field, without a port, in lower
/// case.
///
/// # Errors
/// If the text is not a host, or has a port.
pub fn normal_host(host: &str) -> Result<Cow<'_, str>, Ambiguity> {
    if host.is_empty() || host_and_port(host)? != (host, None) {
        return Err(Ambiguity::BadHost);
    }
    host_of_field(host)
}

/// The text without the port that may follow the host in it.
pub(crate) fn without_port(text: &str) -> &str {
    host_and_port(text).map_or(text, |(host, _)| host)
}

/// The host in the value of a Host field, which may be empty (RFC 9110, section 7.2), in
/// the form that routes compare: in lower case, without its port and without the dot that
/// may end a name (RFC 3986, section 3.2.2). An IPv6 address has its canonical text (RFC
/// 5952).
///
/// # Errors
/// If the value is neither a DNS name nor an address. General syntax (RFC 3986) allows more
/// characters in host names, but clients do not need them, and backends interpret `%61` and
/// `a` differently.
pub(super) fn host_of_field(text: &str) -> Result<Cow<'_, str>, Ambiguity> {
    match plain_host(text) {
        Some(host) => Ok(Cow::Borrowed(host)),
        None => any_host(text),
    }
}

/// [`host_of_field`] by the general rules.
fn any_host(text: &str) -> Result<Cow<'_, str>, Ambiguity> {
    let (host, _) = host_and_port(text)?;
    if let Some(literal) = host.strip_prefix('[') {
        let address = literal.strip_suffix(']').and_then(|text| text.parse::<Ipv6Addr>().ok());
        let canonical = format!("[{}]", address.ok_or(Ambiguity::BadHost)?);
        return Ok(if canonical == host { Cow::Borrowed(host) } else { Cow::Owned(canonical) });
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    match name.split('.').all(is_label) || text.is_empty() {
        true => Ok(lower_case(name)),
        false => Err(Ambiguity::BadHost),
    }
}

/// The host in a field that is written as nearly all clients write it: labels in lower case,
/// and perhaps a port. One pass over such a text is much cheaper than the general rules,
/// which give the same result.
fn plain_host(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut end = bytes.len();
    let mut is_label_empty = true;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => is_label_empty = false,
            b'.' if !is_label_empty => is_label_empty = true,
            b':' => {
                end = at;
                break;
            }
            _ => return None,
        }
    }
    let port = bytes.get(end + 1..).unwrap_or_default();
    let is_port = port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
    (!is_label_empty && is_port && bytes.len() <= 255).then(|| &text[..end])
}

/// Whether two values of Host fields name the same port. Without a port, or with an empty one, it is
/// that of the scheme (RFC 9110, sections 4.2.1 and 4.2.2).
pub(super) fn has_same_port(one: &str, other: &str, scheme: Option<&str>) -> bool {
    let default = match scheme {
        Some("http") => "80",
        Some("https") => "443",
        _ => "",
    };
    let port = |text| {
        let port = host_and_port(text).ok()?.1.filter(|port| !port.is_empty());
        Some(port.map_or(default, |port| port.trim_start_matches('0')).to_owned())
    };
    port(one).is_some_and(|one| port(other) == Some(one))
}

fn host_and_port(text: &str) -> Result<(&str, Option<&str>), Ambiguity> {
    let (host, port) = match text.rfind(':') {
        Some(colon) if !text.ends_with(']') => (&text[..colon], Some(&text[colon + 1..])),
        _ => (text, None),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_authority = || text.is_empty() || text.parse::<Authority>().is_ok();
    let is_good = port.is_none_or(is_port) && (port.is_none() || !host.is_empty());
    if is_good && is_authority() { Ok((host, port)) } else { Err(Ambiguity::BadHost) }
}

fn lower_case(host: &str) -> Cow<'_, str> {
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_has_one_form() {
        let cases = [
            ("API.example.com:8080", "api.example.com"),
            ("api.example.com.", "api.example.com"),
            ("api.example.com.:443", "api.example.com"),
            ("a_b.xn--caf-dma.example", "a_b.xn--caf-dma.example"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[::1]:80", "[::1]"),
            ("[0:0::0:1]", "[::1]"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("", ""),
        ];
        for (text, host) in cases {
            assert_eq!(host_of_field(text).as_deref(), Ok(host), "{text}");
        }
    }

    #[test]
    fn a_host_that_backends_may_read_as_another_is_refused() {
        let bad = [
            "a b",
            "a/b",
            "a:b",
            "a@b",
            "[::1",
            "a:80:80",
            ":80",
            "a\\b",
            "\"a\"",
            ".",
            "a..",
            ".a",
            "a..b",
            "%61.example",
            "a,b",
            "a;b",
            "[::1%25eth0]",
            "[v1.x]",
            "a!b",
            "[::1].",
        ];
        for text in bad {
            assert_eq!(host_of_field(text), Err(Ambiguity::BadHost), "{text}");
        }
    }

    #[test]
    fn a_host_without_a_field_must_not_have_a_port() {
        assert_eq!(normal_host("A.example").as_deref(), Ok("a.example"));
        for bad in ["", "a.example:80", "a.example:", "[::1]:80"] {
            assert_eq!(normal_host(bad), Err(Ambiguity::BadHost), "{bad}");
        }
    }

    #[test]
    fn a_port_has_several_spellings() {
        for (one, other, scheme, expected) in [
            ("a", "a:80", Some("http"), true),
            ("a:", "a", Some("http"), true),
            ("a:0080", "a", Some("http"), true),
            ("[::1]", "[::1]:443", Some("https"), true),
            ("a:8080", "a:08080", None, true),
            ("a", "a:80", Some("https"), false),
            ("a", "a:443", Some("http"), false),
            ("a", "a:80", None, false),
            ("a:80", "a:81", Some("http"), false),
        ] {
            assert_eq!(has_same_port(one, other, scheme), expected, "{one} {other} {scheme:?}");
            assert_eq!(has_same_port(other, one, scheme), expected, "{other} {one} {scheme:?}");
        }
    }

    #[test]
    fn most_hosts_are_plain() {
        for (text, host) in
            [("a", "a"), ("api-1.a_b.test:80", "api-1.a_b.test"), ("10.0.0.1", "10.0.0.1")]
        {
            assert_eq!(plain_host(text), Some(host));
        }
        for text in ["", "A", "a.", "a..b", ".a", ":80", "a:b", "a:123456", "[::1]", "a b"] {
            assert_eq!(plain_host(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_general_rules_have_the_same_result(text in "[a-bA0-9_.:%\\[-]{0,7}") {
            if let Some(host) = plain_host(&text) {
                prop_assert_eq!(any_host(&text), Ok(Cow::Borrowed(host)));
            }
        }

        #[test]
        fn the_normal_form_of_a_normal_form_is_itself(host in "[a-cA-C0-9:.\\[\\]-]{0,12}") {
            if let Ok(once) = host_of_field(&host) {
                prop_assert_eq!(host_of_field(&once), Ok(once.clone()));
            }
        }
    }
}
