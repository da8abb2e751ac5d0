//! Limits of single keys on a real server.

use tollgate_core::digest::{Counter, Principal};
use tollgate_core::time::Timestamp;

use super::super::testing::{Process, eventually, run, settings};
use super::*;

fn key(bits: u128) -> Key {
    // Principals are digests, whose bits are uniform.
    let bits = bits.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    Key { principal: Principal::from_bits(bits), counter: Counter::from_bits(1 << 40) }
}

fn limit(units: u64) -> Override {
    Override::Limited { units, window: None }
}

async fn there(server: &Process) -> (Overrides, Secret) {
    let settings = settings(server.topology(), PATIENCE);
    Overrides::connect(&settings).await.expect("Redis answers")
}

#[test]
fn a_thousand_overrides_are_stored_and_found_by_another_node() {
    run(async {
        let server = Process::start(&[]);
        let ((one, one_secret), (other, other_secret)) =
            (there(&server).await, there(&server).await);
        assert_eq!(one_secret.expose(), other_secret.expose());
        for (bits, units) in (0..1000).zip(1..) {
            one.put(key(bits), Some(limit(units))).await.expect("Redis answers");
        }
        one.put(key(7), None).await.expect("Redis answers");
        let keys: Vec<_> = (0..1001).map(key).collect();
        let said = other.fetch(&keys, true).await;
        for ((bits, units), said) in (0..1000).zip(1..).zip(&said) {
            assert_eq!(*said, Some((bits != 7).then_some(limit(units))), "{bits}");
        }
        assert_eq!(said[1000], Some(None));
        assert_eq!(other.get(key(8)).await.expect("Redis answers"), Some(limit(9)));
    });
}

#[test]
fn each_change_sets_a_new_mark_for_its_part() {
    run(async {
        let server = Process::start(&[]);
        let (there, _) = there(&server).await;
        let mut seen = vec![there.read_marks().await.expect("Redis answers")];
        for what in [Some(limit(5)), Some(limit(5)), None] {
            there.put(key(1), what).await.expect("Redis answers");
            let marks = there.read_marks().await.expect("Redis answers");
            assert_eq!((marks.len(), marks[0].0), (1, part(&key(1))));
            assert!(!seen.contains(&marks));
            seen.push(marks);
        }
    });
}

#[test]
fn marks_are_read_again_when_redis_is_back() {
    run(async {
        let mut server = Process::start(&[]);
        let (there, _) = there(&server).await;
        let marks = Arc::new(Marks::default());
        let clock = Clock::manual(Timestamp::from_micros(1));
        tokio::task::spawn_local(there.clone().listen(Arc::clone(&marks), clock.clone()));
        eventually("the marks are heard", async || marks.heard() == clock.now()).await;
        server.kill();
        eventually("Redis is away", async || there.fetch(&[key(1)], true).await == [None]).await;
        clock.advance(tollgate_core::time::Span::SECOND);
        server.restart();
        eventually("the marks are heard again", async || marks.heard() == clock.now()).await;
    });
}

#[test]
fn an_invalid_value_is_no_answer() {
    run(async {
        let server = Process::start(&[]);
        let (there, _) = there(&server).await;
        there.put(key(1), Some(limit(5))).await.expect("Redis answers");
        let (hash, _) = there.at(&key(1)).expect("the layout is known");
        let hash = String::from_utf8(hash).expect("the key is text");
        server.command(&["SET", &hash, "of another kind"]);
        assert_eq!(there.fetch(&[key(1)], true).await, [None]);
        assert!(matches!(there.get(key(1)).await, Err(OverrideError::Redis(_))));
    });
}
