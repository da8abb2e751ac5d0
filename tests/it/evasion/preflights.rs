//! Preflights of browsers, and requests that imitate a preflight.

use super::once_a_day;
use crate::support::Gateway;

const ASKS: [&str; 2] = ["Origin: https://a.example", "Access-Control-Request-Method: PUT"];

fn options(gateway: &Gateway, fields: &[&str], body: &[u8]) -> u16 {
    gateway.client().request("OPTIONS", "/", &[&ASKS, fields].concat(), body).status
}

#[test]
fn a_request_with_a_body_or_another_method_is_not_a_preflight() {
    for key in ["ip", "global"] {
        let gateway = once_a_day(&format!("key: {key}"), "");
        assert_eq!(options(&gateway, &["X-HTTP-Method-Override: POST"], b"body"), 200);
        assert_eq!(options(&gateway, &["X-HTTP-Method-Override: POST"], b""), 429);
        assert_eq!(options(&gateway, &["X-Http-Method: POST"], b""), 429);
        assert_eq!(options(&gateway, &[], b"body"), 429);
        let chunked = options(&gateway, &["Transfer-Encoding: chunked"], b"");
        assert_eq!(chunked, 429, "no chunk has come, but one may");
        assert_eq!(options(&gateway, &[], b""), 200);
    }
}

#[test]
fn preflights_are_bounded_by_address() {
    let gateway = once_a_day("key: api_key, missing_key: deny", "");
    let admitted = (0..12).filter(|_| options(&gateway, &[], b"") == 200).count();
    assert_eq!(admitted, 10, "ten for each request that the policy allows");
    assert_eq!(gateway.client().get("/", &["X-Api-Key: k"]).status, 200, "requests have their own");
}

#[test]
fn a_policy_may_count_preflights_like_other_requests() {
    let gateway = once_a_day("key: ip, exempt_preflights: false", "");
    assert_eq!(options(&gateway, &[], b""), 200);
    assert_eq!(options(&gateway, &[], b""), 429);
    assert_eq!(gateway.client().get("/", &[]).status, 429);
}
