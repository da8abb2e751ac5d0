//! States of kinds that a newer release has: this release keeps them, and reads what is behind.

use tollgate_core::time::{Span, Timestamp};

use super::upkeep::{NOW, asked, principal, sliding};
use super::*;
use crate::codec::Ask;
use crate::layout::Layout;

/// 2025-01-01, the epoch of stored times.
const EPOCH_US: u64 = 1_735_689_600_000_000;

/// A state of this kind that ends at `end`, with a block of so many bytes.
fn newer(kind: u8, end: Timestamp, length: u8) -> Vec<u8> {
    // The end is a number of steps of 2^18 microseconds.
    let steps = (end.as_micros() - EPOCH_US).div_ceil(1 << 18);
    let mut state = vec![9, 9, 9, kind << 4 | 6];
    state.extend_from_slice(&steps.to_le_bytes()[..4]);
    state.push(length);
    state.extend((0..length).map(|byte| byte.wrapping_mul(7)));
    state
}

impl Server {
    /// Sets the field of this client.
    fn set_value(&mut self, client: u64, value: &[u8]) {
        let field = Layout::field(principal(client));
        let mut set = redis::cmd("HSET");
        set.arg("upkeep:0").arg(&field).arg(value).exec(&mut self.connection).unwrap();
    }
}

fn contains(value: &[u8], state: &[u8]) -> bool {
    value.windows(state.len()).any(|part| part == state)
}

/// Regression: a state of an unknown kind was deleted, with all states of the client behind it.
#[test]
fn states_of_newer_kinds_are_kept_with_the_states_behind_them() {
    let mut server = Server::start();
    let minute = sliding(100, 60);
    let hour = sliding(1000, 3600);
    for (client, kind, length) in [(1, 10, 5), (2, 12, 0), (3, 14, 40)] {
        let state = newer(kind, NOW.plus(Span::from_secs(7200)), length);
        server.one(1, asked(&minute, client, 1, Ask::Take(30)), NOW);
        let mut value = state.clone();
        value.extend(server.value(client));
        server.set_value(client, &value);
        server.one(1, asked(&minute, client, 1, Ask::Take(1)), NOW);
        assert_eq!(server.remaining(&minute, client, 1, NOW), 69, "kind {kind}");
        // A state that is new comes beside it, and goes without it.
        server.one(1, asked(&hour, client, 2, Ask::Take(5)), NOW);
        assert_eq!(server.remaining(&hour, client, 2, NOW), 995, "kind {kind}");
        server.one(1, asked(&hour, client, 2, Ask::Reset), NOW);
        let found = server.value(client);
        assert!(length >= 40 || contains(&found, &state), "kind {kind}: {found:?}");
        assert_eq!(server.remaining(&minute, client, 1, NOW), 69, "kind {kind}");
    }
}

/// When it has ended, it is removed like each other state.
#[test]
fn states_of_newer_kinds_are_removed_when_they_have_ended() {
    let mut server = Server::start();
    let minute = sliding(100, 60);
    let state = newer(11, NOW.plus(Span::from_secs(10)), 5);
    server.set_value(1, &state);
    server.one(1, asked(&minute, 1, 1, Ask::Take(1)), NOW);
    assert!(contains(&server.value(1), &state));
    server.one(1, asked(&minute, 1, 1, Ask::Take(1)), NOW.plus(Span::from_secs(20)));
    assert!(!contains(&server.value(1), &state));
    assert_eq!(server.remaining(&minute, 1, 1, NOW.plus(Span::from_secs(20))), 98);
}
