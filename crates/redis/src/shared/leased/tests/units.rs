//! What becomes of leased units is counted.

use tollgate_core::store::LeaseUnits;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 10, ..cases() })]

    #[test]
    fn each_leased_unit_is_spent_or_returned_or_expires(
        algorithm in algorithms(),
        max_keys in prop_oneof![1..4_usize, Just(1000)],
        steps in prop::collection::vec((0..40_000_u64, 0..6_u64, 1..4_u64), 1..200),
    ) {
        let mut store = Central::default();
        let mut node = Ledger::new(max_keys, LENGTH);
        let mut now = START;
        let mut spent = 0;
        let mut returned = 0;
        for (gap_us, client, cost) in steps {
            now = now.plus(Span::from_micros(gap_us));
            let charge = charge(client, &algorithm, cost);
            let back = node.returns(now);
            returned += back.iter().map(|it| it.units).sum::<u64>();
            store.take_back(back, now);
            match node.spend(&charge, now, Span::ZERO) {
                Spending::Spent(_) => spent += cost,
                Spending::Refused(_) => {}
                Spending::Ask(ahead) => drop(store.lend(&mut node, &charge, ahead, now)),
            }
        }
        returned += node.close(now).iter().map(|it| it.units).sum::<u64>();
        let units = node.units().fold(LeaseUnits::default(), |mut sum, (_, units)| {
            sum.add(units);
            sum
        });
        prop_assert_eq!(units.taken, units.spent + units.returned + units.expired);
        prop_assert_eq!(units.returned, returned);
        prop_assert_eq!(units.spent, spent);
    }
}
