//! What the log and the register have of servers that come and go.

use super::*;
use crate::failure::StoreError;
use crate::settings::{Address, RedisSettings, Topology};

fn outage(server: &str, cause: OutageCause) -> Outage {
    let settings = RedisSettings::new(Topology::Standalone(Address::tcp("a", 1)));
    StoreError::NotConnected(cause, "it said so".to_owned()).outage(server, &settings)
}

/// Server, cause and users of each outage.
fn found(outages: &Outages) -> Vec<(String, OutageCause, usize)> {
    outages.all().into_iter().map(|it| (it.server, it.cause, it.users)).collect()
}

#[test]
fn an_outage_lasts_until_the_last_use_resumes_or_ends() {
    let outages = Outages::default();
    let mut uses = [outages.user(), outages.user(), outages.user()];
    assert!(uses.iter().all(|it| !it.is_given_up()));
    for it in &mut uses {
        it.give_up(outage("a:1", OutageCause::MemoryFull));
    }
    assert_eq!(found(&outages), [("a:1".to_owned(), OutageCause::MemoryFull, 3)]);
    let [mut first, second, third] = uses;
    first.resume();
    drop(second);
    assert_eq!(found(&outages), [("a:1".to_owned(), OutageCause::MemoryFull, 1)]);
    first.resume();
    assert_eq!(found(&outages).len(), 1, "it was in use already");
    drop(third);
    assert_eq!(found(&outages), []);
}

#[test]
fn a_use_that_moves_to_another_server_leaves_nothing_behind() {
    let outages = Outages::default();
    let mut it = outages.user();
    it.give_up(outage("a:1", OutageCause::KeyForbidden));
    it.give_up(outage("b:1", OutageCause::Loading));
    assert_eq!(found(&outages), [("b:1".to_owned(), OutageCause::Loading, 1)]);
    it.resume();
    assert_eq!(found(&outages), []);
}

#[test]
fn replicas_are_not_among_the_servers_that_count() {
    let outages = Outages::default();
    let mut replica = outages.of_replicas().user();
    replica.give_up(outage("a:1", OutageCause::Unreachable));
    assert_eq!(found(&outages), []);
    let mut master = outages.user();
    master.give_up(outage("a:1", OutageCause::Tls));
    assert_eq!(found(&outages), [("a:1".to_owned(), OutageCause::Tls, 1)]);
}

#[test]
fn the_last_cause_is_known_and_a_timeout_does_not_hide_it() {
    let outages = Outages::default();
    let mut it = outages.user();
    for (cause, known) in [
        (OutageCause::NoAnswer, OutageCause::NoAnswer),
        (OutageCause::Unreachable, OutageCause::Unreachable),
        (OutageCause::Loading, OutageCause::Loading),
        (OutageCause::NoAnswer, OutageCause::Loading),
        (OutageCause::Unreachable, OutageCause::Unreachable),
        (OutageCause::PasswordWrong, OutageCause::PasswordWrong),
    ] {
        it.give_up(outage("a:1", cause));
        assert_eq!(found(&outages), [("a:1".to_owned(), known, 1)]);
    }
}

/// A server that is tried for days, and fails in turns, has each cause in the log once.
#[test]
fn the_log_has_each_cause_of_an_outage_once() {
    let mut server = OneServer {
        users: 1,
        last: outage("a:1", OutageCause::NoAnswer),
        logged: BTreeSet::from([OutageCause::NoAnswer]),
    };
    let mut lines = Vec::new();
    for _ in 0..1000 {
        for &cause in OutageCause::ALL {
            if server.is_worth_a_line(cause) {
                server.logged.insert(cause);
                lines.push(cause);
            }
        }
    }
    assert!(!lines.contains(&OutageCause::NoAnswer), "the log has it");
    assert!(lines.contains(&OutageCause::Unreachable), "it says more than a timeout");
    assert!(!lines.contains(&OutageCause::Closed), "the log knows that the server is silent");
    assert_eq!(lines.len(), OutageCause::ALL.len() - 2, "{lines:?}");
}
