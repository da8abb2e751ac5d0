//! Writes other values of a policy into the text of a file, in the places of the old ones.
//!
//! Guarantees: everything else of the text stays as it is, byte for byte, and the edited text
//! means the same as the old one with these values. If that is not possible, nothing is edited,
//! and the caller is told what to write by hand.

use std::ops::Range;

use super::byte_order_mark;
use super::definitions::{field, replaced};
use super::node::{Node, TextSpan, Value};
use super::problem::Problems;
use super::short_forms;
use super::yaml;
use crate::patches::Values;

/// Why the values cannot take the places of the old ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotInPlace {
    /// The reason, as the end of a sentence about the file.
    pub because: String,
    /// What would have to be written, in YAML.
    pub paste: String,
}

/// `text` with these values of a policy.
///
/// # Errors
/// If more than the values themselves would have to change.
pub fn edited(text: &str, policy: &str, values: &Values) -> Result<String, NotInPlace> {
    let refuse = |because: String| NotInPlace { because, paste: paste(policy, values) };
    let parse = |text: &str| {
        let mut tree = yaml::parse(text, &Problems::default())?;
        short_forms::expand(&mut tree, &Problems::default());
        Some(tree)
    };
    let tree = parse(text).ok_or_else(|| refuse("it is not YAML".to_owned()))?;
    let defined = field(&tree, "policies").and_then(|policies| field(policies, policy));
    let defined = defined.ok_or_else(|| refuse(format!("it has no policy {policy:?}")))?;
    let mut edits = Vec::new();
    for (path, value) in places(values) {
        let place = path.iter().try_fold(defined, |node, name| field(node, name));
        let name = path.join(".");
        let Some(place) = place else {
            return Err(refuse(format!("it has no {name:?} in the policy {policy:?}")));
        };
        edits.push(edit(text, place, &value).map_err(|why| refuse(format!("{name:?} {why}")))?);
    }
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut edited = text.to_owned();
    for (range, value) in edits {
        edited.replace_range(range, &value);
    }
    let wanted = wanted(&tree, policy, values);
    match (parse(&edited), wanted) {
        (Some(now), Some(wanted)) if same(&now, &wanted) => Ok(edited),
        _ => {
            Err(refuse("other parts of it use the same value, for example by an alias".to_owned()))
        }
    }
}

/// The fields that change, with their new values.
fn places(values: &Values) -> Vec<(Vec<&str>, String)> {
    let Values { limit, burst, soft, mode, algorithm, plans } = values;
    let burst = burst.map(|burst| burst.to_string());
    let fields = [
        ("limit", limit),
        ("burst", &burst),
        ("soft", soft),
        ("mode", mode),
        ("algorithm", algorithm),
    ];
    let fields = fields.into_iter().filter_map(|(name, it)| Some((vec![name], it.clone()?)));
    let plans = plans.iter().map(|(plan, limit)| (vec!["plans", "limits", &**plan], limit.clone()));
    fields.chain(plans).collect()
}

/// The bytes that hold a scalar, and what is to stand there.
fn edit(text: &str, place: &Node, value: &str) -> Result<(Range<usize>, String), String> {
    let old = place.scalar().ok_or_else(|| "is not a single value".to_owned())?;
    if old.contains("${") {
        return Err(format!("is {old:?}, whose value is elsewhere"));
    }
    let range = bytes(text, place.span).ok_or_else(|| "has no place of its own".to_owned())?;
    let quote = text.get(range.clone()).and_then(|raw| raw.chars().next());
    let new = match quote {
        Some('\'') if !value.contains(['\'', '\n']) => format!("'{value}'"),
        Some('"') => quoted(value),
        _ => plain(value),
    };
    Ok((range, new))
}

/// The bytes of a span.
fn bytes(text: &str, span: TextSpan) -> Option<Range<usize>> {
    let line = usize::try_from(span.line.checked_sub(1)?).ok()?;
    let column = usize::try_from(span.column.checked_sub(1)?).ok()?;
    // The parser does not count the byte order mark as a column.
    let counted = byte_order_mark::behind(text);
    let lines = counted.split_inclusive('\n').take(line);
    let before = text.len() - counted.len() + lines.map(str::len).sum::<usize>();
    let chars = |from: usize, count: usize| {
        let rest = text.get(from..)?;
        Some(from + rest.chars().take(count).map(char::len_utf8).sum::<usize>())
    };
    let start = chars(before, column)?;
    let end = chars(start, usize::try_from(span.length).ok()?)?;
    (start < end).then_some(start..end)
}

/// A value without quotes, if it needs none.
fn plain(value: &str) -> String {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "_-./%".contains(c);
    let is_plain = value.starts_with(|c: char| c.is_ascii_alphanumeric());
    if is_plain && value.chars().all(is_good) { value.to_owned() } else { quoted(value) }
}

/// A text in double quotes: JSON is YAML.
fn quoted(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// The tree with these values.
fn wanted(tree: &Node, policy: &str, values: &Values) -> Option<Node> {
    let mut tree = tree.clone();
    let Value::Map(sections) = &mut tree.value else { return None };
    let policies = sections.iter_mut().find(|it| it.name() == "policies")?;
    let Value::Map(policies) = &mut policies.value.value else { return None };
    let entry = policies.iter_mut().find(|it| it.name() == policy)?;
    entry.value = replaced(entry.value.clone(), values).ok()?;
    Some(tree)
}

/// Whether two trees mean the same.
fn same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len()
                && pairs.all(|(one, other)| {
                    one.name() == other.name() && same(&one.value, &other.value)
                })
        }
        (Value::Null, Value::Null) => true,
        _ => one.scalar().is_some() && one.scalar() == other.scalar(),
    }
}

/// What an operator writes instead.
fn paste(policy: &str, values: &Values) -> String {
    let mut paste = format!("policies:\n  {}:\n", plain(policy));
    let mut has_plans = false;
    for (path, value) in places(values) {
        let name = plain(path.last().unwrap_or(&""));
        let value = plain(&value);
        if path.len() == 1 {
            paste.push_str(&format!("    {name}: {value}\n"));
            continue;
        }
        if !has_plans {
            paste.push_str("    plans:\n      limits:\n");
        }
        has_plans = true;
        paste.push_str(&format!("        {name}: {value}\n"));
    }
    paste
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "# a file ü\nlisteners: [ { address: \":1\" } ]   # one\r\npolicies:\n  \
        'a b': { key: ip, limit: \"9/m\" ,  burst: 5, soft: '5%' }  # \u{1f600} behind\n  \
        p:\n    key: ip\n    limit: 100/minute   # the limit\n    mode:   enforce\n    \
        plans: { from: \"header:x\", limits: { pro: 5/m, \"free\": 1/m } }\n  \
        q: { key: ip, limit: \"${LIMIT}\", soft: &soft 5% }\n  \
        r: { key: ip, limit: 5/s, soft: *soft }\n  \
        s:\n    key: ip\n    limit: >-\n      5/s\n\
        routes: [{ name: orders, path: /a, policies: [{ key: ip, limit: 4/m }] }]\n";

    fn values(json: &str) -> Values {
        serde_json::from_str(json).expect("they are values")
    }

    #[test]
    fn a_value_takes_the_place_of_the_old_one_and_everything_else_stays() {
        for (policy, json, old, new) in [
            ("p", r#"{"limit":"200/1m"}"#, "limit: 100/minute", "limit: 200/1m"),
            ("p", r#"{"mode":"shadow"}"#, "mode:   enforce", "mode:   shadow"),
            ("p", r#"{"plans":{"pro":"7/m"}}"#, "pro: 5/m", "pro: 7/m"),
            ("p", r#"{"plans":{"free":"2/m"}}"#, "\"free\": 1/m", "\"free\": 2/m"),
            ("a b", r#"{"limit":"8/m"}"#, "\"9/m\"", "\"8/m\""),
            ("route-orders", r#"{"limit":"8/m"}"#, "limit: 4/m", "limit: 8/m"),
            ("a b", r#"{"burst":12345}"#, "burst: 5", "burst: 12345"),
            ("a b", r#"{"soft":"50%"}"#, "'5%'", "'50%'"),
        ] {
            let edited = edited(FILE, policy, &values(json)).expect(json);
            assert_eq!(edited, FILE.replacen(old, new, 1), "{json}");
            assert_ne!(edited, FILE);
        }
        let several =
            values(r#"{"limit":"1/m","mode":"shadow","plans":{"pro":"2/m","free":"3/m"}}"#);
        let expected = FILE
            .replacen("100/minute", "1/m", 1)
            .replacen("enforce", "shadow", 1)
            .replacen("pro: 5/m", "pro: 2/m", 1)
            .replacen("1/m } }", "3/m } }", 1);
        assert_eq!(edited(FILE, "p", &several), Ok(expected));
    }

    #[test]
    fn a_byte_order_mark_stays_before_the_text() {
        let file =
            |limit: &str| format!("\u{feff}policies: {{ p: {{ key: ip, limit: {limit} }} }}\n");
        let edited = edited(&file("5/m"), "p", &values(r#"{"limit":"8/m"}"#));
        assert_eq!(edited, Ok(file("8/m")));
    }

    #[test]
    fn more_than_a_value_is_not_changed_and_the_caller_is_told_what_to_write() {
        for (policy, json, because) in [
            ("p", r#"{"soft":"5%"}"#, "has no \"soft\""),
            ("p", r#"{"plans":{"none":"5/m"}}"#, "has no \"plans.limits.none\""),
            ("none", r#"{"limit":"5/m"}"#, "no policy \"none\""),
            ("q", r#"{"limit":"5/m"}"#, "whose value is elsewhere"),
            ("q", r#"{"soft":"6%"}"#, "by an alias"),
            ("r", r#"{"soft":"6%"}"#, "by an alias"),
        ] {
            let refused = edited(FILE, policy, &values(json)).expect_err(json);
            assert!(refused.because.contains(because), "{json}: {refused:?}");
        }
        let all = values(r#"{"limit":"5/m","soft":"1%","plans":{"x y":"2/m","z":"3/m"}}"#);
        let refused = edited(FILE, "none", &all).expect_err("it has none");
        let expected = "policies:\n  none:\n    limit: 5/m\n    soft: 1%\n    plans:\n      \
                        limits:\n        \"x y\": 2/m\n        z: 3/m\n";
        assert_eq!(refused.paste, expected);
    }

    proptest! {
        /// Whatever is written, the edited text means what was wanted, or nothing is edited.
        #[test]
        fn an_edited_text_means_what_was_wanted(
            limit in "[ -~äü\n]{0,12}",
            policy in prop::sample::select(vec!["a b", "p", "q", "r", "s"]),
            indent in 0_usize..3,
            comment in "[a-z#:{}\"' ]{0,20}",
        ) {
            let file = FILE.replace("# the limit", &format!("# {comment}{}", " ".repeat(indent)));
            let values = Values { limit: Some(limit.clone()), ..Values::default() };
            if let Ok(edited) = edited(&file, policy, &values) {
                let tree = yaml::parse(&edited, &Problems::default()).expect("it is YAML");
                let policy = field(&tree, "policies").and_then(|it| field(it, policy));
                let now = policy.and_then(|it| field(it, "limit")).and_then(Node::scalar);
                prop_assert_eq!(now, Some(&*limit));
                prop_assert_eq!(edited.matches(&comment).count() >= 1, true);
            }
        }
    }
}
