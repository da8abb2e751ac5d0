//! What the API key of a request says, and what a request proves.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api_keys::{
    HeldDigest, KeyEntry, KeyForm, KeyRecord, KeyTable, NewKey, Override, TeamRecord,
};
use crate::digest::Secret;
use crate::policy::tests::{Case, bearer, in_money, policy, users_by_token, with};
use crate::policy::{
    AuthFault, AuthMethod, ClientSettings, KeyExpr, KeyFor, KeyTexts, LimitChoice, TokenFault,
};
use crate::time::Timestamp;

const SECRET: [u8; 32] = [5; 32];

/// A file with one key of a team, which has two secrets.
struct File {
    secrets: [NewKey; 2],
    settings: KeySettings,
}

fn file(change: impl Fn(&mut KeyRecord)) -> File {
    let form = KeyForm::default();
    let one = NewKey::generate(&form);
    let other = NewKey::with_id(&form, one.id);
    let mut record = KeyRecord::new(one.id, one.digest);
    record.digests.push(HeldDigest { digest: other.digest, until: None });
    record.team = Some("acme".into());
    change(&mut record);
    let team = TeamRecord { plan: Some("pro".into()), ..TeamRecord::new("acme") };
    let settings = KeySettings {
        form,
        file: None,
        table: Arc::new(KeyTable::new([record], [team])),
        foreign: false,
        forward: false,
        identity_headers: Vec::new(),
        is_shadow: false,
        in_store: true,
    };
    File { secrets: [one, other], settings }
}

impl File {
    fn case(&self, headers: &[(&'static str, &str)]) -> Case {
        let mut case = with(headers);
        case.client.keys = Some(Box::new(self.settings.clone()));
        case.client.user = None;
        case
    }

    fn text(&self, index: usize) -> &str {
        &self.secrets[index].text
    }
}

fn proves(case: &Case, methods: &[AuthMethod]) -> Result<AuthMethod, AuthFault> {
    case.ask(&policy("ip"), |subject| subject.authenticate(methods))
}

const KEY: &[AuthMethod] = &[AuthMethod::ApiKey];
const UNKNOWN: Result<AuthMethod, AuthFault> = Err(AuthFault::Key(KeyRefusal::Unknown));

#[test]
fn both_secrets_of_a_key_are_one_client_wherever_they_are() {
    let file = file(|_| {});
    let token = format!("Bearer {}", file.text(1));
    let by_key = policy("api_key");
    let keys = [
        file.case(&[("x-api-key", file.text(0))]).key(&by_key),
        file.case(&[("x-api-key", file.text(1))]).key(&by_key),
        file.case(&[("authorization", &token)]).key(&by_key),
    ];
    assert!(matches!(keys[0], KeyFor::Key(_)) && keys[0] == keys[1] && keys[1] == keys[2]);
    let both = [("x-api-key", file.text(0)), ("authorization", &*token)];
    assert_eq!(file.case(&both).key(&by_key), KeyFor::Ambiguous);
    assert_eq!(proves(&file.case(&both), KEY), Err(AuthFault::Ambiguous));
}

#[test]
fn a_key_that_is_not_known_is_like_a_token_that_is_not_valid() {
    let file = file(|_| {});
    let other = NewKey::generate(&KeyForm::default()).text;
    let same_id = NewKey::with_id(&KeyForm::default(), file.secrets[0].id).text;
    let skipping = Policy { missing_key: crate::policy::MissingKey::Skip, ..policy("api_key") };
    let by_address = file.case(&[("x-api-key", "x")]).key(&skipping);
    assert!(matches!(by_address, KeyFor::Key(_)));
    for text in [&*other, &*same_id, "x", "tg_"] {
        let case = file.case(&[("x-api-key", text)]);
        assert_eq!(proves(&case, KEY), UNKNOWN, "{text}");
        assert_eq!(case.key(&skipping), by_address, "{text}");
        assert_eq!(case.key(&policy("api_key")), KeyFor::Denied, "{text}");
    }
    assert_eq!(proves(&file.case(&[]), KEY), Err(AuthFault::Missing));
}

#[test]
fn only_a_right_secret_learns_what_is_wrong_with_its_key() {
    let file = file(|record| record.disabled = true);
    let right = file.case(&[("x-api-key", file.text(0))]);
    assert_eq!(proves(&right, KEY), Err(AuthFault::Key(KeyRefusal::Disabled)));
    let wrong = NewKey::with_id(&KeyForm::default(), file.secrets[0].id).text;
    assert_eq!(proves(&file.case(&[("x-api-key", &wrong)]), KEY), UNKNOWN);
    let id = right.ask(&policy("ip"), |subject| subject.right_key().map(|key| key.key.id));
    assert_eq!(id, Some(file.secrets[0].id));
}

#[test]
fn a_bearer_token_with_the_prefix_is_a_key_and_others_name_users() {
    let file = file(|_| {});
    let both = &[AuthMethod::ApiKey, AuthMethod::User];
    let case = |token: &str| {
        let mut case = file.case(&[("authorization", token)]);
        case.client.user = Some(users_by_token(&SECRET));
        case
    };
    let user = bearer(&SECRET, &json!({ "sub": "ann" }));
    assert_eq!(proves(&case(&user), both), Ok(AuthMethod::User));
    let key = format!("Bearer {}", file.text(0));
    assert_eq!(proves(&case(&key), both), Ok(AuthMethod::ApiKey));
    assert_eq!(case(&key).key(&policy("user")), KeyFor::Denied, "a key names no user");
    let invalid = Err(AuthFault::Token(TokenFault::Invalid));
    for token in [bearer(&[6; 32], &json!({ "sub": "ann" })), "Bearer opaque".to_owned()] {
        assert_eq!(proves(&case(&token), both), invalid, "{token}");
    }
    let nameless = bearer(&SECRET, &json!({ "name": "ann" }));
    assert_eq!(proves(&case(&nameless), both), invalid);
    assert_eq!(proves(&file.case(&[("authorization", "Bearer opaque")]), KEY), UNKNOWN);
}

#[test]
fn a_right_credential_does_not_excuse_a_wrong_one() {
    let file = file(|_| {});
    let user = bearer(&SECRET, &json!({ "sub": "ann" }));
    let other = NewKey::generate(&KeyForm::default()).text;
    let mut case = file.case(&[("authorization", &user), ("x-api-key", &other)]);
    case.client.user = Some(users_by_token(&SECRET));
    assert_eq!(proves(&case, &[AuthMethod::User, AuthMethod::ApiKey]), UNKNOWN);
    assert_eq!(proves(&case, &[AuthMethod::User]), Ok(AuthMethod::User));
}

#[test]
fn parts_of_a_key_are_those_of_its_team_if_it_has_none() {
    let own = file(|record| record.labels = vec![("env".into(), "prod".into())]);
    let case = own.case(&[("x-api-key", own.text(0))]);
    let part = |name: &str| {
        let key: KeyExpr = format!("api_key:{name}").parse().unwrap();
        case.ask(&policy("ip"), |subject| {
            subject.single(&key).ok().map(|it| String::from_utf8(it.value.into_owned()).unwrap())
        })
    };
    assert_eq!(part("team").as_deref(), Some("acme"));
    assert_eq!((part("plan").as_deref(), part("env").as_deref()), (Some("pro"), Some("prod")));
    assert_eq!(part("other"), None);
}

#[test]
fn the_limit_of_a_key_comes_before_that_of_its_plan() {
    let limited = file(|record| {
        let limit = Override::Limited { units: 7, window: None };
        record.limits =
            vec![("p".into(), limit.into()), ("free".into(), Override::Unlimited.into())];
    });
    let case = limited.case(&[("x-api-key", limited.text(0))]);
    let of = |policy: &Policy| case.ask(policy, |subject| subject.key_limit(policy));
    let seven = Override::Limited { units: 7, window: None }.into();
    assert_eq!(of(&policy("api_key")), Some((seven, LimitOwner::Key)));
    let other = Policy::new("other", KeyExpr::Ip, policy("ip").algorithm);
    assert_eq!(of(&other), None);
    assert_eq!(case.ask(&other, |subject| subject.limit(&other)), LimitChoice::Own);
}

/// The own limit of the policy could be far above the one that was meant.
#[test]
fn a_limit_in_other_units_than_those_of_its_policy_judges_nothing() {
    let amount = "2.50 usd".parse().unwrap();
    let limited = file(|record| {
        record.limits = vec![("p".into(), KeyLimit::Money { amount, window: None })];
    });
    let case = limited.case(&[("x-api-key", limited.text(0))]);
    let of = |policy: &Policy| case.ask(policy, |subject| subject.own_limit(policy));
    assert!(matches!(of(&policy("api_key")), OwnLimit::Uncountable));
    let OwnLimit::Limited(own) = of(&in_money("usd-6")) else { panic!("it is counted") };
    assert_eq!((own.algorithm.limit(), own.owner), (2_500_000, LimitOwner::Key));
    let other = Policy::new("other", KeyExpr::Ip, policy("ip").algorithm);
    assert!(matches!(of(&other), OwnLimit::Absent));
}

#[test]
fn a_limit_that_the_algorithm_cannot_count_is_ignored() {
    let limited = file(|record| {
        let limit = Override::Limited { units: u64::MAX, window: None };
        record.limits = vec![("p".into(), limit.into())];
    });
    let case = limited.case(&[("x-api-key", limited.text(0))]);
    let own = case.ask(&policy("api_key"), |subject| subject.own_limit(&policy("api_key")));
    assert!(matches!(own, OwnLimit::Ignored));
}

/// What a directory answers is used once, before the key is used.
#[test]
fn a_directory_is_asked_for_what_the_file_does_not_have() {
    let form = KeyForm::default();
    let stored = NewKey::generate(&form);
    let file = file(|_| {});
    let case = file.case(&[("x-api-key", &stored.text)]);
    let asked = |found: Found| {
        case.ask(&policy("ip"), |subject| {
            assert_eq!(subject.sought_elsewhere(), Some(Sought::Id(stored.id)));
            subject.answer_key(found.clone());
            subject.authenticate(KEY)
        })
    };
    let key = KeyRecord::new(stored.id, stored.digest);
    let expired = KeyRecord { expires: Some(Timestamp::default()), ..key.clone() };
    let known = |key| Found::Known(Arc::new(KeyEntry { key, team: None }));
    assert_eq!(asked(known(key)), Ok(AuthMethod::ApiKey));
    assert_eq!(asked(known(expired)), Err(AuthFault::Key(KeyRefusal::Expired)));
    assert_eq!(asked(Found::Unknown), UNKNOWN);
    assert_eq!(asked(Found::Away), Err(AuthFault::KeysAway));
    for text in [file.text(0), "tg_bad", "bad"] {
        let case = file.case(&[("x-api-key", text)]);
        let sought = case.ask(&policy("ip"), |subject| subject.sought_elsewhere());
        assert_eq!(sought, None, "it costs no lookup: {text}");
    }
}

#[test]
fn a_foreign_key_is_found_by_its_hash() {
    let text = "a-key-of-another-program";
    let mut file = file(|record| record.digests[0].digest = KeyDigest::of(text.as_bytes()));
    assert_eq!(proves(&file.case(&[("x-api-key", text)]), KEY), UNKNOWN);
    file.settings.foreign = true;
    assert_eq!(proves(&file.case(&[("x-api-key", text)]), KEY), Ok(AuthMethod::ApiKey));
    let token = format!("Bearer {text}");
    assert_eq!(proves(&file.case(&[("authorization", &token)]), KEY), Ok(AuthMethod::ApiKey));
}

#[test]
fn operators_see_the_id_of_a_key_and_no_secret() {
    let file = file(|_| {});
    let case = file.case(&[("x-api-key", file.text(0))]);
    assert_eq!(case.shown(&policy("api_key")), format!("api_key {}", file.secrets[0].id));
    assert_eq!(case.shown(&policy("api_key:team")), "api_key team acme");
    assert!(!format!("{:?}", case.client).contains(&file.text(0)[16..]));
}

#[test]
fn the_id_of_a_key_is_found_in_the_text_of_a_client() {
    let known = file(|_| ()).case(&[]).client;
    let of = |client: &ClientSettings, key: &str, text: &str| {
        let secret = Secret::from_bytes([3; 16]);
        let key = key.parse().unwrap_or_else(|_| {
            KeyExpr::All(key.split(" + ").map(|word| word.parse().unwrap()).collect())
        });
        let texts = KeyTexts { client, secret, is_route: &|_| false };
        texts.api_key(&key, text).map(|id| id.to_string())
    };
    let id = Some("7f2m9qd0v3xk".to_owned());
    assert_eq!(of(&known, "api_key", "7f2m9qd0v3xk"), id);
    assert_eq!(of(&known, "api_key + path", "path=/x&api_key=7f2m9qd0v3xk"), id);
    assert_eq!(of(&known, "api_key", "~7f2m9qd0v3xk"), None, "the id of a client");
    assert_eq!(of(&known, "header:x-who", "7f2m9qd0v3xk"), None);
    let every_text = with(&[]).client;
    assert_eq!(of(&every_text, "api_key", "7f2m9qd0v3xk"), None, "it is the key itself");
}
