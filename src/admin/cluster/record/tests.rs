//! What is published has a bound, and sums of what was published are never too low.

use proptest::prelude::*;
use serde_json::json;
use tollgate_core::digest::{Principal, PrincipalId};

use super::*;
use crate::admin::outcomes::{Outcomes, Use};

const MAX: usize = 16 * 1024;

fn stream(entries: impl IntoIterator<Item = (u128, u64, u64)>, rest: u64, text: &str) -> Merged {
    let entries: Vec<_> = entries
        .into_iter()
        .map(|(id, count, error)| TopEntry { id, count, error, peak: None, text: text.into() })
        .collect();
    let observed = entries.iter().map(|it| it.count - it.error).sum::<u64>() + rest;
    Merged { observed, rest, entries }
}

/// The figures of a node with these policies, whose clients all have this text.
fn figures(names: &[String], clients: u32, text: &str) -> Figures {
    let mut figures = Figures { clients_of: Span::from_secs(90), ..Figures::default() };
    for (index, name) in (0..).zip(names) {
        let entries = |salt: u128| {
            (0..clients).rev().map(move |it| {
                (
                    (u128::from(it) + 1).wrapping_mul(0x1234_5678_9abc_def0_1234_5678_9abc_def1)
                        + salt,
                    u64::from(it) + 9,
                    2,
                )
            })
        };
        let outcomes = PolicyOutcomes {
            minute: (Span::from_secs(60), ByOutcome::of([987_654; ByOutcome::NAMES.len()])),
            five_minutes: (Span::from_secs(300), ByOutcome::of([index; ByOutcome::NAMES.len()])),
            total: ByOutcome::of([u64::MAX / 32; ByOutcome::NAMES.len()]),
            measured: 77_777,
            near: 333,
        };
        let clients =
            Streams { admitted: stream(entries(0), 5, text), refused: stream(entries(1), 6, text) };
        figures.policies.insert(name.clone(), PolicyFigures { outcomes, clients });
    }
    figures
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|it| format!("policy-{it}")).collect()
}

#[test]
fn figures_that_fit_are_read_as_they_were_written() {
    let written = figures(&names(3), 5, "header x-api-key 4f…");
    assert_eq!(Figures::decode(written.encode(MAX).as_bytes()), Some(written));
    let nothing = Figures::default();
    assert_eq!(Figures::decode(nothing.encode(MAX).as_bytes()), Some(nothing));
}

#[test]
fn whole_keys_are_not_published() {
    let mut own = figures(&names(1), 2, "header x-api-key 4f…");
    for figures in own.policies.values_mut() {
        let entries = figures.clients.admitted.entries.iter_mut();
        entries.for_each(|entry| entry.text.whole = Some("4f9d81".to_owned().into()));
    }
    let published = own.encode(MAX);
    assert!(published.contains("4f…") && !published.contains("4f9d81"), "{published}");
}

#[test]
fn a_record_has_its_bound_with_many_policies_and_hostile_texts() {
    let texts = ["\u{1}".repeat(4000), "\u{10ffff}".repeat(90), "\"\\".repeat(2000), "a".into()];
    for text in &texts {
        for (policies, name) in
            [(100, "p"), (100, "\u{7f}\u{0}\u{2028}"), (512, "policy"), (1, "x")]
        {
            let names: Vec<String> = (0..policies).map(|it| format!("{name}{it}")).collect();
            let text = figures(&names, 128, text).encode(MAX);
            assert!(text.len() <= MAX, "{} bytes with {policies} policies", text.len());
            let read = Figures::decode(text.as_bytes()).expect("it is whole");
            assert!(!read.policies.is_empty());
            assert_eq!(read.policies.len() as u64 + read.left_out, policies);
        }
    }
    let long = figures(&["n".repeat(20_000)], 3, "a").encode(MAX);
    let read = Figures::decode(long.as_bytes()).expect("it is whole");
    assert_eq!((long.len() < MAX, read.policies.len(), read.left_out), (true, 0, 1));
}

#[test]
fn usual_policies_all_fit_with_clients_of_each() {
    let mut usual = figures(&names(100), 40, "ip 203.0.113.0/24");
    for figures in usual.policies.values_mut() {
        let counts = ByOutcome { admitted: 12_345, refused: 678, ..ByOutcome::default() };
        figures.outcomes.minute.1 = counts;
        figures.outcomes.five_minutes.1 = counts;
        figures.outcomes.total = counts;
    }
    let read = Figures::decode(usual.encode(MAX).as_bytes()).expect("it is whole");
    assert_eq!((read.policies.len(), read.left_out), (100, 0));
    let listed = |it: &PolicyFigures| it.clients.admitted.entries.len();
    assert!(read.policies.values().filter(|it| listed(it) > 0).count() >= 20);
    for figures in read.policies.values() {
        let rest = figures.clients.admitted.rest;
        let least = figures.clients.admitted.entries.iter().map(|it| it.count).min();
        assert!(rest <= least.unwrap_or(48), "the list is the beginning of the whole one");
        assert!(rest >= 40, "{rest}: the clients that are left out are not forgotten");
    }
}

#[test]
fn other_versions_and_damaged_texts_are_ignored() {
    let text = figures(&names(1), 1, "a").encode(MAX);
    assert!(Figures::decode(text.as_bytes()).is_some());
    for damaged in [
        "",
        "{}",
        "no JSON",
        &text[..text.len() - 1],
        &text.replace("\"v\":1", "\"v\":2"),
        &text.replace("\"keys\":[[0,", "\"keys\":[[7,"),
        &text.replace("\"keys\":[[0,0,\"", "\"keys\":[[0,0,\"z"),
        &text.replace("\"keys\":[[0,0,", "\"keys\":[[0,2,"),
        r#"{"v":1,"clients_ms":1,"left_out":0,"policies":[["p",[1,[0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]],[1,[]],[],[0,0],[0,0],[0,0]]],"keys":[]}"#,
    ] {
        assert_eq!(Figures::decode(damaged.as_bytes()), None, "{damaged}");
    }
    // Numbers from outside do not overflow.
    let most = r#"{"v":1,"clients_ms":18446744073709551615,"left_out":18446744073709551615,"policies":[["p",[18446744073709551615,[18446744073709551615]],[0,[18446744073709551615]],[18446744073709551615],[18446744073709551615,1],[18446744073709551615,18446744073709551615],[0,0]]],"keys":[[0,0,"1",18446744073709551615,0,"a"],[0,1,"2",18446744073709551615,18446744073709551615,"b"]]}"#;
    let most = Figures::decode(most.as_bytes()).expect("it can be read");
    let mut sum = most.clone();
    sum.add(most);
    assert_eq!(sum.policies["p"].clients.list(10).requests, u64::MAX);
}

/// A record of the first version: outcomes stand in the order of the counters.
#[test]
fn the_first_version_stays_readable() {
    let text = r#"{"v":1,"clients_ms":90000,"left_out":2,"policies":[["p",[60000,[7,0,0,0,3]],[300000,[9]],[11],[4,2],[7,1],[3,0]]],"keys":[[0,1,"ff",3,0,"ip 203.0.113.0/24"]]}"#;
    let read = Figures::decode(text.as_bytes()).expect("it can be read");
    let outcomes = &read.policies["p"].outcomes;
    assert_eq!(
        json!(Outcomes::of(outcomes)),
        json!({
            "1m": { "admitted": 7, "refused": 3, "seconds": 60.0 },
            "5m": { "admitted": 9, "seconds": 300.0 },
            "total": { "admitted": 11 },
        })
    );
    assert_eq!(json!(Use::of(outcomes)), json!({ "measured": 4, "near": 0.5 }));
    assert_eq!(read.encode(MAX), text);
}

/// For each of three nodes, how often each client was admitted and refused.
type Counts = Vec<(u8, u64, u64)>;

fn nodes() -> impl Strategy<Value = Vec<Counts>> {
    let client = (0..200_u8, 0..50_u64, 0..50_u64);
    prop::collection::vec(prop::collection::vec(client, 0..150), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sums_of_what_was_published_are_never_too_low(nodes in nodes(), most in 400..6000_usize) {
        let mut exact: BTreeMap<u128, (u64, u64)> = BTreeMap::new();
        let mut sum = Figures::default();
        for counts in nodes {
            let mut own: BTreeMap<u128, (u64, u64)> = BTreeMap::new();
            for (client, admitted, refused) in counts {
                let id = u128::from(client) << 100 | 1;
                for all in [&mut own, &mut exact] {
                    let count = all.entry(id).or_default();
                    *count = (count.0 + admitted, count.1 + refused);
                }
            }
            let clients = |of: fn(&(u64, u64)) -> u64| {
                let mut all: Vec<_> = own.iter().map(|(id, it)| (*id, of(it), 0)).collect();
                all.retain(|it| it.1 > 0);
                all.sort_by_key(|it| Reverse(it.1));
                stream(all, 0, "header x-api-key 4f…")
            };
            let clients = Streams { admitted: clients(|it| it.0), refused: clients(|it| it.1) };
            let policy = PolicyFigures { clients, ..PolicyFigures::default() };
            let figures = Figures {
                policies: BTreeMap::from([("p".to_owned(), policy)]),
                ..Figures::default()
            };
            let text = figures.encode(most);
            prop_assert!(text.len() <= most, "{} of {most}", text.len());
            sum.add(Figures::decode(text.as_bytes()).expect("it is whole"));
        }
        prop_assert_eq!(sum.left_out, 0);
        let list = sum.policies["p"].clients.list(1000);
        prop_assert_eq!(list.requests, exact.values().map(|it| it.0 + it.1).sum::<u64>());
        for (id, (admitted, refused)) in exact {
            let id = PrincipalId::from(Principal::from_bits(id));
            match list.clients.iter().find(|it| it.id == id) {
                Some(it) => {
                    prop_assert!(it.requests >= admitted + refused && it.refused >= refused);
                    prop_assert!(it.requests - it.error <= admitted + refused);
                }
                None => prop_assert!(admitted + refused <= list.unlisted),
            }
        }
    }
}
