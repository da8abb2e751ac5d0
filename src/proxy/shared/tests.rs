//! The endpoints of an upstream, and changes of their addresses and their health.

use super::*;
use crate::proxy::{CheckSettings, ConnectionSettings, EjectSettings, EndpointSettings};

fn upstream(endpoints: &[&str], change: impl FnOnce(&mut UpstreamSettings)) -> UpstreamShared {
    let endpoint = |authority: &&str| EndpointSettings {
        target: Target::Http(authority.parse().unwrap()),
        weight: 1,
    };
    let mut settings = UpstreamSettings::new("app", endpoints.iter().map(endpoint).collect());
    change(&mut settings);
    UpstreamShared::new(settings, SocketAddr::from(([127, 0, 0, 1], 1)))
}

fn addresses(upstream: &UpstreamShared) -> Vec<String> {
    upstream.endpoints().iter().map(|endpoint| endpoint.address.to_string()).collect()
}

fn states(upstream: &UpstreamShared) -> Vec<EndpointState> {
    upstream.health().into_iter().map(|health| health.state).collect()
}

#[test]
fn an_address_is_used_at_once_and_a_name_after_its_lookup() {
    let upstream = upstream(&["10.0.0.1:80", "app.test:80", "[::1]:80"], |_| {});
    assert_eq!(addresses(&upstream), ["10.0.0.1:80", "[::1]:80"]);
    let before = upstream.generation();
    upstream.set_addresses(1, &["10.0.0.7:80", "10.0.0.8:80"].map(|it| it.parse().unwrap()));
    assert_eq!(addresses(&upstream), ["10.0.0.1:80", "10.0.0.7:80", "10.0.0.8:80", "[::1]:80"]);
    assert_ne!(upstream.generation(), before);
    assert_eq!(states(&upstream), [EndpointState::InService; 4]);
}

#[test]
fn an_address_that_a_name_keeps_is_still_the_same_endpoint() {
    let upstream = upstream(&["app.test:80"], |_| {});
    let [a, b, c] = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"].map(|it| it.parse().unwrap());
    upstream.set_addresses(0, &[a, b]);
    let before = upstream.endpoints();
    let generation = upstream.generation();
    upstream.set_addresses(0, &[a, b]);
    assert_eq!(upstream.generation(), generation, "nothing has changed");
    upstream.set_addresses(0, &[b, c]);
    let after = upstream.endpoints();
    assert!(Arc::ptr_eq(&before[1], &after[0]));
    assert_eq!(states(&upstream), [EndpointState::InService, EndpointState::Starting]);
}

#[test]
fn failures_in_a_row_eject_endpoints_up_to_the_configured_share() {
    let ejecting = |settings: &mut UpstreamSettings| {
        settings.eject = Some(EjectSettings { consecutive_errors: 3, ..EjectSettings::default() });
    };
    let upstream = upstream(&["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"], ejecting);
    let endpoints = upstream.endpoints();
    for is_success in [false, false, true, false, false] {
        upstream.record_request(&endpoints[0], is_success);
    }
    assert_eq!(states(&upstream), [EndpointState::InService; 3], "never three in a row");
    for endpoint in &endpoints {
        (0..10).for_each(|_| upstream.record_request(endpoint, false));
    }
    let is_out = |state: &EndpointState| matches!(state, EndpointState::Ejected(_));
    assert_eq!(states(&upstream).iter().filter(|it| is_out(it)).count(), 1, "half of three");
}

#[test]
fn checks_take_an_endpoint_out_of_service_and_put_it_back() {
    let checking = |settings: &mut UpstreamSettings| {
        settings.check = Some(CheckSettings::new("/".parse().unwrap()));
    };
    let upstream = upstream(&["10.0.0.1:80"], checking);
    let endpoints = upstream.endpoints();
    let check = |is_healthy| {
        let result = if is_healthy { Ok(()) } else { Err("the status is 500") };
        upstream.record_check(&endpoints[0], result);
        states(&upstream)[0]
    };
    assert_eq!([false; 3].map(check)[2], EndpointState::Down);
    assert_eq!([true; 2].map(check)[1], EndpointState::Starting);
}

#[test]
fn without_settings_no_endpoint_is_taken_out_of_service() {
    let upstream = upstream(&["10.0.0.1:80", "10.0.0.2:80"], |_| {});
    let endpoints = upstream.endpoints();
    (0..100).for_each(|_| upstream.record_request(&endpoints[0], false));
    (0..100).for_each(|_| upstream.record_check(&endpoints[0], Err("the status is 500")));
    assert_eq!(states(&upstream), [EndpointState::InService; 2]);
}

#[test]
fn an_endpoint_has_the_same_identity_in_every_upstream() {
    let one = upstream(&["10.0.0.1:80", "10.0.0.2:80"], |_| {});
    let other = upstream(&["10.0.0.2:80"], |settings| settings.name = "other".to_owned());
    assert_eq!(one.endpoints()[1].identity, other.endpoints()[0].identity);
    assert_ne!(one.endpoints()[0].identity, one.endpoints()[1].identity);
}

const PATIENCE: Duration = Duration::from_secs(1);
const ECHO: ([u8; 4], u16) = ([127, 0, 0, 1], 1);

/// An upstream with two fixed addresses: one of them is down, and the other is ejected.
fn failing() -> UpstreamShared {
    let upstream = upstream(&["10.0.0.1:80", "10.0.0.2:80"], |settings| {
        settings.check = Some(CheckSettings::new("/".parse().unwrap()));
        settings.eject = Some(EjectSettings::default());
    });
    let endpoints = upstream.endpoints();
    (0..3).for_each(|_| upstream.record_check(&endpoints[0], Err("the status is 500")));
    (0..5).for_each(|_| upstream.record_request(&endpoints[1], false));
    upstream
}

#[test]
fn an_endpoint_keeps_its_health_when_other_settings_change() {
    let before = failing();
    let is_out = |state: &EndpointState| matches!(state, EndpointState::Ejected(_));
    let of = |change: &dyn Fn(&mut UpstreamSettings)| {
        let mut settings = before.settings().clone();
        change(&mut settings);
        let after = states(&before.changed(settings, ECHO.into()));
        (after[0] == EndpointState::Down, is_out(&after[1]))
    };
    assert_eq!(of(&|it| it.max_idle = Some(1)), (true, true));
    assert_eq!(of(&|it| it.endpoints[0].weight = 7), (true, true));
    let interval = Duration::from_secs(1);
    assert_eq!(of(&|it| it.check.as_mut().unwrap().interval = interval), (true, true));
    let other = CheckSettings::new("/live".parse().unwrap());
    assert_eq!(of(&|it| it.check = Some(other.clone())), (false, true));
    assert_eq!(of(&|it| it.check = None), (false, true));
    assert_eq!(of(&|it| it.eject = None), (true, false));
    assert_eq!(of(&|it| it.connect_timeout *= 2), (false, false));
}

#[test]
fn an_endpoint_that_a_change_moves_keeps_its_health_and_a_new_one_has_none() {
    let before = failing();
    let mut settings = before.settings().clone();
    let target = Target::Http("10.0.0.3:80".parse().unwrap());
    settings.endpoints.insert(0, EndpointSettings { target, weight: 1 });
    settings.endpoints.remove(1);
    let after = before.changed(settings, ECHO.into());
    assert_eq!(addresses(&after), ["10.0.0.3:80", "10.0.0.2:80"]);
    assert_eq!(states(&after)[0], EndpointState::InService);
    assert!(matches!(states(&after)[1], EndpointState::Ejected(_)));
}

/// A reload may still fail after the change was made.
#[test]
fn the_bound_of_connections_changes_when_the_other_upstream_begins() {
    let bound = |max| ConnectionSettings { max, queue_length: 1, queue_timeout: PATIENCE };
    let before = upstream(&["10.0.0.1:80"], |it| it.connections = Some(bound(3)));
    let identity = before.endpoints()[0].identity;
    let possible = |upstream: &UpstreamShared| {
        let limit = &upstream.connections().unwrap().limit;
        let permits: Vec<_> = std::iter::from_fn(|| limit.try_permit(identity)).collect();
        permits.len()
    };
    let settings =
        |max| UpstreamSettings { connections: Some(bound(max)), ..before.settings().clone() };
    drop(before.changed(settings(1), ECHO.into()));
    let after = before.changed(settings(2), ECHO.into());
    assert_eq!(possible(&before), 3);
    after.begin();
    assert_eq!((possible(&before), possible(&after)), (2, 2));
    // The limit is that of the latest one.
    before.begin();
    assert_eq!(possible(&after), 2);
    let last = after.changed(settings(4), ECHO.into());
    last.begin();
    assert_eq!(possible(&last), 4);
}

/// A lookup that fails after the change then leaves the addresses of before.
#[test]
fn a_name_keeps_its_addresses_when_other_settings_change() {
    let before = upstream(&["app.test:80"], |_| {});
    let found = ["10.0.0.1:80", "10.0.0.2:80"].map(|it| it.parse().unwrap());
    before.set_addresses(0, &found);
    let settings = UpstreamSettings { max_idle: Some(1), ..before.settings().clone() };
    let after = before.changed(settings, ECHO.into());
    assert_eq!(addresses(&after), ["10.0.0.1:80", "10.0.0.2:80"]);
    assert!(!after.set_addresses(0, &found), "they are the same");
}
