//! Applications with the library know the API keys that gateways keep in Redis.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tollgate_limiter::{Client, Identity, Key, KeyFault, Keys, Limiter, Policy, Store};

use super::id;
use super::stored::{create, in_redis, key, node, status};
use crate::support::eventually;
use crate::support::http::block_on;
use crate::support::redis::{Options, Redis};

fn limiter(redis: &Redis, trusted_for: Duration) -> Limiter {
    let limit = "3/day".parse().expect("a limit");
    let store = Store::redis(&redis.url()).expect("a URL").timeout(Duration::from_secs(2));
    let limiter = Limiter::builder()
        .store(store)
        .client(Client::new().keys(Keys::in_redis().trusted_for(trusted_for)))
        .policy(Policy::new("of the application", Key::ApiKey, limit))
        .build()
        .expect("a limiter");
    block_on(limiter.ready());
    limiter
}

fn fields(text: &str) -> HeaderMap {
    let value = HeaderValue::from_str(text).expect("a value");
    [(HeaderName::from_static("x-api-key"), value)].into_iter().collect()
}

fn identity(limiter: &Limiter, text: &str) -> Identity {
    block_on(limiter.authenticate(&fields(text)))
}

fn is_admitted(limiter: &Limiter, text: &str) -> bool {
    let policies: Vec<_> = limiter.policies().collect();
    let (mut head, ()) = Request::new(()).into_parts();
    head.headers = fields(text);
    block_on(limiter.check_request(&policies, &head, Some([192, 0, 2, 1].into()))).is_admitted()
}

#[test]
fn a_key_of_the_command_line_is_known_to_an_application_until_it_is_revoked() {
    let redis = Redis::start(Options::default());
    let gateway = node(&in_redis(&redis), "");
    let text = create(&gateway, &["--first", "--team", "acme"]);
    eventually("the key holds", || status(&gateway, &text) == 200);
    let limiter = limiter(&redis, Duration::from_secs(600));
    let Identity::Known(known) = identity(&limiter, &text) else { panic!("the key is known") };
    assert_eq!((known.id(), known.team()), (id(&text), Some("acme")));
    let uses = || key(&gateway, &["show", id(&text)]).stdout;
    eventually("the use is noted", || uses().contains("last_used"));
    // A key that is known is answered without a call.
    assert!(matches!(identity(&limiter, &text), Identity::Known(_)));
    let rotated = key(&gateway, &["rotate", id(&text), "--overlap", "1h"]);
    let new = rotated.stdout.trim_end();
    eventually("the new secret holds", || matches!(identity(&limiter, new), Identity::Known(_)));
    let both: Vec<bool> =
        [&*text, new].iter().cycle().take(4).map(|text| is_admitted(&limiter, text)).collect();
    assert_eq!(both, [true, true, true, false], "both secrets are one client");
    let invented = super::invented();
    assert!(matches!(identity(&limiter, &invented), Identity::Refused(KeyFault::Unknown)));
    let revoked = key(&gateway, &["revoke", id(&text)]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
    eventually("it is revoked", || {
        matches!(identity(&limiter, new), Identity::Refused(KeyFault::Revoked))
    });
    block_on(limiter.close());
}

#[test]
fn while_redis_is_away_known_keys_are_trusted_and_others_are_away() {
    let redis = Redis::start(Options::default());
    let gateway = node(&in_redis(&redis), "");
    let [known, other] = [&["--first"][..], &[]].map(|it| create(&gateway, it));
    let trusting = limiter(&redis, Duration::from_secs(600));
    let strict = limiter(&redis, Duration::ZERO);
    for limiter in [&trusting, &strict] {
        eventually("the key holds", || matches!(identity(limiter, &known), Identity::Known(_)));
    }
    redis.stop();
    eventually("an unknown key is away", || matches!(identity(&trusting, &other), Identity::Away));
    assert!(matches!(identity(&trusting, &known), Identity::Known(_)));
    eventually("nothing is trusted", || matches!(identity(&strict, &known), Identity::Away));
    redis.cont();
    eventually("it is known", || matches!(identity(&trusting, &other), Identity::Known(_)));
}
