//! Host patterns: `api.example.com`, or `*.example.com` for all hosts below it.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// The longest name in the DNS, in characters (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;
/// The longest label of such a name.
const MAX_LABEL: usize = 63;

/// `api.example.com`, or `*.example.com` for all hosts below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This host, in lower case.
    Exact(Box<str>),
    /// Every host that ends in a dot and this text, at any depth. The host itself does not
    /// match.
    Below(Box<str>),
}

/// The error of a text that is not a host pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostPatternError {
    /// The text is empty.
    #[error("a host has a name, such as `api.example.com`")]
    Empty,
    /// `*`
    #[error("`*` is every host: leave the hosts out instead")]
    Any,
    /// `api.*.com`, `*example.com`
    #[error("`*` can only be the first label, as in `*.example.com`")]
    Star,
    /// `example.com:8080`
    #[error("hosts are compared without their port: write `{0}`")]
    Port(String),
    /// `a..b`, `example.com.`
    #[error("the host has an empty label: it neither begins nor ends with a dot, and has no `..`")]
    EmptyLabel,
    /// Longer than the DNS allows.
    #[error("a host has at most {MAX_NAME} characters, and {MAX_LABEL} between two dots")]
    TooLong,
    /// `http://example.com`, `münchen.example`
    #[error(
        "the character {0:?} is not allowed in a host; international names are written in their `xn--` form"
    )]
    Character(char),
    /// `[::1`
    #[error("`{0}` is not an IPv6 address in brackets, such as `[2001:db8::1]`")]
    Literal(String),
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.to_ascii_lowercase();
        if name == "*" {
            return Err(HostPatternError::Any);
        }
        if name.starts_with('[') {
            return literal(&name);
        }
        if let Some((host, port)) = name.split_once(':') {
            if port.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(HostPatternError::Port(host.into()));
            }
        }
        let pattern = match name.strip_prefix("*.") {
            Some(parent) => Self::Below(parent.into()),
            None => Self::Exact(name.into()),
        };
        check_name(pattern.name())?;
        Ok(pattern)
    }
}

/// The pattern of an IPv6 address, in the form of [`normal_host`](crate::request::normal_host).
fn literal(text: &str) -> Result<HostPattern, HostPatternError> {
    if let Some((host, port)) = text.rsplit_once(':') {
        if host.ends_with(']') && port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(HostPatternError::Port(host.into()));
        }
    }
    let address = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    match address.map(str::parse::<Ipv6Addr>) {
        Some(Ok(address)) => Ok(HostPattern::Exact(format!("[{address}]").into())),
        _ => Err(HostPatternError::Literal(text.into())),
    }
}

fn check_name(name: &str) -> Result<(), HostPatternError> {
    if name.is_empty() {
        return Err(HostPatternError::Empty);
    }
    let is_label = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if let Some(stranger) = name.chars().find(|&c| !is_label(c) && c != '.') {
        return Err(match stranger {
            '*' => HostPatternError::Star,
            stranger => HostPatternError::Character(stranger),
        });
    }
    if name.split('.').any(str::is_empty) {
        return Err(HostPatternError::EmptyLabel);
    }
    if name.len() > MAX_NAME || name.split('.').any(|label| label.len() > MAX_LABEL) {
        return Err(HostPatternError::TooLong);
    }
    Ok(())
}

/// Writes the pattern as in a configuration.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Below(parent) => write!(f, "*.{parent}"),
        }
    }
}

impl HostPattern {
    fn name(&self) -> &str {
        match self {
            Self::Exact(name) | Self::Below(name) => name,
        }
    }

    /// Whether this pattern matches every host that `later` matches.
    pub(super) fn covers(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Exact(mine), Self::Exact(their)) => mine == their,
            (Self::Exact(_), Self::Below(_)) => false,
            (Self::Below(parent), Self::Exact(host)) => is_below(host, parent),
            (Self::Below(parent), Self::Below(other)) => parent == other || is_below(other, parent),
        }
    }
}

fn is_below(host: &str, parent: &str) -> bool {
    host.strip_suffix(parent).is_some_and(|start| start.ends_with('.') && start.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_host_or_all_below_one() {
        let cases = [
            ("API.example.com", HostPattern::Exact("api.example.com".into())),
            ("*.Example.com", HostPattern::Below("example.com".into())),
            ("127.0.0.1", HostPattern::Exact("127.0.0.1".into())),
            ("[2001:DB8::1]", HostPattern::Exact("[2001:db8::1]".into())),
            ("[2001:db8:0::1]", HostPattern::Exact("[2001:db8::1]".into())),
            ("[0:0:0:0:0:FFFF:127.0.0.1]", HostPattern::Exact("[::ffff:127.0.0.1]".into())),
        ];
        for (text, pattern) in cases {
            assert_eq!(text.parse(), Ok(pattern), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_host_is_refused_with_advice() {
        use HostPatternError as Error;
        let cases = [
            ("", Error::Empty),
            ("*.", Error::Empty),
            ("*", Error::Any),
            ("a.*.com", Error::Star),
            ("*a.com", Error::Star),
            ("a.com:80", Error::Port("a.com".into())),
            ("[::1]:80", Error::Port("[::1]".into())),
            ("a..b", Error::EmptyLabel),
            ("a.com.", Error::EmptyLabel),
            (".com", Error::EmptyLabel),
            ("http://a", Error::Character(':')),
            ("m\u{fc}nchen.example", Error::Character('\u{fc}')),
            ("[::1", Error::Literal("[::1".into())),
            ("[1.2.3.4]", Error::Literal("[1.2.3.4]".into())),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<HostPattern>(), Err(error), "{text}");
        }
        let long_label = "a".repeat(MAX_LABEL + 1);
        let long_name = "a.".repeat(MAX_NAME) + "a";
        for text in [long_label, long_name] {
            assert_eq!(text.parse::<HostPattern>(), Err(Error::TooLong));
        }
    }
}
