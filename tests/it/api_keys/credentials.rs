//! Routes that demand a credential.

use serde_json::json;

use super::{DEMANDING, Keys, field, id, invented};
use crate::support::Program;

#[test]
fn a_known_key_passes_and_others_are_challenged() {
    let keys = Keys::new();
    let key = keys.create(&["--name", "one", "--team", "acme"]);
    let gateway = keys.start("", DEMANDING);
    let mut client = gateway.client();
    for good in [field(&key), format!("Authorization: Bearer {key}")] {
        assert_eq!(client.get("/", &[&good]).status, 200, "{good}");
    }
    let missing = client.get("/", &[]);
    assert_eq!(
        (missing.status, missing.field("WWW-Authenticate")),
        (401, Some("Bearer realm=\"tollgate\""))
    );
    let wrong = "Bearer realm=\"tollgate\", error=\"invalid_token\"";
    let other_secret =
        format!("{}{}", &key[..key.len() - 1], if key.ends_with('0') { "1" } else { "0" });
    for bad in
        [field(&invented()), field("hello"), field(&other_secret), "Authorization: Bearer x".into()]
    {
        let refused = client.get("/", &[&bad]);
        assert_eq!(
            (refused.status, refused.field("WWW-Authenticate")),
            (401, Some(wrong)),
            "{bad}"
        );
        assert_eq!(refused.json()["source"], json!("client"));
    }
    let beside = format!("Authorization: Bearer {}", invented());
    assert_eq!(client.get("/", &[&field(&key), &beside]).status, 400);
    let mut client = gateway.client();
    let call = client.request("POST", "/", &["Content-Type: application/grpc"], b"");
    assert_eq!((call.status, call.field("grpc-status")), (200, Some("16")));
    let lines = gateway.access_lines(9);
    let column = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("outcome")[2..4], [json!("unauthorized"), json!("key_unknown")]);
    assert_eq!(
        (&lines[0]["auth"], &lines[0]["key_id"], &lines[0]["team"]),
        (&json!("api_key"), &json!(id(&key)), &json!("acme"))
    );
    assert_eq!(lines[3].get("key_id"), None);
    let written = std::fs::read_to_string(gateway.access_log()).expect("a log") + &gateway.log();
    assert!(!written.contains(&key[16..]), "no secret is in a log");
}

/// The state of a key is told to those who know its secret.
#[test]
fn expired_and_disabled_keys_say_so() {
    let keys = Keys::new();
    let expired = keys.create(&["--expires", "2020-01-01"]);
    let disabled = keys.create(&[]);
    keys.rewrite(&keys.text().replace(
        &format!("id: \"{}\"", id(&disabled)),
        &format!("id: \"{}\", disabled: true", id(&disabled)),
    ));
    let gateway = keys.start("", DEMANDING);
    let mut client = gateway.client();
    for (seen, (key, detail, outcome)) in
        [(&expired, "expired", "key_expired"), (&disabled, "disabled", "key_disabled")]
            .into_iter()
            .enumerate()
    {
        let refused = client.get("/", &[&field(key)]);
        assert_eq!(refused.status, 401);
        assert!(
            refused.json()["detail"].as_str().is_some_and(|it| it.contains(detail)),
            "{refused:?}"
        );
        let line = gateway.access_lines(seen + 1)[seen].clone();
        assert_eq!((&line["outcome"], &line["key_id"]), (&json!(outcome), &json!(id(key))));
    }
}

/// 300 invented keys: an address learns 30 times that a key is wrong, and then waits. Known keys
/// behind the same address go on.
#[test]
fn an_address_may_send_30_wrong_keys_in_a_minute() {
    let keys = Keys::new();
    let key = keys.create(&[]);
    let gateway = keys.start("", DEMANDING);
    let mut client = gateway.client();
    let wrong = field(&format!("{}{}", &invented()[..59], "000000"));
    let statuses: Vec<u16> = (0..300).map(|_| client.get("/", &[&wrong]).status).collect();
    let count = |status| statuses.iter().filter(|it| **it == status).count();
    // Two windows may follow each other while the test runs.
    assert!((30..=60).contains(&count(401)) && count(401) + count(429) == 300, "{statuses:?}");
    assert_eq!(statuses[..30], [401; 30]);
    // A slot of the sliding window is free again at most 60 s and 60 s / 30 after the refusal.
    let refused = client.get("/", &[&wrong]);
    assert!(
        refused.status == 401 || (1..=62).contains(&refused.number("Retry-After")),
        "{refused:?}"
    );
    assert_eq!(client.get("/", &[&field(&key)]).status, 200);
    assert_eq!(client.get("/", &[]).status, 401, "no credential is not a wrong one");
}

#[test]
fn each_method_is_enough_and_the_order_is_that_of_the_challenges() {
    let keys = Keys::new();
    let key = keys.create(&[]);
    let client = "user: { jwt: { secret: \"a secret of at least thirty-two bytes\", algorithms: [HS256] } }, \
                  api_key: { bearer: false }";
    let rest = "defaults: { auth: [api_key, user] }\n\
                routes:\n- { path: /open, auth: none, respond: { body: ok } }\n\
                - { path: /cert, auth: tls, respond: { body: ok } }\n\
                - { path: /*, respond: { body: ok } }";
    let gateway = keys.start(client, rest);
    let mut client = gateway.client();
    let claims = json!({ "sub": "ann" });
    let signing = jsonwebtoken::EncodingKey::from_secret(b"a secret of at least thirty-two bytes");
    let token = jsonwebtoken::encode(&Default::default(), &claims, &signing).expect("a token");
    let token = format!("Authorization: Bearer {token}");
    assert_eq!(client.get("/a", &[&field(&key)]).status, 200);
    assert_eq!(client.get("/a", &[&token]).status, 200);
    assert_eq!(
        client.get("/a", &[&field(&invented()), &token]).status,
        401,
        "a wrong one is refused"
    );
    assert_eq!(client.get("/open", &[&field(&invented())]).status, 200);
    let refused = client.get("/a", &[]);
    let challenges: Vec<&str> = refused
        .fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"))
        .map(|(_, value)| &**value)
        .collect();
    assert_eq!(challenges, ["ApiKey realm=\"tollgate\"", "Bearer realm=\"tollgate\""]);
    let refused = client.get("/cert", &[&field(&key)]);
    assert_eq!((refused.status, refused.field("WWW-Authenticate")), (403, None));
}

#[test]
fn in_shadow_mode_all_pass_and_the_log_tells() {
    let keys = Keys::new();
    let key = keys.create(&[]);
    let yaml = keys.yaml("", DEMANDING).replace("keys: { ", "keys: { mode: shadow, ");
    let gateway = crate::support::Gateway::start(&yaml);
    let mut client = gateway.client();
    for fields in [&[][..], &[&*field(&invented())], &[&*field(&key)]] {
        assert_eq!(client.get("/", fields).status, 200, "{fields:?}");
    }
    let lines = gateway.access_lines(3);
    let auth: Vec<_> = lines.iter().map(|line| line["auth"].as_str().unwrap_or("")).collect();
    assert_eq!(auth, ["shadow_unauthorized", "shadow_unauthorized", "api_key"]);
}

/// A policy that counts 401 counts those of the gateway, by address, and refuses when it is used up.
#[test]
fn a_policy_that_counts_401_counts_those_of_the_gateway() {
    let keys = Keys::new();
    let key = keys.create(&[]);
    let rest = "policies: { failed: { key: ip, limit: 2/hour, count: { status: [401] } } }\n\
                routes: [{ path: /*, auth: api_key, policies: [failed], respond: { body: ok } }]";
    let gateway = keys.start("failures: 1000/minute", rest);
    let mut client = gateway.client();
    let good = field(&key);
    assert_eq!([1, 2].map(|_| client.get("/", &[&good]).status), [200; 2], "these are not 401");
    assert_eq!([1, 2].map(|_| client.get("/", &[]).status), [401; 2]);
    assert_eq!(client.get("/", &[]).status, 429);
}

#[test]
fn a_hash_is_read_from_standard_input_alone() {
    use std::io::Write as _;
    let mut command = Program::command();
    command.args(["key", "hash"]).stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped());
    let mut process = command.spawn().expect("the program was built");
    process.stdin.take().expect("a pipe").write_all(b"abc\n").expect("it reads");
    let output = process.wait_with_output().expect("it ends");
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), digest);
    assert_eq!(Program::run(&["key", "hash", "abc"]).code, Some(2), "not an argument");
}

/// A proxy that asks about requests refuses them by the same rules.
#[test]
fn the_question_of_a_proxy_obeys_auth() {
    let keys = Keys::new();
    let key = keys.create(&[]);
    let gateway = crate::support::Gateway::start(&format!(
        "check: {{ http: {{ address: \"127.0.0.1:0\" }} }}\n\
         client: {{ keys: {{ file: {:?} }} }}\n\
         routes: [{{ path: /*, auth: [api_key], respond: {{ status: 204 }} }}]\n",
        keys.path()
    ));
    let mut client = gateway.client();
    let question = ["X-Original-Method: GET", "X-Original-URI: /a", "X-Forwarded-For: 192.0.2.1"];
    let mut ask = |key: &str| {
        let answer = client.get("/auth/nginx", &[&question[..], &[key]].concat());
        let outcome = answer.field("X-Tollgate-Outcome").map(str::to_owned);
        (answer.status, outcome.unwrap_or_default())
    };
    assert_eq!(ask(&field(&key)).0, 200);
    assert_eq!(ask("X-A: b"), (401, "unauthorized".to_owned()));
    assert_eq!(ask(&field(&invented())), (401, "key_unknown".to_owned()));
}
