//! What an upstream gets of a key.

use super::{Keys, field, id, invented};
use crate::support::{Client, Gateway, Origin};

fn forwarding(keys: &Keys, more: &str, origin: &Origin) -> Gateway {
    let headers = "identity_headers: { id: x-key-id, team: x-team, plan: x-plan }";
    let yaml = keys.yaml(
        "api_key: { headers: [x-api-key], query: api_key, cookie: key }",
        &format!(
            "upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
             routes: [{{ path: /*, upstream: app }}]",
            origin.address()
        ),
    );
    Gateway::start(&yaml.replace("keys: { ", &format!("keys: {{ {headers}, {more} ")))
}

/// The head of the last request that the upstream has received.
fn last_head(origin: &Origin) -> String {
    origin.received().last().expect("a request").head.clone()
}

#[test]
fn the_key_is_removed_and_the_identity_is_the_gateways() {
    let keys = Keys::new();
    let key = keys.create(&["--team", "acme"]);
    let origin = Origin::hello();
    let gateway = forwarding(&keys, "", &origin);
    let mut client = gateway.client();
    let seen = |target: &str, fields: &[&str], client: &mut Client| {
        assert_eq!(client.get(target, fields).status, 200);
        last_head(&origin).to_lowercase()
    };
    let forged = ["X-Key-Id: admin", "X-Team: admins", "X-Plan: pro"];
    let heads = [
        seen("/a?b=1", &[&[&*field(&key)], &forged[..]].concat(), &mut client),
        seen(
            "/a?b=1",
            &[&[&*format!("Authorization: Bearer {key}")], &forged[..]].concat(),
            &mut client,
        ),
        seen(&format!("/a?b=1&api_key={key}"), &forged, &mut client),
        seen(
            "/a?b=1",
            &[&[&*format!("Cookie: s=1; key={key}")], &forged[..]].concat(),
            &mut client,
        ),
        seen(
            "/a?b=1",
            &[&[&*field(&key), "Connection: x-key-id, x-team"], &forged[..]].concat(),
            &mut client,
        ),
    ];
    for head in &heads {
        assert!(!head.contains(&key.to_lowercase()[16..]), "{head}");
        assert!(head.contains(&format!("x-key-id: {}\r\n", id(&key))), "{head}");
        assert!(head.contains("x-team: acme\r\n") && !head.contains("x-plan"), "{head}");
        assert!(head.starts_with("get /a?b=1 http/1.1"), "{head}");
        assert!(!head.contains("admin"), "{head}");
    }
    assert!(heads[3].contains("cookie: s=1\r\n"), "{}", heads[3]);
    let unknown = seen("/", &[&*field(&invented()), "X-Key-Id: admin"], &mut client);
    assert!(!unknown.contains("x-key-id") && !unknown.contains("x-api-key"), "{unknown}");
    let other = seen("/", &["Authorization: Bearer of-the-application"], &mut client);
    assert!(other.contains("of-the-application"), "{other}");
    for spelling in ["X_Key_Id: admin", "X.Team: admin", "x_api_key: a"] {
        assert_eq!(gateway.client().get("/", &[spelling]).status, 400, "{spelling}");
    }
}

#[test]
fn the_key_is_forwarded_if_the_file_says_so() {
    let keys = Keys::new();
    let key = keys.create(&[]);
    let origin = Origin::hello();
    let gateway = forwarding(&keys, "forward: true,", &origin);
    assert_eq!(gateway.client().get("/", &[&field(&key)]).status, 200);
    assert!(last_head(&origin).contains(&key));
}
