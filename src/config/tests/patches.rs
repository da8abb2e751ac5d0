//! Policies that are changed at run time keep the rules of the file.

use std::slice;
use std::sync::Arc;

use proptest::prelude::*;
use tollgate_core::algorithm::{Algorithm, Op, State};
use tollgate_core::policy::{Mode, Policy, Preflights};
use tollgate_core::time::{Span, Timestamp};
use tollgate_redis::EntryVersion;

use super::*;
use crate::patches::{Change, Definitions, Entry, Purpose, Resolved, Values};

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);

/// The definitions of a file with the policy `p` and others.
fn definitions(p: &str) -> Arc<Definitions> {
    let text = format!(
        "listeners: [{{ address: \":8080\" }}]\nclient: {{ trusted_proxies: [10.0.0.0/8] }}\n\
         policies:\n  p: {{ {p} }}\n  q: {{ key: ip, limit: 5/minute }}\n\
         routes: [{{ path: /*, policies: [p, q], respond: {{ body: ok }} }}]\n"
    );
    parse(&text).unwrap_or_else(|report| panic!("{report}")).config.definitions
}

fn values(json: &str) -> Values {
    serde_json::from_str(json).expect("they are values")
}

fn compiled(p: &str, json: &str, purpose: Purpose) -> Result<Policy, String> {
    let mistakes = |mistakes: Vec<crate::patches::Mistake>| mistakes[0].message.clone();
    definitions(p).compile("p", &values(json), purpose).map_err(mistakes)
}

const BUCKET: &str = "key: ip, limit: 100/minute, algorithm: token_bucket, burst: 20";
const PLANS: &str = "key: ip, limit: 100/minute, \
                     plans: { from: \"header:x-plan\", limits: { pro: 500/minute, own: unlimited } }";

#[test]
fn a_patch_changes_what_it_names() {
    let policy = compiled(BUCKET, r#"{"limit":"200/1m","burst":50}"#, Purpose::Patch).unwrap();
    assert_eq!((policy.algorithm.limit(), policy.algorithm.capacity()), (200, 50));
    let policy = compiled(BUCKET, r#"{"limit":"200/1m"}"#, Purpose::Patch).unwrap();
    assert_eq!((policy.algorithm.limit(), policy.algorithm.capacity()), (200, 20));
    let policy = compiled(BUCKET, r#"{"mode":"shadow","soft":"50%"}"#, Purpose::Patch).unwrap();
    assert_eq!((policy.mode, policy.soft.map(|it| it.capacity())), (Mode::Shadow, Some(30)));
    let Preflights::Bounded(bounding) = &policy.preflights else { panic!("they are bounded") };
    assert_eq!(bounding.mode, Mode::Shadow);
    let policy = compiled(PLANS, r#"{"plans":{"pro":"900/1m"}}"#, Purpose::Patch).unwrap();
    let limits = |policy: &Policy| format!("{:?}", policy.plans.as_ref().map(|it| &it.limits));
    assert!(limits(&policy).contains("900") && limits(&policy).contains("Unlimited"));
    let policy = compiled(
        "key: global, limit: 5, algorithm: concurrency",
        r#"{"limit":"7"}"#,
        Purpose::Patch,
    );
    assert_eq!(policy.unwrap().algorithm.limit(), 7);
}

#[test]
fn a_patch_has_the_mistakes_of_the_file_and_keeps_the_counters() {
    let elastic = "key: ip, limit: 100/minute, algorithm: concurrency";
    for (p, json, expected) in [
        (BUCKET, r#"{"limit":"lots"}"#, "is not a limit"),
        (BUCKET, r#"{"limit":"0/m"}"#, "limit"),
        (BUCKET, r#"{"limit":"200"}"#, "has no time"),
        (BUCKET, r#"{"limit":"200/1h"}"#, "same window, 1m"),
        (BUCKET, r#"{"limit":"unlimited"}"#, "cannot take the limit away"),
        (BUCKET, r#"{"burst":0}"#, "out of range"),
        (BUCKET, r#"{"soft":"10"}"#, "not a percentage"),
        (BUCKET, r#"{"mode":"off"}"#, "cannot switch a policy off"),
        (BUCKET, r#"{"mode":"on"}"#, "is not a valid mode"),
        (BUCKET, r#"{"plans":{"pro":"9/m"}}"#, "has no plans"),
        (PLANS, r#"{"burst":5}"#, "belongs to the algorithm"),
        (PLANS, r#"{"plans":{"prof":"9/m"}}"#, "no plan \"prof\""),
        (PLANS, r#"{"plans":{"pro":"9/h"}}"#, "another window"),
        (PLANS, r#"{"limit":"9/h"}"#, "another window"),
        ("key: global, limit: 5, algorithm: concurrency", r#"{"limit":"7/s"}"#, "without a time"),
    ] {
        let message = compiled(p, json, Purpose::Patch).expect_err(json);
        assert!(message.contains(expected), "{json}: {message}");
    }
    assert!(
        parse(&SMALLEST.replace("limit: 100/minute", elastic)).is_err(),
        "the file is as strict"
    );
}

#[test]
fn a_candidate_is_in_shadow_with_counters_of_its_own() {
    for json in [
        r#"{"limit":"200/1m"}"#,
        r#"{"limit":"5/1h"}"#,
        r#"{"limit":"5/s","algorithm":"fixed_window"}"#,
    ] {
        let live = definitions(BUCKET).get("p").map(|it| Arc::clone(&it.policy)).unwrap();
        let policy = compiled(BUCKET, json, Purpose::Candidate).unwrap();
        assert_eq!((&*policy.name, policy.mode), ("p~candidate", Mode::Shadow));
        assert!(policy.counters().all(|own| live.counters().all(|it| it != own)), "{json}");
        assert_eq!(policy.key, live.key);
    }
    let kept = compiled(PLANS, r#"{"limit":"200/1m"}"#, Purpose::Candidate).unwrap();
    assert_eq!(kept.plans.map(|plans| plans.limits.len()), Some(2));
    let message = compiled(PLANS, r#"{"limit":"200/1h"}"#, Purpose::Candidate).unwrap_err();
    assert!(message.contains("another window"), "{message}");
    let message =
        compiled(BUCKET, r#"{"limit":"5/s","algorithm":"leaky_bucket"}"#, Purpose::Candidate);
    assert!(message.is_err_and(|it| it.contains("max_delay")));
}

/// A policy in money, for which single keys may have other limits.
fn in_money() -> Arc<Definitions> {
    let text = "listeners: [{ address: \":8080\" }]\nstore: { overrides: { path: o.redb } }\n\
         prices: { currency: usd, models: { m: { input: 1, output: 1 } } }\n\
         policies: { p: { key: ip, limit: 5.00 usd/day, overrides: true, \
         cost: { reserve: {}, settle: { usage: openai } } } }\n\
         routes: [{ path: /*, policies: [p], respond: { body: ok } }]\n";
    parse(text).unwrap_or_else(|report| panic!("{report}")).config.definitions
}

#[test]
fn a_candidate_in_money_has_the_limits_of_single_keys_of_its_policy() {
    let definitions = in_money();
    let live = definitions.get("p").map(|it| Arc::clone(&it.policy)).unwrap();
    let candidate = |json: &str| definitions.compile("p", &values(json), Purpose::Candidate);
    let same = candidate(r#"{"limit":"6.00 usd/1d"}"#).unwrap();
    assert!(live.overrides.is_some());
    assert_eq!(same.overrides, live.overrides);
    // They are amounts of money, and no numbers of tokens.
    assert_eq!(candidate(r#"{"limit":"6000/1d"}"#).unwrap().overrides, None);
    let patched = definitions.compile("p", &values(r#"{"limit":"6/1d"}"#), Purpose::Patch);
    assert!(patched.unwrap_err()[0].message.ends_with("the limit is an amount in usd"));
}

#[test]
fn the_digest_is_that_of_the_definition() {
    let digest = |p: &str| definitions(p).get("p").map(|it| it.digest.clone()).unwrap();
    let one = digest("key: ip, limit: 100/minute");
    assert_eq!(one, digest("limit: 100/minute, key: ip"), "the order does not count");
    assert_ne!(one, digest("key: ip, limit: 101/minute"));
    assert_ne!(one, digest("key: ip, limit: 100/minute, mode: shadow"));
    assert_eq!(one.len(), 32);
    // The value of a variable counts. One that may be secret does not: others see the digest.
    let with = |limit: &str, secret: &str| {
        let text = SMALLEST.replace(
            "limit: 100/minute",
            "limit: \"${LIMIT}\", exempt: { headers: { x-internal: \"${KEY}\" } }",
        );
        let env = |name: &str| Some(if name == "LIMIT" { limit } else { secret }.to_owned());
        let config = Config::parse(&text, "gateway.yaml", &env).expect("it is good").config;
        config.definitions.get("per-client").map(|it| it.digest.clone())
    };
    assert_ne!(with("1/s", "a"), with("2/s", "a"));
    assert_eq!(with("1/s", "a"), with("1/s", "b"));
}

#[test]
fn no_policy_of_a_file_has_the_name_of_a_candidate() {
    let text = SMALLEST.replace("per-client", "per-client~candidate");
    let report = parse(&text).expect_err("the name is taken").to_string();
    assert!(report.contains("those of candidates"), "{report}");
    assert!(parse(&SMALLEST.replace("per-client", "per~client")).is_ok());
}

fn change(json: &str, ends_us: Option<u64>) -> Option<Change> {
    Some(Change { values: values(json), ends_us, ..Change::default() })
}

fn stored(name: &str, entry: &Entry) -> (String, EntryVersion, Vec<u8>) {
    (name.to_owned(), EntryVersion::random(), entry.encode())
}

#[test]
fn entries_that_do_not_belong_here_are_ignored_and_told() {
    let definitions = definitions(BUCKET);
    let digest = |name: &str| definitions.get(name).map(|it| it.digest.clone()).unwrap_or_default();
    let patch = change(r#"{"limit":"200/1m"}"#, Some(NOW.as_micros() + 5));
    let entry = |name: &str| Entry { digest: digest(name), patch: patch.clone(), candidate: None };
    let good = stored("p", &entry("p"));
    let resolve = |entries: &[_], now| Resolved::new(entries, &definitions, &[], now);
    let resolved = resolve(slice::from_ref(&good), NOW);
    let patched = resolved.changed["p"].patch.as_ref().map(|(_, it)| it.algorithm.limit());
    assert_eq!((patched, resolved.next_end), (Some(200), Some(NOW.plus(Span::from_micros(5)))));
    let later = resolve(slice::from_ref(&good), NOW.plus(Span::from_micros(5)));
    assert!(later.changed.is_empty() && later.ignored.is_empty() && !later.is_same(&resolved));
    let mut unreadable = stored("q", &entry("q"));
    unreadable.2.push(b'x');
    let misfit = Entry { patch: change(r#"{"limit":"5/h"}"#, None), ..entry("p") };
    for (bad, because) in [
        (stored("none", &entry("p")), "no policy of this name"),
        (stored("q", &entry("p")), "is another one"),
        (unreadable, "cannot read"),
        (stored("p", &misfit), "patch does not fit here"),
    ] {
        let resolved = resolve(&[bad], NOW);
        assert!(resolved.changed.is_empty(), "{because}");
        assert!(resolved.ignored[0].because.contains(because), "{:?}", resolved.ignored);
    }
}

#[test]
fn a_route_has_at_most_sixteen_policies_with_its_candidates() {
    let definitions = definitions(BUCKET);
    let candidate = |name: &str, limit: &str| {
        let digest = definitions.get(name).map(|it| it.digest.clone()).unwrap_or_default();
        stored(name, &Entry { digest, candidate: change(limit, None), patch: None })
    };
    let both = [candidate("p", r#"{"limit":"9/s"}"#), candidate("q", r#"{"limit":"9/s"}"#)];
    let route = |others: usize| -> Vec<Arc<str>> {
        let others = (0..others).map(|it| Arc::from(it.to_string()));
        ["p", "q"].map(Arc::from).into_iter().chain(others).collect()
    };
    for (others, expected) in [(12, 2), (13, 1), (14, 0)] {
        let resolved = Resolved::new(&both, &definitions, &[route(others), route(0)], NOW);
        assert_eq!(resolved.changed.len(), expected, "{others}: {:?}", resolved.ignored);
        assert_eq!(resolved.ignored.len(), 2 - expected);
    }
}

#[test]
fn the_tag_changes_with_the_definition_and_the_entry() {
    let of = |definitions: &Definitions, entries: &[_]| {
        let resolved = Resolved::new(entries, definitions, &[], NOW);
        resolved.tag(definitions.get("p").expect("it is defined"))
    };
    let definitions = definitions(BUCKET);
    let plain = of(&definitions, &[]);
    assert_ne!(plain, of(&super::patches::definitions(PLANS), &[]));
    let entry = Entry { patch: change(r#"{"limit":"9/m"}"#, None), ..Entry::default() };
    let tags = [(); 2].map(|()| of(&definitions, &[stored("p", &entry)]));
    assert!(tags[0] != plain && tags[0] != tags[1], "an ignored entry counts, too");
}

/// The units that are admitted at these times, while the limit is `after` from `turn` on.
fn admitted(
    before: &Algorithm,
    after: &Algorithm,
    turn: usize,
    steps_ms: &[u64],
) -> Vec<Timestamp> {
    let mut now = NOW;
    let mut state: Option<State> = None;
    let mut admitted = Vec::new();
    for (index, step) in steps_ms.iter().enumerate() {
        now = now.plus(Span::from_millis(*step));
        let algorithm = if index < turn { before } else { after };
        let (next, verdict) = algorithm.apply(state.as_ref(), Op::Take(1), now);
        if verdict.admitted {
            (state, admitted) = (next, [admitted, vec![now]].concat());
        }
    }
    admitted
}

proptest! {
    #[test]
    fn no_window_has_more_than_the_higher_limit(
        limits in (1..12_u64, 1..12_u64),
        turn in 0..60_usize,
        steps_ms in proptest::collection::vec(0..400_u64, 1..60),
    ) {
        let p = format!("key: ip, limit: {}/s, algorithm: sliding_log", limits.0);
        let definitions = definitions(&p);
        let values = Values { limit: Some(format!("{}/s", limits.1)), ..Values::default() };
        let patched = definitions.compile("p", &values, Purpose::Patch).expect("it is good");
        let live = definitions.get("p").map(|it| Arc::clone(&it.policy)).expect("it is defined");
        prop_assert_eq!(live.counter, patched.counter);
        let times = admitted(&live.algorithm, &patched.algorithm, turn, &steps_ms);
        let most = limits.0.max(limits.1);
        for (index, begin) in times.iter().enumerate() {
            let window = times[index..].iter().filter(|it| it.since(*begin) < Span::SECOND);
            prop_assert!(u64::try_from(window.count()).unwrap_or(u64::MAX) <= most, "{times:?}");
        }
    }

    #[test]
    fn without_entries_the_policies_are_those_of_the_file(
        limit in 1..1000_u64,
        is_candidate in any::<bool>(),
    ) {
        let definitions = definitions(BUCKET);
        let digest = definitions.get("p").map(|it| it.digest.clone()).unwrap_or_default();
        let part = change(&format!("{{\"limit\":\"{limit}/1m\"}}"), None);
        let (patch, candidate) = if is_candidate { (None, part) } else { (part, None) };
        let entry = stored("p", &Entry { digest, patch, candidate });
        let with = Resolved::new(&[entry], &definitions, &[], NOW);
        prop_assert_eq!(with.changed.len(), 1);
        let without = Resolved::new(&[], &definitions, &[], NOW);
        prop_assert!(without.changed.is_empty() && without.ignored.is_empty());
        let again = definitions.compile("p", &Values::default(), Purpose::Patch).expect("as it was");
        let live = definitions.get("p").expect("it is defined");
        prop_assert_eq!(format!("{again:?}"), format!("{:?}", live.policy));
    }
}
