//! A key is the value that the backend uses as the client's identity. The gateway refuses a
//! request that backends may interpret in two ways. It never counts such a request under
//! another counter or leaves it uncounted.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use super::{expect, once_a_day};
use crate::support::Gateway;

const SECRET: &str = "a secret of at least thirty-two bytes";

/// A bearer token of the user `ann`, either valid or expired.
fn token(secret: &str, expires: u64) -> String {
    let claims = json!({ "sub": "ann", "exp": expires });
    let key = EncodingKey::from_secret(secret.as_bytes());
    encode(&Header::new(Algorithm::HS256), &claims, &key).expect("a token")
}

/// A gateway whose users are named by tokens.
fn by_token(policy: &str) -> Gateway {
    let jwt = format!("jwt: {{ secret: \"{SECRET}\", algorithms: [HS256] }}");
    once_a_day(policy, &format!("client: {{ user: {{ {jwt} }} }}"))
}

#[test]
fn a_second_api_key_gives_no_second_counter() {
    let gateway = once_a_day("key: api_key", "client: { api_key: { query: key } }");
    expect(
        &gateway,
        &[
            ("/", &["Authorization: Bearer REAL"], 200),
            ("/", &["Authorization: Bearer REAL"], 429),
            ("/", &["X-Api-Key: random", "Authorization: Bearer REAL"], 400),
            ("/", &["X-Api-Key: REAL", "X-Api-Key: random"], 400),
            ("/", &["X-Api-Key: REAL,random"], 400),
            ("/", &["Authorization: Bearer REAL", "Authorization: Bearer random"], 400),
            ("/", &["Authorization: Bearer REAL random"], 400),
            ("/", &["Authorization: Basic cjpy, Bearer REAL"], 400),
            ("/?key=random", &["X-Api-Key: REAL"], 400),
            // The same key in two fields is one key, and other credentials are not API
            // keys.
            ("/?key=REAL", &["X-Api-Key: REAL", "Authorization: Bearer REAL"], 429),
            ("/", &["X-Api-Key: REAL", "Authorization: Basic cjpy"], 429),
        ],
    );
}

#[test]
fn the_configuration_selects_where_the_api_key_is() {
    let only = "client: { api_key: { headers: [x-api-key], bearer: false } }";
    expect(
        &once_a_day("key: api_key", only),
        &[
            ("/", &["X-Api-Key: REAL", "Authorization: Bearer one"], 200),
            ("/", &["X-Api-Key: REAL", "Authorization: Bearer two"], 429),
        ],
    );
    // If tokens identify users, a token is an API key only if the configuration says so.
    let [one, two] = [4_000_000_000, 4_000_000_001].map(|it| token(SECRET, it));
    let [one, two] = [one, two].map(|it| format!("Authorization: Bearer {it}"));
    expect(
        &by_token("key: { first: [api_key, user] }"),
        &[("/", &[&one], 200), ("/", &[&two], 429), ("/", &[&two, "X-Api-Key: k"], 200)],
    );
}

#[test]
fn an_ambiguous_key_is_not_skipped() {
    expect(
        &once_a_day("key: { first: [api_key, \"cookie:session\", ip] }", ""),
        &[
            ("/", &["X-Api-Key: REAL", "X-Api-Key: x", "Cookie: session=1"], 400),
            ("/", &["Authorization: Bearer REAL x", "Cookie: session=2"], 400),
            ("/", &["Cookie: session=3; session=4"], 400),
            ("/", &["Cookie: session=3"], 200),
        ],
    );
}

#[test]
fn a_request_without_a_clear_key_is_not_skipped() {
    expect(
        &once_a_day("key: api_key, missing_key: skip", ""),
        &[
            ("/", &["X-Api-Key: REAL", "X-Api-Key: x"], 400),
            ("/", &["Authorization: Bearer REAL x"], 400),
            ("/", &[], 200),
            ("/", &[], 200),
        ],
    );
    let good = token(SECRET, 4_000_000_000);
    let field = |token: &str| format!("Authorization: Bearer {token}");
    let forged = field(&token("another secret of thirty-two bytes", 4_000_000_000));
    for missing_key in ["skip", "ip"] {
        expect(
            &by_token(&format!("key: user, missing_key: {missing_key}")),
            &[
                ("/", &[&field(&good)], 200),
                ("/", &[&field(&good)], 429),
                ("/", &[&field(&good), "Authorization: Basic cjpy"], 400),
                ("/", &[&field(&good), &forged], 400),
                ("/", &[&field(&format!("{good} x"))], 400),
                // Lenient decoders ignore padding.
                ("/", &[&field(&format!("{good}="))], 400),
                ("/", &[&field(&good.replacen('.', "=.", 1))], 400),
                // A backend whose clock is behind accepts a token that has just expired.
                ("/", &[&field(&token(SECRET, 1))], 200),
                ("/", &[&forged], 429),
            ],
        );
    }
}

#[test]
fn a_forged_token_does_not_select_the_next_key() {
    let forged =
        format!("Authorization: Bearer {}", token("another secret of thirty-two bytes", 1));
    expect(
        &by_token("key: { first: [user, \"cookie:session\"] }"),
        &[
            ("/", &[&forged, "Cookie: session=1"], 200),
            ("/", &[&forged, "Cookie: session=2"], 429),
            ("/", &["Cookie: session=2"], 200),
        ],
    );
}

#[test]
fn a_cookie_that_is_sent_twice_is_ambiguous() {
    expect(
        &once_a_day("key: \"cookie:session\"", ""),
        &[
            ("/", &["Cookie: session=REAL"], 200),
            ("/", &["Cookie: session=REAL; session=x"], 400),
            ("/", &["Cookie: session=x; session=REAL"], 400),
            ("/", &["Cookie: session=x", "Cookie: session=REAL"], 400),
            ("/", &["Cookie: a=x, session=REAL"], 400),
            ("/", &["Cookie: Session=REAL"], 400),
            ("/", &["Cookie: session=\"RE\\101L\""], 400),
            ("/", &["Cookie: session=REAL; session=REAL"], 429),
            ("/", &["Cookie: session=\"REAL\""], 429),
            ("/", &["Cookie: session=RE%41L"], 429),
        ],
    );
}

#[test]
fn a_query_parameter_that_is_sent_twice_is_ambiguous() {
    expect(
        &once_a_day("key: \"query:api_key\"", ""),
        &[
            ("/?api_key=REAL+1", &[], 200),
            ("/?api_key=REAL+1&api_key=x", &[], 400),
            ("/?api_key=x&api_key=REAL+1", &[], 400),
            ("/?a=b;api_key=REAL+1", &[], 400),
            ("/?API_KEY=REAL+1", &[], 400),
            ("/?api.key=REAL+1", &[], 400),
            ("/?api_key[]=REAL+1", &[], 400),
            ("/?api_key=REAL+1%", &[], 400),
            ("/?api_key=REAL%201", &[], 429),
            ("/?api_key=REAL%2B1&b=c&api_key=REAL%2B1", &[], 429),
            ("/?api%5fkey=RE%41L+1", &[], 429),
            ("/?api_key=other&b=c&b=d", &[], 200),
        ],
    );
}

#[test]
fn a_plan_that_is_named_twice_is_ambiguous() {
    let plans = "plans: { from: \"header:x-plan\", limits: { big: 3/day, small: 1/day } }";
    let yaml = format!("key: ip, {plans}");
    expect(
        &once_a_day(&yaml, ""),
        &[("/", &["X-Plan: small", "X-Plan: big"], 400), ("/", &["X-Plan: small"], 200)],
    );
}

#[test]
fn a_policy_in_shadow_refuses_no_ambiguous_request() {
    expect(
        &once_a_day("key: api_key, mode: shadow", ""),
        &[("/", &["X-Api-Key: a", "X-Api-Key: b"], 200)],
    );
}
