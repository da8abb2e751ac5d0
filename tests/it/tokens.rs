//! Routes that demand tokens: the response to a client without a valid token, and policies
//! that demand a token and have no limit.

use std::path::Path;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::support::{Client, Gateway, StoreKind, eventually, on_every_store};

on_every_store!(
    clocks_that_differ_by_less_than_the_leeway_do_no_harm,
    a_missing_and_an_invalid_token_have_different_responses,
    a_policy_without_a_limit_only_demands_its_key,
    a_token_that_is_too_long_is_named_in_the_response,
    an_unlimited_policy_limits_only_clients_with_a_plan,
    one_of_several_issuers_and_audiences_suffices,
);

const SECRET: &str = "a secret of at least thirty-two bytes";
const JWT: &str = "secret: \"a secret of at least thirty-two bytes\", algorithms: [HS256]";

/// Responds to requests that this policy admits, and verifies tokens with these settings.
fn demanding(store: StoreKind, policy: &str, jwt: &str) -> Gateway {
    store.start(&demand(policy, jwt))
}

fn demand(policy: &str, jwt: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client: {{ user: {{ jwt: {{ {jwt} }} }} }}\n\
         policies: {{ p: {{ {policy} }} }}\n\
         routes: [{{ path: /*, policies: [p], respond: {{ body: ok }} }}]\n"
    )
}

fn bearer(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let token = encode(&Header::new(Algorithm::HS256), claims, &key).expect("a token");
    format!("Authorization: Bearer {token}")
}

fn statuses<const N: usize>(client: &mut Client, fields: [&str; N]) -> [u16; N] {
    fields.map(|field| client.get("/", &[field]).status)
}

fn a_missing_and_an_invalid_token_have_different_responses(store: StoreKind) {
    let policy = "key: user, limit: unlimited, missing_key: unauthorized";
    let gateway = demanding(store, policy, JWT);
    let mut client = gateway.client();
    let good = bearer(&json!({ "sub": "ann" }));
    let expired = bearer(&json!({ "exp": 1 }));
    let nameless = bearer(&json!({ "name": "ann" }));
    let missing = ("Bearer realm=\"gateway\"", "has none");
    let invalid = ("Bearer realm=\"gateway\", error=\"invalid_token\"", "is not valid");
    for (field, (challenge, detail)) in [
        ("X-A: b", missing),
        ("Authorization: Basic YTpi", missing),
        ("Authorization: Bearer", missing),
        (&*expired, invalid),
        (&*nameless, invalid),
        ("Authorization: Bearer not.a.token", invalid),
    ] {
        let refused = client.get("/", &[field]);
        assert_eq!((refused.status, refused.field("WWW-Authenticate")), (401, Some(challenge)));
        let problem = refused.json();
        assert_eq!((&problem["status"], &problem["source"]), (&json!(401), &json!("client")));
        assert!(problem["detail"].as_str().is_some_and(|text| text.contains(detail)), "{problem}");
        assert_eq!(refused.field("X-Ratelimit-Limit"), None);
    }
    assert_eq!(client.get("/", &[&good]).status, 200);
    let lines = gateway.access_lines(7);
    let outcomes: Vec<&str> = lines.iter().filter_map(|line| line["outcome"].as_str()).collect();
    assert_eq!(outcomes[..3], ["token_missing"; 3]);
    assert_eq!(outcomes[3..6], ["token_invalid"; 3]);
}

fn a_token_that_is_too_long_is_named_in_the_response(store: StoreKind) {
    let policy = "key: user, limit: unlimited, missing_key: unauthorized";
    let gateway = demanding(store, policy, JWT);
    let padded = |length| bearer(&json!({ "sub": "ann", "roles": "x".repeat(length) }));
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[&padded(11 * 1024)]).status, 200);
    let refused = client.get("/", &[&padded(13 * 1024)]);
    let challenge = "Bearer realm=\"gateway\", error=\"invalid_token\"";
    assert_eq!((refused.status, refused.field("WWW-Authenticate")), (401, Some(challenge)));
    let detail = refused.json()["detail"].to_string();
    assert!(detail.contains("longer than 16 KiB"), "{detail}");
    assert_eq!(gateway.access_lines(2)[1]["outcome"], "token_too_long");
}

fn a_policy_without_a_limit_only_demands_its_key(store: StoreKind) {
    let gateway = demanding(store, "key: api_key, limit: unlimited, missing_key: deny", JWT);
    let mut client = gateway.client();
    for _ in 0..20 {
        let answer = client.get("/", &["X-Api-Key: one"]);
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
        for name in ["X-Ratelimit-Limit", "Ratelimit", "Ratelimit-Policy"] {
            assert_eq!(answer.field(name), None);
        }
    }
    assert_eq!(client.get("/", &[]).status, 403);
}

fn an_unlimited_policy_limits_only_clients_with_a_plan(store: StoreKind) {
    let plans = "plans: { from: jwt:plan, limits: { all: unlimited, free: 2/day, pro: 3/day } }";
    let policy = format!("key: user, limit: unlimited, missing_key: unauthorized, {plans}");
    let gateway = demanding(store, &policy, JWT);
    let mut client = gateway.client();
    let token = |plan: &str| bearer(&json!({ "sub": "ann", "plan": plan }));
    let free = token("free");
    let pro = token("pro");
    let all = token("all");
    assert_eq!(statuses(&mut client, [&*free, &free, &free]), [200, 200, 429]);
    // The same counter with another limit.
    assert_eq!(statuses(&mut client, [&*pro, &pro]), [200, 429]);
    assert_eq!(statuses(&mut client, [&*all, &token("none"), "X-A: b"]), [200, 200, 401]);
}

fn one_of_several_issuers_and_audiences_suffices(store: StoreKind) {
    let policy = "key: user, limit: unlimited, missing_key: unauthorized";
    let jwt = format!("{JWT}, issuer: [here, there], audience: api");
    let gateway = demanding(store, policy, &jwt);
    let token = |issuer: &str, audience: Value| {
        bearer(&json!({ "sub": "ann", "iss": issuer, "aud": audience }))
    };
    let tokens = [
        token("here", json!("api")),
        token("there", json!(["web", "api"])),
        token("elsewhere", json!("api")),
        token("here", json!("web")),
    ];
    let fields = tokens.each_ref().map(String::as_str);
    assert_eq!(statuses(&mut gateway.client(), fields), [200, 200, 401, 401]);
}

/// Fresh tokens of an issuer whose clock is ahead were refused.
fn clocks_that_differ_by_less_than_the_leeway_do_no_harm(store: StoreKind) {
    let policy = "key: user, limit: unlimited, missing_key: unauthorized";
    let gateway = demanding(store, policy, JWT);
    let now = i64::try_from(jsonwebtoken::get_current_timestamp()).expect("it fits");
    let times = |nbf: i64, exp: i64| {
        bearer(&json!({ "sub": "ann", "iat": now + nbf, "nbf": now + nbf, "exp": now + exp }))
    };
    let tokens =
        [times(0, 600), times(15, 600), times(-600, -15), times(90, 600), times(-600, -90)];
    let fields = tokens.each_ref().map(String::as_str);
    assert_eq!(statuses(&mut gateway.client(), fields), [200, 200, 200, 401, 401]);
    // The leeway also holds for tokens that are cached.
    gateway.reload(&demand(policy, &format!("{JWT}, leeway: 0s")));
    assert_eq!(statuses(&mut gateway.client(), fields), [200, 401, 401, 401, 401]);
    gateway.reload(&demand(policy, &format!("{JWT}, leeway: 5m")));
    assert_eq!(statuses(&mut gateway.client(), fields), [200; 5]);
}

#[test]
fn a_new_key_set_is_used_and_a_removed_one_is_kept() {
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/core/src/policy/jwt/test_keys/");
    let private = std::fs::read(Path::new(keys).join("ed25519.private.pem")).expect("a key");
    let key = EncodingKey::from_ed_pem(&private).expect("a key");
    let token = encode(&Header::new(Algorithm::EdDSA), &json!({ "sub": "ann" }), &key);
    let field = format!("Authorization: Bearer {}", token.expect("a token"));
    let policy = "key: user, limit: unlimited, missing_key: unauthorized";
    let config = demand(policy, "jwks: { file: set.json }, algorithms: [EdDSA]");
    let gateway = Gateway::start(&config);
    let log = gateway.log();
    assert!(
        log.contains("warning: this file does not exist: no token is valid until it does"),
        "{log}"
    );
    let status = || gateway.client().get("/", &[&field]).status;
    assert_eq!(status(), 401);
    let set = gateway.file().with_file_name("set.json");
    std::fs::copy(Path::new(keys).join("set.json"), &set).expect("a file");
    eventually("the keys are read", || status() == 200);
    std::fs::remove_file(&set).expect("it is there");
    gateway.signal("HUP");
    eventually("it is refused", || gateway.log().contains("the key set is missing"));
    assert_eq!(status(), 200);
}
