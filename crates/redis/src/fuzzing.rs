//! The fuzz target of this layer: replies of Redis.

use std::sync::LazyLock;

use redis::Value;
use tollgate_core::algorithm::{
    Algorithm, Ban, Concurrency, FixedWindow, LeakyBucket, MONTH, Op, Quota, SlidingLog,
    SlidingWindow, SubWindows, TokenBucket,
};
use tollgate_core::digest::{Counter, Key, Principal};
use tollgate_core::store::overrides;
use tollgate_core::time::{Span, Timestamp};

use super::codec::{self, Ahead, Ask, Asked};
use super::settings::Address;
use super::slots;

/// Replies of the script, of overrides, and of a cluster.
pub fn redis(input: &[u8]) {
    let Some((&kind, rest)) = input.split_first() else { return };
    match kind {
        0xfe => {
            if let Some(limit) = overrides::decode(rest) {
                let written = overrides::encode(limit);
                assert_eq!(overrides::decode(&written), Some(limit));
            }
        }
        0xff => cluster(rest),
        _ => script(kind, rest),
    }
}

/// A reply to `CLUSTER SLOTS`.
fn cluster(answer: &[u8]) {
    let Ok(answer) = redis::parse_redis_value(answer) else { return };
    // Lists with three levels, which is the depth of the reply.
    let answer = match answer {
        Value::Array(_) | Value::ServerError(_) => answer,
        other => Value::Array(vec![other]),
    };
    let Ok(ranges) = slots::ranges(answer, &Address::tcp("127.0.0.1", 6379)) else { return };
    for (range, ..) in ranges {
        assert!(range.start() <= range.end() && *range.end() < slots::SLOTS);
    }
}

/// A reply of the script to at most two operations.
fn script(kind: u8, input: &[u8]) {
    let Some((&[ask, binding, cost], answer)) = input.split_first_chunk() else { return };
    static ALGORITHMS: LazyLock<[Algorithm; 10]> = LazyLock::new(every_algorithm);
    let algorithm = |index: u8| &ALGORITHMS[usize::from(index) % ALGORITHMS.len()];
    let asked = |algorithm, principal, ask| {
        let key =
            Key { principal: Principal::from_bits(principal), counter: Counter::from_bits(1) };
        Asked { key, algorithm, ask, binding: binding & 1 == 1 }
    };
    let mut asks = vec![asked(algorithm(kind), 1, question(ask, cost.into()))];
    if binding & 2 == 2 {
        let other = algorithm(kind / 16);
        let principal = u128::from(binding & 4) + 1;
        asks.push(asked(other, principal, question(ask / 16, cost.into())));
    }
    let Ok(mut answered) = codec::decode(&asks, answer) else { return };
    assert_eq!(answered.replies.len(), asks.len());
    let after: Vec<_> =
        asks.iter().enumerate().map(|(index, asked)| answered.after(asked, index)).collect();
    for (asked, (reply, after)) in asks.iter().zip(answered.replies.iter().zip(&after)) {
        for state in [&reply.before, after] {
            for later in [Span::ZERO, Span::SECOND, Span::DAY] {
                let now = answered.at.plus(later);
                for op in [Op::Peek, Op::Take(cost.into()), Op::Take(u64::MAX)] {
                    let (_, verdict) = asked.algorithm.apply(state.as_ref(), op, now);
                    assert!(verdict.remaining <= u64::MAX / 2, "no limit is so high");
                }
            }
        }
    }
    answered.withdraw(&asks);
}

fn question(kind: u8, cost: u64) -> Ask {
    match kind % 10 {
        0 => Ask::Peek,
        1 => Ask::Take(cost),
        2 => Ask::Lease {
            cost,
            ahead: Ahead { extra: cost * 2, reserve: cost / 2, share_1024: 512 },
        },
        3 => Ask::Give { cost, taken: Timestamp::from_micros(1_795_246_126_000_000) },
        4 => Ask::Charge(cost),
        5 => Ask::Renew { units: cost, asked: cost / 2 },
        6 => Ask::Reset,
        7 => Ask::Cancel { cost, taken: Timestamp::from_micros(1_795_246_126_000_000) },
        8 => Ask::Count(cost),
        _ => Ask::Take(u64::MAX),
    }
}

/// One algorithm of each kind.
pub(super) fn every_algorithm() -> [Algorithm; 10] {
    let quota = Quota::new(100, Span::from_secs(60)).expect("a quota");
    let day = Quota::new(100, Span::DAY).expect("a quota");
    let berlin = FixedWindow::calendar(day, "Europe/Berlin").expect("a calendar");
    let month = Quota::new(100, MONTH).expect("a quota");
    let queue = LeakyBucket::new(quota, Span::SECOND, None).expect("a queue");
    let ban = Ban::new(Span::SECOND, Span::from_secs(60)).expect("a ban");
    [
        Algorithm::SlidingWindow(SlidingWindow::new(quota)),
        Algorithm::SubWindows(SubWindows::new(quota, 6).expect("six of ten seconds")),
        Algorithm::FixedWindow(FixedWindow::new(quota)),
        Algorithm::FixedWindow(berlin),
        Algorithm::FixedWindow(FixedWindow::new(month)),
        Algorithm::SlidingLog(SlidingLog::new(quota).expect("a short log")),
        Algorithm::TokenBucket(TokenBucket::new(quota, 20).expect("a bucket")),
        Algorithm::LeakyBucket(queue),
        Algorithm::Concurrency(Concurrency::new(100).expect("a limit")),
        Algorithm::Ban(ban),
    ]
}
