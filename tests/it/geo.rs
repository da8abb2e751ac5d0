//! Limits by the place of a client: country, region and network, from files.

use std::path::PathBuf;

use crate::support::mmdb::{MmdbWriter, network, place};
use crate::support::{Gateway, Program, StoreKind, eventually, on_every_store};

on_every_store!(
    clients_of_one_country_share_a_limit,
    a_client_without_a_place_is_counted_by_address_or_as_the_policy_says,
    a_limit_may_depend_on_the_country,
);

/// Files with the places of addresses.
struct Files(tempfile::TempDir);

impl Files {
    /// Germany, France and Norway, and two networks in them.
    fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("a directory"));
        files.put("city.mmdb", &cities("DE"));
        let networks = MmdbWriter::new("GeoLite2-ASN")
            .insert("192.0.2.0/24", &network(64500))
            .insert("198.51.100.0/24", &network(64501));
        files.put("asn.mmdb", &networks.finish());
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Replaces a file atomically, as a tool that updates it should.
    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path("new"), bytes).expect("a file");
        std::fs::rename(self.path("new"), self.path(name)).expect("it is the same directory");
    }

    /// A configuration with a policy of these fields, behind a proxy on this machine.
    fn config(&self, policy: &str) -> String {
        let [city, asn] = ["city.mmdb", "asn.mmdb"].map(|name| self.path(name));
        format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             client: {{ trusted_proxies: [127.0.0.0/8], geo: {{ database: [{}, {}] }} }}\n\
             policies: {{ p: {{ {policy} }} }}\n\
             routes: [{{ path: /*, policies: [p], respond: {{ body: ok }} }}]\n",
            city.display(),
            asn.display()
        )
    }
}

fn cities(first: &str) -> Vec<u8> {
    MmdbWriter::new("GeoLite2-City")
        .insert("192.0.2.0/24", &place(first, Some("BE")))
        .insert("192.0.2.128/25", &place("FR", Some("75")))
        .insert("2001:db8::/32", &place(first, Some("BE")))
        .insert("198.51.100.7/32", &place("NO", None))
        .finish()
}

/// The statuses of requests that a proxy forwards for these clients, in this order.
fn statuses<const N: usize>(gateway: &Gateway, clients: [&str; N]) -> [u16; N] {
    let mut client = gateway.client();
    clients.map(|address| client.get("/", &[&format!("X-Forwarded-For: {address}")]).status)
}

fn clients_of_one_country_share_a_limit(store: StoreKind) {
    let files = Files::new();
    for (key, addresses, expected) in [
        (
            "country",
            ["192.0.2.1", "2001:db8::9", "192.0.2.2", "192.0.2.200", "198.51.100.7"],
            [200, 200, 429, 200, 200],
        ),
        (
            "{ all: [region, asn] }",
            ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.200", "192.0.2.201"],
            [200, 200, 429, 200, 200],
        ),
        (
            "{ first: [asn, country] }",
            ["192.0.2.1", "192.0.2.200", "192.0.2.3", "2001:db8::9", "2001:db8:1::9"],
            [200, 200, 429, 200, 200],
        ),
        (
            // The client wrote the part to the left of the last hop.
            "country",
            [
                "198.51.100.7, 192.0.2.1",
                "192.0.2.200, 192.0.2.1",
                "192.0.2.1",
                "192.0.2.1, 192.0.2.200",
                "192.0.2.1, 127.0.0.2",
            ],
            [200, 200, 429, 200, 429],
        ),
    ] {
        let gateway = store.start(&files.config(&format!("key: {key}, limit: 2/day")));
        assert_eq!(statuses(&gateway, addresses), expected, "{key}");
    }
}

fn a_client_without_a_place_is_counted_by_address_or_as_the_policy_says(store: StoreKind) {
    let files = Files::new();
    let addresses = ["203.0.113.1", "203.0.113.1", "203.0.113.2", "192.0.2.1", "192.0.2.2"];
    for (missing, expected) in [
        ("missing_key: ip", [200, 429, 200, 200, 429]),
        ("missing_key: deny", [403, 403, 403, 200, 429]),
        ("missing_key: skip", [200, 200, 200, 200, 429]),
    ] {
        let gateway = store.start(&files.config(&format!("key: country, limit: 1/day, {missing}")));
        assert_eq!(statuses(&gateway, addresses), expected, "{missing}");
    }
    // The proxy's own address, which no file contains.
    let gateway = store.start(&files.config("key: country, limit: 1/day"));
    let mut client = gateway.client();
    assert_eq!([(); 2].map(|()| client.get("/", &[]).status), [200, 429]);
}

fn a_limit_may_depend_on_the_country(store: StoreKind) {
    let files = Files::new();
    let policy = "key: ip, limit: 2/day, exempt: { regions: [FR-75] }, \
                  plans: { from: country, limits: { DE: 1/day, NO: unlimited } }";
    let gateway = store.start(&files.config(policy));
    assert_eq!(statuses(&gateway, ["192.0.2.1"; 2]), [200, 429]);
    assert_eq!(statuses(&gateway, ["203.0.113.1"; 3]), [200, 200, 429]);
    assert_eq!(statuses(&gateway, ["198.51.100.7"; 5]), [200; 5]);
    assert_eq!(statuses(&gateway, ["192.0.2.200"; 5]), [200; 5]);
}

#[test]
fn a_client_that_is_not_a_trusted_proxy_cannot_choose_its_country() {
    let files = Files::new();
    let config = files.config("key: country, limit: 1/day, missing_key: deny");
    let gateway = Gateway::start(&config.replace("[127.0.0.0/8]", "[10.0.0.0/8]"));
    assert_eq!(statuses(&gateway, ["192.0.2.1", "198.51.100.7"]), [403, 403]);
}

#[test]
fn a_replaced_file_is_used_without_a_restart_and_a_broken_one_is_not() {
    let files = Files::new();
    let policy = "key: ip, limit: 9/day, missing_key: deny, \
                  plans: { from: country, limits: { DE: 1/day, SE: 5/day } }";
    let gateway = Gateway::start(&files.config(policy));
    let limit = || {
        let mut client = gateway.client();
        client.get("/", &["X-Forwarded-For: 192.0.2.1"]).number("X-Ratelimit-Limit")
    };
    assert_eq!(limit(), 1);
    files.put("city.mmdb", b"half of a file");
    let stays = "the one that was read before stays in force";
    eventually("the broken file is seen", || gateway.log().contains(stays));
    assert_eq!(limit(), 1);
    files.put("city.mmdb", &cities("SE"));
    eventually("the new file is read", || limit() == 5);
}

#[test]
fn a_gateway_does_not_start_with_a_missing_or_a_broken_file() {
    let files = Files::new();
    let config = files.path("gateway.yaml");
    std::fs::write(&config, files.config("key: country, limit: 2/day")).expect("a file");
    let file = config.to_str().expect("the path is UTF-8");
    let commands = [["check", "-c", file], ["run", "-c", file]];
    let check = Program::run(&commands[0]);
    assert_eq!((check.code, check.stderr.as_str()), (Some(0), ""));
    let are_refused = |message: &str| {
        for command in &commands {
            let refused = Program::run(command);
            assert_eq!(refused.code, Some(2), "{command:?}");
            assert!(refused.stderr.contains(message), "{}", refused.stderr);
        }
    };
    files.put("asn.mmdb", b"not a database");
    are_refused("asn.mmdb\" cannot be used: it is not a complete MaxMind DB file");
    std::fs::remove_file(files.path("asn.mmdb")).expect("it is there");
    are_refused("asn.mmdb\" cannot be used: it cannot be read: No such file");
}
