//! Keys from their making to their end, and records at their bounds.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::time::{Span, Timestamp};

#[test]
fn a_new_key_has_the_form_that_scanners_search_for() {
    let form = KeyForm::new("acme").unwrap();
    for _ in 0..2000 {
        let NewKey { id, text, digest } = NewKey::generate(&form);
        let rest = text.strip_prefix("acme_").unwrap();
        let (shown, secret) = rest.split_once('_').unwrap();
        let is_id = |char: char| matches!(char, '0'..='9' | 'a'..='h' | 'j' | 'k' | 'm' | 'n' | 'p'..='t' | 'v'..='z');
        assert!(shown.len() == 12 && shown.chars().all(is_id), "{shown}");
        assert!(secret.len() == 49 && secret.chars().all(|it| it.is_ascii_alphanumeric()));
        assert_eq!(form.parse(text.as_bytes()), Ok(id));
        assert_eq!(shown, id.as_str());
        assert!(digest.is(&KeyDigest::of(text.as_bytes())));
    }
}

#[test]
fn two_keys_have_nothing_in_common() {
    let form = KeyForm::default();
    let one = NewKey::generate(&form);
    let other = NewKey::generate(&form);
    assert!(one.id != other.id && one.text != other.text && one.digest != other.digest);
    let again = NewKey::with_id(&form, one.id);
    assert!(again.id == one.id && again.text != one.text);
    assert_eq!(format!("{one:?}"), format!("NewKey({}, ..)", one.id));
}

#[test]
fn what_is_not_a_key_is_told_without_a_lookup() {
    let form = KeyForm::default();
    let key = NewKey::generate(&form).text;
    let parse = |text: &str| form.parse(text.as_bytes());
    assert_eq!(parse(&key.replacen("tg_", "tx_", 1)), Err(FormError::Other));
    assert_eq!(parse("tg"), Err(FormError::Other));
    assert_eq!(parse("eyJhbGciOiJIUzI1NiJ9.e30.x"), Err(FormError::Other));
    for malformed in ["tg_", &key[..key.len() - 1], &format!("{key}0")] {
        assert_eq!(parse(malformed), Err(FormError::Malformed), "{malformed}");
    }
    let with = |at: usize, char: &str| format!("{}{char}{}", &key[..at], &key[at + 1..]);
    assert_eq!(parse(&with(5, "u")), Err(FormError::Malformed));
    assert_eq!(parse(&with(15, "-")), Err(FormError::Malformed));
    assert_eq!(parse(&with(30, "_")), Err(FormError::Malformed));
}

proptest! {
    /// A CRC-32 finds every change of one character.
    #[test]
    fn one_wrong_character_is_found(bits in any::<u64>(), at in 0_usize..65, digit in 0_usize..62) {
        let form = KeyForm::default();
        let key = NewKey::with_id(&form, KeyId::from_bits(bits)).text;
        let mut wrong = key.clone().into_bytes();
        wrong[at] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[digit];
        prop_assert_eq!(form.parse(&wrong).is_ok(), wrong == key.as_bytes());
    }

    #[test]
    fn reading_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let form = KeyForm::default();
        let _ = form.parse(&bytes);
        let _ = form.parse(&[b"tg_", &bytes[..]].concat());
        let _ = KeyRecord::from_stored(&bytes);
        let _ = TeamRecord::from_stored(&bytes);
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::default().plus(Span::from_secs(seconds))
}

#[test]
fn a_key_ends_in_four_ways() {
    let new = NewKey::generate(&KeyForm::default());
    let plain = KeyRecord::new(new.id, new.digest);
    let expires = KeyRecord { expires: Some(at(10)), ..plain.clone() };
    assert_eq!(expires.admit(&new.digest, at(9)), Ok(()));
    assert_eq!(expires.admit(&new.digest, at(10)), Err(KeyRefusal::Expired));
    let disabled = KeyRecord { disabled: true, ..expires.clone() };
    assert_eq!(disabled.admit(&new.digest, at(10)), Err(KeyRefusal::Disabled));
    let revoked = KeyRecord { revoked: Some(at(5)), ..disabled };
    assert_eq!(revoked.admit(&new.digest, at(10)), Err(KeyRefusal::Revoked));
    let other = NewKey::with_id(&KeyForm::default(), new.id).digest;
    assert_eq!(revoked.admit(&other, at(10)), Err(KeyRefusal::Unknown));
    let states = [plain.state(at(99)), expires.state(at(10)), revoked.state(at(4))];
    assert_eq!(states.map(KeyState::word), ["active", "expired", "disabled"]);
}

#[test]
fn both_secrets_of_a_rotation_hold_until_the_old_one_ends() {
    let form = KeyForm::default();
    let old = NewKey::generate(&form);
    let new = NewKey::with_id(&form, old.id);
    let mut record = KeyRecord::new(old.id, old.digest);
    record.digests[0].until = Some(at(10));
    record.digests.push(HeldDigest { digest: new.digest, until: None });
    assert_eq!(record.admit(&old.digest, at(9)), Ok(()));
    assert_eq!(record.admit(&new.digest, at(9)), Ok(()));
    assert_eq!(record.admit(&old.digest, at(10)), Err(KeyRefusal::Expired));
    assert_eq!(record.admit(&new.digest, at(10)), Ok(()));
}

/// A record in which every field is used.
fn full() -> KeyRecord {
    let new = NewKey::generate(&KeyForm::default());
    let window = Some(Span::from_secs(60));
    let money = |amount: &str, window| KeyLimit::Money {
        amount: amount.parse().expect("an amount"),
        window,
    };
    KeyRecord {
        name: Some("acme, production".into()),
        team: Some("acme".into()),
        plan: Some("pro".into()),
        limits: vec![
            ("budget".into(), money("2.50 usd", window)),
            ("free".into(), Override::Unlimited.into()),
            ("jobs".into(), Override::Limited { units: 5, window: None }.into()),
            ("per-key".into(), Override::Limited { units: 500, window }.into()),
            ("total".into(), money("1 eur", None)),
        ],
        labels: vec![("env".into(), "prod".into())],
        expires: Some(at(10)),
        disabled: true,
        revoked: Some(at(11)),
        digests: vec![
            HeldDigest { digest: new.digest, until: Some(at(12)) },
            HeldDigest { digest: KeyDigest::of(b"x"), until: None },
        ]
        .into(),
        ..KeyRecord::new(new.id, new.digest)
    }
}

#[test]
fn a_stored_record_is_read_back() {
    let new = NewKey::generate(&KeyForm::default());
    for record in [full(), KeyRecord::new(new.id, new.digest)] {
        assert_eq!(record.faults(), []);
        let stored = record.to_stored().unwrap();
        assert_eq!(KeyRecord::from_stored(&stored), Ok(record));
    }
    let full = full();
    let team = TeamRecord {
        plan: full.plan,
        limits: full.limits,
        labels: full.labels,
        ..TeamRecord::new("acme")
    };
    assert_eq!(TeamRecord::from_stored(&team.to_stored().unwrap()), Ok(team));
}

/// Nodes of different versions read the same bytes, so the form must never change.
#[test]
fn the_stored_form_does_not_change() {
    let stored = br#"{"id":"7f2m9qd0v3xk","name":"a","team":"t","expires_us":1,"disabled":true,"revoked_us":2,"digests":[{"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","until_us":3}],"plan":"p","limits":{"free":{},"jobs":{"units":4},"per-key":{"units":5,"window_us":6}},"labels":{"env":"prod"}}"#;
    let record = KeyRecord::from_stored(stored).unwrap();
    assert_eq!(record.to_stored().unwrap(), stored);
    assert_eq!(record.limit("free"), Some(Override::Unlimited.into()));
    let four = Override::Limited { units: 4, window: None };
    assert_eq!(record.limit("jobs"), Some(four.into()));
    assert_eq!(record.label("env"), Some("prod"));
    assert!(record.digests[0].digest.is(&KeyDigest::of(b"abc")));
    let newer = br#"{"id":"7f2m9qd0v3xk","digests":[],"of_a_later_version":[1]}"#;
    assert!(KeyRecord::from_stored(newer).is_ok());
}

/// The units of an amount depend on the prices, so the amount itself is stored.
#[test]
fn an_amount_of_money_is_stored_as_it_is_written() {
    let with = |limits: &str| {
        let record = format!(r#"{{"id":"7f2m9qd0v3xk","digests":[],"limits":{{{limits}}}}}"#);
        KeyRecord::from_stored(record.as_bytes())
    };
    let stored = r#""a":{"money":"2.5 usd","window_us":86400000000},"b":{"money":"1 eur"}"#;
    let record = with(stored).unwrap();
    assert_eq!(record.limit("a").unwrap().to_string(), "2.5 usd/1d");
    assert_eq!(record.limit("b").unwrap().to_string(), "1 eur");
    let again = String::from_utf8(record.to_stored().unwrap()).unwrap();
    assert!(again.contains(stored), "{again}");
    for unreadable in ["2.5", "", "2.5 usd/day", "many usd"] {
        let limit = format!(r#""a":{{"money":"{unreadable}"}}"#);
        assert_eq!(with(&limit), Err(StoredError), "it is never read as no limit: {limit}");
    }
    assert_eq!(with(r#""a":{"money":"1 usd","units":1}"#), Err(StoredError));
}

#[test]
fn every_bound_has_a_fault_that_names_its_field() {
    let long = |length| Arc::<str>::from("x".repeat(length));
    let many = |count: usize| (0..count).map(|n| Arc::<str>::from(format!("n{n}")));
    let limit = KeyLimit::from(Override::Unlimited);
    let at_most = KeyRecord {
        name: Some(long(MAX_NAME)),
        team: Some(long(MAX_TEAM)),
        plan: Some(long(MAX_TEAM)),
        limits: many(MAX_LIMITS).map(|name| (name, limit)).collect(),
        labels: many(MAX_LABELS).map(|name| (name, long(100))).collect(),
        ..full()
    };
    assert_eq!(at_most.faults(), []);
    assert!(at_most.to_stored().is_ok());
    let cases = [
        ("name", KeyRecord { name: Some(long(MAX_NAME + 1)), ..full() }),
        ("name", KeyRecord { name: Some("a\nb".into()), ..full() }),
        ("name", KeyRecord { name: Some("".into()), ..full() }),
        ("team", KeyRecord { team: Some(long(MAX_TEAM + 1)), ..full() }),
        ("team", KeyRecord { team: Some("größe".into()), ..full() }),
        ("plan", KeyRecord { plan: Some(" pro".into()), ..full() }),
        ("limits", KeyRecord { limits: many(17).map(|name| (name, limit)).collect(), ..full() }),
        ("limits", KeyRecord { limits: vec![("p".into(), limit); 2], ..full() }),
        ("limits", KeyRecord { limits: vec![("".into(), limit)], ..full() }),
        (
            "labels",
            KeyRecord { labels: many(9).map(|name| (name, "v".into())).collect(), ..full() },
        ),
        ("labels", KeyRecord { labels: vec![("a".into(), "v".into()); 2], ..full() }),
        ("labels", KeyRecord { labels: vec![("a b".into(), "v".into())], ..full() }),
        ("labels", KeyRecord { labels: vec![("team".into(), "v".into())], ..full() }),
        ("labels", KeyRecord { labels: vec![("a".into(), long(MAX_VALUE + 1))], ..full() }),
        ("sha256", KeyRecord { digests: [].into_iter().collect(), ..full() }),
        ("sha256", KeyRecord { digests: [full().digests[0]; 3].into_iter().collect(), ..full() }),
    ];
    for (field, record) in cases {
        let faults = record.faults();
        assert_eq!(faults.iter().map(|it| it.field).collect::<Vec<_>>(), [field], "{record:?}");
    }
    let labels = many(MAX_LABELS).map(|name| (name, long(MAX_VALUE))).collect();
    let limits = (0..16).map(|n| (Arc::from(format!("{n:0>64}")), limit)).collect();
    let heavy = KeyRecord { labels, limits, ..full() };
    assert_eq!(heavy.faults(), []);
    assert_eq!(heavy.to_stored().map_err(|fault| fault.field), Err("record"));
}
