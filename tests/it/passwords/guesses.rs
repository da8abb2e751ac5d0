//! Wrong passwords on routes that demand no user: they count, too, and beyond the bound none is
//! checked.

use super::{Users, field, metric};
use crate::support::{Client, Gateway, Program};

/// Only ann passes, and what demands no user is in the path.
const ROUTES: &str = "\
    access: { staff: { rules: [{ allow: { values: { user: [ann] } } }], else: deny } }\n\
    policies:\n  \
      known: { key: user, limit: 1000/hour, missing_key: deny }\n  \
      any: { key: { first: [user, ip] }, limit: 1000/hour }\n  \
      body: { key: \"json:/a\", limit: 1000/hour, missing_key: skip }\n  \
      small: { key: global, limit: 1/day }\n\
    routes:\n  \
      - { path: /list, access: [staff], policies: [any], respond: { body: ok } }\n  \
      - { path: /policy, policies: [known], respond: { body: ok } }\n  \
      - { path: /body, policies: [any, body], respond: { body: ok } }\n  \
      - { path: /over, policies: [small], respond: { body: ok }, \
          overflow: { policies: [small], route: later } }\n  \
      - { path: /later, name: later, access: [staff], policies: [any], respond: { body: ok } }\n  \
      - { path: /*, auth: [user], respond: { body: ok } }\n";

fn wrong(number: usize) -> String {
    field("ann", &format!("wrong-{number}"))
}

fn right() -> String {
    field("ann", "hunter2")
}

fn start(users: &Users) -> Gateway {
    users.start("failures: 3/hour", ROUTES)
}

/// The passwords that were found wrong.
fn checks(gateway: &Gateway) -> u64 {
    metric(gateway, "tollgate_password_checks_total{result=\"wrong\"}")
}

/// Regression: only routes with `auth` counted wrong passwords, so one address could try any number
/// of them on another route.
#[test]
fn a_route_without_auth_bounds_them_as_one_with_auth() {
    for (path, status) in [("/list", 403), ("/policy", 403), ("/body", 200)] {
        let users = Users::new();
        let gateway = start(&users);
        let mut client = gateway.client();
        let mut ask = |field: &str| {
            let request = ["Content-Type: application/json", field];
            client.request("POST", path, &request, b"{\"a\":\"1\"}")
        };
        let statuses: Vec<u16> = (0..6).map(|it| ask(&wrong(it)).status).collect();
        assert_eq!(statuses, [status, status, status, 429, 429, 429], "{path}");
        assert_eq!(checks(&gateway), 3, "{path}");
        // It is not checked whether it is right, and no password of another route either.
        let refused = ask(&right());
        // A slot of the sliding window is free again at most 1 h and 1 h / 3 after the refusal.
        assert!((1..=4800).contains(&refused.number("Retry-After")), "{path} {refused:?}");
        assert_eq!(refused.status, 429, "{path}");
        assert_eq!(gateway.client().get("/demanding", &[&right()]).status, 429, "{path}");
        let auth = "tollgate_auth_total{method=\"user\",result=\"auth_failures\"}";
        assert_eq!(metric(&gateway, auth), 5, "{path}");
        assert_eq!(gateway.access_lines(8)[6]["outcome"], "auth_failures", "{path}");
        assert_eq!(gateway.client().get("/body", &[]).status, 200, "without a password");
    }
}

/// The same bound counts for both: failures of one kind of route are known on the other one.
#[test]
fn a_right_password_that_is_known_goes_on() {
    let users = Users::new();
    let gateway = start(&users);
    let mut client = gateway.client();
    assert_eq!(client.get("/list", &[&right()]).status, 200);
    let mut ask = |path: &str, number: usize| client.get(path, &[&wrong(number)]).status;
    let statuses = [ask("/demanding", 0), ask("/list", 1), ask("/policy", 2), ask("/list", 3)];
    assert_eq!(statuses, [401, 403, 403, 429]);
    // One that is known to be wrong costs no check, and is not accepted either.
    assert_eq!([ask("/list", 1), ask("/policy", 2)], [429, 429]);
    for path in ["/list", "/policy", "/demanding"] {
        assert_eq!(client.get(path, &[&right()]).status, 200, "{path}");
    }
    let other = field("bob", "hunter2");
    assert_eq!(client.get("/policy", &[&other]).status, 429, "it is not known");
}

/// Each request counts once: the route that it overflows to is the first one that checks it.
#[test]
fn a_route_that_takes_what_overflows_bounds_them() {
    let users = Users::new();
    let gateway = start(&users);
    let mut client = gateway.client();
    assert_eq!(client.get("/over", &[]).status, 200);
    let statuses = [0, 1, 2, 3].map(|it| client.get("/over", &[&wrong(it)]).status);
    assert_eq!(statuses, [403, 403, 403, 429]);
    assert_eq!(checks(&gateway), 3);
}

/// Regression: a route without `cors` takes a preflight that overflows for an ordinary request, and did
/// not count its wrong password. A route with `auth` counted that of any other request once more.
#[test]
fn a_request_that_overflows_counts_once_whatever_route_checks_it() {
    let preflight = ["Origin: https://a.test", "Access-Control-Request-Method: GET"];
    for (method, path, fields, status) in
        [("OPTIONS", "/preflight", &preflight[..], 403), ("GET", "/ordinary", &[], 401)]
    {
        let users = Users::new();
        let gateway = users.start(
            "failures: 3/hour",
            "access: { staff: { rules: [{ allow: { values: { user: [ann] } } }], else: deny } }\n\
             policies:\n  \
               any: { key: { first: [user, ip] }, limit: 1000/hour }\n  \
               small: { key: global, limit: 1/day, exempt_preflights: false }\n\
             routes:\n  \
               - { path: /preflight, policies: [small, any], respond: { body: ok }, \
                   cors: { origins: [\"*\"], methods: [GET] }, \
                   overflow: { policies: [small], route: staff } }\n  \
               - { path: /ordinary, policies: [small, any], respond: { body: ok }, \
                   overflow: { policies: [small], route: demanding } }\n  \
               - { path: /a, name: staff, access: [staff], policies: [any], respond: {} }\n  \
               - { path: /b, name: demanding, auth: [user], respond: {} }\n",
        );
        let mut client = gateway.client();
        assert_eq!(client.get(path, &[]).status, 200);
        let statuses = [0, 1, 2, 3].map(|number| {
            let wrong = wrong(number);
            let fields = [fields, &[&*wrong]].concat();
            client.request(method, path, &fields, b"").status
        });
        assert_eq!(statuses, [status, status, status, 429], "{path}");
        assert_eq!(checks(&gateway), 3, "{path}");
    }
}

#[test]
fn what_other_proxies_ask_counts_too() {
    let users = Users::new();
    let check = "check: { http: { address: \"127.0.0.1:0\" } }";
    let gateway = users.start("failures: 3/hour", &format!("{check}\n{ROUTES}"));
    let mut client = Client::connect(gateway.addresses()[1]);
    let question =
        ["X-Forwarded-Method: GET", "X-Forwarded-Uri: /list", "X-Forwarded-Host: a.test"];
    let mut ask = |field: &str| client.get("/auth", &[&question[..], &[field]].concat()).status;
    assert_eq!([0, 1, 2, 3].map(|it| ask(&wrong(it))), [403, 403, 403, 429]);
    assert_eq!(ask(&right()), 429, "it is not checked");
}

/// Beside a key that is missing or right, a password is no second way to try any number of them.
#[test]
fn a_route_that_demands_another_credential_bounds_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("keys.yaml");
    let shown = file.to_str().expect("UTF-8");
    let key = Program::run(&["key", "create", "--file", shown]).stdout;
    let key = format!("X-Api-Key: {}", key.trim());
    for (fields, status) in [(&[&*key][..], 200), (&[], 401)] {
        let users = Users::new();
        let gateway = users.start(
            &format!("failures: 3/hour, keys: {{ file: {shown:?} }}"),
            "policies: { p: { key: { first: [user, ip] }, limit: 1000/hour } }\n\
             routes: [{ path: /*, auth: [api_key], policies: [p], respond: { body: ok } }]",
        );
        let mut client = gateway.client();
        let mut ask = |number| client.get("/", &[fields, &[&*wrong(number)]].concat()).status;
        assert_eq!([0, 1, 2, 3].map(&mut ask), [status, status, status, 429]);
        assert_eq!(checks(&gateway), 3);
    }
}

/// Two keys beside it hide no wrong password.
#[test]
fn a_request_that_is_ambiguous_counts_its_wrong_password() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("keys.yaml");
    let shown = file.to_str().expect("UTF-8");
    Program::run(&["key", "create", "--file", shown]);
    let users = Users::new();
    let gateway = users.start(
        &format!("failures: 3/hour, keys: {{ file: {shown:?} }}"),
        "routes: [{ path: /*, auth: [api_key, user], respond: { body: ok } }]",
    );
    let ask = |number| {
        let fields = ["X-Api-Key: one", "X-Api-Key: two", &*wrong(number)];
        gateway.client().get("/", &fields).status
    };
    assert_eq!([0, 1, 2, 3].map(ask), [400, 400, 400, 429]);
    assert_eq!(checks(&gateway), 3);
}

/// In shadow mode no request is refused for its credential, but none is tried without a bound.
#[test]
fn in_shadow_mode_they_are_not_checked_beyond_the_bound() {
    let users = Users::new();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("keys.yaml");
    let shown = file.to_str().expect("UTF-8");
    Program::run(&["key", "create", "--file", shown]);
    let gateway = users.start(
        &format!("failures: 3/hour, keys: {{ file: {shown:?}, mode: shadow }}"),
        "access: { staff: { rules: [{ allow: { values: { user: [ann] } } }], else: deny } }\n\
         routes: [{ path: /list, auth: [user], access: [staff], respond: { body: ok } }, \
         { path: /*, auth: [user], respond: { body: ok } }]",
    );
    let mut client = gateway.client();
    let mut ask = |path: &str, field: &str| client.get(path, &[field]).status;
    assert_eq!([0, 1, 2, 3].map(|it| ask("/list", &wrong(it))), [403; 4]);
    assert_eq!(checks(&gateway), 3);
    assert_eq!(ask("/list", &right()), 403, "it is not checked");
    assert_eq!([ask("/", &wrong(4)), ask("/", &right())], [200, 200]);
    assert_eq!(checks(&gateway), 3);
}
