//! Lookups of names: their results, failures and bounds.

use std::cell::RefCell;

use super::*;
use crate::proxy::{EndpointSettings, Target, UpstreamSettings};

fn upstream(endpoints: &[&str]) -> UpstreamShared {
    let endpoint = |authority: &&str| EndpointSettings {
        target: Target::Http(authority.parse().unwrap()),
        weight: 1,
    };
    let settings = UpstreamSettings::new("app", endpoints.iter().map(endpoint).collect());
    UpstreamShared::new(settings, SocketAddr::from(([127, 0, 0, 1], 1)))
}

fn addresses(upstream: &UpstreamShared) -> Vec<String> {
    upstream.health().into_iter().map(|health| health.address).collect()
}

#[tokio::test]
async fn only_names_are_looked_up_and_all_their_addresses_are_used() {
    let upstream = upstream(&["10.0.0.1:80", "app.test:8080", "[::1]:80"]);
    let asked = RefCell::new(Vec::new());
    let lookup = async |name: String| {
        asked.borrow_mut().push(name);
        let found = ["10.0.0.9:8080", "10.0.0.8:8080", "10.0.0.9:8080"];
        Ok(found.map(|address| address.parse().unwrap()).to_vec())
    };
    round(&upstream, &lookup).await;
    assert_eq!(*asked.borrow(), ["app.test:8080"]);
    let expected = ["10.0.0.1:80", "10.0.0.8:8080", "10.0.0.9:8080", "[::1]:80"];
    assert_eq!(addresses(&upstream), expected);
}

#[tokio::test]
async fn a_lookup_that_fails_or_finds_nothing_changes_nothing() {
    let upstream = upstream(&["app.test:80"]);
    round(&upstream, &async |_| Ok(vec!["10.0.0.1:80".parse().unwrap()])).await;
    round(&upstream, &async |_| Err(io::ErrorKind::NotFound.into())).await;
    round(&upstream, &async |_| Ok(vec![])).await;
    assert_eq!(addresses(&upstream), ["10.0.0.1:80"]);
}

#[tokio::test]
async fn a_name_gives_a_bounded_number_of_endpoints() {
    let upstream = upstream(&["app.test:80"]);
    let many = (0..1000).map(|n| SocketAddr::from(([10, 0, 1, 1], n))).collect::<Vec<_>>();
    round(&upstream, &async |_| Ok(many.clone())).await;
    assert_eq!(addresses(&upstream).len(), MAX_ADDRESSES);
}
