//! Refusals for clients that do not read problem documents, and requests that are never
//! refused.

use crate::support::{Origin, StoreKind, on_every_store};

on_every_store!(
    a_preflight_is_not_counted_but_other_options_are,
    a_policy_may_configure_its_refusal,
    a_grpc_call_is_refused_with_a_grpc_status,
);

fn a_preflight_is_not_counted_but_other_options_are(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, "key: ip, limit: 1/day");
    let mut client = gateway.client();
    let preflight = ["Origin: https://a.test", "Access-Control-Request-Method: PUT"];
    let mut status = |fields: &[&str]| client.request("OPTIONS", "/", fields, b"").status;
    assert_eq!([0; 3].map(|_| status(&preflight)), [200; 3]);
    assert_eq!([0; 2].map(|_| status(&preflight[..1])), [200, 429]);
    assert_eq!(status(&preflight), 200);
}

fn a_policy_may_configure_its_refusal(store: StoreKind) {
    let origin = Origin::hello();
    let policy = "key: ip, limit: 1/day, response: { status: 503, \
                  content_type: application/json, \
                  body: '{\"by\":\"{policy}\",\"of\":{limit},\"left\":{remaining},\
                  \"wait\":{retry_after}}' }";
    let gateway = store.limiting(&origin, policy);
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    let refused = client.get("/", &[]);
    assert_eq!(refused.status, 503);
    assert_eq!(refused.field("Content-Type"), Some("application/json"));
    let said = refused.json();
    assert_eq!(
        (&said["by"], &said["of"], &said["left"]),
        (&"per-client".into(), &1.into(), &0.into())
    );
    assert_eq!(said["wait"], refused.number("Retry-After"));
}

fn a_grpc_call_is_refused_with_a_grpc_status(store: StoreKind) {
    let origin = Origin::hello();
    let gateway = store.limiting(&origin, "key: ip, limit: 1/day");
    let mut client = gateway.client();
    let mut call = || {
        client.request("POST", "/shop.Orders/List", &["Content-Type: application/grpc+proto"], b"x")
    };
    assert_eq!(call().field("grpc-status"), None, "the first is the origin's to answer");
    let refused = call();
    assert_eq!((refused.status, refused.field("grpc-status")), (200, Some("8")));
    assert_eq!(refused.field("Content-Type"), Some("application/grpc"));
    let message = refused.field("grpc-message").expect("it says why");
    let wait_s = refused.number("Retry-After");
    assert!(message.contains(&format!("{wait_s} seconds")), "{message}");
    assert_eq!((refused.body.len(), origin.received().len()), (0, 1));
}
