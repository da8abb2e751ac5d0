//! A proxy that is not trusted: the log, the status and the metrics name it, and what to do.

use super::{AdminClient, METRICS, READ, settles};
use crate::support::Gateway;

/// The text of the reason, if there is one.
fn reason(operator: &AdminClient) -> Option<String> {
    let status = operator.get("/v1/status").json();
    let reasons = status["reasons"].as_array().expect("a list");
    let reason = reasons.iter().find(|it| it["code"] == "proxy_not_trusted")?;
    assert_eq!(reason["alert"], "TollgateProxyNotTrusted");
    reason["text"].as_str().map(str::to_owned)
}

#[test]
fn a_proxy_that_is_not_trusted_is_named_until_it_is_trusted() {
    let yaml = super::yaml("", "");
    let gateway = Gateway::start(&yaml);
    let operator = AdminClient::new(&gateway, READ);
    let mut proxy = gateway.client();
    for client in 1..=14 {
        proxy.get("/", &[&format!("X-Forwarded-For: 192.0.2.{client}")]);
    }
    let text = "requests from 127.0.0.1 name 14 clients in X-Forwarded-For, which is not believed: \
                name it in client.trusted_proxies";
    settles("the proxy is named", || reason(&operator).as_deref() == Some(text));
    // The gateway may have looked before the last of the requests.
    let told = "clients in X-Forwarded-For, which is not believed: name it in \
                client.trusted_proxies, if it is a proxy of yours: a client can forge the field";
    settles("the log names it once", || gateway.log().matches(told).count() == 1);
    assert!(gateway.log().contains("requests from 127.0.0.1 name "), "{}", gateway.log());
    let metrics = AdminClient::new(&gateway, METRICS).get("/metrics").text();
    for line in ["tollgate_unbelieved_clients 14\n", "tollgate_unbelieved_requests_total 14\n"] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    gateway.reload(&format!("client: {{ trusted_proxies: [127.0.0.0/8] }}\n{yaml}"));
    let operator = AdminClient::new(&gateway, READ);
    settles("it is trusted now", || reason(&operator).is_none());
    for client in 1..=14 {
        proxy.get("/", &[&format!("X-Forwarded-For: 192.0.2.{client}")]);
    }
    let metrics = AdminClient::new(&gateway, METRICS).get("/metrics").text();
    assert!(metrics.contains("tollgate_unbelieved_requests_total 14\n"), "{metrics}");
}
