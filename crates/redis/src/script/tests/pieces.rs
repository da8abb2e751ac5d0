//! Values that are too long for a compact hash are stored in pieces.

use tollgate_core::algorithm::{
    Algorithm, Concurrency, LeakyBucket, SlidingLog, SubWindows, TokenBucket,
};
use tollgate_core::time::Span;

use super::upkeep::{NOW, asked, encoder, quota, seconds, sliding};
use super::*;
use crate::codec::Ask;
use crate::layout::Layout;

const CLIENTS: u64 = 20;

impl Server {
    fn encoding(&mut self) -> String {
        redis::cmd("OBJECT").arg("ENCODING").arg("upkeep:0").query(&mut self.connection).unwrap()
    }

    /// The length of the longest value in the bucket.
    fn longest(&mut self) -> usize {
        let values: Vec<Vec<u8>> =
            redis::cmd("HVALS").arg("upkeep:0").query(&mut self.connection).unwrap();
        values.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn take_all(&mut self, policies: &[Algorithm], client: u64, now: Timestamp) -> Answered {
        let asks: Vec<_> = (1..)
            .zip(policies)
            .map(|(counter, policy)| asked(policy, client, counter, Ask::Take(1)))
            .collect();
        self.ask(&encoder(1), &asks, now)
    }
}

fn sub_windows() -> Algorithm {
    Algorithm::SubWindows(SubWindows::new(quota(100_000, 60), 60).unwrap())
}

fn short_log() -> Algorithm {
    Algorithm::SlidingLog(SlidingLog::new(quota(16, 600)).unwrap())
}

/// Policies whose states for one client take more than 64 bytes.
fn seven() -> Vec<Algorithm> {
    let bucket = TokenBucket::new(quota(10, 60), 10).unwrap();
    let queue = LeakyBucket::new(quota(1000, 60), Span::SECOND, None).unwrap();
    let windows = [(100, 1), (1000, 60), (10_000, 3600), (100_000, 86_400)];
    let mut all: Vec<_> = windows.map(|(limit, s)| sliding(limit, s)).into();
    all.extend([
        Algorithm::TokenBucket(bucket),
        Algorithm::LeakyBucket(queue),
        Algorithm::Concurrency(Concurrency::new(100).unwrap()),
    ]);
    all
}

#[test]
fn long_values_leave_their_bucket_compact() {
    for policies in [vec![sub_windows()], vec![short_log()], seven()] {
        let mut server = Server::start();
        let mut longest = 0;
        for step in 0..60 {
            for client in 0..CLIENTS {
                server.take_all(&policies, client, seconds(step).plus(Span::from_micros(client)));
            }
            longest = longest.max(server.longest());
        }
        assert_eq!((server.encoding().as_str(), longest), ("listpack", 64));
        let fields = server.number("HLEN");
        assert!(fields > i64::try_from(CLIENTS).unwrap(), "{fields} fields");
    }
}

#[test]
fn states_in_pieces_are_counted_like_others() {
    let mut server = Server::start();
    let policies = seven();
    for taken in 0..9 {
        let answered = server.take_all(&policies, 1, NOW);
        assert!(!answered.refused);
        let remaining: Vec<_> = answered.replies.iter().map(|it| it.verdict.remaining).collect();
        assert_eq!(
            (remaining[0], remaining[3], remaining[6]),
            (99 - taken, 99_999 - taken, 99 - taken)
        );
    }
    // This operation is alone, in a field that has the other states, too.
    assert_eq!(server.remaining(&policies[4], 1, 5, NOW), 1);
}

#[test]
fn pieces_are_removed_with_their_states() {
    let mut server = Server::start();
    let policies = seven();
    server.take_all(&policies, 1, NOW);
    server.take_all(&policies, 2, NOW);
    let both = server.number("HLEN");
    server.one(1, asked(&policies[0], 1, 0, Ask::ResetAll), NOW);
    assert_eq!(2 * server.number("HLEN"), both);
    for (counter, policy) in (1..).zip(&policies) {
        server.one(1, asked(policy, 2, counter, Ask::Reset), NOW);
    }
    assert_eq!(server.number("EXISTS"), 0);
}

#[test]
fn pieces_of_expired_states_are_removed_together() {
    let mut server = Server::start();
    let policies = vec![sub_windows(), sub_windows(), short_log()];
    let minute = sliding(10, 60);
    for client in 0..40 {
        for step in 0..16 {
            server.take_all(&policies, client, seconds(step));
        }
    }
    let before = server.number("HLEN");
    assert!(before >= 40 * 3, "{before} fields");
    for client in 0..2000 {
        let now = seconds(1000).plus(Span::from_micros(client * 31));
        server.one(1, asked(&minute, 1000 + client % 20, 1, Ask::Take(1)), now);
    }
    assert!(server.number("HLEN") <= 20 + 20, "{} fields", server.number("HLEN"));
}

/// An earlier version stored such a value in one field, whatever its length.
#[test]
fn a_long_value_of_an_earlier_version_is_read_and_written_in_pieces() {
    let mut server = Server::start();
    let policies = seven();
    server.take_all(&policies, 1, NOW);
    let peeks: Vec<_> = (1..)
        .zip(&policies)
        .map(|(counter, policy)| asked(policy, 1, counter, Ask::Peek))
        .collect();
    let body = encoder(1).encode(&peeks, NOW);
    let answers: Vec<Vec<u8>> = call(&[body], NOW).query(&mut server.connection).unwrap();
    let whole = &answers[0][8..];
    assert!(whole.len() > 64, "{} bytes", whole.len());
    redis::cmd("DEL").arg("upkeep:0").exec(&mut server.connection).unwrap();
    let field = Layout::field(super::upkeep::principal(1));
    let mut set = redis::cmd("HSET");
    set.arg("upkeep:0").arg(&field).arg(whole).exec(&mut server.connection).unwrap();
    let answered = server.take_all(&policies, 1, NOW);
    assert_eq!(answered.replies[0].verdict.remaining, 98);
    assert_eq!(server.longest(), 64);
}
