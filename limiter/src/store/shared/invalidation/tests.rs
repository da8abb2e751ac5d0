//! When the state of a counter is believed, given the marks that this node has read.

use proptest::prelude::*;

use super::*;
use crate::digest::{Counter, Principal};

fn key(bits: u128) -> Key {
    Key { principal: Principal::from_bits(bits), counter: Counter::from_bits(1) }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::default().plus(Span::from_millis(1_000_000 + ms))
}

#[test]
fn a_state_is_believed_while_there_is_news_and_none_of_its_part() {
    let heard = Invalidations::default();
    let is_current = |asked_ms, now_ms| heard.is_current(&key(7), at(asked_ms), at(now_ms));
    assert!(is_current(0, 999) && !is_current(0, 1000), "a second without news");
    heard.hear(&[(9, 3)], at(900), at(901));
    assert!(is_current(0, 2399) && !is_current(0, 2400), "the news are of another part");
    heard.hear(&[(9, 3), (7, 1)], at(1700), at(1701));
    assert!(!is_current(1700, 1702), "asked for before the change was heard");
    assert!(is_current(1702, 3199), "and after it");
    heard.hear(&[(9, 3), (7, 1)], at(2500), at(2501));
    assert!(is_current(1702, 3999));
}

proptest! {
    /// Asked before the give-back; all that a node hears is heard by then.
    #[test]
    fn a_give_back_is_never_missed_for_two_seconds_where_it_was_written(
        looks in prop::collection::vec(1..3000_u64, 0..20),
        asked_ms in 0..20_000_u64,
        written_ms in 0..20_000_u64,
    ) {
        prop_assume!(asked_ms < written_ms);
        let heard = Invalidations::default();
        let mut look_ms = 0;
        for gap_ms in looks {
            look_ms += gap_ms;
            let mark = u64::from(look_ms >= written_ms);
            heard.hear(&[(7, mark)], at(look_ms), at(look_ms));
            for later_ms in [0, 700, 1400, 1999] {
                let now_ms = look_ms + later_ms;
                if now_ms >= written_ms + 1500 {
                    prop_assert!(!heard.is_current(&key(7), at(asked_ms), at(now_ms)));
                }
            }
        }
    }
}
