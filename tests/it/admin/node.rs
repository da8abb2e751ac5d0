//! Health and readiness of a node, from its start to its end.

use std::thread;
use std::time::Duration;

use super::{AdminClient, OPERATE, READ, gateway, is_well, reasons, section, settles};
use crate::support::redis::{Options, Redis};
use crate::support::{Client, Gateway, Origin, eventually};

#[test]
fn the_node_is_healthy_and_ready_while_redis_is_away() {
    let mut redis = Redis::start(Options::default());
    let gateway = gateway(&format!("store: {{ redis: {{ url: \"{}\" }} }}", redis.url()), "");
    let client = AdminClient::new(&gateway, OPERATE);
    is_well(&client);
    redis.kill();
    settles("the status says so", || {
        reasons(&client).is_some_and(|it| it.iter().any(|code| code == "store_away"))
    });
    for path in ["/healthz", "/readyz"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    let key = client.get("/v1/policies/each/keys/ann");
    assert_eq!((key.status, &key.json()["source"]), (200, &"local".into()), "{}", key.text());
    let reset = client.send("DELETE", "/v1/policies/each/keys/ann", &[], "");
    assert_eq!(reset.status, 503, "{}", reset.text());
}

#[test]
fn a_change_is_recorded_even_if_its_client_disconnects() {
    let redis = Redis::start(Options::default());
    let store = format!("store: {{ redis: {{ url: \"{}\", timeout: 2s }} }}", redis.url());
    let gateway = gateway(&store, "");
    let client = AdminClient::new(&gateway, OPERATE);
    let path = "/v1/policies/each/keys/ann";
    settles("Redis is used", || client.get(path).json()["source"] == "store");
    redis.stop();
    let mut hasty = Client::connect(client.address);
    let head = format!(
        "DELETE {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {OPERATE}\r\n\r\n"
    );
    hasty.send(head.as_bytes());
    thread::sleep(Duration::from_millis(300));
    drop(hasty);
    let viewer = AdminClient::new(&gateway, READ);
    settles("it is recorded", || {
        let audit = viewer.get("/v1/audit").json();
        audit["items"][0]["call"] == "DELETE /v1/policies/{policy}/keys/{key}"
    });
    redis.cont();
}

#[test]
fn a_limit_of_a_single_key_is_unknown_while_redis_is_away() {
    let mut redis = Redis::start(Options::default());
    let store = format!("store: {{ redis: {{ url: \"{}\" }} }}", redis.url());
    let yaml = super::yaml(&store, "").replace("limit: 3/day", "limit: 3/day, overrides: true");
    let gateway = Gateway::start(&yaml);
    let client = AdminClient::new(&gateway, OPERATE);
    let fields = ["Content-Type: application/json"];
    let path = "/v1/policies/each/overrides/ann";
    assert_eq!(client.send("PUT", path, &fields, "{\"limit\": \"unlimited\"}").status, 200);
    assert_eq!(client.get("/v1/policies/each/keys/ann").json()["limit"], "unlimited");
    redis.kill();
    let key = client.get("/v1/policies/each/keys/ann");
    assert_eq!(key.status, 200, "{}", key.text());
    let key = key.json();
    assert_eq!((&key["override"], &key["source"]), (&"unknown".into(), &"local".into()), "{key}");
    assert_eq!(client.get(path).status, 503);
    assert_eq!(client.send("PUT", path, &fields, "{\"limit\": \"5\"}").status, 503);
    assert_eq!(client.send("DELETE", path, &[], "").status, 503);
    let audit = client.get("/v1/audit").json();
    assert_eq!(audit["items"][0]["status"], 503, "{audit}");
}

#[test]
fn a_node_that_drains_is_alive_and_not_ready() {
    let origin = Origin::answering(|_| {
        thread::sleep(Duration::from_secs(3));
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate".to_owned()
    });
    let mut gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: \"/*\", upstream: app }}]\n{}",
        origin.address(),
        section("")
    ));
    let client = AdminClient::new(&gateway, READ);
    assert_eq!(client.get("/readyz").status, 200);
    let mut user = gateway.client();
    user.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the origin has the request", || !origin.received().is_empty());
    gateway.terminate();
    settles("it is not ready", || client.get("/readyz").status == 503);
    assert_eq!(client.get("/healthz").status, 200);
    assert_eq!(client.get("/v1/status").json()["state"], "draining");
    assert_eq!(user.response("GET").status, 200);
    assert!(gateway.wait().success());
}

#[test]
fn the_probe_tells_health_without_a_token_and_nothing_else() {
    let with_metrics = |metrics: bool| {
        gateway("", &format!("probe: {{ address: \"127.0.0.1:0\", metrics: {metrics} }}"))
    };
    for metrics in [false, true] {
        let gateway = with_metrics(metrics);
        let address = gateway.addresses()[2];
        let probe = AdminClient { address, token: None, is_probe: true };
        // Probes of an orchestrator name hosts that are not known here.
        for path in ["/healthz", "/readyz"] {
            let response = probe.send_to("Host: pod-7.example", "GET", path, &[], "");
            assert_eq!(response.status, 200, "{path}");
        }
        assert_eq!(probe.get("/healthz?x=1").status, 400);
        assert_eq!(probe.get("/openapi.json").status, 404);
        assert_eq!(probe.get("/metrics").status, if metrics { 200 } else { 404 });
        let operator = AdminClient { address, token: Some(OPERATE.to_owned()), is_probe: true };
        for path in ["/v1/status", "/v1/config", "/v1/policies/each/keys/ann"] {
            assert_eq!(operator.get(path).status, 404, "{path}");
        }
        assert_eq!(operator.send("DELETE", "/v1/policies/each/keys/ann", &[], "").status, 404);
    }
}

#[test]
fn a_probe_stands_alone() {
    let gateway = Gateway::start(
        "listeners: [{ address: \"127.0.0.1:0\" }]\nroutes: [{ path: /*, respond: { body: ok } }]\n\
         admin: { probe: { address: \"127.0.0.1:0\", metrics: true } }\n",
    );
    let probe = AdminClient { address: gateway.addresses()[1], token: None, is_probe: true };
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/", 404)] {
        assert_eq!(probe.get(path).status, status, "{path}");
    }
    assert_eq!(probe.get("/v1/status").status, 404);
    assert_eq!(gateway.addresses().len(), 2);
    // A reload leaves it as it is.
    gateway.reload(
        "listeners: [{ address: \"127.0.0.1:0\" }]\nroutes: [{ path: /*, respond: { body: other } }]\n\
         admin: { probe: { address: \"127.0.0.1:0\", metrics: true } }\n",
    );
    assert_eq!(probe.get("/metrics").status, 200);
}

#[test]
fn the_first_lines_say_what_listens_where_and_what_to_try() {
    let gateway = gateway("", "");
    let address = gateway.addresses()[1];
    eventually("the line is written", || gateway.log().contains(" serves "));
    let log = gateway.log();
    let line = log.lines().find(|line| line.contains(" serves ")).expect("there is such a line");
    assert!(line.contains(&gateway.address().to_string()), "{line}");
    let command = format!(
        "page http://{address}/, try: curl -H \"Authorization: Bearer $TOLLGATE_ADMIN_TOKEN\" http://{address}/v1/status"
    );
    assert!(line.contains(&command), "{line}");
}
