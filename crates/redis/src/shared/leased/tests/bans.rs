//! Known bans are used for a while. A ban takes effect at once on the node that imposes it.

use tollgate_core::algorithm::Ban;

use super::*;

fn ban() -> Algorithm {
    Algorithm::Ban(Ban::new(Span::from_secs(100), Span::from_secs(1000)).unwrap())
}

const IMPOSE: Op = Op::Settle { reserved: 0, actual: 1, taken: START };

fn imposed(algorithm: &Algorithm, before: Option<&State>, at: Timestamp) -> Option<State> {
    algorithm.apply(before, IMPOSE, at).0
}

#[test]
fn a_reply_is_used_for_a_part_of_the_first_ban() {
    let algorithm = ban();
    let mut bans = Bans::new(10, LENGTH);
    let charge = charge(1, &algorithm, 1);
    assert_eq!(bans.judge(&charge, START), None, "no state was reported");
    bans.learn(&charge, None, START);
    for (ms, known) in [(0, Some(true)), (1999, Some(true)), (2000, None)] {
        assert_eq!(bans.judge(&charge, after(ms)).map(|it| it.admitted), known, "{ms} ms");
    }
    bans.learn(&charge, imposed(&algorithm, None, START).as_ref(), after(2000));
    assert_eq!(bans.judge(&charge, after(3999)).map(|it| it.admitted), Some(false));
    assert_eq!(bans.judge(&charge, after(4000)), None, "the ban may have been lifted");
}

#[test]
fn a_ban_takes_effect_at_once_on_the_node_that_imposes_it() {
    let algorithm = ban();
    let mut bans = Bans::new(10, LENGTH);
    let charge = charge(1, &algorithm, 1);
    // The second ban of a client lasts twice as long.
    let first = imposed(&algorithm, None, START.minus(Span::from_secs(200)));
    bans.learn(&charge, first.as_ref(), START);
    bans.corrected(&charge, IMPOSE, START);
    let known = |bans: &Bans, ms| bans.judge(&charge, after(ms)).map(|it| (it.admitted, it.retry));
    // In the store it begins when the message arrives.
    let wait = Retry::After(Span::from_millis(200_050));
    assert_eq!(known(&bans, 0), Some((false, wait)));
    // A reply that was sent before the ban does not contain it.
    bans.learn(&charge, None, after(5));
    assert_eq!(known(&bans, 5).map(|it| it.0), Some(false));
    bans.learn(&charge, imposed(&algorithm, first.as_ref(), after(3)).as_ref(), after(6));
    assert_eq!(known(&bans, 6), Some((false, Retry::After(Span::from_millis(199_997)))));
    // A later reply shows that it was lifted.
    bans.learn(&charge, None, after(1000));
    assert_eq!(bans.judge(&charge, after(1000)).map(|it| it.admitted), Some(true));
}

#[test]
fn a_ban_without_a_known_state_is_read_from_the_store() {
    let algorithm = ban();
    let mut bans = Bans::new(10, LENGTH);
    let charge = charge(1, &algorithm, 1);
    bans.corrected(&charge, IMPOSE, START);
    assert_eq!(bans.judge(&charge, START), None);
    bans.learn(&charge, None, after(5));
    assert_eq!(bans.judge(&charge, after(5)), None, "older replies are ignored");
    bans.learn(&charge, imposed(&algorithm, None, START).as_ref(), after(6));
    assert_eq!(bans.judge(&charge, after(6)).map(|it| it.admitted), Some(false));
}

#[test]
fn a_flood_of_clients_stays_within_the_bound() {
    let algorithm = ban();
    let mut bans = Bans::new(16, LENGTH);
    for client in 0..1000 {
        bans.learn(&charge(client, &algorithm, 1), None, START);
    }
    let known = (0..1000).filter(|it| bans.judge(&charge(*it, &algorithm, 1), START).is_some());
    assert!((1..=16).contains(&known.count()));
}
