//! The formats.

use tollgate_core::log_fields::FieldNames;

use super::fields::Parsed;
use super::names::Names;
use super::{alb, cloudfront, common, envoy, haproxy, own_text};

/// Further words, and the format that reads their lines.
const OTHER_WORDS: [(&str, &str); 4] = [
    ("common", "combined"),
    ("vhost_combined", "combined"),
    ("apisix", "combined"),
    ("istio", "envoy"),
];

/// A format of access logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// The common or the combined format of web servers.
    Common,
    /// JSON with these names; the word is the writer's.
    Json(&'static str, Names),
    /// The text of our own access log.
    OwnText,
    /// Envoy's default text, and Istio's.
    Envoy,
    /// HAProxy's lines for HTTP.
    HaProxy,
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
            Self::HaProxy,
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
            Self::HaProxy => "haproxy",
            Self::Alb => "alb",
            Self::CloudFront => "cloudfront",
        }
    }

    /// The format with this word, which may be another word for a format.
    pub fn named(name: &str) -> Option<Self> {
        let other = OTHER_WORDS.iter().find(|(word, _)| *word == name);
        let name = other.map_or(name, |(_, name)| *name);
        Self::all().into_iter().find(|format| format.name() == name)
    }

    /// All words for formats: `common`, the names of the formats, and then the further words.
    pub fn words() -> Vec<&'static str> {
        let mut words: Vec<_> = Self::all().iter().map(Self::name).collect();
        words.extend(OTHER_WORDS.iter().map(|(word, _)| *word));
        words.sort_by_key(|word| *word != "common");
        words
    }

    /// Reads a line without its end. None: it has another format.
    pub(crate) fn parse<'l>(&self, line: &'l [u8]) -> Option<Parsed<'l>> {
        match self {
            Self::Common => common::parse(line),
            Self::Json(_, names) => names.parse(line),
            Self::OwnText => own_text::parse(line),
            Self::Envoy => envoy::parse(line),
            Self::HaProxy => haproxy::parse(line),
            Self::Alb => alb::parse(line),
            Self::CloudFront => cloudfront::parse(line),
        }
    }

    /// Whether a line that this format reads, and that names no client, is most likely of this
    /// format. Other programs write JSON with names such as `time` and `path`, too.
    pub(super) fn is_distinct(&self, line: &[u8]) -> bool {
        match self {
            Self::Json(_, names) => names.has_own_name(line),
            _ => true,
        }
    }
}
