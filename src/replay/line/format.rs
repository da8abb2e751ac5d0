//! The formats, and how one is recognised.

use super::fields::{Line, Parsed};
use super::names::Names;
use super::{alb, cloudfront, common, envoy, own_text};
use crate::telemetry::FieldNames;

/// A format of access logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The common or the combined format, see [`common`].
    Common,
    /// JSON with these names; the word is the writer's.
    Json(&'static str, Names),
    /// The text of our own access log.
    OwnText,
    /// Envoy's default text.
    Envoy,
    /// Load balancers of AWS.
    Alb,
    /// CloudFront's standard log.
    CloudFront,
}

impl Format {
    /// All formats that a log can be recognised to have. Of several that read the same
    /// lines, the first one is taken.
    pub(crate) fn all() -> Vec<Self> {
        vec![
            Self::Common,
            Self::Json("tollgate", Names::own(FieldNames::Own)),
            Self::Json("tollgate-otel", Names::own(FieldNames::Otel)),
            Self::Json("tollgate-ecs", Names::own(FieldNames::Ecs)),
            Self::OwnText,
            Self::Json("caddy", Names::caddy()),
            Self::Json("traefik", Names::traefik()),
            Self::Json("envoy-json", Names::envoy()),
            Self::Envoy,
            Self::Alb,
            Self::CloudFront,
        ]
    }

    /// Its word on the command line.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Common => "combined",
            Self::Json(name, _) => name,
            Self::OwnText => "tollgate-text",
            Self::Envoy => "envoy",
            Self::Alb => "alb",
            Self::CloudFront => "cloudfront",
        }
    }

    /// The format with this word. `common` is read as `combined` is.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = if name == "common" { "combined" } else { name };
        Self::all().into_iter().find(|format| format.name() == name)
    }

    /// Reads a line without its end. None: it has another format.
    pub(crate) fn parse<'l>(&self, line: &'l [u8]) -> Option<Parsed<'l>> {
        match self {
            Self::Common => common::parse(line),
            Self::Json(_, names) => names.parse(line),
            Self::OwnText => own_text::parse(line),
            Self::Envoy => envoy::parse(line),
            Self::Alb => alb::parse(line),
            Self::CloudFront => cloudfront::parse(line),
        }
    }

    /// The format that reads the most of these lines as requests of a known client. None:
    /// no format reads any.
    pub(crate) fn sniff(lines: &[&[u8]]) -> Option<Self> {
        let is_request =
            |parsed: &Parsed<'_>| matches!(parsed, Parsed::Request(Line { client: Some(_), .. }));
        let read = |format: &Self| {
            lines.iter().filter(|line| format.parse(line).as_ref().is_some_and(is_request)).count()
        };
        let mut best = (0, None);
        for format in Self::all() {
            let count = read(&format);
            if count > best.0 {
                best = (count, Some(format));
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_recognised_by_its_lines() {
        let cases = [
            ("combined", "192.0.2.7 - - [21/Nov/2026:07:28:46 +0000] \"GET / HTTP/1.1\" 200 12"),
            (
                "tollgate",
                "{\"time\":\"2026-11-21T07:28:46.123Z\",\"client\":\"203.0.113.0/24\",\"method\":\"GET\",\"path\":\"/\"}",
            ),
            (
                "caddy",
                "{\"ts\":1.5,\"request\":{\"remote_ip\":\"::1\",\"method\":\"GET\",\"uri\":\"/\"}}",
            ),
            (
                "traefik",
                "{\"ClientHost\":\"::1\",\"RequestMethod\":\"GET\",\"RequestPath\":\"/\",\"StartUTC\":\"2026-11-21T07:28:46Z\"}",
            ),
            (
                "envoy-json",
                "{\"start_time\":\"2026-11-21T07:28:46Z\",\"method\":\"GET\",\"path\":\"/\",\"x_forwarded_for\":\"::1\"}",
            ),
        ];
        for (name, line) in cases {
            let lines = [b"junk".as_slice(), line.as_bytes()];
            assert_eq!(Format::sniff(&lines).map(|format| format.name()), Some(name));
            assert_eq!(Format::named(name).map(|format| format.name()), Some(name));
        }
        assert_eq!(Format::sniff(&[b"junk", b""]), None);
        assert_eq!(Format::named("junk"), None);
    }
}
