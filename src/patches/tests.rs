//! What operators write becomes entries.

use proptest::prelude::*;
use tollgate_core::time::{Span, Timestamp};

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

/// Durations are written in seconds.
fn definitions() -> Definitions {
    let duration = |text: &str| {
        let seconds = text.parse().map_err(|_| Mistake::new("no duration", ""))?;
        Ok(Span::from_secs(seconds))
    };
    let compile = |_: &str, _: &Values, _| Err(vec![]);
    Definitions::new(vec![], ConfigIdentity::default(), std::sync::Arc::new(compile), duration)
}

fn patched(before: Entry, body: &str) -> Result<Entry, Vec<Mistake>> {
    let patch: NewPatch = serde_json::from_str(body).expect("it is a patch");
    patch.applied(before, &definitions(), "ann", NOW)
}

fn values(entry: &Entry) -> Values {
    entry.patch.clone().expect("a patch").values
}

#[test]
fn a_second_patch_changes_what_it_names_and_null_goes_back_to_the_file() {
    let first =
        r#"{"limit":"5/s","burst":9,"plans":{"pro":"9/s","free":"1/s"},"for":"30","reason":"x"}"#;
    let first = patched(Entry::default(), first).expect("it is good");
    let patch = first.patch.clone().expect("a patch");
    assert_eq!((&*patch.actor, &*patch.reason), ("ann", "x"));
    assert_eq!(patch.ends_us, Some(1_030_000_000));
    let second = patched(first, r#"{"soft":"10%","burst":null,"plans":{"free":null}}"#);
    let second = second.expect("it is good");
    let expected = Values {
        limit: Some("5/s".to_owned()),
        soft: Some("10%".to_owned()),
        plans: [("pro".to_owned(), "9/s".to_owned())].into(),
        ..Values::default()
    };
    assert_eq!(values(&second), expected);
    assert_eq!(second.patch.clone().expect("a patch").ends_us, None);
    let empty = patched(second, r#"{"limit":null,"soft":null,"plans":null}"#);
    assert!(empty.expect_err("nothing is left")[0].message.contains("changes nothing"));
}

#[test]
fn mistakes_that_do_not_depend_on_the_policy_are_told() {
    let long = format!(r#"{{"limit":"1/s","reason":"{}"}}"#, "x".repeat(501));
    for (body, expected) in [
        ("{}", "changes nothing"),
        (r#"{"reason":"x"}"#, "changes nothing"),
        (r#"{"limit":"1/s","for":"0"}"#, "out of range"),
        (r#"{"limit":"1/s","for":"40000000"}"#, "out of range"),
        (r#"{"limit":"1/s","for":"soon"}"#, "no duration"),
        (r#"{"limit":"1/s","reason":"a\nb"}"#, "one line"),
        (r#"{"limit":"1/s","reason":"a\u2028b"}"#, "printable"),
        (r#"{"limit":"1/s","reason":"a\u202eb"}"#, "printable"),
        (&long, "500 characters"),
    ] {
        let mistakes = patched(Entry::default(), body).expect_err(body);
        assert!(mistakes[0].message.contains(expected), "{body}: {mistakes:?}");
    }
    for body in [r#"{"limits":"1/s"}"#, r#"{"algorithm":"fixed_window"}"#, r#"{"limit":5}"#] {
        assert!(serde_json::from_str::<NewPatch>(body).is_err(), "{body}");
    }
    for body in [r#"{"limit":"1/s"}"#, r#"{"for":"1"}"#, r#"{"limit":"1/s","for":"1","mode":""}"#] {
        assert!(serde_json::from_str::<NewCandidate>(body).is_err(), "{body}");
    }
}

#[test]
fn a_patch_and_a_candidate_end_by_themselves() {
    let change = |ends_us| Some(Change { ends_us, ..Change::default() });
    let entry = Entry { patch: change(Some(5)), candidate: change(Some(9)), ..Entry::default() };
    let at = |us| entry.clone().at(Timestamp::from_micros(us));
    assert_eq!(at(4), Some(entry.clone()));
    assert_eq!(at(5), Some(Entry { patch: None, ..entry.clone() }));
    assert_eq!(at(9), None);
    let endless = Entry { patch: change(None), ..Entry::default() };
    assert_eq!(endless.clone().at(Timestamp::from_micros(u64::MAX)), Some(endless));
}

#[test]
fn an_entry_of_a_later_version_cannot_be_read() {
    for text in ["", "{}", "[]", r#"{"digest":"a","bans":[]}"#, r#"{"digest":"a","patch":{}}"#] {
        assert!(Entry::decode(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn conditions_are_lists_of_strong_tags() {
    let tags = |tags: &[&str]| IfMatch::Tags(tags.iter().map(|&it| it.to_owned()).collect());
    assert_eq!(IfMatch::parse(" * "), IfMatch::Any);
    assert_eq!(IfMatch::parse("\"a-1\""), tags(&["a-1"]));
    assert_eq!(IfMatch::parse("\"a\", W/\"b\" ,\"c\""), tags(&["a", "c"]));
    for text in ["", "a", "\"", "W/\"a\""] {
        assert_eq!(IfMatch::parse(text), tags(&[]), "{text}");
    }
}

proptest! {
    #[test]
    fn entries_survive_their_bytes(
        limit in proptest::option::of(".{0,20}"),
        burst in proptest::option::of(any::<u64>()),
        plans in proptest::collection::btree_map(".{0,9}", ".{0,9}", 0..4),
        reason in ".{0,50}",
        ends_us in proptest::option::of(any::<u64>()),
        has_candidate in any::<bool>(),
    ) {
        let values = Values { limit, burst, plans, ..Values::default() };
        let change =
            Change { values, reason, actor: "ann".to_owned(), since_us: 7, ends_us };
        let candidate = has_candidate.then(|| change.clone());
        let entry = Entry { digest: "d".to_owned(), patch: Some(change), candidate };
        prop_assert_eq!(Entry::decode(&entry.encode()).ok(), Some(entry));
    }
}
