//! Which requests pass, and what the others get.

use serde_json::json;

use super::{DEMANDING, Users, field, metric};
use crate::support::{Client, Gateway, Origin, Program};

const CHALLENGE: &str = "Basic realm=\"staff\", charset=\"UTF-8\"";

#[test]
fn a_right_password_passes_and_others_are_challenged() {
    let users = Users::new();
    let gateway = users.start("", DEMANDING);
    let mut client = gateway.client();
    for right in [field("ann", "hunter2"), field("bob", "hunter2").replace("Basic", "basic")] {
        assert_eq!(client.get("/", &[&right]).status, 200, "{right}");
    }
    let long = field("ann", &"x".repeat(73));
    let outcomes = [
        (String::new(), "unauthorized"),
        ("Authorization: Bearer x".to_owned(), "unauthorized"),
        (field("ann", "hunter3"), "password_wrong"),
        (field("eve", "hunter2"), "password_wrong"),
        (field("", ""), "password_wrong"),
        (long, "password_wrong"),
        ("Authorization: Basic YW5uOmh1bnRlcjI".to_owned(), "password_wrong"),
    ];
    for (wrong, _) in &outcomes {
        let fields: Vec<&str> = [&**wrong].into_iter().filter(|it| !it.is_empty()).collect();
        let refused = client.get("/", &fields);
        let challenge = refused.field("WWW-Authenticate");
        assert_eq!((refused.status, challenge), (401, Some(CHALLENGE)), "{wrong}");
        assert_eq!(refused.json()["source"], json!("client"));
    }
    // A password that is too long, and credentials in another form, cost no computation.
    let wrong = metric(&gateway, "tollgate_password_checks_total{result=\"wrong\"}");
    let right = metric(&gateway, "tollgate_password_checks_total{result=\"right\"}");
    assert_eq!((wrong, right), (3, 2));
    let lines = gateway.access_lines(2 + outcomes.len());
    let column = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("auth")[..2], [json!("user"), json!("user")]);
    let told: Vec<_> = outcomes.iter().map(|(_, outcome)| json!(outcome)).collect();
    assert_eq!(column("outcome")[2..], told);
    let written = std::fs::read_to_string(gateway.access_log()).expect("a log") + &gateway.log();
    assert!(!written.contains("hunter") && !written.contains("YW5u"), "no secret is in a log");
    for two in ["Authorization: Basic YTpi YTpj", "Authorization: Basic YTpi, Bearer x"] {
        assert_eq!(gateway.client().get("/", &[two]).status, 400, "{two}");
    }
}

/// From one address: 30 times 401, and then 429 without a computation. A right password that is
/// known goes on.
#[test]
fn an_address_may_send_30_wrong_passwords_in_a_minute() {
    let users = Users::new();
    let gateway = users.start("failures: 30/hour", DEMANDING);
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[&field("ann", "hunter2")]).status, 200);
    let wrong = |number: usize| field("ann", &format!("wrong-{number}"));
    let statuses: Vec<u16> = (0..60).map(|it| client.get("/", &[&wrong(it)]).status).collect();
    assert_eq!((&statuses[..30], &statuses[30..]), (&[401; 30][..], &[429; 30][..]));
    assert_eq!(metric(&gateway, "tollgate_password_checks_total{result=\"wrong\"}"), 30);
    let refused = client.get("/", &[&wrong(60)]);
    // A slot of the sliding window is free again at most 1 h and 1 h / 30 after the refusal.
    assert!((1..=3720).contains(&refused.number("Retry-After")), "{refused:?}");
    assert_eq!(client.get("/", &[&field("ann", "hunter2")]).status, 200, "it is known");
    assert_eq!(client.get("/", &[&field("bob", "hunter2")]).status, 429, "it is not known");
    assert_eq!(client.get("/open", &[]).status, 200);
}

/// A wrong password that is known to be wrong counts, and costs no computation.
#[test]
fn the_same_wrong_password_is_computed_once() {
    let users = Users::new();
    let gateway = users.start("failures: 1000/hour", DEMANDING);
    let mut client = gateway.client();
    let mut sent = 0;
    // A wrong result is kept for 10 s. On a slow machine it can end in between.
    let is_kept = (0..20).any(|_| {
        let series = "tollgate_password_checks_total{result=\"wrong\"}";
        let before = if sent == 0 { 0 } else { metric(&gateway, series) };
        assert_eq!([(); 5].map(|()| client.get("/", &[&field("ann", "x")]).status), [401; 5]);
        sent += 5;
        metric(&gateway, series) - before <= 1
    });
    assert!(is_kept);
}

#[test]
fn the_user_is_a_key_and_the_upstream_gets_the_credentials() {
    let users = Users::new();
    let origin = Origin::hello();
    let gateway = users.start(
        "failures: 1000/hour",
        &format!(
            "policies: {{ per-user: {{ key: user, limit: 2/hour }} }}\n\
             upstreams: {{ app: \"http://{}\" }}\n\
             routes: [{{ path: /counted, policies: [per-user], upstream: app }}, \
             {{ path: /own, upstream: app }}, \
             {{ path: /*, auth: [user], policies: [per-user], upstream: app }}]",
            origin.address()
        ),
    );
    let mut client = gateway.client();
    let ann = field("ann", "hunter2");
    let bob = field("bob", "hunter2");
    let mut status = |path: &str, field: &str| client.get(path, &[field]).status;
    assert_eq!([(); 3].map(|()| status("/", &ann)), [200, 200, 429]);
    assert_eq!(status("/counted", &ann), 429, "the counter is that of the user");
    assert_eq!(status("/counted", &bob), 200);
    // Without `auth` a wrong password counts by the address.
    let wrong = |number: u32| field("bob", &format!("wrong-{number}"));
    assert_eq!([1, 2, 3].map(|it| status("/counted", &wrong(it))), [200, 200, 429]);
    let checks = || metric(&gateway, "tollgate_password_checks_total{result=\"wrong\"}");
    let before = checks();
    assert_eq!(status("/own", &wrong(4)), 200, "the upstream checks its own passwords");
    assert_eq!(checks(), before, "a route that does not need the user checks nothing");
}

#[test]
fn other_proxies_and_explanations_obey_passwords() {
    let users = Users::new();
    let gateway =
        users.start("", &format!("{DEMANDING}\ncheck: {{ http: {{ address: \"127.0.0.1:0\" }} }}"));
    let mut client = Client::connect(gateway.addresses()[1]);
    let question = ["X-Forwarded-Method: GET", "X-Forwarded-Uri: /x", "X-Forwarded-Host: a.test"];
    let mut ask =
        |credentials: &str| client.get("/auth", &[&question[..], &[credentials]].concat());
    assert_eq!(ask(&field("ann", "hunter2")).status, 200);
    let refused = ask(&field("ann", "x"));
    assert_eq!((refused.status, refused.field("WWW-Authenticate")), (401, Some(CHALLENGE)));
    let file = gateway.file();
    let explain = |user: &str| {
        let file = file.to_str().expect("UTF-8");
        let field = field(user, "any");
        Program::run(&["explain", "-c", file, "http://a.test/x", "-H", &field]).stdout
    };
    let known = explain("ann");
    assert!(known.contains("the password is not checked here"), "{known}");
    assert!(!known.contains("password_wrong"), "{known}");
    assert!(explain("eve").contains("password_wrong"), "{}", explain("eve"));
}

/// A key and a password beside each other: each has its challenge, and one is enough.
#[test]
fn passwords_stand_beside_keys() {
    let users = Users::new();
    let keys = tempfile::tempdir().expect("a directory");
    let file = keys.path().join("keys.yaml");
    let shown = file.to_str().expect("UTF-8");
    let key = Program::run(&["key", "create", "--file", shown]).stdout;
    let gateway = users.start(
        &format!("keys: {{ file: {shown:?} }}"),
        "routes: [{ path: /*, auth: [api_key, user], respond: { body: ok } }]",
    );
    let mut client = gateway.client();
    let key = format!("X-Api-Key: {}", key.trim());
    assert_eq!(client.get("/", &[&key]).status, 200);
    assert_eq!(client.get("/", &[&field("ann", "hunter2")]).status, 200);
    let refused = client.get("/", &[&key, &field("ann", "x")]);
    assert_eq!(refused.status, 401, "a wrong one is refused");
    let challenges: Vec<&str> = refused
        .fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"))
        .map(|(_, value)| &**value)
        .collect();
    assert_eq!(challenges, ["Bearer realm=\"tollgate\"", CHALLENGE]);
}

/// A preflight has no credentials, and costs no computation.
#[test]
fn a_preflight_is_answered_without_a_password() {
    let users = Users::new();
    let route = "routes: [{ path: /*, auth: [user], respond: { body: ok }, \
                 cors: { origins: [\"https://a.test\"], headers: [authorization] } }]";
    let gateway: Gateway = users.start("", route);
    let fields = [
        "Origin: https://a.test",
        "Access-Control-Request-Method: GET",
        "Access-Control-Request-Headers: authorization",
    ];
    assert_eq!(gateway.client().request("OPTIONS", "/", &fields, b"").status, 204);
}
