//! `headers`, `query` and `cookies` of a route: what the values of a request must be.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{KeyExpr, exact_value};
use tollgate_core::routes::{Part, PartMatch, Wanted};

use crate::config::field::{Either, Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::{FieldName, FieldValue, MatchText};
use crate::config::sections::context::Context;

/// Names with what their values must be.
pub type Matches = Field<Entries<Either<MatchText, RawMatch>>>;

/// What a value must be, if it is not one exact text: one of `any`, `prefix` and `present`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "match", default)]
#[schemars(deny_unknown_fields)]
pub struct RawMatch {
    /// Exactly one of these values.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["a", "b"])]
    any: List<MatchText>,
    /// A value that begins so.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"yes")]
    prefix: Field<MatchText>,
    /// Whether there is a value, which may be empty.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = true)]
    present: Field<bool>,
}

/// The exact form in which requests have a value, or advice about the form.
type Form<'f> = &'f dyn Fn(&str) -> Result<Box<[u8]>, &'static str>;

/// Conditions on header fields.
pub fn of_headers(matches: &Matches, cx: &Context<'_>) -> Vec<PartMatch> {
    let form = |text: &str| match text.parse() {
        Ok(FieldValue(value)) => Ok(value.as_bytes().into()),
        Err(_) => Err("use one line of visible characters, without leading or trailing blanks"),
    };
    let compiled = matches.entries().iter().filter_map(|(name, value)| {
        let part = match name.value.parse::<FieldName>() {
            Ok(FieldName(parsed)) => Some(Part::Header(parsed)),
            Err(_) => {
                let message = format!("\"{}\" is not a valid name of a header field", name.shown());
                cx.error(name.span, &message, "use letters, digits and -");
                None
            }
        };
        let wanted = wanted(value, &form, cx);
        Some(PartMatch { part: part?, wanted: wanted? })
    });
    compiled.collect()
}

/// Conditions on parameters of the query.
pub fn of_query(matches: &Matches, cx: &Context<'_>) -> Vec<PartMatch> {
    // A space and a plus sign are the same character in a query.
    let form = |text: &str| Ok(text.replace(' ', "+").into_bytes().into());
    let compiled = matches.entries().iter().filter_map(|(name, value)| {
        if name.value.is_empty() {
            cx.error(name.span, "the query parameter has no name", "name it");
        }
        let part = Part::Query(name.value.as_str().into());
        Some(PartMatch { part, wanted: wanted(value, &form, cx)? })
    });
    compiled.collect()
}

/// Conditions on cookies.
pub fn of_cookies(matches: &Matches, cx: &Context<'_>) -> Vec<PartMatch> {
    let compiled = matches.entries().iter().filter_map(|(name, value)| {
        let key = format!("cookie:{}", name.value).parse::<KeyExpr>();
        if key.is_err() {
            let message = format!("\"{}\" is not the name of a cookie", name.shown());
            cx.error(name.span, &message, "use letters, digits, - and _");
        }
        let form = |text: &str| match &key {
            Ok(key) if !text.is_empty() => exact_value(key, text),
            _ => Ok(text.as_bytes().into()),
        };
        let part = Part::Cookie(name.value.as_str().into());
        Some(PartMatch { part, wanted: wanted(value, &form, cx)? })
    });
    compiled.collect()
}

fn wanted(
    value: &Field<Either<MatchText, RawMatch>>,
    form: Form<'_>,
    cx: &Context<'_>,
) -> Option<Wanted> {
    let given = value.given()?;
    match &given.value {
        Either::Short(text) => exact(&given.with(text.clone()), form, cx).map(Wanted::Equal),
        Either::Long(raw) => raw.compile(given.span, form, cx),
    }
}

fn exact(text: &Spanned<MatchText>, form: Form<'_>, cx: &Context<'_>) -> Option<Box<[u8]>> {
    form(&text.value.0)
        .map_err(|advice| {
            let message =
                format!("the value of \"{}\" is not valid here", text.shown_as(&text.value.0));
            cx.error(text.span, &message, advice);
        })
        .ok()
}

impl RawMatch {
    fn compile(&self, span: TextSpan, form: Form<'_>, cx: &Context<'_>) -> Option<Wanted> {
        let given = [self.any.is_absent(), self.prefix.is_absent(), self.present.is_absent()];
        if given.iter().filter(|is_absent| !**is_absent).count() != 1 {
            let message = "a match is a text, or has one of \"any\", \"prefix\" and \"present\"";
            cx.error(span, message, "write { any: [...] }, { prefix: TEXT } or { present: true }");
            return None;
        }
        cx.not_empty(&self.any, "\"any\" is empty", "name at least one value");
        let any = || {
            let values = self.any.value()?.iter();
            let values = values.map(|it| exact(it.given()?, form, cx)).collect::<Vec<_>>();
            values.into_iter().collect::<Option<Vec<_>>>().map(Wanted::Any)
        };
        let prefix = || self.prefix.given().and_then(|it| exact(it, form, cx)).map(Wanted::Prefix);
        let present = || self.present.copied().map(Wanted::Present);
        any().or_else(prefix).or_else(present)
    }
}
