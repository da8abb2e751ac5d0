//! The access log: one line for every request, without data that identifies a person.

use std::io::Write as _;

use serde_json::Value;

use crate::support::http::{Http, block_on, nothing, request};
use crate::support::{Gateway, Origin, Reserved, eventually};

const TRACE: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A route to an origin, a route to a closed port, and a limit of two on both.
fn three_outcomes(origin: &Origin, closed: &Reserved) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams:\n  \
           app: {{ endpoints: [\"http://{}\"] }}\n  \
           down: {{ endpoints: [\"http://{}\"] }}\n\
         policies: {{ twice: {{ key: ip, limit: 2/day }} }}\n\
         routes:\n\
         - {{ name: orders, path: \"/orders/*\", policies: [twice], upstream: app }}\n\
         - {{ name: down, path: /down, policies: [twice], upstream: down }}\n",
        origin.address(),
        closed.address()
    )
}

#[test]
fn a_line_contains_all_fields_of_a_request() {
    let origin = Origin::hello();
    let closed = Reserved::new();
    let gateway = Gateway::start(&three_outcomes(&origin, &closed));
    let mut client = gateway.client();
    client.get("/orders/7?token=secret", &["X-Request-Id: id-1", "X-Api-Key: secret", TRACE]);
    let line = &gateway.access_lines(1)[0];
    for (name, value) in [
        ("request_id", Value::from("id-1")),
        ("trace_id", Value::from("4bf92f3577b34da6a3ce929d0e0e4736")),
        ("upstream", Value::from("app")),
        ("endpoint", Value::from(origin.address().to_string())),
        ("attempts", Value::from(1)),
        ("client", Value::from("127.0.0.0/24")),
        ("method", Value::from("GET")),
        ("path", Value::from("/orders/7")),
        ("status", Value::from(200)),
        ("bytes", Value::from(5)),
        ("route", Value::from("orders")),
        ("outcome", Value::from("admitted")),
        ("policy", Value::from("twice")),
        ("remaining", Value::from(1)),
    ] {
        assert_eq!(line[name], value, "{name} in {line:#}");
    }
    assert!(
        line["time"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z'))
    );
    let took = |name: &str| line[name].as_u64().expect("microseconds");
    assert!(took("upstream_us") <= took("duration_us"), "{line:#}");
    assert!(!gateway.access_text(1).contains("secret"));
}

#[test]
fn a_line_states_the_outcome_of_a_request() {
    let origin = Origin::hello();
    let closed = Reserved::new();
    let gateway = Gateway::start(&three_outcomes(&origin, &closed));
    let mut client = gateway.client();
    for path in ["/orders/7", "/down", "/orders/8", "/nothing"] {
        client.get(path, &[]);
    }
    let lines = gateway.access_lines(4);
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line["status"].as_u64(), line["outcome"].as_str(), line["route"].as_str()))
        .collect();
    let wanted = [
        (Some(200), Some("admitted"), Some("orders")),
        (Some(502), Some("upstream_unreachable"), Some("down")),
        (Some(429), Some("refused"), Some("orders")),
        (Some(404), Some("no_route"), None),
    ];
    assert_eq!(told, wanted);
    assert!(lines[2].get("upstream_us").is_none(), "no endpoint was tried: {:#}", lines[2]);
    assert!(lines[3].get("policy").is_none());
    assert!(lines[2]["bytes"].as_u64().is_some_and(|bytes| bytes > 0));
}

/// They may be keys.
#[test]
fn values_of_path_parameters_are_not_written() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\n\
         policies: { p: { key: \"param:tenant\", limit: 1/day } }\n\
         routes: [{ path: \"/t/{tenant}/*\", policies: [p], respond: { body: ok } }]\n",
    );
    let mut client = gateway.client();
    for (path, status) in [("/t/acme-7/orders/1", 200), ("//t//acme-7/orders/1", 429)] {
        assert_eq!(client.get(path, &[]).status, status);
    }
    let lines = gateway.access_lines(2);
    assert_eq!(lines[0]["path"], "/t/{tenant}/orders/1");
    assert_eq!(lines[1]["path"], "//t//{tenant}/orders/1");
    assert!(!gateway.access_text(2).contains("acme-7"));
}

#[test]
fn a_client_that_disconnects_has_a_line() {
    let origin = Origin::serving(|_, read| {
        read();
        read();
    });
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    crate::support::eventually("the request arrives", || origin.received().len() == 1);
    drop(client);
    let line = &gateway.access_lines(1)[0];
    assert_eq!((&line["path"], &line["status"]), (&"/slow".into(), &0.into()));
    assert_eq!(line["outcome"], "client_closed");
}

#[test]
fn a_client_cannot_write_lines_of_its_own() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    let mut client = gateway.client();
    client.send("GET /\"},{\u{e9} HTTP/1.1\r\nHost: a\r\nX-Request-Id: \"}{\"\r\n\r\n".as_bytes());
    assert_eq!(client.response("GET").status, 200);
    client.get("/second", &[]);
    let lines = gateway.access_lines(2);
    assert_eq!((&lines[0]["path"], &lines[1]["path"]), (&"/\"},{\u{e9}".into(), &"/second".into()));
    assert_eq!(lines[0]["request_id"], "\"}{\"");
}

#[test]
fn lines_of_text_contain_the_same() {
    let origin = Origin::hello();
    let closed = Reserved::new();
    let gateway = Gateway::start_logging(&three_outcomes(&origin, &closed), "text");
    let mut client = gateway.client();
    client.get("/orders/7?token=secret", &["X-Request-Id: id-1"]);
    let text = gateway.access_text(1);
    let line = text.lines().next().expect("a line");
    for part in [
        " 127.0.0.0/24 GET \"/orders/7\" 200 5B ",
        " admitted ",
        " route=\"orders\"",
        " policy=\"twice\"",
        " remaining=1",
        " id=id-1",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(!text.contains("secret"));
}

/// A file is renamed, and the gateway is told to open its file again, as `logrotate` does.
#[test]
fn a_log_that_was_renamed_continues_in_a_new_file_after_sigusr1() {
    let origin = Origin::hello();
    let closed = Reserved::new();
    let gateway = Gateway::start(&three_outcomes(&origin, &closed));
    let mut client = gateway.client();
    client.get("/orders/1", &[]);
    gateway.access_lines(1);
    let log = gateway.access_log();
    let rotated = gateway.access_log().with_extension("1");
    std::fs::rename(&log, &rotated).expect("it is there");
    gateway.signal("USR1");
    eventually("the file is there again", || log.exists());
    client.get("/orders/2", &[]);
    assert_eq!(gateway.access_lines(1)[0]["path"], "/orders/2");
    let rotated = std::fs::read_to_string(rotated).expect("it is there");
    assert!(rotated.contains("/orders/1") && !rotated.contains("/orders/2"), "{rotated}");
}

/// SIGUSR1 works with any form of lines.
#[test]
fn lines_have_the_form_of_a_template() {
    let origin = Origin::hello();
    let closed = Reserved::new();
    let template = "\"{method} {path} {status} {{{policy}}} {plan}\"";
    let gateway = Gateway::start_logging(&three_outcomes(&origin, &closed), template);
    let mut client = gateway.client();
    client.get("/orders/1", &[]);
    assert_eq!(gateway.access_text(1), "GET /orders/1 200 {twice} -\n");
    std::fs::remove_file(gateway.access_log()).expect("it is there");
    gateway.signal("USR1");
    eventually("the file is there again", || gateway.access_log().exists());
    client.get("/down", &[]);
    assert_eq!(gateway.access_text(1), "GET /down 502 {twice} -\n");
}

#[test]
fn a_sample_has_all_refused_requests() {
    let origin = Origin::hello();
    let closed = Reserved::new();
    let gateway =
        Gateway::start_logging(&three_outcomes(&origin, &closed), "json, sample: 0%, keys: true");
    let mut client = gateway.client();
    for path in ["/orders/1", "/orders/2", "/orders/3", "/orders/4"] {
        client.get(path, &[]);
    }
    let lines = gateway.access_lines(2);
    let paths: Vec<_> = lines.iter().map(|line| line["path"].clone()).collect();
    assert_eq!(paths, ["/orders/3", "/orders/4"]);
    let [one, other] = [&lines[0], &lines[1]].map(|line| &line["keys"][0]);
    assert_eq!(one["policy"], "twice");
    assert_eq!((&one["id"], &one["cost"]), (&other["id"], &other["cost"]), "one client");
    assert_eq!(one["id"].as_str().map(str::len), Some(12));
    assert!(lines[0]["wait_ms"].as_u64().is_some_and(|wait_ms| wait_ms > 0));
}

/// A sample left out responses that broke off, and clients that left within the response.
#[test]
fn a_sample_has_all_responses_that_did_not_end() {
    let origin = Origin::serving(|stream, read| {
        while let Some(asked) = read() {
            let body = if asked.line().starts_with("HEAD ") { "" } else { "hello" };
            let ends = asked.line().contains("/whole");
            let length = if ends { 5 } else { 100 };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let sent = stream.write_all((head + body).as_bytes());
            if sent.is_err() || asked.line().contains("/broken") {
                return;
            }
        }
    });
    let closed = Reserved::new();
    let config = three_outcomes(&origin, &closed).replace("2/day", "1000/day");
    let gateway = Gateway::start_logging(&config, "json, sample: 0%");
    let mut whole = gateway.client();
    for method in ["GET", "HEAD"] {
        for path in ["/orders/whole", "/unmatched"] {
            whole.request(method, path, &[], b"");
        }
    }
    block_on(async {
        let client = Http::prior_knowledge(gateway.address()).await;
        for (method, path) in
            [("GET", "/orders/whole"), ("HEAD", "/orders/whole"), ("GET", "/unmatched")]
        {
            client.ask(request(method, path, nothing())).await.expect("an answer");
        }
    });
    let mut broken = gateway.client();
    broken.send(b"GET /orders/broken HTTP/1.1\r\nHost: a\r\n\r\n");
    broken.rest();
    let mut left = gateway.client();
    left.send(b"GET /orders/held HTTP/1.1\r\nHost: a\r\n\r\n");
    left.head();
    left.exactly(5);
    drop(left);
    let mut lines = gateway.access_lines(2);
    // Two workers may have written them.
    lines.sort_by_key(|line| line["path"].to_string());
    let field = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("path"), ["/orders/broken", "/orders/held"]);
    assert_eq!(field("status"), [200, 200]);
    assert_eq!(field("outcome"), ["upstream_broke_off", "admitted"]);
}

#[test]
fn a_line_has_no_password_of_a_target_or_a_host() {
    let origin = Origin::hello();
    let gateway = Gateway::forwarding(&origin, "", "", "");
    for head in [
        "GET http://user:SECRET@a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: user:SECRET@a.test\r\n\r\n",
        "CONNECT user:SECRET@a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",
    ] {
        let mut client = gateway.client();
        client.send(head.as_bytes());
        client.head();
    }
    let lines = gateway.access_lines(3);
    let mut hosts: Vec<_> = lines.iter().map(|line| line["host"].to_string()).collect();
    hosts.sort();
    assert_eq!(hosts, ["\"a.test\"", "\"a.test\"", "\"a.test:443\""]);
    assert!(!gateway.access_text(3).contains("SECRET"));
}
