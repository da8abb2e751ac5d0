//! The fields that a flood leaves in the buckets are removed by any later clients.

use tollgate_core::time::Span;

use super::upkeep::{NOW, asked, encoder, seconds, sliding};
use super::*;
use crate::codec::Ask;

const FLOOD: u64 = 4000;
const REGULARS: u64 = 64;
/// No client of the flood has this number.
const FIRST: u64 = 1 << 20;

/// A flood of clients that never come back, all in one bucket.
fn flooded() -> Server {
    let mut server = Server::start();
    let second = sliding(10, 1);
    let clients: Vec<_> = (0..FLOOD).collect();
    for some in clients.chunks(100) {
        let bodies = some
            .iter()
            .map(|client| encoder(1).encode(&[asked(&second, *client, 1, Ask::Take(1))], NOW));
        call(&bodies.collect::<Vec<_>>(), NOW).exec(&mut server.connection).unwrap();
    }
    assert_eq!(server.number("HLEN"), i64::try_from(FLOOD).unwrap());
    server
}

/// Rounds, `gap_s` seconds apart, in which each regular client comes once. The states of some
/// have expired by then if their window is shorter. Returns the number of remaining fields.
fn after_rounds(window_s: u64, gap_s: u64, rounds: u64) -> i64 {
    let mut server = flooded();
    let policy = sliding(1000, window_s);
    for round in 1..=rounds {
        let mut calls = redis::pipe();
        for client in 0..REGULARS {
            // Clients do not come in the same microsecond.
            let now = seconds(round * gap_s).plus(Span::from_micros(7919 * client + round));
            let take = asked(&policy, FIRST + client, 1, Ask::Take(1));
            calls.add_command(call(&[encoder(1).encode(&[take], now)], now)).ignore();
        }
        calls.exec(&mut server.connection).unwrap();
    }
    server.number("HLEN")
}

/// At most a third of the bucket has then expired.
const LEFT: i64 = 3 * 64 / 2;

#[test]
fn clients_that_come_back_after_their_window_remove_the_remains_of_a_flood() {
    let left = after_rounds(1, 10, 60);
    assert!(left <= LEFT, "{left} fields");
}

#[test]
fn clients_whose_windows_never_end_also_remove_the_remains_of_a_flood() {
    let left = after_rounds(3600, 10, 60);
    assert!(left <= LEFT, "{left} fields");
}

#[test]
fn one_call_looks_at_a_bounded_number_of_fields() {
    let mut server = flooded();
    let policy = sliding(1000, 60);
    let takes: Vec<_> =
        (0..64).map(|client| asked(&policy, FIRST + client, 1, Ask::Take(1))).collect();
    let mut removed = 0;
    for round in 0..200 {
        let now = seconds(60).plus(Span::from_micros(round));
        let bodies: Vec<_> = takes.iter().map(|it| encoder(1).encode(&[*it], now)).collect();
        let before = server.number("HLEN") + if round == 0 { 64 } else { 0 };
        server.calls();
        call(&bodies, now).exec(&mut server.connection).unwrap();
        let looks = server.calls().get("hrandfield").copied().unwrap_or(0);
        let gone = before - server.number("HLEN");
        assert!(looks <= 2 && gone <= 128, "{looks} looks, {gone} fields removed");
        removed += gone;
    }
    assert!(removed > 1000, "{removed} fields removed");
}
