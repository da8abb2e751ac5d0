//! Limits of keys under policies in money and in other units.

use proptest::prelude::*;

use super::*;
use crate::policy::tests::{in_money, policy};
use crate::time::Span;

fn read(text: &str) -> KeyLimit {
    match text {
        "unlimited" => None.into(),
        text => Some(LimitSpec::with_money(text).unwrap()).into(),
    }
}

fn refused(policy: &Policy, limit: &str) -> String {
    match policy.key_limit(read(limit)) {
        Err(UnfitLimit::Refused(error)) => error.to_string(),
        other => panic!("{limit}: {other:?}"),
    }
}

#[test]
fn an_amount_is_counted_in_the_units_of_its_policy() {
    let units = |denomination: &str, limit: &str| {
        let limit = in_money(denomination).in_units(read(limit)).unwrap();
        limit.to_string()
    };
    assert_eq!(units("usd-6", "2.50 usd"), "2500000");
    assert_eq!(units("usd-2", "2.50 usd"), "250", "the stored amount does not change");
    assert_eq!(units("usd-6", "1_000.01 USD/day"), "1000010000/1d");
    assert_eq!(units("eur-6", "0.000001 eur"), "1");
    assert_eq!(units("usd-6", "unlimited"), "unlimited");
    assert!(matches!(in_money("usd-6").key_limit(read("unlimited")), Ok(None)));
    let limit = in_money("usd-6").key_limit(read("3 usd/hour")).unwrap().unwrap();
    assert_eq!(
        (limit.algorithm.limit(), limit.algorithm.window()),
        (3_000_000, Span::from_secs(3600))
    );
}

#[test]
fn under_a_policy_without_a_limit_the_limit_of_a_key_has_its_own_time() {
    let policy = Policy::unlimited("p", crate::policy::KeyExpr::Ip);
    let why = "the policy \"p\" has no limit, and so no time; write the time, too, like 500/minute";
    assert_eq!(refused(&policy, "500"), why);
    let limit = policy.key_limit(read("500/minute")).unwrap().unwrap();
    assert_eq!((limit.algorithm.limit(), limit.algorithm.window()), (500, Span::from_secs(60)));
    assert!(matches!(policy.key_limit(read("unlimited")), Ok(None)));
}

#[test]
fn units_and_money_are_not_taken_for_each_other() {
    let money = in_money("usd-6");
    for limit in ["500", "500/day"] {
        let why =
            "the policy \"p\" counts money in usd; write an amount and its currency, like 500 usd";
        assert_eq!(refused(&money, limit), why);
    }
    let why = "the policy \"p\" does not count money; write a number of units, like 500";
    assert_eq!(refused(&policy("ip"), "2.50 usd/day"), why);
    for (limit, why) in [
        ("5 eur/day", "5 eur cannot be counted: the prices are in usd"),
        ("0.0000001 usd", "0.0000001 usd has more than 6 decimals"),
        ("900000 usd", "900000 usd is too much: the largest limit is 549755.813887 usd"),
        ("0 usd", "a limit of 0 admits nothing"),
    ] {
        let refused = refused(&money, limit);
        assert!(refused.starts_with(why), "{refused}");
    }
}

/// A limit that is too large is not looser than the policy's own, which then holds.
#[test]
fn units_that_the_algorithm_cannot_count_are_only_ignored() {
    let limit = KeyLimit::Units(Override::Limited { units: u64::MAX, window: None });
    assert!(matches!(policy("ip").key_limit(limit), Err(UnfitLimit::Ignored(_))));
}

fn limits() -> impl Strategy<Value = KeyLimit> {
    let windows =
        prop_oneof![Just(""), Just("/s"), Just("/15m"), Just("/day"), Just("/7d"), Just("/month")];
    let amount = (0_u64..1_000_000, 0_u32..1_000_000, "[a-z]{1,8}");
    let money = (amount, windows.clone()).prop_map(|((whole, part, currency), window)| {
        read(&format!("{whole}.{part:06} {currency}{window}"))
    });
    let units =
        (1_u64..1_000_000, windows).prop_map(|(units, window)| read(&format!("{units}{window}")));
    prop_oneof![Just(read("unlimited")), money, units]
}

proptest! {
    #[test]
    fn a_limit_is_read_as_it_is_shown(limit in limits()) {
        prop_assert_eq!(read(&limit.to_string()), limit);
    }

    /// Whatever the limit, a policy counts it in its own units or not at all.
    #[test]
    fn a_limit_is_never_counted_in_other_units(limit in limits(), digits in 0_u8..=9) {
        let money = in_money(&format!("usd-{digits}"));
        let is_unlimited = limit == KeyLimit::Units(Override::Unlimited);
        let is_dollars = matches!(limit, KeyLimit::Money { amount, .. }
            if amount.currency.as_str() == "usd");
        prop_assert!(money.in_units(limit).is_err() || is_unlimited || is_dollars);
        let is_units = matches!(limit, KeyLimit::Units(_));
        prop_assert_eq!(policy("ip").in_units(limit).is_ok(), is_units);
    }
}
