//! Which documents have values, and which, against a parser that keeps every member: a member that
//! occurs twice is there twice.

use std::fmt;

use proptest::collection::vec;
use proptest::sample::{Index, select, subsequence};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::documents::{is_document, written};
use super::values::{scan, scan_in_chunks};
use super::*;

/// A value of a document.
#[derive(Clone, Debug)]
enum Tree {
    Text(String),
    Integer(String),
    Float(f64),
    Truth(bool),
    Null,
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Grow)
    }
}

struct Grow;

impl<'de> Visitor<'de> for Grow {
    type Value = Tree;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Truth(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Integer(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Tree, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = values.next_element()? {
            all.push(value);
        }
        Ok(Tree::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut all = Vec::new();
        while let Some(member) = members.next_entry()? {
            all.push(member);
        }
        Ok(Tree::Object(all))
    }
}

fn without_case(key: &str) -> String {
    key.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

impl Tree {
    /// The value at this path, and the faults of the members on it.
    fn find<'t>(&'t self, path: &[&str], faults: &mut Vec<DocumentFault>) -> Option<&'t Self> {
        let [token, rest @ ..] = path else { return Some(self) };
        match self {
            Self::Array(values) => {
                let at: usize = token.parse().ok()?;
                values.get(at)?.find(rest, faults)
            }
            Self::Object(members) => {
                let same = members.iter().filter(|(key, _)| key == token);
                if same.clone().count() > 1 {
                    faults.push(DocumentFault::Twice);
                }
                let folded = without_case(token);
                if members.iter().any(|(key, _)| key != token && without_case(key) == folded) {
                    faults.push(DocumentFault::Case);
                }
                same.map(|(_, value)| value.find(rest, faults)).last()?
            }
            _ => None,
        }
    }

    /// The value as the key of a policy. None: another parser cannot say. With `is_rounded`, a float
    /// may have lost its fraction.
    fn value(&self, is_rounded: bool) -> Option<Option<String>> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        Some(match self {
            Self::Text(text) => Some(text.clone()).filter(|it| it.len() <= MAX_VALUE_BYTES),
            Self::Integer(integer) => Some(integer.clone()),
            Self::Truth(truth) => Some(truth.to_string()),
            Self::Float(float) if float.abs() > EXACT => return None,
            Self::Float(float) if is_rounded && float.fract() == 0.0 => return None,
            // There is no negative zero.
            Self::Float(float) => (float.fract() == 0.0).then(|| format!("{:.0}", float + 0.0)),
            Self::Null | Self::Array(_) | Self::Object(_) => None,
        })
    }

    /// Whether this can be a number of which the nearest float is an integer. The float that the
    /// other parser finds may be the next one to the nearest.
    fn may_be_whole(&self) -> bool {
        let Self::Float(float) = self else { return false };
        [float.next_down(), *float, float.next_up()].iter().any(|float| float.fract() == 0.0)
    }
}

const POINTERS: [&str; 12] = [
    "/a",
    "/a/a",
    "/a/0",
    "/a/task",
    "/task",
    "/task/a",
    "/task/1/a",
    "/0",
    "/1/a",
    "/0/task",
    "/é",
    "",
];

/// A key as a document writes it. Some differ only in case, and few have half of a surrogate pair.
fn key() -> impl Strategy<Value = String> {
    const KEYS: [&str; 12] =
        ["a", "a", "A", "task", "task", "Task", "taſk", "tas\u{212a}", "é", "É", "0", ""];
    prop_oneof![
        20 => (select(&KEYS[..]), any::<u8>()).prop_map(|(key, escapes)| written(key, escapes)),
        1 => select(&[r#""\ud83d""#, r#""a\ude00""#, r#""\ud83d\u0061""#][..]).prop_map(String::from),
    ]
}

fn leaf() -> impl Strategy<Value = String> {
    const OTHERS: [&str; 10] =
        ["true", "false", "null", "{}", "[]", "-0", "-0.0", "1e2", "10.50e1", "0.5"];
    prop_oneof![
        4 => select(&OTHERS[..]).prop_map(String::from),
        2 => any::<i64>().prop_map(|number| number.to_string()),
        2 => any::<u64>().prop_map(|number| number.to_string()),
        2 => "-?(0|[1-9][0-9]{0,7})(\\.[0-9]{1,6})?([eE][+]?[0-3]|[eE]-[0-9]{1,2})?",
        3 => (".{0,6}", any::<u8>()).prop_map(|(text, escapes)| written(&text, escapes)),
        1 => select(&[r#""\ud83d""#, r#""x\ude00y""#, r#""\ud83d\ude00""#][..]).prop_map(String::from),
    ]
}

fn document() -> impl Strategy<Value = String> {
    leaf().prop_recursive(4, 30, 4, |inner| {
        let members = vec((key(), inner.clone()), 0..5);
        prop_oneof![
            1 => vec(inner, 0..4).prop_map(|values| format!("[{}]", values.join(" ,"))),
            3 => members.prop_map(|members| {
                let members = members.iter().map(|(key, value)| format!("{key}: {value}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

/// Whether a number with a fraction has more digits than a float keeps.
fn has_long_fraction(document: &[u8]) -> bool {
    let mut numbers = document.split(|byte| !byte.is_ascii_digit() && *byte != b'.');
    numbers.any(|number| number.contains(&b'.') && number.len() > 16)
}

/// Compares the values and the faults of a document with those of the other parser.
fn compare(pointers: &[&str], document: &[u8]) -> Result<(), TestCaseError> {
    let found = scan(pointers, document);
    if !is_document(document) {
        prop_assert_eq!(found, Err(DocumentFault::Invalid));
        return Ok(());
    }
    let tree: Tree = match serde_json::from_slice(document) {
        Ok(tree) => tree,
        // The other parser reads such numbers as floats only.
        Err(error) if error.to_string().starts_with("number out of range") => return Ok(()),
        Err(error) => {
            // A member may come twice before the half of the pair.
            prop_assert!(found.is_err(), "{}", error);
            prop_assert_ne!(found, Err(DocumentFault::Invalid), "{}", error);
            return Ok(());
        }
    };
    let mut faults = Vec::new();
    let path =
        |pointer: &&'static str| -> Vec<&'static str> { pointer.split('/').skip(1).collect() };
    let known = POINTERS.iter().filter(|pointer| pointers.contains(pointer));
    let paths: Vec<_> = known.map(path).collect();
    let values: Vec<_> = paths.iter().map(|path| tree.find(path, &mut faults)).collect();
    let found = match found {
        Ok(found) => found,
        Err(DocumentFault::Fraction) => {
            prop_assert!(values.into_iter().flatten().any(Tree::may_be_whole));
            return Ok(());
        }
        Err(fault) => {
            prop_assert!(faults.contains(&fault), "{} of {:?}", fault, faults);
            return Ok(());
        }
    };
    prop_assert_eq!(faults, []);
    let is_rounded = has_long_fraction(document);
    for (found, value) in found.into_iter().zip(values) {
        if let Some(expected) = value.map_or(Some(None), |value| value.value(is_rounded)) {
            prop_assert_eq!(found, expected);
        }
    }
    Ok(())
}

/// The other parser reads the first number as a whole one. The second is nearest to a whole one, and
/// the other parser finds the float before it.
#[test]
fn a_number_with_a_long_fraction_is_a_fault() {
    for document in ["[4379291074772558.01]", "[3787586604024325.969]"] {
        assert_eq!(scan(&["/0"], document.as_bytes()), Err(DocumentFault::Fraction));
        compare(&["/0"], document.as_bytes()).expect(document);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn values_and_faults_are_those_of_a_parser_that_keeps_every_member(
        document in document(),
        pointers in subsequence(&POINTERS[..], 1..5),
        sizes in chunk_sizes(),
    ) {
        compare(&pointers, document.as_bytes())?;
        let document = document.as_bytes();
        prop_assert_eq!(scan_in_chunks(&pointers, document, &sizes), scan(&pointers, document));
    }

    #[test]
    fn a_changed_byte_makes_another_document_or_none(
        document in document(),
        at in any::<Index>(),
        byte in select(&b"[]{}\",:\\u0-.e aA\x1F\xC3"[..]),
        pointers in subsequence(&POINTERS[..], 1..5),
    ) {
        let mut document = document.into_bytes();
        let at = at.index(document.len());
        document[at] = byte;
        compare(&pointers, &document)?;
    }

    #[test]
    fn a_document_has_128_levels_at_most(
        levels in vec(any::<bool>(), 100..156),
        sizes in chunk_sizes(),
    ) {
        let open = levels.iter().map(|is_array| if *is_array { "[" } else { "{\"a\":" });
        let close = levels.iter().rev().map(|is_array| if *is_array { "]" } else { "}" });
        let nested: String = open.chain(["7"]).chain(close).collect();
        // No pointer leads deeper.
        let path = levels.iter().take(128).map(|is_array| if *is_array { "/0" } else { "/a" });
        let pointer: String = path.collect();
        let expected = match levels.len() {
            0..=128 => Ok(vec![Some("7".to_owned())]),
            _ => Err(DocumentFault::Invalid),
        };
        prop_assert_eq!(scan(&[&pointer], nested.as_bytes()), expected.clone());
        prop_assert_eq!(scan_in_chunks(&[&pointer], nested.as_bytes(), &sizes), expected);
    }
}

#[test]
fn the_comparison_sees_each_fault() {
    let faults = |document: &str| {
        let tree: Tree = serde_json::from_str(document).expect("a document");
        let mut faults = Vec::new();
        tree.find(&["a", "task"], &mut faults);
        faults
    };
    assert_eq!(faults(r#"{"a":{"task":1},"A":2}"#), [DocumentFault::Case]);
    assert_eq!(faults(r#"{"a":{"task":1},"a":{"ta\u017fk":2}}"#).len(), 2);
    assert_eq!(faults(r#"{"a":{"task":1,"x":1,"x":2}}"#), []);
}
