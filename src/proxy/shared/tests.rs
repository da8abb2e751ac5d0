//! Who the endpoints are, and what becomes of them.

use super::*;
use crate::proxy::{CheckSettings, EjectSettings, EndpointSettings};

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
    upstream.members().iter().map(|member| member.address.to_string()).collect()
}

fn states(upstream: &UpstreamShared) -> Vec<EndpointState> {
    upstream.health().into_iter().map(|health| health.state).collect()
}

#[test]
fn an_address_is_there_at_once_and_a_name_when_it_was_looked_up() {
    let upstream = upstream(&["10.0.0.1:80", "app.test:80", "[::1]:80"], |_| {});
    assert_eq!(addresses(&upstream), ["10.0.0.1:80", "[::1]:80"]);
    let before = upstream.generation();
    upstream.place_at(1, &["10.0.0.7:80", "10.0.0.8:80"].map(|it| it.parse().unwrap()));
    assert_eq!(addresses(&upstream), ["10.0.0.1:80", "10.0.0.7:80", "10.0.0.8:80", "[::1]:80"]);
    assert_ne!(upstream.generation(), before);
    assert_eq!(states(&upstream), [EndpointState::InService; 4]);
}

#[test]
fn who_stays_at_a_name_stays_who_it_was() {
    let upstream = upstream(&["app.test:80"], |_| {});
    let [a, b, c] = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"].map(|it| it.parse().unwrap());
    upstream.place_at(0, &[a, b]);
    let (before, generation) = (upstream.members(), upstream.generation());
    upstream.place_at(0, &[a, b]);
    assert_eq!(upstream.generation(), generation, "nothing has changed");
    upstream.place_at(0, &[b, c]);
    let after = upstream.members();
    assert!(Arc::ptr_eq(&before[1], &after[0]));
    assert_eq!(states(&upstream), [EndpointState::InService, EndpointState::Starting]);
}

#[test]
fn failures_in_a_row_eject_but_never_too_many() {
    let ejecting = |settings: &mut UpstreamSettings| {
        settings.eject = Some(EjectSettings { consecutive_errors: 3, ..EjectSettings::default() });
    };
    let upstream = upstream(&["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"], ejecting);
    let members = upstream.members();
    for is_good in [false, false, true, false, false] {
        upstream.note(&members[0], is_good);
    }
    assert_eq!(states(&upstream), [EndpointState::InService; 3], "never three in a row");
    for member in &members {
        (0..10).for_each(|_| upstream.note(member, false));
    }
    let is_out = |state: &EndpointState| matches!(state, EndpointState::Ejected(_));
    assert_eq!(states(&upstream).iter().filter(|it| is_out(it)).count(), 1, "half of three");
}

#[test]
fn checks_take_out_and_put_back() {
    let checking = |settings: &mut UpstreamSettings| {
        settings.check = Some(CheckSettings::new("/".parse().unwrap()));
    };
    let upstream = upstream(&["10.0.0.1:80"], checking);
    let members = upstream.members();
    let check = |is_good| {
        upstream.checked(&members[0], is_good);
        states(&upstream)[0]
    };
    assert_eq!([false; 3].map(check)[2], EndpointState::Down);
    assert_eq!([true; 2].map(check)[1], EndpointState::Starting);
}

#[test]
fn without_settings_nobody_is_judged() {
    let upstream = upstream(&["10.0.0.1:80", "10.0.0.2:80"], |_| {});
    let members = upstream.members();
    (0..100).for_each(|_| upstream.note(&members[0], false));
    (0..100).for_each(|_| upstream.checked(&members[0], false));
    assert_eq!(states(&upstream), [EndpointState::InService; 2]);
}

#[test]
fn an_endpoint_is_the_same_for_keys_wherever_it_stands() {
    let one = upstream(&["10.0.0.1:80", "10.0.0.2:80"], |_| {});
    let other = upstream(&["10.0.0.2:80"], |settings| settings.name = "other".to_owned());
    assert_eq!(one.members()[1].identity, other.members()[0].identity);
    assert_ne!(one.members()[0].identity, one.members()[1].identity);
}
