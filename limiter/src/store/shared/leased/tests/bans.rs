//! What a node knows of bans: believed for a while, honoured at once where they
//! are imposed.

use super::*;
use crate::algorithm::Ban;

fn ban() -> Algorithm {
    Algorithm::Ban(Ban::new(Span::from_secs(100), Span::from_secs(1000)).unwrap())
}

const IMPOSE: Op = Op::Settle { reserved: 0, actual: 1, taken: START };

fn imposed(algorithm: &Algorithm, before: Option<&State>, at: Timestamp) -> Option<State> {
    algorithm.apply(before, IMPOSE, at).0
}

#[test]
fn what_the_store_said_is_believed_for_a_part_of_the_first_ban() {
    let (algorithm, mut bans) = (ban(), Bans::new(10, LENGTH));
    let charge = charge(1, &algorithm, 1);
    assert_eq!(bans.judge(&charge, START), None, "nothing is known");
    bans.learn(&charge, None, START);
    for (ms, known) in [(0, Some(true)), (1999, Some(true)), (2000, None)] {
        assert_eq!(bans.judge(&charge, after(ms)).map(|it| it.admitted), known, "{ms} ms");
    }
    bans.learn(&charge, imposed(&algorithm, None, START).as_ref(), after(2000));
    assert_eq!(bans.judge(&charge, after(3999)).map(|it| it.admitted), Some(false));
    assert_eq!(bans.judge(&charge, after(4000)), None, "it may have been lifted");
}

#[test]
fn a_ban_that_this_node_imposes_is_honoured_at_once() {
    let (algorithm, mut bans) = (ban(), Bans::new(10, LENGTH));
    let charge = charge(1, &algorithm, 1);
    // The second of a client lasts twice as long.
    let first = imposed(&algorithm, None, START.minus(Span::from_secs(200)));
    bans.learn(&charge, first.as_ref(), START);
    bans.corrected(&charge, IMPOSE, START);
    let known = bans.judge(&charge, START).map(|it| (it.admitted, it.retry));
    assert_eq!(known, Some((false, Retry::After(Span::from_secs(200)))));
    // An answer that was under way meanwhile knows nothing of it.
    bans.learn(&charge, None, after(5));
    assert_eq!(bans.judge(&charge, after(5)).map(|it| it.admitted), Some(false));
    // A later one tells that it was lifted.
    bans.learn(&charge, None, after(1000));
    assert_eq!(bans.judge(&charge, after(1000)).map(|it| it.admitted), Some(true));
}

#[test]
fn how_long_a_ban_lasts_of_which_nothing_is_known_the_store_must_say() {
    let (algorithm, mut bans) = (ban(), Bans::new(10, LENGTH));
    let charge = charge(1, &algorithm, 1);
    bans.corrected(&charge, IMPOSE, START);
    assert_eq!(bans.judge(&charge, START), None);
    bans.learn(&charge, None, after(5));
    assert_eq!(bans.judge(&charge, after(5)), None, "older answers are not believed");
    bans.learn(&charge, imposed(&algorithm, None, START).as_ref(), after(6));
    assert_eq!(bans.judge(&charge, after(6)).map(|it| it.admitted), Some(false));
}

#[test]
fn a_flood_of_clients_takes_no_more_than_its_room() {
    let (algorithm, mut bans) = (ban(), Bans::new(16, LENGTH));
    for client in 0..1000 {
        bans.learn(&charge(client, &algorithm, 1), None, START);
    }
    let known = (0..1000).filter(|it| bans.judge(&charge(*it, &algorithm, 1), START).is_some());
    assert!((1..=16).contains(&known.count()));
}
