//! Routes whose requests several upstreams share.

use std::sync::{Mutex, mpsc};

use super::{endpoint, gateway, metric, saying, yaml};
use crate::passwords::{Users, basic};
use crate::support::{Gateway, Origin, PATIENCE, Program, eventually};

/// The upstreams of 300 clients.
fn upstreams_of_clients(gateway: &Gateway) -> Vec<String> {
    let mut client = gateway.client();
    (0..300).map(|n| client.get("/", &[&format!("Cookie: sid={n}")]).text()).collect()
}

fn upstreams(v1: &Origin, v2: &Origin) -> [(&'static str, String); 2] {
    [("v1", endpoint(v1.address())), ("v2", endpoint(v2.address()))]
}

/// Acceptance 8 of the contract, and the same clients on another node and after a restart.
#[test]
fn a_share_that_grows_keeps_its_clients_on_all_nodes() {
    let v1 = saying("v1");
    let v2 = saying("v2");
    let start = |share: u32| {
        let to = format!("{{ v1: {}, v2: {share} }}", 100 - share);
        let route = format!("split: {{ to: {to}, by: {{ first: [\"cookie:sid\", ip] }} }}");
        gateway(&upstreams(&v1, &v2), &route, "")
    };
    let mut before = vec!["v1".to_owned(); 300];
    for share in [5, 10, 40, 100] {
        let [one, other] = [start(share), start(share)].map(|it| upstreams_of_clients(&it));
        assert_eq!(one, other, "two nodes disagree");
        let returned = before.iter().zip(&one).any(|(old, new)| old == "v2" && new == "v1");
        assert!(!returned, "with {share} %");
        let clients = one.iter().filter(|it| *it == "v2").count();
        // The hash is fixed, so these are always the same numbers.
        let expected = 3 * usize::try_from(share).unwrap();
        assert!(clients.abs_diff(expected) <= 25, "{clients} of 300 with {share} %");
        before = one;
    }
}

#[test]
fn a_reload_changes_the_shares() {
    let v1 = saying("v1");
    let v2 = saying("v2");
    let text = |shares: &str| {
        let route = format!("split: {{ to: {{ {shares} }}, by: \"cookie:sid\" }}");
        yaml(&upstreams(&v1, &v2), &route, "")
    };
    let gateway = Gateway::start(&text("v1: 100, v2: 0"));
    assert!(upstreams_of_clients(&gateway).iter().all(|it| it == "v1"));
    gateway.reload(&text("v1: 0, v2: 100"));
    assert!(upstreams_of_clients(&gateway).iter().all(|it| it == "v2"));
}

#[test]
fn requests_without_the_key_go_to_all_upstreams() {
    let v1 = saying("v1");
    let v2 = saying("v2");
    for by in ["", ", by: \"cookie:sid\""] {
        let route = format!("split: {{ to: {{ v1: 50, v2: 50 }}{by} }}");
        let gateway = gateway(&upstreams(&v1, &v2), &route, "");
        let mut client = gateway.client();
        let answers: Vec<_> = (0..200).map(|_| client.get("/", &[]).text()).collect();
        for upstream in ["v1", "v2"] {
            assert!(answers.iter().any(|it| it == upstream), "{by}");
        }
    }
}

/// All that depends on the upstream of a route depends on the one that is chosen.
#[test]
fn the_chosen_upstream_is_in_the_log_and_the_metrics_and_hashes_its_own_key() {
    let [v1, one, other] = [saying("v1"), saying("one"), saying("other")];
    let endpoints = [&one, &other].map(|it| format!("\"http://{}\"", it.address())).join(", ");
    let upstreams = [
        ("v1", endpoint(v1.address())),
        ("v2", format!("endpoints: [{endpoints}], balance: {{ hash: header:x-key }}")),
    ];
    let gateway = gateway(&upstreams, "split: { to: { v1: 0, v2: 100 }, by: ip }", "");
    let mut client = gateway.client();
    let mut answer = |key: usize| client.get("/", &[&format!("X-Key: {key}")]).text();
    let answers: Vec<_> = (0..20).map(|key| [answer(key), answer(key)]).collect();
    assert!(answers.iter().all(|[first, second]| first == second));
    assert!(["one", "other"].iter().all(|it| answers.iter().any(|[first, _]| first == it)));
    assert_eq!(gateway.access_lines(40)[39]["upstream"], "v2");
    let connections = |upstream: &str| {
        let label = format!("upstream=\"{upstream}\"");
        metric(&gateway, "tollgate_upstream_connections_total", &[&label])
    };
    assert_eq!((connections("v1"), connections("v2")), (0.0, 40.0));
}

/// An elastic limit looks at the upstream that the request will get.
#[test]
fn an_elastic_limit_uses_the_headroom_of_the_chosen_upstream() {
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let v1 = Origin::serving(move |_, read| {
        read();
        let _ = may_go.lock().map(|may_go| may_go.recv_timeout(PATIENCE));
    });
    let v2 = saying("v2");
    let upstreams = upstreams(&v1, &v2);
    let [v1_fields, v2_fields] = upstreams.each_ref().map(|(_, fields)| fields);
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ v1: {{ {v1_fields}, max_in_flight: 1 }}, v2: {{ {v2_fields}, max_in_flight: 100 }} }}\n\
         policies: {{ p: {{ key: path, limit: 1/day, \
         elastic: {{ limit: 100000/day, when: {{ upstream_in_flight_below: 50% }} }} }} }}\n\
         routes:\n\
         - {{ path: \"/busy\", policies: [p], split: {{ to: {{ v1: 100, v2: 0 }} }} }}\n\
         - {{ path: \"/free\", policies: [p], split: {{ to: {{ v1: 0, v2: 100 }} }} }}\n\
         runtime: {{ workers: 1 }}\n"
    ));
    // It uses up the limit of its path, and the upstream.
    let mut holder = gateway.client();
    holder.send(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request arrives", || v1.received().len() == 1);
    let mut client = gateway.client();
    assert!((0..20).all(|_| client.get("/free", &[]).status == 200));
    assert_eq!(client.get("/busy", &[]).status, 429);
    drop(go);
}

#[test]
fn explain_and_the_table_of_routes_show_the_split() {
    let v1 = saying("v1");
    let v2 = saying("v2");
    let route = "split: { to: { v1: 70, v2: 30 }, by: \"cookie:sid\" }";
    let gateway = gateway(&upstreams(&v1, &v2), route, "");
    let file = gateway.file();
    let file = file.to_str().expect("UTF-8");
    let table = Program::run(&["check", "--routes", file]);
    let stdout = &table.stdout;
    assert!(stdout.contains("split v1 70%, v2 30% by cookie:sid"), "{stdout} {}", table.stderr);
    let explain = |fields: &[&str]| {
        let arguments = [&["explain", "-c", file], fields, &["http://a/"]].concat();
        let output = Program::run(&arguments);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.stdout
    };
    assert!(explain(&[]).contains("to any: the request has no usable cookie:sid: v1 70%, v2 30%"));
    let mut client = gateway.client();
    for sid in ["1", "2", "3", "4", "5", "6", "7"] {
        let cookie = format!("Cookie: sid={sid}");
        let real = client.get("/", &[&cookie]).text();
        let shown = explain(&["-H", &cookie]);
        assert!(
            shown.contains(&format!("to {real}: the cookie:sid of the client is at ")),
            "{shown}"
        );
    }
}

/// Regression: the upstream was chosen before the password was checked, so it was a random one.
#[test]
fn a_user_with_a_password_has_one_upstream() {
    let v1 = saying("v1");
    let v2 = saying("v2");
    let users = Users::new();
    let file = users.path();
    for auth in ["", ", auth: [user]"] {
        let route = format!("split: {{ to: {{ v1: 50, v2: 50 }}, by: user }}{auth}");
        let client = format!("client: {{ user: {{ basic: {{ file: {file:?}, realm: a }} }} }}");
        let gateway = gateway(&upstreams(&v1, &v2), &route, &client);
        let mut client = gateway.client();
        let field = format!("Authorization: {}", basic("ann", "hunter2"));
        let answers: Vec<_> = (0..20).map(|_| client.get("/", &[&field]).text()).collect();
        assert!(answers.iter().all(|it| *it == answers[0]), "{auth}: {answers:?}");
    }
}

/// Regression: the choice of the upstream asked for the key before it was looked up in the store, so
/// the key was refused as unknown.
#[test]
fn a_key_of_the_store_is_known_and_has_one_upstream() {
    let v1 = saying("v1");
    let v2 = saying("v2");
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("keys.redb");
    let route = "auth: [api_key], split: { to: { v1: 50, v2: 50 }, by: { first: [api_key, ip] } }";
    let top = format!("store: {{ keys: {{ path: {store:?} }} }}\nclient: {{ keys: {{}} }}");
    let gateway = gateway(&upstreams(&v1, &v2), route, &top);
    let file = gateway.file();
    let file = file.to_str().expect("UTF-8");
    let made = Program::run(&["key", "create", "-c", file, "--store", "--first"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let field = format!("X-Api-Key: {}", made.stdout.trim_end());
    let mut client = gateway.client();
    eventually("the key holds", || client.get("/", &[&field]).status == 200);
    let answers: Vec<_> = (0..20).map(|_| client.get("/", &[&field]).text()).collect();
    assert!(answers.iter().all(|it| *it == answers[0]), "{answers:?}");
}
