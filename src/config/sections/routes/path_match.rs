//! `path_match` of a route: which differences between two paths count.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::request::{PathMatch, Segment, is_parameter_name};

use crate::config::field::{Field, Spanned};
use crate::config::scalar::PathText;
use crate::config::sections::context::Context;

/// How the path of a request is compared with the path of the route.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "path_match", default)]
#[schemars(deny_unknown_fields)]
pub struct RawPathMatch {
    /// Whether /Login differs from /login.
    #[schemars(extend("default" = "ignore"))]
    case: Field<RawComparison>,
    /// Whether /login/ differs from /login.
    #[schemars(extend("default" = "ignore"))]
    trailing_slash: Field<RawComparison>,
    /// Whether /login;x differs from /login.
    #[schemars(extend("default" = "ignore"))]
    parameters: Field<RawComparison>,
    /// Whether /a%2Fb differs from /a/b. With ignore, a request is refused if the second reading
    /// would give it another route or key.
    #[schemars(extend("default" = "ignore"))]
    escaped_slash: Field<RawComparison>,
}

/// Whether a difference between two paths counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename = "comparison", rename_all = "snake_case")]
enum RawComparison {
    /// The paths are equal. This is safe for every backend.
    Ignore,
    /// The paths are different. This is for backends that distinguish them.
    Exact,
}

impl RawPathMatch {
    /// How paths are compared with `path`.
    pub fn compile(
        raw: &Field<Self>,
        path: Option<&Spanned<PathText>>,
        cx: &Context<'_>,
    ) -> PathMatch {
        let is_exact = |field: fn(&Self) -> &Field<RawComparison>| {
            raw.value().and_then(|raw| field(raw).copied()) == Some(RawComparison::Exact)
        };
        let settings = PathMatch {
            exact_case: is_exact(|raw| &raw.case),
            exact_trailing_slash: is_exact(|raw| &raw.trailing_slash),
            exact_parameters: is_exact(|raw| &raw.parameters),
            exact_escaped_slash: is_exact(|raw| &raw.escaped_slash),
        };
        if let Some(path) = path.filter(|path| path.value.0.has_parameters())
            && !settings.exact_parameters
        {
            let message = "the path has a parameter, and paths are compared without theirs";
            let advice = "remove it, or write path_match: { parameters: exact }";
            cx.error(path.span, message, advice);
        }
        settings
    }
}

/// Warns of segments like `:id`, which are parameters in other programs, and stand for themselves
/// here.
pub fn warn_colons(path: Option<&Spanned<PathText>>, cx: &Context<'_>) {
    let Some(path) = path else { return };
    for segment in &path.value.0.segments {
        let Segment::Literal(text) = segment else { continue };
        let Some(name) = text.strip_prefix(':').filter(|name| is_parameter_name(name)) else {
            continue;
        };
        let name = if path.written.is_some() { "NAME" } else { name };
        let message = format!("\":{name}\" in a path matches this text only, and no other segment");
        cx.warning(path.span, &message, &format!("write {{{name}}} for any segment"));
    }
}
