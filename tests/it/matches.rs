//! Routes by the values of header fields, parameters of the query, and cookies.

use crate::support::{Gateway, Program};

fn gateway() -> Gateway {
    Gateway::start(FILE)
}

const FILE: &str = "listeners: [{ address: \"127.0.0.1:0\" }]\n\
     routes:\n\
     \x20 - { name: v2, path: /*, headers: { x-version: \"2\" }, respond: { body: v2 } }\n\
     \x20 - { name: beta, path: /*, headers: { x-beta: { prefix: \"yes\" } }, respond: { body: beta } }\n\
     \x20 - { name: mode, path: /*, query: { mode: { any: [a, \"b c\"] } }, respond: { body: mode } }\n\
     \x20 - { name: canary, path: /*, cookies: { canary: { present: true } }, headers: { x-debug: { present: false } }, respond: { body: canary } }\n\
     \x20 - { name: rest, path: /*, respond: { body: rest } }\n";

#[test]
fn the_first_route_whose_values_match_is_taken() {
    let gateway = gateway();
    for (path, fields, body) in [
        ("/", &[][..], "rest"),
        ("/", &["X-Version: 2"], "v2"),
        ("/", &["X-Version: 3"], "rest"),
        ("/", &["X-Version: 2", "X-Version: 2"], "v2"),
        ("/", &["X-Beta: yes, please"], "beta"),
        ("/", &["X-Beta: no"], "rest"),
        ("/?mode=a", &[], "mode"),
        ("/?mode=b%20c", &[], "mode"),
        ("/?mode=b+c&x=1", &[], "mode"),
        ("/?mode=c", &[], "rest"),
        ("/?mode=a&mode=b+c", &[], "mode"),
        ("/", &["Cookie: canary="], "canary"),
        ("/", &["Cookie: x=1; canary=1"], "canary"),
        ("/", &["Cookie: canary=1", "X-Debug: "], "rest"),
    ] {
        let response = gateway.client().get(path, fields);
        assert_eq!((response.status, &*response.text()), (200, body), "{path} {fields:?}");
    }
}

/// Otherwise a client could choose the route, and with it the limits, by what its backend reads.
#[test]
fn two_values_that_lead_to_two_routes_are_refused() {
    let gateway = gateway();
    for (path, fields) in [
        ("/", &["X-Version: 2", "X-Version: 3"][..]),
        ("/", &["X-Version: 3", "X-Version: 2"]),
        ("/", &["X_Version: 2"]),
        ("/?mode=a&mode=x", &[]),
        ("/?Mode=a", &[]),
        ("/?x=1;mode=a", &[]),
        ("/", &["Cookie: Canary=1"]),
    ] {
        let response = gateway.client().get(path, fields);
        assert_eq!(response.status, 400, "{path} {fields:?}: {}", response.text());
    }
    // A route before decides whatever the value is.
    let both = gateway.client().get("/?mode=a&mode=x", &["X-Version: 2"]);
    assert_eq!((both.status, &*both.text()), (200, "v2"));
}

#[test]
fn the_commands_name_the_part_and_no_value() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gateway.yaml");
    std::fs::write(&file, FILE.replace("\"b c\"", "s3cret")).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let table = Program::run(&["check", "--routes", "-c", file]).stdout;
    for part in ["x-version", "query mode", "cookie canary, x-debug"] {
        assert!(table.contains(part) || part.contains(','), "{part} is not in {table}");
    }
    assert!(table.contains("cookie canary"), "{table}");
    let explained = Program::run(&["explain", "-c", file, "http://a.test/?mode=c"]).stdout;
    for line in ["not v2: header x-version", "not mode: query mode", "not canary: cookie canary"] {
        assert!(explained.contains(line), "{line} is not in {explained}");
    }
    assert!(!(table + &explained).contains("s3cret"), "no value is shown");
}
