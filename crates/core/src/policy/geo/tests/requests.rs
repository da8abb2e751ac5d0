//! Keys, plans and exemptions by the place of a request's client.

use super::*;
use crate::policy::tests::{Case, from, policy, policy_of, with};
use crate::policy::{
    Exempt, Exemption, KeyFor, KeyTextError, KeyTexts, MissingKey, Plan, Plans, Policy,
};

/// A request from this address to a gateway with databases.
fn located(case: Case) -> Case {
    let networks = MmdbWriter::new("GeoLite2-ASN").insert("192.0.2.0/24", &network(64500));
    let mut case = case;
    case.client.geo = vec![database(cities(6, 28)), database(networks)];
    case
}

fn key(case: Case, word: &str) -> KeyFor {
    located(case).key(&policy(word))
}

#[test]
fn clients_of_one_place_share_a_counter() {
    for (word, other) in [("country", "FR"), ("region", "FR-75")] {
        let german = key(from("192.0.2.1"), word);
        assert!(matches!(german, KeyFor::Key(_)), "{word}: {german:?}");
        assert_eq!(key(from("192.0.2.2"), word), german, "{word}");
        assert_eq!(key(from("::ffff:192.0.2.2"), word), german, "{word}");
        assert_ne!(key(from("192.0.2.200"), word), german, "{word} {other}");
    }
    assert_eq!(key(from("192.0.2.1"), "asn"), key(from("192.0.2.200"), "asn"));
}

#[test]
fn the_place_of_the_client_counts_and_not_that_of_the_proxy() {
    let behind = |peer: [u8; 4], forwarded: &str| Case {
        peer: peer.into(),
        ..with(&[("x-forwarded-for", forwarded)])
    };
    let german = key(from("192.0.2.1"), "country");
    assert_eq!(key(behind([10, 0, 0, 1], "192.0.2.9"), "country"), german);
    assert_eq!(key(behind([10, 0, 0, 1], "192.0.2.200, 192.0.2.9"), "country"), german);
    assert_eq!(
        key(behind([192, 0, 2, 9], "192.0.2.200"), "country"),
        german,
        "the peer is not trusted"
    );
    assert_eq!(key(behind([10, 0, 0, 1], "10.0.0.2"), "country"), KeyFor::Denied);
}

#[test]
fn an_address_that_is_not_in_the_file_has_no_such_key() {
    let stranger = || located(from("203.0.113.5"));
    for word in ["country", "region", "asn"] {
        let by = |missing_key| stranger().key(&Policy { missing_key, ..policy(word) });
        assert_eq!(by(MissingKey::Deny), KeyFor::Denied, "{word}");
        assert_eq!(by(MissingKey::Skip), KeyFor::Exempt(Exemption::NoKey), "{word}");
        let KeyFor::Key(key) = by(MissingKey::Ip) else { panic!("the address is the key") };
        let other = located(from("203.0.113.6"))
            .key(&Policy { missing_key: MissingKey::Ip, ..policy(word) });
        assert_ne!(other, KeyFor::Key(key), "each address has a counter");
    }
    // The database has the country, and no regions.
    assert_eq!(key(from("198.51.100.7"), "region"), KeyFor::Denied);
    assert!(matches!(key(from("198.51.100.7"), "country"), KeyFor::Key(_)));
    assert_eq!(from("192.0.2.1").key(&policy("country")), KeyFor::Denied, "no database");
}

#[test]
fn lists_of_keys_may_contain_places() {
    let words = |words: &[&str]| words.iter().map(|it| it.parse().unwrap()).collect();
    let first = policy_of(KeyExpr::First(words(&["region", "country"])));
    let all = policy_of(KeyExpr::All(words(&["country", "asn"])));
    let of = |address: &str, policy: &Policy| located(from(address)).key(policy);
    assert_eq!(of("192.0.2.1", &first), key(from("192.0.2.1"), "region"));
    assert_eq!(of("198.51.100.7", &first), key(from("198.51.100.7"), "country"));
    assert_eq!(of("192.0.2.1", &all), of("192.0.2.2", &all));
    assert_ne!(of("192.0.2.1", &all), of("192.0.2.200", &all));
    assert_eq!(of("198.51.100.7", &all), KeyFor::Denied);
}

#[test]
fn a_place_may_name_a_plan() {
    let limit = |address: &str, from_key: &str, name: &str| {
        let plain = policy("ip");
        let algorithm = plain.algorithm.with_limit(7).unwrap();
        let limits = vec![(name.into(), Plan::Limited { algorithm, soft: None })];
        let plans = Some(Plans { from: from_key.parse().unwrap(), limits });
        let policy = Policy { plans, ..plain };
        located(from(address))
            .ask(&policy, |subject| policy.limit(subject.limit(&policy)).algorithm.limit())
    };
    assert_eq!(limit("192.0.2.1", "country", "DE"), 7);
    assert_eq!(limit("192.0.2.200", "country", "DE"), 100);
    assert_eq!(limit("203.0.113.5", "country", "DE"), 100);
    assert_eq!(limit("198.51.100.7", "country", "NO"), 7);
    assert_eq!(limit("192.0.2.200", "region", "FR-75"), 7);
    assert_eq!(limit("192.0.2.1", "asn", "AS64500"), 7);
}

#[test]
fn clients_of_a_place_may_be_exempt() {
    for place in ["DE", "DE-BE", "AS64500"] {
        let places = vec![place.parse().unwrap()];
        let policy = Policy { exempt: Exempt { places, ..Exempt::default() }, ..policy("ip") };
        let is_exempt =
            |address| located(from(address)).key(&policy) == KeyFor::Exempt(Exemption::Place);
        assert!(is_exempt("192.0.2.1"), "{place}");
        assert_eq!(is_exempt("192.0.2.200"), place == "AS64500", "{place}");
        assert!(!is_exempt("203.0.113.5"), "{place}");
    }
}

#[test]
fn a_written_place_has_the_key_of_requests_from_it() {
    let case = located(from("192.0.2.1"));
    let read = |word: &str, text: &str| {
        let secret = crate::digest::Secret::from_bytes([3; 16]);
        let texts = KeyTexts { client: &case.client, secret, is_route: &|_| false };
        texts.principal(&word.parse().unwrap(), text)
    };
    for (word, text) in [("country", "DE"), ("region", "DE-BE"), ("asn", "AS64500")] {
        let KeyFor::Key(key) = case.key(&policy(word)) else { panic!("the request has the key") };
        assert_eq!(read(word, text), Ok(key.principal), "{word}");
    }
    for (word, text) in
        [("country", "de"), ("country", "DE-BE"), ("region", "BE"), ("asn", "64500"), ("asn", "DE")]
    {
        let said = read(word, text);
        assert!(matches!(said, Err(KeyTextError::Impossible { .. })), "{word} {text}: {said:?}");
    }
}
