//! Known API keys.

use std::time::SystemTime;

use http::HeaderValue;

use super::*;

const ID: &str = "03d4jt3198h8";
const TEXT: &str = "tg_03d4jt3198h8_c7ZBC6RuaYGLECHZFnMe7yS7RcJbvK8jryikuviOomj0JolhF";
const HASH: &str = "0de67670f76be437806c94f133c9f16fd4522981188c2bc0858ea3f9a29af3ee";

fn key() -> ApiKey {
    ApiKey::new(ID, HASH).unwrap()
}

fn knowing(key: ApiKey, policies: Vec<Policy>) -> Limiter {
    let client = Client::new().keys(Keys::new([key]));
    let builder = policies.into_iter().fold(Limiter::builder(), LimiterBuilder::policy);
    builder.client(client).build().unwrap()
}

fn fields(lines: &[(&str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&str, &str)| {
        (name.parse::<http::HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    };
    lines.iter().map(line).collect()
}

#[test]
fn a_key_is_known_by_its_secret() {
    let limiter = knowing(key().team("acme").plan("pro").label("env", "prod"), Vec::new());
    let bearer = format!("Bearer {TEXT}");
    for line in [("x-api-key", TEXT), ("authorization", &*bearer)] {
        let Some(Identity::Known(key)) = limiter.authenticate(&fields(&[line])).now() else {
            panic!("{} has a known key", line.0)
        };
        assert_eq!((key.id(), key.team(), key.plan()), (ID, Some("acme"), Some("pro")));
        assert_eq!((key.part("env"), key.part("other")), (Some("prod"), None));
        assert!(!format!("{key:?}").contains(TEXT));
    }
    let wrong = TEXT.replace("c7ZBC6", "c7ZBC7");
    for text in [&*wrong, "unknown", ""] {
        let identity =
            limiter.authenticate(&fields(&[("x-api-key", text)])).now().expect("it is in memory");
        let is_unknown = matches!(identity, Identity::Refused(KeyFault::Unknown));
        assert!(is_unknown || (text.is_empty() && matches!(identity, Identity::Absent)), "{text}");
    }
    assert!(matches!(limiter.authenticate(&HeaderMap::new()).now(), Some(Identity::Absent)));
    let two = fields(&[("x-api-key", TEXT), ("x-api-key", "other")]);
    assert!(matches!(limiter.authenticate(&two).now(), Some(Identity::Ambiguous)));
    // A bearer token of another form is not a key.
    let token = fields(&[("authorization", "Bearer a.b.c")]);
    assert!(matches!(limiter.authenticate(&token).now(), Some(Identity::Absent)));
}

#[test]
fn an_expired_key_is_not_accepted() {
    let policy = || {
        let policy = Policy::new("p", Key::ApiKey, limit("5/day"));
        vec![policy.on_missing_key(OnMissingKey::Deny)]
    };
    let request = head(&[("x-api-key", TEXT)]);
    let expired = knowing(key().expires(SystemTime::UNIX_EPOCH), policy());
    let identity = expired.authenticate(&request.headers).now().expect("it is in memory");
    assert!(matches!(identity, Identity::Refused(KeyFault::Expired)), "{identity:?}");
    let handles: Vec<PolicyHandle> = expired.policies().collect();
    let mut check = expired.check_request(&handles, &request, PEER);
    assert!(!check.now().expect("it is in memory").is_admitted());
    let good = knowing(key(), policy());
    let handles: Vec<PolicyHandle> = good.policies().collect();
    let mut check = good.check_request(&handles, &request, PEER);
    assert!(check.now().expect("it is in memory").is_admitted());
}

#[test]
fn policies_count_by_the_key_its_team_and_its_plan() {
    let plans = Plans::by(Key::ApiKeyPart("plan".into())).limit("pro", limit("3/day"));
    let policies = vec![
        Policy::new("per-key", Key::ApiKey, limit("1/day")).plans(plans),
        Policy::new("per-team", "api_key:team".parse().unwrap(), limit("9/day")),
    ];
    let limiter = knowing(key().team("acme").plan("pro"), policies);
    let handles: Vec<PolicyHandle> = limiter.policies().collect();
    let admitted = |request: &Head| {
        let mut check = limiter.check_request(&handles, request, PEER);
        check.now().expect("it is in memory").is_admitted()
    };
    let bearer = format!("Bearer {TEXT}");
    // The parts of a request that contain the key make no difference.
    let requests = [head(&[("x-api-key", TEXT)]), head(&[("authorization", &bearer)])];
    let found: Vec<bool> = requests.iter().cycle().take(4).map(admitted).collect();
    assert_eq!(found, [true, true, true, false]);
}

#[test]
fn what_cannot_be_a_key_is_told() {
    assert!(ApiKey::new(ID, TEXT).is_err() && ApiKey::new(TEXT, HASH).is_err());
    let build = |keys: Keys| Limiter::builder().client(Client::new().keys(keys)).build();
    assert!(matches!(build(Keys::new([]).prefix("a b")), Err(BuildError::Client(_))));
    let long = key().team(&"x".repeat(10_000));
    assert!(matches!(build(Keys::new([long])), Err(BuildError::Client(_))));
    // Without known keys there are no teams.
    let policy = Policy::new("p", Key::ApiKeyPart("team".into()), limit("1/s"));
    assert!(Limiter::new(policy).is_err());
}

#[test]
fn keys_are_replaced_while_the_limiter_runs() {
    let (keys, handle) = Keys::new([]).replaceable();
    let policy = Policy::new("p", Key::ApiKey, limit("1/day")).on_missing_key(OnMissingKey::Deny);
    let builder = Limiter::builder().client(Client::new().keys(keys)).policy(policy);
    let limiter = builder.build().unwrap();
    let request = head(&[("x-api-key", TEXT)]);
    let identity = || limiter.authenticate(&request.headers).now().expect("it is in memory");
    let handles: Vec<PolicyHandle> = limiter.policies().collect();
    let is_admitted = || {
        let mut check = limiter.check_request(&handles, &request, PEER);
        check.now().expect("it is in memory").is_admitted()
    };
    assert!(matches!(identity(), Identity::Refused(KeyFault::Unknown)));
    assert!(!is_admitted());
    handle.replace(&Keys::new([key()])).unwrap();
    assert!(matches!(identity(), Identity::Known(_)));
    assert_eq!([is_admitted(), is_admitted()], [true, false]);
    // What is wrong replaces nothing.
    let long = key().team(&"x".repeat(10_000));
    assert!(handle.replace(&Keys::new([long])).is_err());
    assert!(matches!(identity(), Identity::Known(_)));
    let expired = key().expires(SystemTime::UNIX_EPOCH);
    handle.replace(&Keys::new([expired])).unwrap();
    assert!(matches!(identity(), Identity::Refused(KeyFault::Expired)));
}

#[cfg(feature = "redis")]
#[test]
fn keys_in_redis_need_counters_in_redis() {
    let client = || Client::new().keys(Keys::in_redis());
    let error = Limiter::builder().client(client()).build().unwrap_err();
    assert!(error.to_string().contains("add Store::redis"), "{error}");
    let (_, handle) = Keys::new([]).replaceable();
    assert!(handle.replace(&Keys::in_redis()).is_err());
}
