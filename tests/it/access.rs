//! Access lists: which requests may use a route at all.

use serde_json::json;

use crate::support::{Client, Gateway, Origin, Program, Response};

/// One worker behind a trusted proxy, with these lists and routes. One request a day is admitted.
fn gateway(lists: &str, routes: &str, top: &str) -> Gateway {
    Gateway::start(&yaml(lists, routes, top))
}

fn yaml(lists: &str, routes: &str, top: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         client: {{ trusted_proxies: [127.0.0.1] }}\n\
         policies: {{ daily: {{ key: ip, limit: 1/day }} }}\n\
         access: {{ {lists} }}\nroutes: [{routes}]\n{top}\n"
    )
}

const OFFICE: &str = "office: { rules: [{ allow: { ips: [10.0.0.0/8] } }], else: deny }";
const ROUTE: &str =
    "{ name: all, path: /*, access: [office], policies: [daily], respond: { body: ok } }";

fn from(address: &str) -> String {
    format!("X-Forwarded-For: {address}")
}

#[test]
fn a_denied_request_uses_no_limit_and_is_in_the_log_and_the_metrics() {
    let admin = "admin: { address: \"127.0.0.1:0\", tokens: [{ name: m, role: metrics, \
                 token: metrics-0123456789abcdef }] }";
    let gateway = gateway(OFFICE, ROUTE, admin);
    let mut client = gateway.client();
    for _ in 0..3 {
        let denied = client.get("/", &[&from("203.0.113.9")]);
        assert_eq!(denied.status, 403, "{denied:?}");
        assert!(denied.text().contains("does not allow this request"), "{}", denied.text());
        assert_eq!(denied.field("x-ratelimit-limit"), None);
    }
    assert_eq!(client.get("/", &[&from("10.1.2.3")]).status, 200);
    assert_eq!(client.get("/", &[&from("10.1.2.3")]).status, 429);
    // What a peer that is not trusted says of its client would not be believed.
    let lines = gateway.access_lines(5);
    let denied = &lines[0];
    assert_eq!((&denied["outcome"], &denied["denied_by"]), (&json!("denied"), &json!("office")));
    assert_eq!((&denied["route"], &denied["status"]), (&json!("all"), &json!(403)));
    assert_eq!(denied["policy"], json!(null));
    assert_eq!((&lines[3]["outcome"], &lines[3]["denied_by"]), (&json!("admitted"), &json!(null)));
    let address = gateway.addresses()[1];
    let mut scraper = Client::connect(address);
    let token = "metrics-0123456789abcdef";
    let head = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    scraper.send(format!("GET /metrics HTTP/1.1\r\n{head}").as_bytes());
    let metrics = scraper.response("GET").text();
    for line in [
        "tollgate_access_total{list=\"office\",result=\"allowed\"} 2",
        "tollgate_access_total{list=\"office\",result=\"denied\"} 3",
        "tollgate_decisions_total{outcome=\"admitted\",plan=\"\",policy=\"daily\"} 1",
        "tollgate_decisions_total{outcome=\"refused\",plan=\"\",policy=\"daily\"} 1",
        "tollgate_refused_requests_total 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(!metrics.contains("outcome=\"exempt\""), "{metrics}");
}

/// The response without the id of the request, and without the time.
fn without_ids(response: &Response) -> (u16, Vec<(String, String)>, String) {
    let is_kept = |(name, _): &&(String, String)| {
        !["x-request-id", "date"].contains(&name.to_ascii_lowercase().as_str())
    };
    let id = response.field("x-request-id").unwrap_or("-").to_owned();
    let fields = response.fields.iter().filter(is_kept).cloned().collect();
    (response.status, fields, response.text().replace(&id, "ID"))
}

#[test]
fn a_hidden_route_answers_as_a_missing_one() {
    let list = "office: { rules: [{ allow: { ips: [10.0.0.0/8] } }], else: deny, status: 404 }";
    let route = "{ path: /hidden/*, access: [office], policies: [daily], \
                 response_headers: { set: { x-there: \"1\" } }, respond: { body: ok } }";
    let gateway = gateway(list, route, "");
    let from = from("203.0.113.9");
    let grpc = ["Content-Type: application/grpc", "TE: trailers"];
    for (method, fields, body) in [
        ("GET", &[][..], &b""[..]),
        ("HEAD", &[], b""),
        ("GET", &["Accept: text/plain"], b""),
        ("GET", &["Accept: text/html,application/xhtml+xml", "Origin: https://a.test"], b""),
        ("OPTIONS", &["Origin: https://a.test", "Access-Control-Request-Method: PUT"], b""),
        ("POST", &[], b"a body that is not read"),
        ("POST", &grpc, b"\0\0\0\0\0"),
        ("GET", &["X-Request-Id: chosen-by-the-client"], b""),
    ] {
        let answer = |path: &str| {
            let fields: Vec<&str> = fields.iter().copied().chain([&*from]).collect();
            without_ids(&gateway.client().request(method, path, &fields, body))
        };
        let hidden = answer("/hidden/x");
        let missing = answer("/missing/x");
        assert_eq!(hidden, missing, "{method} {fields:?}");
        assert!([404, 200].contains(&hidden.0), "{hidden:?}");
    }
    let seen = gateway.client().get("/hidden/x", &["X-Forwarded-For: 10.1.2.3"]);
    assert_eq!((seen.status, seen.field("x-there")), (200, Some("1")));
    let lines = gateway.access_lines(17);
    let outcomes = |outcome: &str| lines.iter().filter(|it| it["outcome"] == outcome).count();
    assert_eq!((outcomes("denied"), outcomes("no_route")), (8, 8), "operators see the difference");
}

#[test]
fn a_route_out_of_service_says_when_to_come_back() {
    let list = "office: { else: deny, status: 503, retry_after: 90s }";
    let gateway = gateway(list, ROUTE, "headers: { dialects: [x_ratelimit] }");
    let response = gateway.client().get("/", &[]);
    assert_eq!((response.status, response.field("retry-after")), (503, Some("90")));
    let document = response.json();
    assert_eq!(document["retry-after-ms"], 90_000, "{document}");
    assert_eq!(document["source"], "gateway");
}

#[test]
fn what_is_not_certain_is_refused() {
    let lists = "office: { rules: [\
                   { allow: { values: { \"cookie:sid\": [a] } } }, \
                   { allow: { headers: { x-in: \"1\" } } }, \
                   { allow: { values: { api_key: [one] } } }], else: deny }";
    let gateway = gateway(lists, ROUTE.replace("policies: [daily], ", "").as_str(), "");
    let status = |fields: &[&str]| gateway.client().get("/", fields).status;
    for (fields, expected) in [
        (&["Cookie: sid=a"][..], 200),
        (&["Cookie: sid=b"], 403),
        (&["Cookie: sid=a; sid=b"], 400),
        (&["X-In: 1"], 200),
        (&["X-In: 1", "X-In: 2"], 400),
        (&["X_In: 1"], 400),
        (&["X-Api-Key: one"], 200),
        (&["X-Api-Key: one", "Authorization: Bearer two"], 400),
        (&[], 403),
    ] {
        assert_eq!(status(fields), expected, "{fields:?}");
    }
}

#[test]
fn a_token_that_is_not_valid_escapes_no_rule() {
    let user =
        "user: { jwt: { secret: \"a secret of at least thirty-two bytes\", algorithms: [HS256] } }";
    let lists = "nobob: { rules: [{ deny: { values: { user: [bob] } } }], else: allow }";
    let route = "{ path: /*, access: [nobob], respond: { body: ok } }";
    let yaml = yaml(lists, route, "").replace("client: { ", &format!("client: {{ {user}, "));
    let gateway = Gateway::start(&yaml);
    let token = |secret: &str, user: &str| {
        let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
        let claims = json!({ "sub": user, "exp": 4_000_000_000_u64 });
        let token = jsonwebtoken::encode(&Default::default(), &claims, &key).expect("a token");
        format!("Authorization: Bearer {token}")
    };
    let good = "a secret of at least thirty-two bytes";
    let status = |fields: &[&str]| gateway.client().get("/", fields).status;
    assert_eq!(status(&[&token(good, "ann")]), 200);
    assert_eq!(status(&[&token(good, "bob")]), 403);
    assert_eq!(status(&[&token("another secret of thirty-two bytes.", "ann")]), 403);
    assert_eq!(status(&[]), 200, "a request without a token is not bob's");
}

#[test]
fn all_lists_must_allow_and_a_route_may_replace_those_of_the_defaults() {
    let lists = format!(
        "{OFFICE}, readers: {{ rules: [{{ allow: {{ methods: [GET] }} }}], else: deny }}, \
         trial: {{ else: deny, mode: shadow }}, unused: {{ else: deny, mode: \"off\" }}"
    );
    let routes = "{ path: /both, access: [office, readers], respond: { body: ok } }, \
                  { path: /none, access: none, defaults: false, respond: { body: ok } }, \
                  { path: /trial, access: [trial, unused], respond: { body: ok } }, \
                  { path: /*, respond: { body: ok } }";
    let gateway = gateway(&lists, routes, "defaults: { access: office }");
    let inside = from("10.1.2.3");
    let outside = from("203.0.113.9");
    let status = |method: &str, path: &str, from: &str| {
        gateway.client().request(method, path, &[from], b"").status
    };
    for (method, path, from, expected) in [
        ("GET", "/both", &inside, 200),
        ("PUT", "/both", &inside, 403),
        ("GET", "/both", &outside, 403),
        ("GET", "/none", &outside, 200),
        ("GET", "/trial", &outside, 200),
        ("GET", "/other", &inside, 200),
        ("GET", "/other", &outside, 403),
    ] {
        assert_eq!(status(method, path, from), expected, "{method} {path} {from}");
    }
    let lines = gateway.access_lines(7);
    // Workers write their lines in any order.
    let denied =
        |by: &str| lines.iter().filter(|it| it["path"] == "/both" && it["denied_by"] == by).count();
    assert_eq!([denied("readers"), denied("office")], [1, 1]);
    let trial = lines.iter().find(|it| it["path"] == "/trial").expect("a line");
    assert_eq!(trial["shadow_denied_by"], "trial", "{trial}");
}

#[test]
fn questions_of_other_proxies_obey_the_lists() {
    let list = "office: { rules: [{ allow: { ips: [10.0.0.0/8] } }], else: deny, status: 404 }";
    let gateway = gateway(list, ROUTE, "check: { http: { address: \"127.0.0.1:0\" } }");
    let mut client = Client::connect(gateway.addresses()[1]);
    let ask = |client: &mut Client, address: &str| {
        let fields = [
            &*from(address),
            "X-Forwarded-Method: GET",
            "X-Forwarded-Uri: /x",
            "X-Forwarded-Host: gateway.test",
        ];
        client.get("/auth", &fields)
    };
    let denied = ask(&mut client, "203.0.113.9");
    assert_eq!((denied.status, denied.field("x-tollgate-outcome")), (404, Some("denied")));
    assert_eq!(ask(&mut client, "10.1.2.3").status, 200);
    // nginx takes 401 and 403 only for an answer.
    let nginx = ["X-Forwarded-For: 203.0.113.9", "X-Original-Method: GET", "X-Original-URI: /x"];
    let denied = client.get("/auth/nginx", &nginx);
    assert_eq!((denied.status, denied.field("x-tollgate-status")), (403, Some("404")));
}

#[test]
fn a_request_to_an_upstream_passes_only_if_the_lists_allow_it() {
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         access: {{ own: {{ rules: [{{ allow: {{ ips: [127.0.0.1] }} }}], else: deny }} }}\n\
         routes: [{{ path: \"/*\", access: own, upstream: app }}]\n",
        origin.address()
    ));
    assert_eq!(gateway.client().get("/", &[]).status, 200);
    // The client's address is that of the peer, whatever it says.
    assert_eq!(gateway.client().get("/", &["X-Forwarded-For: 203.0.113.9"]).status, 200);
}

#[test]
fn the_commands_show_the_lists() {
    let lists = "office: { rules: [{ allow: { ips: [10.0.0.0/8] } }], else: deny, status: 404 }, \
                 known: { rules: [{ allow: { values: { api_key: [s3cret-key] } } }], else: deny, mode: shadow }";
    let route = "{ name: all, path: /*, access: [office, known], respond: { body: ok } }";
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gateway.yaml");
    std::fs::write(
        &file,
        yaml(lists, route, "").replace("policies: {", "policies: { open: { key: ip, limit: 1/s },"),
    )
    .expect("a file");
    let file = file.to_str().expect("UTF-8");
    let table = Program::run(&["check", "--routes", "-c", file]).stdout;
    assert!(table.contains("office (404 before auth), known (403 after auth, shadow)"), "{table}");
    let explain = |address: &str| {
        let from = from(address);
        let arguments =
            ["explain", "-c", file, "--peer", "127.0.0.1", "-H", &from, "http://a.test/x"];
        Program::run(&arguments).stdout
    };
    let denied = explain("203.0.113.9");
    assert!(denied.starts_with("Refused by office (404): denied"), "{denied}");
    assert!(denied.contains("Access    office: denied (before auth)"), "{denied}");
    assert!(denied.contains("known: not asked (after auth)"), "{denied}");
    let admitted = explain("10.1.2.3");
    assert!(admitted.contains("known: shadow denied (after auth)"), "{admitted}");
    assert!(!(admitted + &table).contains("s3cret-key"), "no secret is shown");
}

#[test]
fn a_replay_applies_the_lists_to_requests_with_a_whole_address() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gateway.yaml");
    std::fs::write(&file, yaml(OFFICE, ROUTE, "")).expect("a file");
    let log = directory.path().join("access.log");
    let line = |address: &str, second: u32| {
        format!(
            "{address} - - [26/Nov/2026:10:00:{second:02} +0000] \"GET /x HTTP/1.1\" 200 5 \"-\" \"-\"\n"
        )
    };
    let text = line("203.0.113.9", 1) + &line("10.1.2.3", 2) + &line("203.0.113.9", 3);
    std::fs::write(&log, text).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let log = log.to_str().expect("UTF-8");
    let output = Program::run(&["replay", "-c", file, "--json", log]);
    let document: serde_json::Value = serde_json::from_str(&output.stdout)
        .unwrap_or_else(|it| panic!("{it}: {} {}", output.stdout, output.stderr));
    assert_eq!(
        (&document["totals"]["denied"], &document["totals"]["judged"]),
        (&json!(2), &json!(1))
    );
}

#[test]
fn every_file_of_the_pages_is_good() {
    let secret = |_: &str| Some("a secret of at least thirty-two bytes".to_owned());
    for page in ["docs/access.md", "docs/traffic.md"] {
        let text = crate::commands::page::page(page).text;
        let blocks = text.split("```yaml\n").skip(1).filter_map(|it| it.split("```").next());
        for block in blocks {
            let problems = match tollgate::config::Config::parse(block, page, &secret) {
                Ok(compiled) => compiled.warnings,
                Err(report) => report,
            };
            assert!(problems.is_empty(), "{page}:\n{block}\n{problems}");
        }
    }
}
