//! What lists say of requests.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderValue, Method};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::algorithm::testing::cases;
use crate::policy::tests::{Case, bearer, from, policy, users_by_token, with};
use crate::policy::{GeoCode, KeySet, Place, Places, UserSource};

const SECRET: &[u8] = b"a secret of at least thirty-two bytes";

fn key(text: &str) -> KeyExpr {
    text.parse().unwrap()
}

fn networks(texts: &[&str]) -> Vec<ipnet::IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn allow() -> AccessRule {
    AccessRule::new(AccessEffect::Allow)
}

fn deny() -> AccessRule {
    AccessRule::new(AccessEffect::Deny)
}

fn values(word: &str, texts: &[&str]) -> (KeyExpr, HashSet<Box<[u8]>>) {
    let key = key(word);
    let values = texts.iter().map(|text| exact_value(&key, text).unwrap()).collect();
    (key, values)
}

fn with_values(rule: AccessRule, word: &str, texts: &[&str]) -> AccessRule {
    let (key, values) = values(word, texts);
    rule.with_values(key, values)
}

fn list(rules: Vec<AccessRule>, otherwise: AccessEffect) -> AccessList {
    let mode = AccessMode::Enforce;
    let answer = DenialAnswer::Forbidden;
    AccessList::new("office".into(), rules, otherwise, mode, answer)
}

/// A list that denies what `rule` does not allow.
fn only(rule: AccessRule) -> AccessList {
    list(vec![rule], AccessEffect::Deny)
}

/// A list that allows what `rule` does not deny.
fn except(rule: AccessRule) -> AccessList {
    list(vec![rule], AccessEffect::Allow)
}

fn ruling(list: &AccessList, case: &Case) -> Ruling {
    case.ask(&policy("jwt:org"), |subject| list.judge(subject))
}

const AMBIGUOUS: Ruling = Ruling::Doubtful(Doubt::Ambiguous);

#[test]
fn the_first_rule_that_matches_decides() {
    let office = list(
        vec![
            deny().from_networks(&networks(&["10.1.0.0/16"])),
            allow().from_networks(&networks(&["10.0.0.0/8", "2001:db8::/32"])),
            deny().with_methods(vec![Method::GET]),
        ],
        AccessEffect::Allow,
    );
    for (address, expected) in [
        ("10.1.2.3", Ruling::Denied),
        ("10.2.2.3", Ruling::Allowed),
        ("::ffff:10.1.2.3", Ruling::Denied),
        ("2001:db8::1", Ruling::Allowed),
        ("192.0.2.1", Ruling::Denied),
    ] {
        assert_eq!(ruling(&office, &from(address)), expected, "{address}");
    }
    let post = Case { method: Method::POST, ..from("192.0.2.1") };
    assert_eq!(ruling(&office, &post), Ruling::Allowed);
}

#[test]
fn all_conditions_of_a_rule_must_be_met_and_a_rule_without_any_matches() {
    let rule = || {
        allow()
            .from_networks(&networks(&["192.0.2.0/24"]))
            .with_header("x-a".parse().unwrap(), HeaderValue::from_static("1"))
            .with_header("x-b".parse().unwrap(), HeaderValue::from_static("2"))
    };
    assert_eq!(ruling(&only(rule()), &with(&[("x-a", "1"), ("x-b", "2")])), Ruling::Allowed);
    for fields in [&[("x-a", "1")][..], &[("x-b", "2")], &[("x-a", "1"), ("x-b", "3")], &[]] {
        assert_eq!(ruling(&only(rule()), &with(fields)), Ruling::Denied, "{fields:?}");
    }
    let elsewhere = Case { peer: [203, 0, 113, 1].into(), ..with(&[("x-a", "1"), ("x-b", "2")]) };
    assert_eq!(ruling(&only(rule()), &elsewhere), Ruling::Denied);
    assert_eq!(ruling(&only(allow()), &with(&[])), Ruling::Allowed);
    assert_eq!(ruling(&except(deny()), &with(&[])), Ruling::Denied);
}

#[test]
fn the_address_is_that_of_the_client_behind_trusted_proxies_only() {
    let office = only(allow().from_networks(&networks(&["192.0.2.0/24"])));
    let behind =
        |peer: [u8; 4]| Case { peer: peer.into(), ..with(&[("x-forwarded-for", "192.0.2.7")]) };
    assert_eq!(ruling(&office, &behind([10, 0, 0, 1])), Ruling::Allowed);
    assert_eq!(ruling(&office, &behind([203, 0, 113, 1])), Ruling::Denied, "it is not believed");
}

#[test]
fn values_are_compared_in_the_form_that_requests_have_them_in() {
    let case = |query: &'static str, fields: &[(&'static str, &str)]| Case {
        query: Some(query),
        ..with(fields)
    };
    for (word, text, case) in [
        ("api_key", "one", case("", &[("x-api-key", "one")])),
        ("api_key", "one", case("api_key=one", &[])),
        ("cookie:sid", "a", case("", &[("cookie", "sid=%61")])),
        ("query:q", "x y", case("q=x+y", &[])),
        ("header:x-tenant", "acme", case("", &[("x-tenant", "acme")])),
        ("param:tenant", "acme", case("", &[])),
        ("path", "/T/acme/", case("", &[])),
        ("host", "A.TEST", case("", &[])),
        ("method", "GET", case("", &[])),
        ("ip", "::ffff:192.0.2.1", case("", &[])),
        ("route", "r", case("", &[])),
    ] {
        let both = [only(with_values(allow(), word, &["other-1", text].map(|it| other(word, it))))];
        for list in both {
            assert_eq!(ruling(&list, &case), Ruling::Allowed, "{word} {text}");
        }
        assert_eq!(ruling(&except(with_values(deny(), word, &[text])), &case), Ruling::Denied);
    }
    for (word, text) in [
        ("ip", "office"),
        ("country", "Germany"),
        ("method", "a b"),
        ("global", "global"),
        ("user", ""),
        ("cookie:sid", "a;b"),
        ("header:x-a", " a"),
    ] {
        assert!(exact_value(&key(word), text).is_err(), "{word} {text}");
    }
}

/// A value that requests of the test do not have, in a form that the word allows.
fn other<'t>(word: &str, text: &'t str) -> &'t str {
    match (word, text) {
        ("path", "other-1") => "/other",
        ("ip", "other-1") => "203.0.113.9",
        ("host", "other-1") => "other.test",
        _ => text,
    }
}

#[test]
fn an_absent_value_matches_no_rule() {
    for word in ["api_key", "user", "cookie:sid", "query:q", "header:x-a", "country", "tls:subject"]
    {
        let text = if word == "country" { "DE" } else { "a" };
        let rule = with_values(allow(), word, &[text]);
        let other = with_values(deny(), word, &[text]);
        assert_eq!(ruling(&only(rule), &with(&[])), Ruling::Denied, "{word}");
        assert_eq!(ruling(&except(other), &with(&[])), Ruling::Allowed, "{word}");
    }
}

/// Otherwise a client could choose whether a rule matches, by a second value.
#[test]
fn an_ambiguous_value_neither_passes_a_rule_that_allows_nor_escapes_one_that_denies() {
    let case = |query: Option<&'static str>, fields: &[(&'static str, &str)]| Case {
        query,
        ..with(fields)
    };
    for (word, case) in [
        ("api_key", case(None, &[("x-api-key", "a"), ("authorization", "Bearer b")])),
        ("cookie:sid", case(None, &[("cookie", "sid=a; sid=b")])),
        ("query:q", case(Some("q=a&q=b"), &[])),
        ("header:x-a", case(None, &[("x-a", "a"), ("x-a", "b")])),
    ] {
        for text in ["a", "c"] {
            let allowing = only(with_values(allow(), word, &[text]));
            let denying = except(with_values(deny(), word, &[text]));
            assert_eq!(ruling(&allowing, &case), AMBIGUOUS, "{word} {text}");
            assert_eq!(ruling(&denying, &case), AMBIGUOUS, "{word} {text}");
        }
    }
    let name = || "x-a".parse().unwrap();
    let two = with(&[("x-a", "a"), ("x-a", "b")]);
    let is_a = HeaderValue::from_static("a");
    assert_eq!(ruling(&only(allow().with_header(name(), is_a.clone())), &two), AMBIGUOUS);
    assert_eq!(ruling(&except(deny().with_header(name(), is_a)), &two), AMBIGUOUS);
    let overridden = Case { method: Method::POST, ..with(&[("x-http-method-override", "DELETE")]) };
    let reading = deny().with_methods(vec![Method::DELETE]);
    assert_eq!(ruling(&except(reading), &overridden), AMBIGUOUS);
}

#[test]
fn a_condition_that_is_certainly_not_met_outweighs_one_in_doubt() {
    let rule =
        || with_values(deny(), "header:x-a", &["a"]).from_networks(&networks(&["203.0.113.0/24"]));
    let two = [("x-a", "a"), ("x-a", "b")];
    assert_eq!(ruling(&except(rule()), &with(&two)), Ruling::Allowed);
    let inside = Case { peer: [203, 0, 113, 1].into(), ..with(&two) };
    assert_eq!(ruling(&except(rule()), &inside), AMBIGUOUS);
}

#[test]
fn a_token_that_is_not_valid_passes_no_rule() {
    let users = |token: String| {
        let mut case = with(&[("authorization", &token)]);
        case.client.user = Some(users_by_token(SECRET));
        case.client.api_key.bearer = false;
        case
    };
    let claims = json!({ "sub": "bob", "org": "acme", "exp": 4_000_000_000_u64 });
    let good = users(bearer(SECRET, &claims));
    let forged = users(bearer(b"another secret of thirty-two bytes", &claims));
    for (word, text) in [("user", "bob"), ("jwt:org", "acme")] {
        let allowing = only(with_values(allow(), word, &[text]));
        let denying = except(with_values(deny(), word, &[text]));
        assert_eq!(ruling(&allowing, &good), Ruling::Allowed, "{word}");
        assert_eq!(ruling(&denying, &good), Ruling::Denied, "{word}");
        assert_eq!(ruling(&allowing, &forged), Ruling::Denied, "{word}");
        assert_eq!(ruling(&denying, &forged), Ruling::Denied, "{word}: it may be anyone's");
        let other = except(with_values(deny(), word, &["another"]));
        assert_eq!(ruling(&other, &good), Ruling::Allowed, "{word}");
    }
}

#[test]
fn a_token_that_cannot_be_verified_yet_passes_no_rule() {
    let mut case = with(&[("authorization", &bearer(SECRET, &json!({ "sub": "bob" })))]);
    let algorithms = vec![jsonwebtoken::Algorithm::HS256];
    let keys = crate::policy::TokenKeys::Fetched(Arc::new(KeySet::new()));
    case.client.user = Some(UserSource::Jwt(crate::policy::JwtSettings::new(keys, algorithms)));
    case.client.api_key.bearer = false;
    for list in [
        only(with_values(allow(), "user", &["bob"])),
        except(with_values(deny(), "user", &["bob"])),
    ] {
        assert_eq!(ruling(&list, &case), Ruling::Doubtful(Doubt::Unverifiable));
    }
}

/// Addresses below 192.0.2.128 are in Germany, and the others nowhere.
#[derive(Debug)]
struct Halves;

impl Places for Halves {
    fn kind(&self) -> &str {
        "Country"
    }

    fn built_s(&self) -> u64 {
        0
    }

    fn complete(&self, address: IpAddr, place: &mut Place) {
        if matches!(address, IpAddr::V4(v4) if v4.octets()[3] < 128) {
            place.country = "DE".parse().ok();
        }
    }
}

#[test]
fn a_place_that_is_not_known_matches_no_rule() {
    let germany = || vec!["DE".parse::<GeoCode>().unwrap()];
    let located = |peer: &str| {
        let mut case = from(peer);
        case.client.geo = vec![Arc::new(Halves)];
        case
    };
    let allowing = only(allow().in_places(germany()));
    let denying = except(deny().in_places(germany()));
    assert_eq!(ruling(&allowing, &located("192.0.2.1")), Ruling::Allowed);
    assert_eq!(ruling(&denying, &located("192.0.2.1")), Ruling::Denied);
    assert_eq!(ruling(&allowing, &located("192.0.2.200")), Ruling::Denied);
    assert_eq!(ruling(&denying, &located("192.0.2.200")), Ruling::Allowed);
}

#[test]
fn a_list_waits_for_credentials_only_if_a_rule_compares_who_the_client_is() {
    for (word, expected) in [
        ("api_key", AccessStep::AfterAuth),
        ("user", AccessStep::AfterAuth),
        ("jwt:org", AccessStep::AfterAuth),
        ("tls:subject", AccessStep::BeforeAuth),
        ("cookie:sid", AccessStep::BeforeAuth),
        ("method", AccessStep::BeforeAuth),
    ] {
        let text = if word == "method" { "GET" } else { "a" };
        let whole = list(vec![allow(), with_values(deny(), word, &[text])], AccessEffect::Deny);
        assert_eq!(whole.step(), expected, "{word}");
    }
    assert_eq!(only(allow()).step(), AccessStep::BeforeAuth);
}

/// What the lists of a route say in both steps, and each of their verdicts.
fn asked(lists: &[Arc<AccessList>], case: &Case) -> (Option<Denial>, Vec<AccessVerdict>) {
    case.ask(&policy("ip"), |subject| {
        let mut verdicts = AccessVerdicts::default();
        let steps = [AccessStep::BeforeAuth, AccessStep::AfterAuth];
        let denial = steps.into_iter().find_map(|step| verdicts.ask(lists, step, subject));
        assert_eq!(denial, verdicts.denial());
        (denial, verdicts.of(lists).map(|(_, verdict)| verdict).collect())
    })
}

#[test]
fn all_lists_of_a_route_must_allow_and_shadow_and_off_refuse_nothing() {
    let denies = only(allow().from_networks(&networks(&["10.0.0.0/8"])));
    let allows = only(allow());
    let keyed = only(with_values(allow(), "api_key", &["one"]));
    let of = |lists: &[(&AccessList, AccessMode)]| -> Vec<Arc<AccessList>> {
        lists.iter().map(|(list, mode)| Arc::new(list.in_mode(*mode))).collect()
    };
    let case = with(&[("x-api-key", "one")]);
    let enforce = AccessMode::Enforce;
    let shadow = AccessMode::Shadow;
    let off = AccessMode::Off;
    let cause = DenialCause::Rule(DenialAnswer::Forbidden);
    let allowed = AccessVerdict::Allowed;
    let denied = AccessVerdict::Denied(cause);
    for (lists, expected, verdicts) in [
        (vec![], None, vec![]),
        (vec![(&allows, enforce), (&keyed, enforce)], None, vec![allowed, allowed]),
        (vec![(&allows, enforce), (&denies, enforce)], Some(1), vec![allowed, denied]),
        // The second list is evaluated in the first step, and the first one not at all.
        (vec![(&keyed, enforce), (&denies, enforce)], Some(1), vec![denied]),
        (
            vec![(&denies, shadow), (&allows, enforce)],
            None,
            vec![AccessVerdict::ShadowDenied, allowed],
        ),
        (vec![(&denies, off), (&allows, enforce)], None, vec![allowed]),
    ] {
        let (denial, said) = asked(&of(&lists), &case);
        assert_eq!(
            denial.map(|it| (it.list, it.cause)),
            expected.map(|it| (it, cause)),
            "{lists:?}"
        );
        assert_eq!(said, verdicts, "{lists:?}");
    }
}

proptest! {
    #![proptest_config(cases())]

    /// The definition, written down once more: the first rule that matches, or `else`.
    #[test]
    fn a_list_is_its_first_matching_rule(
        rules in prop::collection::vec((any::<bool>(), 0..3_u8, 0..3_u8), 0..6),
        otherwise in any::<bool>(),
        address in 0..3_u8,
        tenant in 0..3_u8,
    ) {
        let effect = |allows| if allows { AccessEffect::Allow } else { AccessEffect::Deny };
        let rule = |&(allows, network, tenant): &(bool, u8, u8)| {
            let rule = AccessRule::new(effect(allows));
            let rule = rule.from_networks(&networks(&[&*format!("192.0.{network}.0/24")]));
            match tenant {
                0 => rule,
                tenant => with_values(rule, "header:x-tenant", &[&*tenant.to_string()]),
            }
        };
        let whole = list(rules.iter().map(rule).collect(), effect(otherwise));
        let case = Case { peer: [192, 0, address, 1].into(), ..with(&[("x-tenant", &tenant.to_string())]) };
        let first = rules.iter().find(|(_, network, of)| *network == address && (*of == 0 || *of == tenant));
        let expected = if first.map_or(otherwise, |(allows, ..)| *allows) { Ruling::Allowed } else { Ruling::Denied };
        prop_assert_eq!(ruling(&whole, &case), expected);
    }
}
