//! Health and readiness of a node, from its start to its end.

use std::thread;
use std::time::Duration;

use super::{AdminClient, OPERATE, READ, gateway, section};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, Origin, eventually};

#[test]
fn the_node_is_healthy_and_ready_while_redis_is_away() {
    let mut redis = Redis::start(Options::default());
    let gateway = gateway(&format!("store: {{ redis: {{ url: \"{}\" }} }}", redis.url()), "");
    let client = AdminClient::new(&gateway, OPERATE);
    eventually("it is well", || client.get("/v1/status").json()["state"] == "ok");
    redis.kill();
    eventually("the status says so", || {
        let status = client.get("/v1/status").json();
        status["reasons"][0]["code"] == "store_away"
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
    eventually("it is not ready", || client.get("/readyz").status == 503);
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
        let probe = AdminClient { address, token: None };
        // Probes of an orchestrator name hosts that are not known here.
        for path in ["/healthz", "/readyz"] {
            let response = probe.send_to("Host: pod-7.example", "GET", path, &[], "");
            assert_eq!(response.status, 200, "{path}");
        }
        assert_eq!(probe.get("/metrics").status, if metrics { 200 } else { 404 });
        let operator = AdminClient { address, token: Some(OPERATE.to_owned()) };
        for path in ["/v1/status", "/v1/config", "/v1/policies/each/keys/ann"] {
            assert_eq!(operator.get(path).status, 404, "{path}");
        }
        assert_eq!(operator.send("DELETE", "/v1/policies/each/keys/ann", &[], "").status, 404);
    }
}

#[test]
fn the_first_lines_say_what_listens_where_and_what_to_try() {
    let gateway = gateway("", "");
    let address = gateway.addresses()[1];
    let log = gateway.log();
    let line = log.lines().find(|line| line.contains(" serves ")).expect("there is such a line");
    assert!(line.contains(&gateway.address().to_string()), "{line}");
    let command = format!(
        "try: curl -H \"Authorization: Bearer $TOLLGATE_ADMIN_TOKEN\" http://{address}/v1/status"
    );
    assert!(line.contains(&command), "{line}");
}
