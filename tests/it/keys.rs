//! Whose request it is: what makes two requests count together.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use crate::support::{Gateway, Place, Response, on_every_store};

on_every_store!(
    an_api_key_is_one_key_wherever_it_stands,
    whoever_leaves_the_key_out_is_counted_by_address,
    a_cookie_is_found_among_others,
    the_first_key_that_is_there_counts,
    keys_together_are_one_only_if_all_are_the_same,
    a_user_is_whom_a_signed_token_names,
    a_trusted_proxy_is_believed_up_to_the_first_address_it_vouches_for,
    an_untrusted_peer_cannot_be_somebody_else,
    a_policy_may_refuse_those_without_a_key,
    a_policy_may_leave_those_without_a_key_alone,
    exempt_requests_touch_no_counter,
    a_preflight_is_not_counted,
);

const SECRET: &str = "a secret of at least thirty-two bytes";

/// One request a day for each key; `policy` has the key, `top` more of the file.
fn once_a_day(place: Place, policy: &str, top: &str) -> Gateway {
    place.start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies: {{ p: {{ limit: 1/day, {policy} }} }}\n\
         routes: [{{ path: \"/*\", policies: [p], respond: {{ body: ok }} }}]\n{top}\n"
    ))
}

/// Sends the requests of a table in turn: fields, and the status that must come.
fn expect(gateway: &Gateway, table: &[(&[&str], u16)]) {
    let mut client = gateway.client();
    for (index, (fields, status)) in table.iter().enumerate() {
        let got = client.get("/", fields).status;
        assert_eq!(got, *status, "request {index} with {fields:?}");
    }
}

fn an_api_key_is_one_key_wherever_it_stands(place: Place) {
    let gateway = once_a_day(place, "key: api_key", "client: { api_key: { query: key } }");
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

fn whoever_leaves_the_key_out_is_counted_by_address(place: Place) {
    let gateway = once_a_day(place, "key: api_key", "");
    expect(&gateway, &[(&[], 200), (&[], 429), (&["X-Api-Key: one"], 200), (&["X-Api-Key:"], 429)]);
}

fn a_cookie_is_found_among_others(place: Place) {
    expect(
        &once_a_day(place, "key: \"cookie:session\"", ""),
        &[
            (&["Cookie: theme=dark; session=x"], 200),
            (&["Cookie: session=x; theme=light"], 429),
            (&["Cookie: theme=dark", "Cookie: session=x"], 429),
            (&["Cookie: session=y"], 200),
            (&["Cookie: xsession=x"], 200),
        ],
    );
}

fn the_first_key_that_is_there_counts(place: Place) {
    expect(
        &once_a_day(place, "key: { first: [api_key, \"header:x-tenant\", ip] }", ""),
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

fn keys_together_are_one_only_if_all_are_the_same(place: Place) {
    expect(
        &once_a_day(place, "key: { all: [\"header:x-tenant\", \"cookie:session\"] }", ""),
        &[
            (&["X-Tenant: a", "Cookie: session=x"], 200),
            (&["X-Tenant: a", "Cookie: session=x"], 429),
            (&["X-Tenant: a", "Cookie: session=y"], 200),
            (&["X-Tenant: b", "Cookie: session=x"], 200),
            (&["X-Tenant: b", "Cookie: session=y"], 200),
        ],
    );
}

fn a_user_is_whom_a_signed_token_names(place: Place) {
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
        &once_a_day(place, "key: user", &top),
        &[
            (&[&bearer(SECRET, "ann", 1)], 200),
            (&[&bearer(SECRET, "ann", 2)], 429),
            (&[&bearer(SECRET, "bob", 1)], 200),
            // Whoever only claims to be somebody is counted by address.
            (&[&forged], 200),
            (&[&expired], 429),
            (&["Authorization: Bearer no.token.here"], 429),
            (&[&bearer(SECRET, "carol", 1)], 200),
        ],
    );
}

fn a_trusted_proxy_is_believed_up_to_the_first_address_it_vouches_for(place: Place) {
    expect(
        &once_a_day(place, "key: ip", "client: { trusted_proxies: [127.0.0.0/8, 10.0.0.0/8] }"),
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

fn an_untrusted_peer_cannot_be_somebody_else(place: Place) {
    expect(
        &once_a_day(place, "key: ip", ""),
        &[
            (&[], 200),
            (&["X-Forwarded-For: 203.0.113.1"], 429),
            (&["Forwarded: for=203.0.113.1"], 429),
            (&["X-Real-Ip: 203.0.113.1"], 429),
        ],
    );
}

fn a_policy_may_refuse_those_without_a_key(place: Place) {
    let gateway = once_a_day(place, "key: api_key, missing_key: deny", "");
    let mut client = gateway.client();
    let refused: Response = client.get("/", &[]);
    assert_eq!(refused.status, 403);
    let problem = refused.json();
    assert_eq!((&problem["status"], &problem["source"]), (&json!(403), &json!("client")));
    assert_eq!(refused.field("X-Ratelimit-Limit"), None, "nothing was counted");
    assert_eq!(client.get("/", &["X-Api-Key: k"]).status, 200);
}

fn a_policy_may_leave_those_without_a_key_alone(place: Place) {
    let gateway = once_a_day(place, "key: api_key, missing_key: skip", "");
    expect(&gateway, &[(&[], 200), (&[], 200), (&["X-Api-Key: k"], 200), (&["X-Api-Key: k"], 429)]);
}

fn exempt_requests_touch_no_counter(place: Place) {
    let exempt = "exempt: { methods: [PUT], headers: { x-internal: \"1\" } }";
    let gateway = once_a_day(place, &format!("key: ip, {exempt}"), "");
    let mut client = gateway.client();
    for _ in 0..3 {
        let response = client.get("/", &["X-Internal: 1"]);
        assert_eq!((response.status, response.field("X-Ratelimit-Limit")), (200, None));
        assert_eq!(client.request("PUT", "/", &[], b"").status, 200);
    }
    assert_eq!(client.get("/", &["X-Internal: 2"]).status, 200);
    assert_eq!(client.get("/", &[]).status, 429);
    let by_address = once_a_day(place, "key: ip, exempt: { ips: [127.0.0.0/8] }", "");
    expect(&by_address, &[(&[], 200), (&[], 200)]);
}

fn a_preflight_is_not_counted(place: Place) {
    let gateway = once_a_day(place, "key: ip", "");
    let mut client = gateway.client();
    let asks = ["Origin: https://a.example", "Access-Control-Request-Method: PUT"];
    for _ in 0..3 {
        assert_eq!(client.request("OPTIONS", "/", &asks, b"").status, 200);
    }
    assert_eq!(client.get("/", &[]).status, 200);
    assert_eq!(client.request("OPTIONS", "/", &[], b"").status, 429);
}
