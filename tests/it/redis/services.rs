//! Redis as services have it, which rename or refuse some commands. What a gateway does not need
//! for its decisions is left out, and the log says what is lost. What it needs is named.

use super::{node, wait_for_store};
use crate::support::eventually;
use crate::support::load::is_local;
use crate::support::redis::{Options, Redis, major_version};

/// A server without these commands.
fn without(commands: &[&str], further: &[&str]) -> Redis {
    let renamed = commands.iter().map(|command| format!("rename-command {command} \"\""));
    let lines = renamed.chain(further.iter().map(ToString::to_string)).collect();
    Redis::start(Options { lines, ..Options::default() })
}

#[test]
fn no_decision_needs_commands_that_services_refuse() {
    let mut commands =
        vec!["ACL", "CLIENT", "CLUSTER", "CONFIG", "DEBUG", "HELLO", "INFO", "ROLE", "SELECT"];
    if major_version() >= 7 {
        commands.push("FUNCTION");
    }
    let redis = without(&commands, &[]);
    let store = format!("url: \"{}\"", redis.url());
    let gateways = [(); 2].map(|()| node(&store, "limit: 3/day"));
    gateways.iter().for_each(wait_for_store);
    let mut clients = gateways.each_ref().map(|gateway| gateway.client());
    for remaining in [2, 1, 0] {
        let response = clients[remaining % 2].get("/", &["X-Client: ann"]);
        assert!(!is_local(&response));
        assert_eq!(response.number("X-Ratelimit-Remaining"), remaining as u64);
    }
    assert_eq!(clients[0].get("/", &["X-Client: ann"]).status, 429);
}

#[test]
fn a_command_that_is_needed_is_named() {
    for command in ["EVALSHA", "GET", "HGET", "HRANDFIELD", "PEXPIRE", "SCRIPT", "SET"] {
        let redis = without(&[command], &[]);
        let gateway = node(&format!("url: \"{}\"", redis.url()), "limit: 3/day");
        let named = || {
            let log = gateway.log();
            log.lines().any(|it| it.contains("command_missing") && it.contains(command))
        };
        eventually(&format!("the log names {command}"), named);
    }
}

/// A server that evicts keys forgets clients.
#[test]
fn eviction_is_found_by_either_command_and_is_unknown_without_both() {
    let lru = "maxmemory-policy allkeys-lru";
    let evicts = "set maxmemory-policy noeviction";
    let is_unknown = "it is not known whether Redis forgets clients";
    for (missing, further, expected) in [
        (&["INFO"][..], &[lru][..], Some(evicts)),
        (&["CONFIG"][..], &[lru][..], Some(evicts)),
        (&["CONFIG", "INFO"][..], &[lru][..], Some(is_unknown)),
        (&["CONFIG"][..], &[][..], None),
        (&[][..], &[][..], None),
    ] {
        let redis = without(missing, further);
        let gateway = node(&format!("url: \"{}\"", redis.url()), "limit: 3/day");
        wait_for_store(&gateway);
        match expected {
            Some(line) => {
                eventually(&format!("{missing:?}: {line}"), || gateway.log().contains(line));
            }
            // The gateway has asked before it wrote the secret.
            None => {
                eventually("it is a member", || {
                    !redis.cli(&["GET", "tollgate:meta:secret"]).is_empty()
                });
                let log = gateway.log();
                assert!(!log.contains(evicts) && !log.contains(is_unknown), "{missing:?}: {log}");
            }
        }
    }
}

/// The server was asked once, when the gateway started.
#[test]
fn eviction_is_found_at_a_server_that_comes_after_the_gateway_and_is_said_once() {
    let mut redis = without(&[], &["maxmemory-policy allkeys-lru"]);
    redis.kill();
    let gateway = node(&format!("url: \"{}\"", redis.url()), "limit: 3/day");
    assert!(is_local(&gateway.client().get("/", &["X-Client: ann"])));
    redis.restart();
    let evicts = "set maxmemory-policy noeviction";
    eventually("it is found", || gateway.log().contains(evicts));
    redis.kill();
    redis.restart();
    let calls = || redis.cli(&["INFO", "commandstats"]);
    eventually("it is asked again", || calls().contains("cmdstat_config"));
    assert_eq!(gateway.log().matches(evicts).count(), 1, "{}", gateway.log());
}
