//! Each policy follows its settings, known states hold, and each unit is reported once.

mod outages;

use tollgate_core::algorithm::{Ban, Concurrency, FixedWindow, Quota, TokenBucket};
use tollgate_core::consistency::Consistency;
use tollgate_core::digest::Principal;

use super::debts::MAX_DEBTS;
use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

fn fixed(limit: u64) -> Algorithm {
    Algorithm::FixedWindow(FixedWindow::new(Quota::new(limit, Span::DAY).unwrap()))
}

fn charge(number: u64, algorithm: &Algorithm, on_failure: OnFailure) -> Charge<'_> {
    Charge {
        key: Key {
            // Like a digest, all bits look random.
            principal: Principal::from_bits(fastrand::Rng::with_seed(number).u128(..)),
            counter: Counter::from_bits(number),
        },
        algorithm,
        cost: 1,
        binding: true,
        consistency: Consistency { on_failure, ..Consistency::default() },
    }
}

fn local(number: u64, algorithm: &Algorithm) -> Charge<'_> {
    charge(number, algorithm, OnFailure::Local)
}

fn fallback() -> Fallback {
    Fallback::new(Arc::new(MemoryStore::new(100)))
}

fn undecided<'a>(charges: &[Charge<'a>], is_doubtful: bool) -> Vec<Undecided<'a>> {
    charges
        .iter()
        .map(|&charge| Undecided { is_doubtful, ..Undecided::without_store(charge) })
        .collect()
}

impl Fallback {
    fn judge_all(&self, charges: &[Charge<'_>], now: Timestamp) -> SmallVec<[Answer; 4]> {
        self.judge(&undecided(charges, false), false, 1, now)
    }

    fn admits(&self, charge: &Charge<'_>, now: Timestamp) -> bool {
        self.judge_all(&[*charge], now)[0].verdict.admitted
    }

    /// All debts, as they are reported if all servers are up.
    fn all_owed(&self, now: Timestamp) -> Vec<Debt> {
        self.owed(usize::MAX, now, |_| ServerStatus::Up)
    }

    /// The units of all debts. The store counts them.
    fn pay(&self, now: Timestamp) -> Vec<u64> {
        let debts = self.all_owed(now);
        let units = debts.iter().map(|debt| debt.units).collect();
        debts.into_iter().for_each(|debt| self.settled(debt));
        units
    }
}

fn said(answers: &[Answer]) -> Vec<(bool, Source)> {
    answers.iter().map(|it| (it.verdict.admitted, it.source)).collect()
}

/// The state after so many units were taken at `at`.
fn after(algorithm: &Algorithm, units: u64, at: Timestamp) -> Option<State> {
    algorithm.apply(None, Op::Take(units), at).0
}

#[test]
fn each_charge_is_decided_by_its_consistency_settings() {
    let ten = fixed(10);
    let charges = [local(1, &ten), charge(2, &ten, OnFailure::Allow)];
    let answers = fallback().judge_all(&charges, NOW);
    assert_eq!(said(&answers), [(true, Source::Local), (true, Source::Policy)]);
    assert_eq!((answers[0].verdict.remaining, answers[1].verdict.remaining), (9, 10));
}

#[test]
fn a_charge_that_is_denied_while_the_store_is_away_keeps_others_from_counting() {
    let ten = fixed(10);
    let fallback = fallback();
    let charges = [local(1, &ten), charge(2, &ten, OnFailure::Deny)];
    let answers = fallback.judge_all(&charges, NOW);
    assert_eq!(said(&answers), [(true, Source::Local), (false, Source::Policy)]);
    assert_eq!(answers[0].verdict.remaining, 10);
    assert_eq!(answers[1].verdict.retry, Retry::After(Span::SECOND));
    assert!(fallback.pay(NOW).is_empty());
}

#[test]
fn a_cost_above_the_share_waits_for_the_store_and_one_above_the_limit_never_fits() {
    let bucket = TokenBucket::new(Quota::new(10, Span::DAY).unwrap(), 12).unwrap();
    for (algorithm, capacity) in [(fixed(10), 10), (Algorithm::TokenBucket(bucket), 12)] {
        let retry = |cost: u64, nodes: u64| {
            let charge = Charge { cost, ..local(1, &algorithm) };
            let charges = undecided(&[charge], false);
            fallback().judge(&charges, false, nodes, NOW)[0].verdict.retry
        };
        assert_eq!(retry(capacity, 1), Retry::Now);
        assert_eq!(retry(capacity, 2), Retry::After(Span::SECOND), "{algorithm:?}");
        assert_eq!([1, 2].map(|nodes| retry(capacity + 1, nodes)), [Retry::Never; 2]);
    }
}

#[test]
fn a_request_that_another_server_refuses_is_not_counted() {
    let ten = fixed(10);
    let fallback = fallback();
    let charges = undecided(&[local(1, &ten)], false);
    assert_eq!(fallback.judge(&charges, true, 1, NOW)[0].verdict.remaining, 10);
    assert!(fallback.pay(NOW).is_empty());
}

#[test]
fn a_node_admits_its_share_and_at_least_one() {
    let admitted = |limit, nodes| {
        let algorithm = fixed(limit);
        let fallback = fallback();
        let charges = undecided(&[local(1, &algorithm)], false);
        let is_admitted = |_: &u64| fallback.judge(&charges, false, nodes, NOW)[0].verdict.admitted;
        (0..20).take_while(is_admitted).count()
    };
    assert_eq!(admitted(10, 1), 10);
    assert_eq!(admitted(10, 3), 3);
    assert_eq!(admitted(10, 100), 1);
    assert_eq!(admitted(10, 0), 10);
}

#[test]
fn only_units_that_the_store_cannot_have_counted_become_debts() {
    let ten = fixed(10);
    let fallback = fallback();
    let charges = [local(1, &ten)];
    for is_doubtful in [true, false, false] {
        fallback.judge(&undecided(&charges, is_doubtful), false, 1, NOW);
    }
    let owed = fallback.all_owed(NOW);
    assert_eq!(
        owed.iter().map(|debt| (debt.key, debt.units)).collect::<Vec<_>>(),
        [(charges[0].key, 2)]
    );
    assert!(fallback.pay(NOW).is_empty(), "the debt is reported already");
    owed.into_iter().for_each(|debt| fallback.settled(debt));
    assert!(fallback.pay(NOW).is_empty());
}

/// In an earlier version a report removed units from the share, so that each outage admitted
/// the limit again.
#[test]
fn a_node_admits_its_share_once_through_any_number_of_outages() {
    let ten = fixed(10);
    let fallback = fallback();
    let charge = local(1, &ten);
    let mut admitted = 0;
    for _outage in 0..6 {
        admitted += (0..20).filter(|_| fallback.admits(&charge, NOW)).count();
        fallback.pay(NOW);
    }
    assert_eq!(admitted, 10);
    assert!(fallback.admits(&charge, NOW.plus(Span::DAY)), "the window has ended");
}

/// In an earlier version debts were dropped when they were reported, whatever the outcome.
#[test]
fn debts_are_kept_until_the_store_has_counted_them() {
    let ten = fixed(10);
    let fallback = fallback();
    for _ in 0..3 {
        fallback.admits(&local(1, &ten), NOW);
    }
    for round in 0..3 {
        let mut debts = fallback.all_owed(NOW);
        let debt = debts.pop().expect("there is one");
        assert_eq!((debt.units, debts.len()), (3 + round, 0));
        // Units that are admitted meanwhile are added to the debt.
        fallback.admits(&local(1, &ten), NOW);
        fallback.not_counted(debt, NOW);
    }
    assert_eq!(fallback.pay(NOW), [6]);
    assert!(fallback.pay(NOW).is_empty());
}

#[test]
fn a_server_that_is_back_receives_one_debt_and_the_others_after_its_reply() {
    let ten = fixed(10);
    let fallback = fallback();
    for number in 0..5 {
        fallback.admits(&local(number, &ten), NOW);
    }
    assert!(fallback.owed(9, NOW, |_| ServerStatus::Down).is_empty());
    let mut first = fallback.owed(9, NOW, |_| ServerStatus::Probing);
    assert_eq!(first.len(), 1);
    assert!(fallback.owed(9, NOW, |_| ServerStatus::Probing).is_empty());
    fallback.not_counted(first.pop().expect("there is one"), NOW);
    assert_eq!(fallback.owed(3, NOW, |_| ServerStatus::Up).len(), 3);
    assert_eq!(fallback.owed(3, NOW, |_| ServerStatus::Up).len(), 2);
}

#[test]
fn a_server_that_is_away_does_not_delay_reports_to_others() {
    let ten = fixed(10);
    let fallback = fallback();
    for number in 0..200 {
        fallback.admits(&local(number, &ten), NOW);
    }
    let there = charge(199, &ten, OnFailure::Local).key;
    let status = |key: &Key| if *key == there { ServerStatus::Up } else { ServerStatus::Down };
    let told = fallback.owed(64, NOW, status);
    assert_eq!(told.iter().map(|debt| debt.key).collect::<Vec<_>>(), [there]);
}

#[test]
fn an_expired_debt_is_not_reported() {
    let ten = fixed(10);
    let fallback = fallback();
    fallback.admits(&local(1, &ten), NOW);
    assert!(fallback.pay(NOW.plus(Span::DAY)).is_empty());
}

#[test]
fn the_known_state_of_a_used_up_counter_holds_until_it_ends() {
    let ten = fixed(10);
    let fallback = fallback();
    let [known, other] = [local(1, &ten), local(2, &ten)];
    fallback.learn(known.key, &ten, after(&ten, 10, NOW), true, NOW);
    fallback.learn(other.key, &ten, after(&ten, 9, NOW), true, NOW);
    let end = ten.edge(NOW).expect("it has windows");
    for at in [NOW, NOW.plus(Span::from_secs(60)), end.minus(Span::from_micros(1))] {
        let answers = fallback.judge_all(&[known], at);
        assert_eq!(said(&answers), [(false, Source::Local)]);
        assert_eq!(answers[0].verdict.retry, Retry::After(end.since(at)));
    }
    assert!(fallback.admits(&other, NOW), "then the share decides");
    assert!(fallback.admits(&known, end), "then the share decides");
    // Refused charges do not become debts.
    assert_eq!(fallback.pay(end), [1]);
}

#[test]
fn a_counter_is_used_up_if_the_cost_of_a_request_does_not_fit() {
    let ten = fixed(10);
    let fallback = fallback();
    let [dear, cheap] = [local(1, &ten), local(2, &ten)].map(|it| Charge { cost: 3, ..it });
    fallback.learn(dear.key, &ten, after(&ten, 8, NOW), true, NOW);
    fallback.learn(cheap.key, &ten, after(&ten, 7, NOW), true, NOW);
    assert!(!fallback.admits(&dear, NOW));
    assert!(fallback.admits(&cheap, NOW), "then the share decides");
}

#[test]
fn the_known_state_of_a_bucket_includes_units_that_this_node_admits() {
    let quota = Quota::new(10, Span::from_secs(10)).unwrap();
    let bucket = Algorithm::TokenBucket(TokenBucket::new(quota, 10).unwrap());
    let fallback = fallback();
    let charge = local(1, &bucket);
    fallback.learn(charge.key, &bucket, after(&bucket, 10, NOW), true, NOW);
    // By the share alone, ten requests would be admitted at once.
    let mut admitted = 0;
    for tenths in 0..50 {
        let now = NOW.plus(Span::from_millis(100 * tenths));
        admitted += u64::from(fallback.admits(&charge, now));
    }
    assert_eq!(admitted, 4);
}

#[test]
fn the_known_state_is_the_last_that_the_store_reported() {
    let ten = fixed(10);
    let fallback = fallback();
    let charge = local(1, &ten);
    fallback.learn(charge.key, &ten, after(&ten, 10, NOW), true, NOW);
    fallback.learn(charge.key, &ten, after(&ten, 8, NOW), true, NOW);
    let admitted = (0..9).filter(|_| fallback.admits(&charge, NOW)).count();
    assert_eq!(admitted, 2);
    fallback.forget(charge.key, &ten, NOW);
    assert_eq!(fallback.judge_all(&[charge], NOW)[0].verdict.remaining, 7);
}

/// In an earlier version only the worker that gave the units back knew of it, and only if it
/// had refused a request of that client.
#[test]
fn a_give_back_or_a_reset_changes_the_known_state() {
    let ten = fixed(10);
    let fallback = fallback();
    let [given, reset] = [local(1, &ten), local(2, &ten)];
    for charge in [given, reset] {
        fallback.learn(charge.key, &ten, after(&ten, 10, NOW), true, NOW);
        assert!(!fallback.admits(&charge, NOW));
    }
    fallback.take_away(given.key, &ten, Ask::Give { cost: 3, taken: NOW }, NOW);
    fallback.take_away(reset.key, &ten, Ask::Reset, NOW);
    let admitted = |charge| (0..20).filter(|_| fallback.admits(charge, NOW)).count();
    assert_eq!([admitted(&given), admitted(&reset)], [3, 10]);
}

/// In an earlier version the ban was reported as a new one, which began when the store was
/// back.
#[test]
fn the_remaining_length_of_a_ban_is_reported_and_no_ban_that_has_ended() {
    let [minute, hour] = [60, 3600].map(Span::from_secs);
    let ban = Algorithm::Ban(Ban::new(minute, hour).unwrap());
    let later = NOW.plus(Span::from_secs(20));
    for is_settled in [false, true] {
        let fallback = fallback();
        let charge = local(1, &ban);
        assert!(fallback.admits(&charge, NOW));
        assert!(fallback.all_owed(NOW).is_empty(), "a check for a ban is no debt");
        if is_settled {
            // The store could not be reached at once.
            fallback.settle(&charge, 1, 1, NOW);
        } else {
            let op = Op::Settle { reserved: 0, actual: 1, taken: NOW };
            fallback.correct(&Correction { charge, source: Source::Local, op }, 1, NOW);
        }
        assert!(!fallback.admits(&charge, later));
        for _ in 0..2 {
            let mut debts = fallback.all_owed(later);
            let debt = debts.pop().expect("there is one");
            let Algorithm::Ban(told) = &debt.algorithm else { panic!("the debt is not a ban") };
            assert_eq!((told.first(), told.longest()), (Span::from_secs(40), hour));
            fallback.not_counted(debt, later);
        }
        assert!(fallback.all_owed(NOW.plus(minute)).is_empty());
    }
}

#[test]
fn a_charge_that_does_not_bind_is_refused_and_refuses_no_other() {
    let ten = fixed(10);
    let fallback = fallback();
    let shadow = Charge { binding: false, ..local(1, &ten) };
    fallback.learn(shadow.key, &ten, after(&ten, 10, NOW), true, NOW);
    let answers = fallback.judge_all(&[shadow, local(2, &ten)], NOW);
    assert_eq!(said(&answers), [(false, Source::Local), (true, Source::Local)]);
    assert_eq!(fallback.pay(NOW), [1]);
}

/// In an earlier version only 10 of 50,000 units were counted.
#[test]
fn a_cost_above_the_reservation_becomes_a_debt() {
    let many = fixed(100_000);
    let fallback = fallback();
    let reserved = Charge { cost: 10, ..local(1, &many) };
    assert!(fallback.admits(&reserved, NOW));
    assert_eq!(fallback.pay(NOW), [10]);
    let op = Op::Settle { reserved: 10, actual: 50_000, taken: NOW };
    let correction = Correction { charge: reserved, source: Source::Local, op };
    fallback.correct(&correction, 1, NOW);
    assert_eq!(fallback.pay(NOW), [49_990]);
    // Another request ends that the store had counted. The store cannot be reached.
    fallback.settle(&reserved, 49_000, 1, NOW);
    assert_eq!(fallback.judge_all(&[reserved], NOW)[0].verdict.remaining, 990);
    assert_eq!(fallback.pay(NOW), [49_010]);
}

#[test]
fn unused_units_of_a_request_are_not_owed() {
    let many = fixed(1000);
    let fallback = fallback();
    let reserved = Charge { cost: 100, ..local(1, &many) };
    assert!(fallback.admits(&reserved, NOW) && fallback.admits(&reserved, NOW));
    let op = Op::Settle { reserved: 100, actual: 30, taken: NOW };
    fallback.correct(&Correction { charge: reserved, source: Source::Local, op }, 1, NOW);
    let op = Op::Give { cost: 100, taken: NOW };
    fallback.correct(&Correction { charge: reserved, source: Source::Local, op }, 1, NOW);
    assert_eq!(fallback.pay(NOW), [30]);
    assert_eq!(fallback.judge_all(&[reserved], NOW)[0].verdict.remaining, 870);
}

#[test]
fn a_charge_that_the_store_has_counted_is_removed_from_the_share() {
    let ten = fixed(10);
    let fallback = fallback();
    let charge = local(1, &ten);
    for _ in 0..50 {
        assert!(fallback.judge(&undecided(&[charge], true), false, 1, NOW)[0].verdict.admitted);
        fallback.counted_by_store(&charge, NOW, 1, NOW);
    }
    assert!(fallback.pay(NOW).is_empty());
}

#[test]
fn units_in_flight_on_the_node_are_given_back_on_the_node() {
    let single = Algorithm::Concurrency(Concurrency::new(1).unwrap());
    let fallback = fallback();
    let charge = local(1, &single);
    let is_admitted = || fallback.admits(&charge, NOW);
    assert!(is_admitted() && !is_admitted());
    let op = Op::Give { cost: 1, taken: NOW };
    fallback.correct(&Correction { charge, source: Source::Local, op }, 1, NOW);
    assert!(is_admitted());
    assert!(fallback.pay(NOW).is_empty());
}

#[test]
fn a_flood_of_keys_stays_within_the_bound_of_debts() {
    let ten = fixed(10);
    let fallback = Fallback::new(Arc::new(MemoryStore::new(2 * MAX_DEBTS)));
    for number in 0..u64::try_from(MAX_DEBTS + 10).unwrap() {
        fallback.admits(&local(number, &ten), NOW);
    }
    let mut told = 0;
    loop {
        match fallback.pay(NOW).len() {
            0 => break,
            some => told += some,
        }
    }
    assert_eq!(told, MAX_DEBTS);
}

#[test]
fn a_charge_that_there_was_no_memory_to_ask_for_is_refused_whatever_its_policy_says() {
    let fallback = fallback();
    let algorithm = fixed(10);
    for on_failure in [OnFailure::Local, OnFailure::Allow, OnFailure::Deny] {
        let charge = charge(1, &algorithm, on_failure);
        let overload = Undecided { is_overload: true, ..Undecided::without_store(charge) };
        let answers = fallback.judge(&[overload], false, 1, NOW);
        assert_eq!(said(&answers), [(false, Source::Policy)], "{on_failure:?}");
    }
    assert!(fallback.pay(NOW).is_empty());
    assert_eq!(fallback.judge_all(&[local(1, &algorithm)], NOW)[0].verdict.remaining, 9);
}

/// Regression: the share forgot what the store had counted: 192 of 100.
#[test]
fn a_node_admits_no_more_than_what_remained_at_the_last_answer() {
    let hundred = fixed(100);
    let fallback = fallback();
    let charge = local(1, &hundred);
    for used in 1..=92 {
        fallback.learn(charge.key, &hundred, after(&hundred, used, NOW), true, NOW);
    }
    assert_eq!(fallback.judge_all(&[charge], NOW)[0].verdict.remaining, 7);
    assert_eq!((0..200).filter(|_| fallback.admits(&charge, NOW)).count(), 7);
}

/// A request that the share or the known state refuses is counted in neither.
#[test]
fn what_a_node_refuses_is_counted_nowhere() {
    let ten = fixed(10);
    let fallback = fallback();
    let [known, other] = [local(1, &ten), local(2, &ten)];
    fallback.learn(known.key, &ten, after(&ten, 8, NOW), true, NOW);
    let dear = Charge { cost: 3, ..other };
    let judged = |charges: &[Charge<'_>]| fallback.judge(&undecided(charges, false), false, 3, NOW);
    // The share of each is 3.
    assert!(judged(&[dear])[0].verdict.admitted);
    let answers = judged(&[known, other]);
    assert_eq!(said(&answers), [(true, Source::Local), (false, Source::Local)]);
    assert_eq!(answers[0].verdict.remaining, 2);
    let admitted = (0..9).filter(|_| judged(&[known])[0].verdict.admitted).count();
    assert_eq!(admitted, 2);
}

/// Otherwise a state of a later time would refuse a client until that time comes.
#[test]
fn known_states_are_forgotten_when_the_clock_is_set_back_far() {
    let ten = fixed(10);
    let fallback = fallback();
    let charge = local(1, &ten);
    fallback.housekeep(NOW);
    fallback.learn(charge.key, &ten, after(&ten, 10, NOW), true, NOW);
    assert!(fallback.knows(charge.key, &ten, NOW));
    fallback.housekeep(NOW.minus(Span::DAY));
    assert!(!fallback.knows(charge.key, &ten, NOW));
}
