//! The admin listener.

use tollgate_core::time::{Span, Timestamp};

use super::*;
use crate::admin::{AdminSettings, ProbeSettings, Role, TokenDigest};
use crate::server::ListenAddress;

fn admin(section: &str) -> AdminSettings {
    let config = compile(&format!("{SMALLEST}admin: {section}\n"));
    config.admin.expect("it is in the file")
}

#[test]
fn without_the_section_there_is_no_admin_listener() {
    assert_eq!(compile(SMALLEST).admin, None);
}

#[test]
fn the_admin_listener_is_as_it_was_written_and_bounded() {
    let admin = compile(LARGEST).admin.expect("it is in the file");
    assert_eq!(admin.listener.address.tcp(), "0.0.0.0:9901".parse().ok());
    assert_eq!(admin.hosts, ["gateway.internal", "::1"]);
    let tokens: Vec<_> = admin.tokens.iter().map(|it| (&*it.name, it.role, it.expires)).collect();
    let new_year = Timestamp::default().plus(Span::from_secs(1_798_761_600));
    assert_eq!(
        tokens,
        [
            ("token", Role::Operate, None),
            ("viewer", Role::Read, Some(new_year)),
            ("scraper", Role::Metrics, None),
        ]
    );
    assert_eq!(admin.tokens[1].digest, TokenDigest::of(b"0123456789abcdef"));
    let probe = ListenAddress::Tcp("127.0.0.1:9902".parse().unwrap());
    assert_eq!(admin.probe, Some(ProbeSettings { address: probe, metrics: true }));
    assert!(admin.write_config && admin.reveal_keys);
    let bounds = admin.listener;
    assert_eq!((bounds.max_connections, bounds.max_head_bytes), (64, 16 * 1024));
    assert_eq!(bounds.http2.map(|it| it.max_streams), Some(16));
    assert!(compile(LARGEST).listeners.iter().all(|it| it.socket_mode.is_none()));
}

#[test]
fn a_unix_socket_is_private_unless_other_users_are_named() {
    let private = admin("{ address: \"unix:/run/a.sock\" }");
    assert_eq!((private.listener.socket_mode, &*private.uids), (Some(0o600), &[][..]));
    let shared = admin("{ address: \"unix:/run/a.sock\", uids: [1000] }");
    assert_eq!((shared.listener.socket_mode, &*shared.uids), (Some(0o666), &[1000][..]));
}

#[test]
fn addresses_of_the_loopback_need_no_tls() {
    for address in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        admin(&format!("{{ address: \"{address}\", token: 0123456789abcdef }}"));
    }
    for address in ["0.0.0.0:1", ":1", "[::]:1", "10.0.0.1:1"] {
        let section = format!("{{ address: \"{address}\", token: 0123456789abcdef }}");
        assert!(parse(&format!("{SMALLEST}admin: {section}\n")).is_err(), "{address}");
    }
}
