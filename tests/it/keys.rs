//! Keys: the values by which requests share a counter.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use crate::support::{Gateway, Response, StoreKind, on_every_store};

on_every_store!(
    an_api_key_is_the_same_key_in_every_part_of_a_request,
    a_request_without_the_key_is_counted_by_address,
    a_cookie_is_found_among_others,
    the_first_key_that_the_request_has_counts,
    combined_keys_are_equal_only_if_all_parts_are_equal,
    a_signed_token_names_the_user,
    addresses_count_up_to_the_first_one_that_is_not_a_trusted_proxy,
    an_untrusted_peer_cannot_name_another_client,
    a_policy_may_refuse_requests_without_a_key,
    a_policy_may_skip_requests_without_a_key,
    exempt_requests_use_no_counter,
    a_preflight_is_not_counted,
);

const SECRET: &str = "a secret of at least thirty-two bytes";

/// One request a day for each key. `policy` contains the key, and `top` further sections of
/// the file.
fn once_a_day(store: StoreKind, policy: &str, top: &str) -> Gateway {
    store.start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies: {{ p: {{ limit: 1/day, {policy} }} }}\n\
         routes: [{{ path: \"/*\", policies: [p], respond: {{ body: ok }} }}]\n{top}\n"
    ))
}

/// Sends the requests of a table in turn. Each entry has fields, and the expected status.
fn expect(gateway: &Gateway, table: &[(&[&str], u16)]) {
    let mut client = gateway.client();
    for (index, (fields, status)) in table.iter().enumerate() {
        let got = client.get("/", fields).status;
        assert_eq!(got, *status, "request {index} with {fields:?}");
    }
}

fn an_api_key_is_the_same_key_in_every_part_of_a_request(store: StoreKind) {
    let gateway = once_a_day(store, "key: api_key", "client: { api_key: { query: key } }");
    expect(
        &gateway,
        &[
            (&["X-Api-Key: one"], 200),
            (&["X-Api-Key: one"], 429),
            (&["Authorization: Bearer one"], 429),
            (&["authorization: bearer one"], 429),
            (&["X-Api-Key: two"], 200),
            (&["Authorization: Bearer two"], 429),
        ],
    );
    let mut client = gateway.client();
    assert_eq!(client.get("/?a=b&key=two", &[]).status, 429);
    assert_eq!(client.get("/?key=three", &[]).status, 200);
}

fn a_request_without_the_key_is_counted_by_address(store: StoreKind) {
    let gateway = once_a_day(store, "key: api_key", "");
    expect(&gateway, &[(&[], 200), (&[], 429), (&["X-Api-Key: one"], 200), (&["X-Api-Key:"], 429)]);
}

fn a_cookie_is_found_among_others(store: StoreKind) {
    expect(
        &once_a_day(store, "key: \"cookie:session\"", ""),
        &[
            (&["Cookie: theme=dark; session=x"], 200),
            (&["Cookie: session=x; theme=light"], 429),
            (&["Cookie: theme=dark", "Cookie: session=x"], 429),
            (&["Cookie: session=y"], 200),
            (&["Cookie: xsession=x"], 200),
        ],
    );
}

fn the_first_key_that_the_request_has_counts(store: StoreKind) {
    expect(
        &once_a_day(store, "key: { first: [api_key, \"header:x-tenant\", ip] }", ""),
        &[
            (&["X-Api-Key: k", "X-Tenant: a"], 200),
            (&["X-Api-Key: k", "X-Tenant: b"], 429),
            (&["X-Tenant: a"], 200),
            (&["X-Tenant: a"], 429),
            (&[], 200),
            (&[], 429),
        ],
    );
}

fn combined_keys_are_equal_only_if_all_parts_are_equal(store: StoreKind) {
    expect(
        &once_a_day(store, "key: { all: [\"header:x-tenant\", \"cookie:session\"] }", ""),
        &[
            (&["X-Tenant: a", "Cookie: session=x"], 200),
            (&["X-Tenant: a", "Cookie: session=x"], 429),
            (&["X-Tenant: a", "Cookie: session=y"], 200),
            (&["X-Tenant: b", "Cookie: session=x"], 200),
            (&["X-Tenant: b", "Cookie: session=y"], 200),
        ],
    );
}

fn a_signed_token_names_the_user(store: StoreKind) {
    let bearer = |secret: &str, user: &str, more: i64| {
        let claims = json!({ "sub": user, "jti": more, "exp": 4_000_000_000_i64 + more });
        let key = EncodingKey::from_secret(secret.as_bytes());
        let token = encode(&Header::new(Algorithm::HS256), &claims, &key).expect("a token");
        format!("Authorization: Bearer {token}")
    };
    let expired = {
        let claims = json!({ "sub": "expired", "exp": 1 });
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        let token = encode(&Header::new(Algorithm::HS256), &claims, &key).expect("a token");
        format!("Authorization: Bearer {token}")
    };
    let top =
        format!("client: {{ user: {{ jwt: {{ secret: \"{SECRET}\", algorithms: [HS256] }} }} }}");
    let forged = bearer("another secret of thirty-two bytes or so", "carol", 0);
    expect(
        &once_a_day(store, "key: user", &top),
        &[
            (&[&bearer(SECRET, "ann", 1)], 200),
            (&[&bearer(SECRET, "ann", 2)], 429),
            (&[&bearer(SECRET, "bob", 1)], 200),
            // A client with an unsigned token is counted by address.
            (&[&forged], 200),
            (&[&expired], 429),
            (&["Authorization: Bearer no.token.here"], 429),
            (&[&bearer(SECRET, "carol", 1)], 200),
        ],
    );
}

fn addresses_count_up_to_the_first_one_that_is_not_a_trusted_proxy(store: StoreKind) {
    expect(
        &once_a_day(store, "key: ip", "client: { trusted_proxies: [127.0.0.0/8, 10.0.0.0/8] }"),
        &[
            (&["X-Forwarded-For: 203.0.113.1"], 200),
            (&["X-Forwarded-For: 203.0.113.1"], 429),
            (&["X-Forwarded-For: 198.51.100.9, 203.0.113.1"], 429),
            (&["X-Forwarded-For: 203.0.113.1, 10.1.2.3"], 429),
            (&["X-Forwarded-For: 198.51.100.9", "X-Forwarded-For: 203.0.113.1"], 429),
            (&["X-Forwarded-For: 203.0.113.2"], 200),
            (&[], 200),
        ],
    );
}

fn an_untrusted_peer_cannot_name_another_client(store: StoreKind) {
    expect(
        &once_a_day(store, "key: ip", ""),
        &[
            (&[], 200),
            (&["X-Forwarded-For: 203.0.113.1"], 429),
            (&["Forwarded: for=203.0.113.1"], 429),
            (&["X-Real-Ip: 203.0.113.1"], 429),
        ],
    );
}

fn a_policy_may_refuse_requests_without_a_key(store: StoreKind) {
    let gateway = once_a_day(store, "key: api_key, missing_key: deny", "");
    let mut client = gateway.client();
    let refused: Response = client.get("/", &[]);
    assert_eq!(refused.status, 403);
    let problem = refused.json();
    assert_eq!((&problem["status"], &problem["source"]), (&json!(403), &json!("client")));
    assert_eq!(refused.field("X-Ratelimit-Limit"), None, "nothing was counted");
    assert_eq!(client.get("/", &["X-Api-Key: k"]).status, 200);
}

fn a_policy_may_skip_requests_without_a_key(store: StoreKind) {
    let gateway = once_a_day(store, "key: api_key, missing_key: skip", "");
    expect(&gateway, &[(&[], 200), (&[], 200), (&["X-Api-Key: k"], 200), (&["X-Api-Key: k"], 429)]);
}

fn exempt_requests_use_no_counter(store: StoreKind) {
    let exempt = "exempt: { methods: [PUT], headers: { x-internal: \"1\" } }";
    let gateway = once_a_day(store, &format!("key: ip, {exempt}"), "");
    let mut client = gateway.client();
    for _ in 0..3 {
        let response = client.get("/", &["X-Internal: 1"]);
        assert_eq!((response.status, response.field("X-Ratelimit-Limit")), (200, None));
        assert_eq!(client.request("PUT", "/", &[], b"").status, 200);
    }
    assert_eq!(client.get("/", &["X-Internal: 2"]).status, 200);
    assert_eq!(client.get("/", &[]).status, 429);
    let by_address = once_a_day(store, "key: ip, exempt: { ips: [127.0.0.0/8] }", "");
    expect(&by_address, &[(&[], 200), (&[], 200)]);
}

fn a_preflight_is_not_counted(store: StoreKind) {
    let gateway = once_a_day(store, "key: ip", "");
    let mut client = gateway.client();
    let asks = ["Origin: https://a.example", "Access-Control-Request-Method: PUT"];
    for _ in 0..3 {
        assert_eq!(client.request("OPTIONS", "/", &asks, b"").status, 200);
    }
    assert_eq!(client.get("/", &[]).status, 200);
    assert_eq!(client.request("OPTIONS", "/", &[], b"").status, 429);
}
