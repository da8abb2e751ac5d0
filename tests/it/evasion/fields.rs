//! Fields that CGI and similar interfaces treat as other fields: `X_From`,
//! `X.Forwarded.For`.

use super::{expect, once_a_day};
use crate::support::{Gateway, Origin};

#[test]
fn a_key_has_no_other_name() {
    expect(
        &once_a_day("key: api_key, missing_key: skip", ""),
        &[
            ("/", &["X-Api-Key: REAL"], 200),
            ("/", &["X_Api_Key: REAL"], 400),
            ("/", &["X-Api_Key: REAL"], 400),
            ("/", &["X.Api.Key: REAL"], 400),
            ("/", &["X-Api-Key: other", "x_api_key: REAL"], 400),
            ("/", &["X_Other: 1"], 200),
        ],
    );
    expect(
        &once_a_day("key: \"header:tenant_id\"", ""),
        &[("/", &["Tenant_Id: a"], 200), ("/", &["Tenant-Id: a"], 400)],
    );
    let top = "client: { user: { header: x-user-id }, trusted_proxies: [10.0.0.0/8] }";
    expect(&once_a_day("key: user", top), &[("/", &["X_User_Id: ann"], 400)]);
}

#[test]
fn fields_that_the_gateway_writes_or_a_route_edits_have_no_other_name() {
    let origin = Origin::hello();
    let route = "request_headers: { set: { x-from: gateway }, remove: [x-secret] }";
    let gateway = Gateway::forwarding(&origin, route, "", "");
    let mut asked = 0;
    for field in [
        "X_From: client",
        "X.Secret: 1",
        "X.Forwarded.For: 10.0.0.1",
        "X_Forwarded_For: 10.0.0.1",
        "X~Real~Ip: 10.0.0.1",
        "X_Request_Id: 1",
        "Content.Length: 5",
        "X_HTTP_Method_Override: DELETE",
        "X_Ratelimit_Soft: over",
    ] {
        assert_eq!(gateway.client().get("/", &[field]).status, 400, "{field}");
        asked += 1;
    }
    assert!(asked > 0 && origin.received().is_empty());
    let ordinary = ["client_id: 7", "X-From: client", "X-Secret: 1", "my.field: 1"];
    assert_eq!(gateway.client().get("/", &ordinary).status, 200);
    let received = &origin.received()[0];
    assert_eq!(received.fields("x-from"), ["gateway"]);
    assert_eq!(received.fields("x-secret"), [""; 0]);
    assert_eq!((received.fields("client_id"), received.fields("my.field")), (vec!["7"], vec!["1"]));
}

/// Otherwise a client could count under a new key with each request, which the backend would not see:
/// it would serve the client without a key.
#[test]
fn connection_cannot_remove_a_field_that_a_limit_counts_by() {
    let origin = Origin::hello();
    let policy = "key: { first: [api_key, \"header:x-tenant\", ip] }, limit: 9/day";
    let gateway = Gateway::limiting_with(&origin, policy, "client: { api_key: { cookie: key } }");
    let read = [
        "X-Api-Key: k",
        "X-Tenant: t",
        "Cookie: session=s",
        "Authorization: Bearer t",
        "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ];
    for field in read {
        let (name, value) = field.split_once(": ").expect("a field");
        let named = format!("Connection: keep-alive, {name}, x-hop");
        assert_eq!(gateway.client().get("/", &[field, &named, "X-Hop: 1"]).status, 200, "{name}");
        let received = origin.received();
        let received = received.last().expect("it is forwarded");
        assert_eq!(received.fields(&name.to_ascii_lowercase()), [value], "{name}");
        assert_eq!(received.fields("x-hop"), [""; 0], "{name}");
    }
}
