//! Origins (RFC 6454; Fetch Standard, section 3.2), and the patterns that a configuration
//! lists. Pure.
//!
//! An origin has a scheme, a host and a port. They are compared without regard to case, and an
//! absent port is the default port of the scheme. An origin that is not such a triple is equal to
//! no pattern, except that the text `null` is equal to the pattern `null`.

use std::net::Ipv6Addr;
use std::str::FromStr;

/// The longest origin: a host has at most 253 characters.
const MAX_BYTES: usize = 300;

/// An origin as it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin<'a> {
    scheme: &'a str,
    /// An address in IPv6 is in brackets.
    host: &'a str,
    /// None: the scheme has no default port, and the origin names none.
    port: Option<u16>,
}

impl<'a> Origin<'a> {
    /// Parses `SCHEME://HOST` or `SCHEME://HOST:PORT`, whose host satisfies `is_host`.
    fn parse(text: &'a str, is_host: impl Fn(&str) -> bool) -> Result<Self, OriginError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(OriginError::NoScheme);
        };
        let begins = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
        let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        if !begins || !scheme.bytes().all(is_of_scheme) {
            return Err(OriginError::NoScheme);
        }
        if rest.contains(['/', '?', '#']) {
            return Err(OriginError::Path);
        }
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(parse_port(port)?)),
            _ => (rest, None),
        };
        if !is_host(host) {
            return Err(OriginError::Host);
        }
        Ok(Self { scheme, host, port: port.or_else(|| default_port(scheme)) })
    }
}

fn parse_port(text: &str) -> Result<u16, OriginError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port > 0).ok_or(OriginError::Port)
}

fn default_port(scheme: &str) -> Option<u16> {
    let is = |known: &str| scheme.eq_ignore_ascii_case(known);
    if is("https") || is("wss") {
        Some(443)
    } else if is("http") || is("ws") {
        Some(80)
    } else {
        None
    }
}

/// Whether this is a name of labels, or an address in IPv6.
fn is_host(text: &str) -> bool {
    match text.starts_with('[') {
        true => address(text).is_some(),
        false => text.split('.').all(is_label),
    }
}

/// The address in brackets.
fn address(text: &str) -> Option<Ipv6Addr> {
    text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

fn is_label(text: &str) -> bool {
    let is_of_label = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_label)
}

/// Origins that a configuration allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginPattern {
    /// Every origin: `*`.
    Any,
    /// The origin of documents that have none of their own: `null`.
    Null,
    /// One origin, or with `*.` before the host all origins below the host.
    Host(HostOrigins),
}

/// Origins of one host, or of all hosts below one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOrigins {
    scheme: Box<str>,
    host: Box<str>,
    port: Option<u16>,
    /// Whether the origins are those of hosts with one or more labels before `host`.
    is_below: bool,
}

impl HostOrigins {
    fn contain(&self, origin: Origin<'_>) -> bool {
        if self.port != origin.port || !self.scheme.eq_ignore_ascii_case(origin.scheme) {
            return false;
        }
        if !self.is_below {
            // An address has several spellings (RFC 5952, section 1).
            return match address(&self.host) {
                Some(own) => address(origin.host) == Some(own),
                None => self.host.eq_ignore_ascii_case(origin.host),
            };
        }
        let Some(length) = origin.host.len().checked_sub(self.host.len()) else { return false };
        let parts = origin.host.split_at_checked(length);
        let labels = parts.filter(|(_, end)| self.host.eq_ignore_ascii_case(end));
        labels.is_some_and(|(labels, _)| labels.len() > 1 && labels.ends_with('.'))
    }

    /// Whether these are the origins below a host of one label, such as `com`, whose names
    /// belong to many owners. A name below `localhost` belongs to the machine.
    pub fn are_of_many_owners(&self) -> bool {
        self.is_below && !self.host.contains('.') && &*self.host != "localhost"
    }
}

/// Why a text is not a pattern of origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// It does not begin with a scheme.
    #[error("an origin begins with a scheme")]
    NoScheme,
    /// Something follows the host and the port.
    #[error("an origin has no path")]
    Path,
    /// The host has a character that no host has, or is absent.
    #[error("this is not the host of an origin")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("this is not the port of an origin")]
    Port,
    /// A `*` is not the first label of the host.
    #[error("in an origin, * stands for whole labels before a host")]
    Star,
}

impl FromStr for OriginPattern {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        match text {
            "*" => return Ok(Self::Any),
            "null" => return Ok(Self::Null),
            _ => {}
        }
        let below = text.split_once("://*.");
        let plain = match below {
            Some((scheme, rest)) => format!("{scheme}://{rest}"),
            None => text.to_owned(),
        };
        if plain.contains('*') {
            return Err(OriginError::Star);
        }
        let Origin { scheme, host, port } = Origin::parse(&plain, is_host)?;
        if below.is_some() && host.starts_with('[') {
            return Err(OriginError::Star);
        }
        let scheme = scheme.to_ascii_lowercase().into();
        let host = host.to_ascii_lowercase().into();
        Ok(Self::Host(HostOrigins { scheme, host, port, is_below: below.is_some() }))
    }
}

impl OriginPattern {
    /// Whether a request with this `Origin` has one of these origins.
    pub fn any_of(patterns: &[Self], origin: &str) -> bool {
        if origin.len() > MAX_BYTES {
            return false;
        }
        let parsed = Origin::parse(origin, is_host).ok();
        patterns.iter().any(|pattern| match pattern {
            Self::Any => true,
            Self::Null => origin == "null",
            Self::Host(hosts) => parsed.is_some_and(|origin| hosts.contain(origin)),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allows(patterns: &[&str], origin: &str) -> bool {
        let patterns: Vec<OriginPattern> =
            patterns.iter().map(|it| it.parse().expect("a pattern")).collect();
        OriginPattern::any_of(&patterns, origin)
    }

    #[test]
    fn origins_are_compared_as_scheme_host_and_port() {
        let app = ["https://app.example.com"];
        for origin in ["https://app.example.com", "HTTPS://APP.example.com:443"] {
            assert!(allows(&app, origin), "{origin}");
        }
        for origin in [
            "http://app.example.com",
            "https://app.example.com:8443",
            "https://app.example.com.evil.test",
            "https://evilapp.example.com",
            "https://x.app.example.com",
            "https://app.example.com/",
            "https://user@app.example.com",
            "https://app.example.com:",
            "https://app.example.com:0443x",
            "//app.example.com",
            "null",
            "",
        ] {
            assert!(!allows(&app, origin), "{origin}");
        }
        assert!(allows(&["http://[::1]:3000"], "http://[::1]:3000"));
        assert!(allows(&["http://[2001:DB8:0::1]"], "http://[2001:db8::1]"));
        assert!(!allows(&["http://[2001:db8::1]"], "http://[2001:db8::2]"));
        assert!(allows(&["chrome-extension://abcdef"], "chrome-extension://abcdef"));
    }

    #[test]
    fn a_star_stands_for_whole_labels() {
        let below = ["https://*.example.com"];
        assert!(allows(&below, "https://a.example.com"));
        assert!(allows(&below, "https://a.b.example.com"));
        for origin in [
            "https://example.com",
            "https://.example.com",
            "https://aexample.com",
            "https://a.example.com.test",
            "https://a.example.com:444",
            "http://a.example.com",
            "https://ä.example.com",
        ] {
            assert!(!allows(&below, origin), "{origin}");
        }
    }

    #[test]
    fn null_must_be_written_unless_every_origin_is_allowed() {
        assert!(allows(&["null"], "null") && allows(&["*"], "null"));
        assert!(!allows(&["https://*.example.com"], "null"));
        assert!(!allows(&["null"], "NULL"));
    }

    #[test]
    fn a_pattern_that_could_mean_more_than_it_says_is_refused() {
        for (text, expected) in [
            ("https://*example.com", OriginError::Star),
            ("https://*", OriginError::Star),
            ("https://a.*.com", OriginError::Star),
            ("*://example.com", OriginError::Star),
            ("https://example.*", OriginError::Star),
            ("https://*.*.com", OriginError::Star),
            ("https://*.[::1]", OriginError::Star),
            ("https://example.com/", OriginError::Path),
            ("https://example.com/path", OriginError::Path),
            ("https://example.com?x", OriginError::Path),
            ("example.com", OriginError::NoScheme),
            ("://example.com", OriginError::NoScheme),
            ("https://", OriginError::Host),
            ("https://*.", OriginError::Host),
            ("https://a..b", OriginError::Host),
            ("https://user@example.com", OriginError::Host),
            ("https://example.com:0", OriginError::Port),
            ("https://example.com:65536", OriginError::Port),
            ("https://example.com:+80", OriginError::Port),
        ] {
            assert_eq!(text.parse::<OriginPattern>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_suffix_of_many_owners_is_known() {
        let is = |text: &str| match text.parse() {
            Ok(OriginPattern::Host(hosts)) => hosts.are_of_many_owners(),
            other => panic!("{other:?}"),
        };
        assert!(is("https://*.com"));
        assert!(!is("https://*.example.com") && !is("http://*.localhost") && !is("https://com"));
    }

    /// The origins that a pattern allows, by the words of the documentation: split into scheme,
    /// labels and port, and compared part by part.
    fn model(pattern: &str, origin: &str) -> bool {
        let parts = |text: &str| {
            let (scheme, rest) = text.split_once("://").expect("a scheme");
            let (host, port) = rest.split_once(':').unwrap_or((rest, ""));
            let usual = if scheme == "https" { "443" } else { "80" };
            let port = if port.is_empty() { usual } else { port };
            let labels: Vec<String> = host.split('.').map(str::to_lowercase).collect();
            (scheme.to_owned(), labels, port.to_owned())
        };
        let mut wanted = parts(pattern);
        let mut given = parts(origin);
        if wanted.1.first().is_some_and(|first| first == "*") {
            wanted.1.remove(0);
            if given.1.len() <= wanted.1.len() {
                return false;
            }
            given.1.drain(..given.1.len() - wanted.1.len());
        }
        wanted == given
    }

    fn written(star: &'static [&'static str]) -> impl Strategy<Value = String> {
        let label = || prop::sample::select(vec!["a", "b", "ab", "B"]);
        let scheme = prop::sample::select(vec!["http", "https"]);
        let port = prop::sample::select(vec!["", ":80", ":443", ":8080"]);
        let star = prop::sample::select(star);
        (scheme, star, prop::collection::vec(label(), 1..4), port).prop_map(
            |(scheme, star, labels, port)| format!("{scheme}://{star}{}{port}", labels.join(".")),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 4000, ..ProptestConfig::default() })]

        #[test]
        fn a_pattern_allows_what_the_documentation_says(
            pattern in written(&["", "*."]),
            origin in written(&[""]),
        ) {
            let parsed = [pattern.parse::<OriginPattern>().expect("a pattern")];
            prop_assert_eq!(OriginPattern::any_of(&parsed, &origin), model(&pattern, &origin));
        }

        #[test]
        fn every_text_is_an_origin_or_none_and_nothing_fails(text in "[htps:/*.a0\\[\\]@ -]{0,20}") {
            let everything = [OriginPattern::Any];
            prop_assert!(OriginPattern::any_of(&everything, &text));
            if let Ok(OriginPattern::Host(hosts)) = text.parse::<OriginPattern>() {
                let is_same = OriginPattern::any_of(&[OriginPattern::Host(hosts.clone())], &text);
                prop_assert_eq!(is_same, !hosts.is_below);
            }
        }
    }
}
