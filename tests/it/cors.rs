//! `cors` of a route: the gateway answers preflights, and every response tells the browser which
//! scripts may read it.

use serde_json::json;

use crate::api_keys::Keys;
use crate::commands::page::page;
use crate::support::{Browser, Client, Gateway, Origin, Reserved, Response, eventually};

const APP: &str = "Origin: https://app.example";
const EVIL: &str = "Origin: https://evil.example";
const CORS: &str = "cors: { origins: [https://app.example], methods: [PUT], \
                    headers: [authorization], expose: [etag], credentials: true, max_age: 10m }";

/// An upstream that allows its responses to every script.
fn permissive() -> Origin {
    Origin::answering(|_| {
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nAccess-Control-Allow-Origin: *\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 2\r\nVary: Accept\r\n\
         Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: DELETE\r\n\
         Access-Control-Expose-Headers: x-secret\r\nAccess-Control-Allow-Credentials: true\r\n\
         \r\nok"
            .to_owned()
    })
}

/// A gateway before `origin` whose only route has these fields, with further sections.
fn gateway(origin: &Origin, route: &str, top: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: \"http://{}\" }}\n\
         policies: {{ two: {{ key: ip, limit: 2/day }} }}\n\
         routes: [{{ path: \"/*\", upstream: app, {route} }}]\n\
         runtime: {{ workers: 1 }}\n{top}\n",
        origin.address()
    ))
}

fn preflight(gateway: &Gateway, fields: &[&str]) -> Response {
    gateway.client().request("OPTIONS", "/", fields, b"")
}

/// All values of the fields with this name, joined.
fn joined(response: &Response, name: &str) -> String {
    let all = response.fields.iter().filter(|(it, _)| it.eq_ignore_ascii_case(name));
    all.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn assert_readable(response: &Response) {
    assert_eq!(joined(response, "access-control-allow-origin"), "https://app.example");
    assert_eq!(joined(response, "access-control-allow-credentials"), "true");
    assert!(joined(response, "vary").contains("Origin"), "{response:#?}");
    assert!(joined(response, "access-control-expose-headers").contains("etag"));
}

#[track_caller]
fn assert_unreadable(response: &Response) {
    let is_cors = |(name, _): &&(String, String)| name.starts_with("access-control-");
    assert_eq!(response.fields.iter().find(is_cors), None);
    assert!(joined(response, "vary").contains("Origin"), "{response:#?}");
}

#[test]
fn the_gateway_owns_the_fields_of_every_response() {
    let origin = permissive();
    let gateway = gateway(&origin, &format!("policies: [two], {CORS}"), "");
    let mut client = gateway.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{APP}\r\n\r\n").as_bytes());
    let hint = client.head();
    assert_eq!((hint.status, hint.field("access-control-allow-origin")), (103, None));
    let response = client.response("GET");
    assert_eq!(response.status, 200);
    assert_readable(&response);
    assert_eq!(joined(&response, "vary"), "Accept, Origin");
    assert_eq!(response.field("access-control-allow-methods"), None);
    let exposed = joined(&response, "access-control-expose-headers");
    assert!(exposed.contains("RateLimit") && !exposed.contains("x-secret"), "{exposed}");
    // CORS is not access control: a request of another origin is served.
    let mut other = gateway.client();
    other.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{EVIL}\r\n\r\n").as_bytes());
    other.head();
    let response = other.response("GET");
    assert_eq!((response.status, response.text()), (200, "ok".into()));
    assert_unreadable(&response);
    for fields in [[APP], [EVIL]] {
        let refused = gateway.client().get("/", &fields);
        assert_eq!(refused.status, 429);
        match fields {
            [APP] => assert_readable(&refused),
            _ => assert_unreadable(&refused),
        }
    }
    assert_unreadable(&gateway.client().get("/", &[]));
}

#[test]
fn failures_of_all_parts_can_be_read() {
    let closed = Reserved::new();
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ away: \"http://{}\" }}\n\
         client: {{ user: {{ jwt: {{ algorithms: [HS256], secret: {} }} }} }}\n\
         policies:\n\
         \x20 known: {{ key: user, limit: 9/day, missing_key: unauthorized }}\n\
         \x20 read: {{ key: \"json:/user\", limit: 9/day }}\n\
         defaults: {{ {CORS} }}\n\
         routes:\n\
         - {{ path: /away, upstream: away }}\n\
         - {{ path: /token, policies: [known], respond: {{ body: ok }} }}\n\
         - {{ path: /large, upstream: away, max_body: 1B }}\n\
         - {{ path: /read, policies: [read], read_body: {{ max: 1KiB }}, respond: {{ body: ok }} }}\n\
         - {{ path: /moved, redirect: {{ to: /away }} }}\n\
         - {{ path: /own, respond: {{ body: ok }}, \
              cors: {{ origins: [\"*\"] }} }}\n\
         - {{ path: /without, respond: {{ body: ok }}, cors: none }}\n\
         - {{ path: /alone, respond: {{ body: ok }}, defaults: false, cors: none }}\n",
        closed.address(),
        "s".repeat(40),
    ));
    let ask = |path: &str| Client::connect(gateway.address()).get(path, &[APP]);
    for (path, status) in [("/away", 502), ("/token", 401), ("/moved", 308)] {
        let response = ask(path);
        assert_eq!(response.status, status, "{path}");
        assert_readable(&response);
    }
    for path in ["/large", "/read"] {
        let fields = [APP, "Content-Type: application/json"];
        let large = gateway.client().request("POST", path, &fields, &[b' '; 1025]);
        assert_eq!(large.status, 413, "{path}");
        assert_readable(&large);
    }
    let own = ask("/own");
    assert_eq!(joined(&own, "access-control-allow-origin"), "*");
    assert_eq!((own.field("vary"), own.field("access-control-allow-credentials")), (None, None));
    for path in ["/without", "/alone"] {
        let response = ask(path);
        assert_eq!((response.status, response.field("access-control-allow-origin")), (200, None));
    }
}

/// Regression: only the decision of a policy let scripts read `Retry-After`, so they tried again at
/// once during maintenance.
#[test]
fn scripts_may_read_when_to_try_again_whatever_refuses() {
    let keys = Keys::new();
    keys.create(&[]);
    let origin = Origin::serving(|_, read| while read().is_some() {});
    let file = |headers: &str| {
        format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             upstreams: {{ busy: {{ endpoints: [\"http://{}\"], max_in_flight: 1 }} }}\n\
             client: {{ keys: {{ file: {:?} }}, failures: 1/day }}\n\
             policies: {{ two: {{ key: ip, limit: 2/day }} }}\n\
             access: {{ closed: {{ rules: [], else: deny, status: 503, retry_after: 10m }} }}\n\
             defaults: {{ {CORS} }}\n{headers}\n\
             routes:\n\
             - {{ path: /closed, access: [closed], respond: {{ body: ok }} }}\n\
             - {{ path: /limited, access: [closed], policies: [two], respond: {{ body: ok }} }}\n\
             - {{ path: /own, access: [closed], respond: {{ body: ok }}, \
                  cors: {{ origins: [\"*\"], expose: [retry-after] }} }}\n\
             - {{ path: /key, auth: [api_key], respond: {{ body: ok }} }}\n\
             - {{ path: /busy, upstream: busy }}\n\
             runtime: {{ workers: 1 }}\n",
            origin.address(),
            keys.path(),
        )
    };
    let exposed = |response: &Response| {
        let names = joined(response, "access-control-expose-headers");
        names.split(", ").filter(|it| it.eq_ignore_ascii_case("retry-after")).count()
    };
    let gateway = Gateway::start(&file(""));
    let ask = |path: &str, field: &str| gateway.client().get(path, &[field, "X-Api-Key: wrong"]);
    assert_eq!(ask("/key", APP).status, 401);
    let mut waiting = gateway.client();
    waiting.send(format!("GET /busy HTTP/1.1\r\nHost: a\r\n{APP}\r\n\r\n").as_bytes());
    eventually("the request is there", || !origin.received().is_empty());
    for (path, status) in [("/closed", 503), ("/limited", 503), ("/key", 429), ("/busy", 503)] {
        let response = ask(path, APP);
        assert_eq!(response.status, status, "{path}");
        assert!(response.field("retry-after").is_some(), "{path}: {response:?}");
        assert_readable(&response);
        assert_eq!(exposed(&response), 1, "{path}: {response:#?}");
        assert_unreadable(&ask(path, EVIL));
    }
    assert_eq!(exposed(&ask("/own", APP)), 1, "it is named once");
    let silent = Gateway::start(&file("headers: { expose_cors: false }"));
    assert_eq!(exposed(&silent.client().get("/closed", &[APP])), 0);
}

#[test]
fn preflights_are_answered_and_never_forwarded() {
    let origin = permissive();
    let gateway = gateway(&origin, &format!("methods: [PUT], policies: [two], {CORS}"), "");
    let allowed = [
        APP,
        "Access-Control-Request-Method: PUT",
        "Access-Control-Request-Headers: authorization",
    ];
    let response = preflight(&gateway, &allowed);
    assert_eq!(response.status, 204);
    assert_eq!(joined(&response, "access-control-allow-origin"), "https://app.example");
    assert_eq!(joined(&response, "access-control-allow-credentials"), "true");
    assert_eq!(joined(&response, "access-control-allow-methods"), "GET, HEAD, POST, PUT");
    assert_eq!(joined(&response, "access-control-allow-headers"), "authorization");
    assert_eq!(joined(&response, "access-control-max-age"), "600");
    assert_eq!(
        joined(&response, "vary"),
        "Access-Control-Request-Method, Access-Control-Request-Headers, Origin"
    );
    let foreign = preflight(&gateway, &[EVIL, allowed[1]]);
    assert_eq!(foreign.status, 403);
    assert_unreadable(&foreign);
    let field = preflight(&gateway, &[APP, allowed[1], "Access-Control-Request-Headers: x-other"]);
    assert_eq!(field.status, 403);
    assert_unreadable(&field);
    // The route has no DELETE, so the request would not match it either.
    let other = preflight(&gateway, &[APP, "Access-Control-Request-Method: DELETE"]);
    assert_eq!(other.status, 404);
    let lines = gateway.access_lines(4);
    let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].as_str()).collect();
    let expected = ["admitted", "preflight_denied", "preflight_denied", "no_route"].map(Some);
    assert_eq!(outcomes, expected, "{lines:#?}");
    assert_eq!(origin.received().len(), 0);
}

#[test]
fn preflights_count_and_a_refused_one_can_be_read() {
    let gateway = gateway(&permissive(), &format!("policies: [two], {CORS}"), "");
    let asks = [APP, "Access-Control-Request-Method: PUT"];
    for _ in 0..20 {
        assert_eq!(preflight(&gateway, &asks).status, 204);
    }
    let refused = preflight(&gateway, &asks);
    assert_eq!(refused.status, 429, "ten for each request that the policy allows");
    assert_readable(&refused);
}

#[test]
fn what_only_resembles_a_preflight_is_forwarded() {
    let origin = permissive();
    let gateway = gateway(&origin, CORS, "");
    let ask = |fields: &[&str], body: &[u8]| {
        let mut client = gateway.client();
        let length = format!("Content-Length: {}", body.len());
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        client
            .send(format!("OPTIONS / HTTP/1.1\r\nHost: a\r\n{length}\r\n{fields}\r\n").as_bytes());
        client.send(body);
        assert_eq!(client.head().status, 103);
        assert_eq!(client.response("OPTIONS").status, 200);
    };
    ask(&[APP], b"");
    ask(&["Access-Control-Request-Method: PUT"], b"");
    ask(&[APP, "Access-Control-Request-Method: PUT"], b"body");
    assert_eq!(origin.received().len(), 3);
}

/// A proxy that asks passes a refusal on to the client.
#[test]
fn a_refusal_that_another_proxy_passes_on_can_be_read() {
    let gateway = Gateway::start(&format!(
        "check: {{ http: {{ address: \"127.0.0.1:0\" }} }}\n\
         policies: {{ one: {{ key: ip, limit: 1/day }} }}\n\
         routes: [{{ path: /*, policies: [one], respond: {{ status: 204 }}, {CORS} }}]\n"
    ));
    let mut proxy = gateway.client();
    let mut ask = || {
        let client = "X-Forwarded-For: 192.0.2.1";
        let target = ["X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "X-Forwarded-Host: a.test"];
        proxy.get("/auth", &[APP, client, target[0], target[1], target[2]])
    };
    assert_eq!(ask().status, 200);
    let refused = ask();
    assert_eq!(refused.status, 429);
    assert_readable(&refused);
}

/// A page of another origin, which sends its cookies.
#[test]
fn a_browser_shows_a_script_the_fields_of_a_429() {
    let site = Origin::answering(|_| {
        let page = "<title>site</title>";
        let length = page.len();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{page}"
        )
    });
    let cors = |origin: &str| {
        format!(
            "policies: [two], cors: {{ origins: [\"{origin}\"], credentials: true, \
             methods: [PUT], headers: [x-page] }}"
        )
    };
    let backend = Origin::hello();
    let page = format!("http://{}", site.address());
    let readable = gateway(&backend, &cors(&page), "");
    let mut browser = Browser::start();
    browser.call("Page.navigate", json!({ "url": page }));
    browser.until("document.title === 'site'");
    let fetched = |browser: &mut Browser, gateway: &Gateway| {
        browser.value(&format!(
            "fetch('http://{}/', {{ method: 'PUT', credentials: 'include', \
             headers: {{ 'x-page': '1' }} }}).then((it) => \
             [it.status, it.headers.get('ratelimit'), it.headers.get('retry-after')], \
             (error) => String(error))",
            gateway.address()
        ))
    };
    for remaining in [1, 0] {
        let read = fetched(&mut browser, &readable);
        assert_eq!(read[0], 200, "{read}");
        let limit = read[1].as_str().unwrap_or_default();
        assert!(limit.starts_with(&format!("\"two\";r={remaining}")), "{read}");
    }
    let refused = fetched(&mut browser, &readable);
    assert_eq!(refused[0], 429, "{refused}");
    assert!(refused[1].is_string() && refused[2].is_string(), "{refused}");
    let other = gateway(&backend, &cors("https://app.example"), "");
    let unread = fetched(&mut browser, &other);
    assert_eq!(unread, "TypeError: Failed to fetch", "the other gateway does not allow this page");
    assert_eq!(backend.received().len(), 2, "no preflight and no refused request is forwarded");
}

/// The page's own configuration, with the answers that its tables promise.
#[test]
fn the_example_of_the_page_does_what_the_page_says() {
    let backend = Origin::hello();
    let yaml = page("docs/cors.md").block("yaml");
    let yaml = yaml.replace("0.0.0.0:8080", "\"127.0.0.1:0\"");
    let gateway = Gateway::start(&yaml.replace("127.0.0.1:9000", &backend.address().to_string()));
    let origin = |path: &str, origin: &str| {
        let response = gateway.client().get(path, &[&format!("Origin: {origin}")]);
        assert_eq!(response.status, 200, "{path}");
        joined(&response, "access-control-allow-origin")
    };
    for allowed in ["https://app.example.com", "https://a.example.com", "https://a.b.example.com"] {
        assert_eq!(origin("/", allowed), allowed);
    }
    assert_eq!(origin("/", "https://example.com"), "");
    assert_eq!(origin("/public/a", "https://other.example"), "*");
    assert_eq!(origin("/internal/a", "https://app.example.com"), "");
}

/// A browser sends no credentials with a preflight. So neither `auth` nor a list that compares
/// identities is asked; a list that compares addresses is.
#[test]
fn a_preflight_needs_no_credential_and_its_request_does() {
    let origin = permissive();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/key_files/good.keys");
    let top = format!(
        "client: {{ keys: {{ file: {keys:?} }} }}\n\
         access:\n  \
           team: {{ rules: [{{ allow: {{ values: {{ \"api_key:team\": [acme] }} }} }}], else: deny }}\n  \
           near: {{ rules: [{{ allow: {{ ips: [127.0.0.0/8] }} }}], else: deny }}\n  \
           far: {{ rules: [{{ allow: {{ ips: [192.0.2.0/24] }} }}], else: deny }}\n"
    );
    let asked = [APP, "Access-Control-Request-Method: PUT"];
    let open = gateway(&origin, &format!("auth: [api_key], access: [team, near], {CORS}"), &top);
    let response = preflight(&open, &asked);
    assert_eq!(response.status, 204, "{response:#?}");
    assert_readable_preflight(&response);
    let response = open.client().get("/", &[APP]);
    assert_eq!(response.status, 401);
    assert_readable(&response);
    let closed = gateway(&origin, &format!("auth: [api_key], access: [team, far], {CORS}"), &top);
    assert_eq!(preflight(&closed, &asked).status, 403);
}

#[track_caller]
fn assert_readable_preflight(response: &Response) {
    assert_eq!(joined(response, "access-control-allow-origin"), "https://app.example");
    assert!(joined(response, "access-control-allow-methods").contains("PUT"), "{response:#?}");
}
