//! Other proxies ask over HTTP whether a request of their client may pass.

use crate::support::frames::{CANCEL, Frames, Outcome, head, reset};
use crate::support::{Client, Gateway, Origin, Response};

/// A gateway that only answers questions, with these policies, routes and further settings.
fn asked(policies: &str, routes: &str, check: &str, top: &str) -> Gateway {
    Gateway::start(&format!(
        "check: {{ http: {{ address: \"127.0.0.1:0\", {check} }} }}\n\
         policies: {{ {policies} }}\nroutes: [{routes}]\n{top}\n"
    ))
}

/// The same, with one policy for all requests.
fn limiting(policy: &str, check: &str) -> Gateway {
    let route = "{ name: all, path: /*, policies: [limit], respond: { status: 204 } }";
    asked(&format!("limit: {{ {policy} }}"), route, check, "")
}

/// How a proxy of each kind asks about `GET PATH` of `client`: the path, and its fields.
fn questions(path: &str, client: &str) -> [(String, Vec<String>); 3] {
    let client = format!("X-Forwarded-For: 6.6.6.6, {client}");
    let forwarded = vec![
        client.clone(),
        "X-Forwarded-Method: GET".into(),
        format!("X-Forwarded-Uri: {path}"),
        "X-Forwarded-Host: gateway.test".into(),
    ];
    let original =
        vec![client.clone(), "X-Original-Method: GET".into(), format!("X-Original-URI: {path}")];
    [
        ("/auth".into(), forwarded),
        ("/auth/nginx".into(), original),
        (format!("/auth/envoy{path}"), vec![client]),
    ]
}

fn ask(client: &mut Client, method: &str, question: &(String, Vec<String>)) -> Response {
    let fields: Vec<&str> = question.1.iter().map(String::as_str).collect();
    client.request(method, &question.0, &fields, b"")
}

const LIMITS: [&str; 5] = [
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "ratelimit",
    "ratelimit-policy",
];

#[test]
fn a_request_has_the_same_counter_whichever_proxy_asks() {
    let origin = Origin::hello();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         check: {{ http: {{ address: \"127.0.0.1:0\" }} }}\n\
         policies: {{ per-client: {{ key: ip, limit: 4/hour }} }}\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: /*, policies: [per-client], upstream: app }}]\n",
        origin.address()
    ));
    let [proxy, door] = gateway.addresses()[..] else { panic!("two listeners") };
    let mut proxied = Client::connect(proxy);
    let mut client = Client::connect(door);
    let questions = questions("/v1/a?b=c", "127.0.0.1");
    for (question, left) in questions.iter().zip([3, 2, 1]) {
        let response = ask(&mut client, "GET", question);
        assert_eq!((response.status, &*response.text()), (200, ""), "{question:?}");
        assert_eq!(response.field("x-tollgate-outcome"), Some("admitted"));
        assert_eq!(response.field("cache-control"), Some("no-store"));
        assert_eq!(response.number("x-ratelimit-remaining"), left);
        for field in LIMITS {
            assert!(response.field(field).is_some(), "{field} in {response:?}");
        }
        assert_eq!(response.field("retry-after"), None);
    }
    assert_eq!(proxied.get("/", &[]).number("x-ratelimit-remaining"), 0);
    assert_eq!(proxied.get("/", &[]).status, 429);
    for (question, status) in questions.iter().zip([429, 403, 429]) {
        for method in ["GET", "HEAD", "POST"] {
            let response = ask(&mut client, method, question);
            assert_eq!(response.status, status, "{question:?}");
            assert_eq!(response.field("x-tollgate-outcome"), Some("refused"));
            let told = (status == 403).then_some("429");
            assert_eq!(response.field("x-tollgate-status"), told, "{response:?}");
            // The wait for a sliding window may be that for the next window's end.
            assert!((1..=7200).contains(&response.number("retry-after")), "{response:?}");
            if method != "HEAD" {
                assert_eq!(response.json()["violated-policies"][0], "per-client");
            }
        }
    }
    let other = &self::questions("/", "127.0.0.2")[0];
    assert_eq!(ask(&mut client, "GET", other).number("x-ratelimit-remaining"), 3);
    let lines = gateway.access_lines(15);
    // Each worker writes its lines at a different time.
    let asked = lines.iter().find(|line| line["path"] == "/v1/a").expect("it has a line");
    assert_eq!((&asked["outcome"], &asked["status"]), (&"admitted".into(), &200.into()));
}

/// Such fields of a client once closed the connection of its proxy, which took the answer for a
/// fault of the gateway.
#[test]
fn what_a_client_sends_is_refused_and_the_connection_of_its_proxy_stays() {
    let gateway = limiting("key: ip, limit: 9/hour", "");
    let mut client = gateway.client();
    let many: Vec<String> = (0..120).map(|n| format!("X-Field-{n}: {n}")).collect();
    let faults = [
        (vec!["X_Forwarded_For: 192.0.2.9".to_owned()], 400),
        (vec!["Content_Length: 5".to_owned()], 400),
        (many, 431),
        (vec![format!("Cookie: a={}", "x".repeat(33 * 1024))], 431),
        (vec![format!("Cookie: a={}", "x".repeat(200 * 1024))], 431),
    ];
    for (path, fields) in questions("/", "192.0.2.1") {
        for (fault, status) in &faults {
            let question = (path.clone(), [&fields[..], fault].concat());
            let response = ask(&mut client, "GET", &question);
            let is_nginx = path == "/auth/nginx";
            let carried = if is_nginx { 403 } else { *status };
            assert_eq!(response.status, carried, "{path} {response:?}");
            assert_eq!(response.field("x-tollgate-outcome"), Some("malformed"));
            let told = response.field("x-tollgate-status").map(str::to_owned);
            assert_eq!(told, is_nginx.then(|| status.to_string()));
            assert_eq!(response.field("connection"), None, "{path} {response:?}");
        }
        // A few fields more than a client has, and a head that is almost as large as it may be.
        let near = [format!("Cookie: a={}", "x".repeat(31 * 1024)), "X_Field: 1".to_owned()];
        let response = ask(&mut client, "GET", &(path.clone(), [&fields[..], &near].concat()));
        assert!(response.field("x-ratelimit-remaining").is_some(), "{path} {response:?}");
    }
    let left = ask(&mut client, "GET", &questions("/", "192.0.2.1")[0]);
    assert_eq!(left.number("x-ratelimit-remaining"), 5, "only the last of each was counted");
    // What the server itself does not read ends the connection.
    let larger = format!("Cookie: a={}", "x".repeat(300 * 1024));
    let response = client.get("/auth/nginx", &[&larger]);
    assert_eq!((response.status, response.field("connection")), (431, Some("close")));
}

#[test]
fn a_question_that_describes_no_request_gets_a_400_that_names_its_field() {
    let route = "{ path: /v1/*, policies: [limit], respond: { status: 204 } }";
    let gateway = asked("limit: { key: ip, limit: 1/hour }", route, "", "");
    let mut client = gateway.client();
    let fields = ["X-Forwarded-Method: GET", "X-Forwarded-Uri: /v1/", "X-Forwarded-Host: a.test"];
    for (at, field) in fields.iter().enumerate() {
        let name = field.split(':').next().unwrap_or_default();
        let mut missing = fields.to_vec();
        missing.remove(at);
        let bad = match at {
            0 => "X-Forwarded-Method: get",
            1 => "X-Forwarded-Uri: /v1/../x",
            _ => "X-Forwarded-Host: a@b",
        };
        let mut wrong = fields.to_vec();
        wrong[at] = bad;
        for question in [missing, [&fields[..], &[field]].concat(), wrong] {
            let response = client.get("/auth", &question);
            assert_eq!(response.status, 400, "{question:?}");
            assert!(response.text().contains(name), "{question:?}: {}", response.text());
            assert_eq!(response.field("x-tollgate-limit"), None);
        }
    }
    // Nginx would take a 400 that its client has caused for a fault of its own.
    let original = ["X-Original-Method: GET", "X-Original-URI: /v1/%2e%2e/x"];
    let response = client.get("/auth/nginx", &original);
    let told = (response.field("x-tollgate-status"), response.field("x-tollgate-outcome"));
    assert_eq!((response.status, told), (403, (Some("400"), Some("ambiguous"))));
    let response = client.get("/auth/nginx", &original[..1]);
    assert_eq!((response.status, response.field("x-tollgate-outcome")), (400, Some("question")));
    // The fields of another family describe nothing here.
    assert_eq!(client.get("/auth", &["X-Original-Method: GET", "X-Original-URI: /"]).status, 400);
    for path in ["/auth/", "/auth/envoyx", "/v1/check/", "/json", "/healthcheck", "/"] {
        assert_eq!(client.get(path, &[]).status, 404, "{path}");
    }
    let response = client.get("/auth/envoy/v2", &[]);
    assert_eq!((response.status, response.field("x-tollgate-outcome")), (200, Some("unmatched")));
    assert_eq!(client.get("/auth/envoy/v1/", &[]).number("x-ratelimit-remaining"), 0);
}

#[test]
fn what_needs_the_end_of_a_response_takes_no_part() {
    let policies = "at-once: { key: ip, limit: 1, algorithm: concurrency }, \
                    logins: { key: ip, limit: 1/hour, count: { status: [401] } }, \
                    tokens: { key: ip, limit: 100/hour, \
                              cost: { reserve: 40, settle: { header: x-tokens } } }, \
                    queue: { key: ip, limit: 10/s, algorithm: leaky_bucket, max_delay: 2s }";
    let routes = "{ path: /many, policies: [at-once, logins, tokens], respond: { status: 204 } }, \
                  { path: /slow, policies: [queue], respond: { status: 204 } }";
    let gateway = asked(policies, routes, "statuses: { admitted: 204, refused: 418 }", "");
    let mut client = gateway.client();
    let [many, ..] = questions("/many", "192.0.2.1");
    for left in [60, 20] {
        let response = ask(&mut client, "GET", &many);
        assert_eq!((response.status, response.number("x-ratelimit-remaining")), (204, left));
        assert_eq!(response.field("x-tollgate-skipped"), Some("at-once, logins"));
    }
    assert_eq!(ask(&mut client, "GET", &many).status, 418);
    let [forwarded, _, prefixed] = questions("/slow", "192.0.2.1");
    let outcome = |response: Response| response.field("x-tollgate-outcome").map(str::to_owned);
    assert_eq!(outcome(ask(&mut client, "GET", &forwarded)).as_deref(), Some("admitted"));
    let second = ask(&mut client, "GET", &prefixed);
    assert_eq!((second.status, outcome(second).as_deref()), (200, Some("delayed")));
    let lines = gateway.access_lines(5);
    assert!(lines[4]["duration_us"].as_u64() > Some(50_000), "{}", lines[4]);
}

#[test]
fn the_connection_of_a_proxy_is_kept_after_a_short_body() {
    let gateway = limiting("key: ip, limit: 2/hour", "");
    let mut client = gateway.client();
    let [.., envoy] = questions("/", "192.0.2.1");
    let fields: Vec<&str> = envoy.1.iter().map(String::as_str).collect();
    let body = vec![b'x'; 60 * 1024];
    for status in [200, 200, 429, 429] {
        assert_eq!(client.request("POST", &envoy.0, &fields, &body).status, status);
    }
    let response = client.request("POST", "/auth/envoy/a/../b", &fields, &body);
    assert_eq!((response.status, response.field("connection")), (400, None));
    let large = vec![b'x'; 1024 * 1024];
    let response = client.request("POST", &envoy.0, &fields, &large);
    assert_eq!((response.status, response.field("connection")), (429, Some("close")));
}

#[test]
fn only_peers_that_are_trusted_may_ask_and_an_absent_store_is_told() {
    let gateway = limiting("key: ip, limit: 1/hour", "trust: [192.0.2.0/24]");
    let [question, ..] = questions("/", "192.0.2.1");
    assert_eq!(ask(&mut gateway.client(), "GET", &question).status, 403);
    let route = "{ path: /*, policies: [limit], respond: { status: 204 } }";
    let gateway = asked(
        "limit: { key: ip, limit: 1/hour, on_store_failure: deny }",
        route,
        "statuses: { unavailable: 500 }",
        "store: { redis: { url: redis://127.0.0.1:1 } }",
    );
    let mut client = gateway.client();
    for question in questions("/", "192.0.2.1") {
        let response = ask(&mut client, "GET", &question);
        assert_eq!((response.status, response.number("retry-after")), (500, 1), "{question:?}");
        assert_eq!(response.field("x-tollgate-outcome"), Some("store_away"));
    }
}

/// A proxy cancels the questions that take too long. Regression: with more than 200 in a second it
/// lost its connection, on which it asks for all of its clients.
#[test]
fn a_proxy_that_cancels_questions_keeps_its_connection() {
    let gateway = limiting("key: ip, limit: 1000000/day", "");
    let mut proxy = Frames::connect(gateway.address());
    let ask = |stream: u32| {
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "a.example"),
            (":path", "/auth/envoy/"),
            ("x-forwarded-for", "192.0.2.1"),
        ];
        head(stream, &fields, true)
    };
    for stream in (1..).step_by(2).take(1000) {
        assert!(proxy.send(&[ask(stream), reset(stream, CANCEL)].concat()), "{stream}");
    }
    assert!(proxy.send(&ask(2001)));
    assert_eq!(proxy.outcome(2001), Outcome::Status(200));
}
