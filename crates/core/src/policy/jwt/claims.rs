//! The part of a verified token that is kept: the claims that keys use, and the token's validity
//! period.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::policy::token::Claims;
use crate::time::{Span, Timestamp};

/// The longest value of a claim that is kept, in bytes. A longer value is not an
/// identifier. A cut value could give two users the same key.
const MAX_VALUE: usize = 256;

/// The claims with these names, which are sorted. None if the token's times are not
/// valid. The clock of the issuer may differ by `leeway`.
pub(super) fn claims_of(payload: &Value, names: &Arc<[Box<str>]>, leeway: Span) -> Option<Claims> {
    Some(Claims {
        names: names.clone(),
        values: names.iter().map(|name| text_of(find(payload, name)?)).collect(),
        begins: payload.get("nbf").map_or(Some(Timestamp::default()), date)?.minus(leeway),
        ends: match payload.get("exp") {
            Some(value) => Some(date(value)?.plus(leeway)),
            None => None,
        },
    })
}

/// The claim of this name. A dot separates the names of nested claims, unless a claim has
/// the whole name, such as `https://example.com/plan`.
fn find<'v>(within: &'v Value, name: &str) -> Option<&'v Value> {
    within.get(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        find(within.get(outer)?, inner)
    })
}

/// Texts, integers and booleans are identifiers. Other values are not.
fn text_of(value: &Value) -> Option<Box<str>> {
    let text = match value {
        Value::String(text) => text.as_str().into(),
        Value::Bool(yes) => yes.to_string().into_boxed_str(),
        Value::Number(number) if !number.is_f64() => number.to_string().into_boxed_str(),
        _ => return None,
    };
    (1..=MAX_VALUE).contains(&text.len()).then_some(text)
}

/// `NumericDate`: seconds since the epoch, with an optional fraction (RFC 7519, section 2).
fn date(value: &Value) -> Option<Timestamp> {
    let since_epoch = match value.as_u64() {
        Some(seconds) => Span::from_secs(seconds),
        None => Duration::try_from_secs_f64(value.as_f64()?).ok()?.into(),
    };
    Some(Timestamp::default().plus(since_epoch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(payload: &Value, names: &[&str]) -> Option<Claims> {
        claims_of(payload, &names.iter().map(|&name| name.into()).collect(), Span::ZERO)
    }

    #[test]
    fn text_integers_and_booleans_are_kept_as_text() {
        let payload = json!({
            "a": "text", "b": 42, "c": -7, "d": true, "e": 1.5, "f": null, "g": [1], "h": {},
            "i": "", "j": "x".repeat(MAX_VALUE), "k": "x".repeat(MAX_VALUE + 1),
        });
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "missing"];
        let claims = claims(&payload, &names).unwrap();
        let kept: Vec<_> = names.iter().map(|name| claims.get(name)).collect();
        let long = "x".repeat(MAX_VALUE);
        let mut wanted = vec![Some("text"), Some("42"), Some("-7"), Some("true")];
        wanted.extend([None; 5]);
        wanted.extend([Some(&*long), None, None]);
        assert_eq!(kept, wanted);
    }

    #[test]
    fn dots_separate_nested_claims_unless_a_claim_has_the_whole_name() {
        let payload = json!({
            "org": { "id": "nested", "a.b": "dotted" }, "org.name": "flat",
            "https://example.com/plan": "pro",
        });
        let names = ["https://example.com/plan", "org.a.b", "org.id", "org.name", "org.x"];
        let claims = claims(&payload, &names).unwrap();
        let wanted = [Some("pro"), Some("dotted"), Some("nested"), Some("flat"), None];
        for (name, value) in names.iter().zip(wanted) {
            assert_eq!(claims.get(name), value, "{name}");
        }
    }

    #[test]
    fn a_token_is_valid_from_nbf_until_just_before_exp() {
        let at = |us| Timestamp::from_micros(us);
        let whole = claims(&json!({ "nbf": 10, "exp": 20 }), &[]).unwrap();
        let fraction = claims(&json!({ "nbf": 9.5, "exp": 20.25 }), &[]).unwrap();
        let forever = claims(&json!({}), &[]).unwrap();
        let cases = [
            (&whole, 9_999_999, false),
            (&whole, 10_000_000, true),
            (&whole, 19_999_999, true),
            (&whole, 20_000_000, false),
            (&fraction, 9_500_000, true),
            (&fraction, 20_249_999, true),
            (&fraction, 20_250_000, false),
            (&forever, 0, true),
            (&forever, u64::MAX, true),
        ];
        for (claims, us, holds) in cases {
            assert_eq!(claims.hold_at(at(us)), holds, "{claims:?} at {us}");
        }
    }

    #[test]
    fn the_leeway_widens_the_validity_at_both_ends() {
        let names: Arc<[Box<str>]> = Arc::default();
        let of = |payload: Value| claims_of(&payload, &names, Span::from_secs(5)).unwrap();
        let at = |claims: &Claims, us| claims.hold_at(Timestamp::from_micros(us));
        let usual = of(json!({ "nbf": 10, "exp": 20 }));
        let held = [4_999_999, 5_000_000, 24_999_999, 25_000_000].map(|us| at(&usual, us));
        assert_eq!(held, [false, true, true, false]);
        // The times cannot overflow.
        let extreme = of(json!({ "nbf": 3, "exp": u64::MAX }));
        assert!(at(&extreme, 0) && at(&extreme, u64::MAX - 1));
    }

    #[test]
    fn a_token_with_invalid_times_is_refused() {
        for value in [json!("soon"), json!(null), json!(-1), json!(1e300), json!([1])] {
            assert!(claims(&json!({ "exp": value }), &[]).is_none(), "exp {value}");
            assert!(claims(&json!({ "nbf": value }), &[]).is_none(), "nbf {value}");
        }
    }
}
