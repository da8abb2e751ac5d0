//! Costs that responses state under `store_mode: write_back`: the gateway knows them at once, and
//! Redis after `interval`.

use crate::support::{Gateway, Origin, StoreKind, admin_text, eventually};

const ANN: &str = "X-Client: ann";
const READ: &str = "Authorization: Bearer read-0123456789abcdef0123";

/// An origin whose responses state the cost that is in their path.
fn telling() -> Origin {
    Origin::answering(|request| {
        let path = request.line().split(' ').nth(1).unwrap_or_default();
        let cost = path.trim_start_matches('/');
        format!("HTTP/1.1 200 OK\r\nX-Tokens: {cost}\r\nContent-Length: 0\r\n\r\n")
    })
}

/// A gateway that reserves so many units of 10,000 a day.
fn gateway(origin: &Origin, store: &str, reserve: u64, top: &str) -> Gateway {
    let policy = format!(
        "key: \"header:x-client\", limit: 10000/day, algorithm: fixed_window, \
         cost: {{ reserve: {reserve}, settle: {{ header: x-tokens }} }}"
    );
    let admin = "admin: { address: \"127.0.0.1:0\", hosts: [gateway.test], tokens: [\
                 { name: r, role: read, token: read-0123456789abcdef0123 }] }";
    let top = format!("store: {{ redis: {{ {store} }} }}\n{admin}\n{top}\n");
    Gateway::limiting_with(origin, &policy, &top)
}

/// The units that the counter in Redis leaves, as the admin API reads it.
fn in_redis(gateway: &Gateway) -> u64 {
    let shown = admin_text(gateway.addresses()[1], "/v1/policies/per-client/keys/ann", READ);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    shown["remaining"].as_u64().unwrap_or_else(|| panic!("{shown}"))
}

#[test]
fn a_settlement_is_known_at_once_and_in_redis_after_the_interval() {
    let origin = telling();
    // More and less than is reserved.
    for (reserve, actual) in [(100, 1000), (4000, 1000), (100, 9000)] {
        let about = format!("{actual} of {reserve} units");
        let store = StoreKind::Standalone.redis().expect("it is Redis");
        let one = "runtime: { workers: 1 }";
        let node = gateway(&origin, &format!("{store}, mode: write_back"), reserve, one);
        let first = node.client().get(&format!("/{actual}"), &[ANN]);
        assert_eq!(first.status, 200, "{about}");
        let left = || node.client().get("/0", &[ANN]).number("X-Ratelimit-Remaining");
        eventually(&format!("the gateway knows it: {about}"), || {
            left() == 10_000 - actual - reserve
        });
        eventually(&format!("Redis knows it: {about}"), || in_redis(&node) == 10_000 - actual);
        eventually(&format!("and it stays so: {about}"), || left() == 10_000 - actual - reserve);
        let other = gateway(&origin, &store, 1, "");
        let seen = || other.client().get("/0", &[ANN]).number("X-Ratelimit-Remaining");
        eventually(&format!("another gateway knows it: {about}"), || seen() == 10_000 - actual - 1);
    }
}
