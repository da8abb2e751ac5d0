//! The listeners for questions of other proxies and services.

use std::time::Duration;

use super::*;
use crate::check::{LeaseSettings, RpcServices, Statuses, Wildcard};
use crate::server::{Callers, Trust, WhenFull};

#[test]
fn an_address_alone_is_enough_and_only_this_machine_may_ask() {
    let check = compile("check: { http: 127.0.0.1:9902, grpc: \"unix:/run/check.sock\" }\n").check;
    let http = check.http.expect("it is there");
    let grpc = check.grpc.expect("it is there");
    assert_eq!(http.listener.address.to_string(), "127.0.0.1:9902");
    for listener in [&http.listener, &grpc.listener] {
        assert_eq!(listener.callers, Callers::At(Trust::default()));
        assert_eq!(listener.when_full, WhenFull::CloseIdle);
    }
    assert_eq!((http.statuses, http.leases), (Statuses::default(), LeaseSettings::default()));
    assert!(http.tokens.is_empty());
    assert_eq!(grpc.services, RpcServices { ratelimit: true, authorization: true });
}

/// A proxy that asks cancels calls that take too long. The listener for HTTP once had the bounds of
/// a listener for clients.
#[test]
fn a_proxy_may_cancel_all_its_questions() {
    let check = compile("check: { http: 127.0.0.1:9902, grpc: 127.0.0.1:9903 }\n").check;
    let http = check.http.expect("it is there");
    let grpc = check.grpc.expect("it is there");
    for listener in [&http.listener, &grpc.listener] {
        let bounds = listener.http2.expect("it serves HTTP/2");
        assert_eq!((bounds.max_streams, bounds.most_resets(1000)), (4096, 1000));
    }
}

#[test]
fn the_listeners_are_as_they_were_written() {
    let check = compile(LARGEST).check;
    let http = check.http.expect("it is there");
    let grpc = check.grpc.expect("it is there");
    let trust = |block: &str| Callers::At(Trust::new(vec![block.parse().unwrap()]));
    assert_eq!(http.listener.callers, trust("10.0.0.0/8"));
    let statuses = [http.statuses.admitted, http.statuses.refused, http.statuses.unavailable];
    assert_eq!(statuses.map(|status| status.as_u16()), [204, 403, 500]);
    let [ttl, max_ttl] = [30, 600].map(Duration::from_secs);
    assert_eq!(http.leases, LeaseSettings { ttl, max_ttl, max: 5000 });
    let patterns = http.tokens[0].policies.as_deref();
    assert_eq!(patterns, Some(&[Wildcard::new("chat-*")][..]));
    assert!(http.tokens[0].dynamic);
    assert_eq!(grpc.services, RpcServices { ratelimit: true, authorization: false });
    assert_eq!(grpc.listener.callers, trust("192.0.2.0/24"));
}

#[test]
fn with_tokens_every_peer_may_ask() {
    let section = "{ address: 0.0.0.0:1, tokens: [{ token: 0123456789abcdef }] }";
    let check = compile(&format!("check: {{ http: {section} }}\n")).check;
    let Callers::At(trust) = &check.http.as_ref().expect("it is there").listener.callers else {
        unreachable!("peers are known by their addresses")
    };
    assert!(["192.0.2.1", "2001:db8::1"].iter().all(|it| trust.includes(it.parse().unwrap())));
}
