//! When a counter's state may be used, given the marks that this node has read.

use proptest::prelude::*;
use tollgate_core::testing::{after, key};

use super::*;

#[test]
fn a_state_is_used_while_marks_are_read_and_its_mark_is_the_same() {
    let heard = Invalidations::default();
    let is_current = |asked_ms, now_ms| heard.is_current(&key(7), after(asked_ms), after(now_ms));
    assert!(is_current(0, 999) && !is_current(0, 1000), "one second without reading the marks");
    heard.hear(&[(9, 3)], after(900), after(901));
    assert!(is_current(0, 2399) && !is_current(0, 2400), "the mark of another part has changed");
    heard.hear(&[(9, 3), (7, 1)], after(1700), after(1701));
    assert!(!is_current(1700, 1702), "asked before this node read the change");
    assert!(is_current(1702, 3199), "asked after it");
    heard.hear(&[(9, 3), (7, 1)], after(2500), after(2501));
    assert!(is_current(1702, 3999));
}

proptest! {
    /// The state is older than the give-back. After two seconds no node uses it.
    #[test]
    fn a_give_back_reaches_all_nodes_within_two_seconds(
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
            heard.hear(&[(7, mark)], after(look_ms), after(look_ms));
            for later_ms in [0, 700, 1400, 1999] {
                let now_ms = look_ms + later_ms;
                if now_ms >= written_ms + 1500 {
                    prop_assert!(!heard.is_current(&key(7), after(asked_ms), after(now_ms)));
                }
            }
        }
    }
}
