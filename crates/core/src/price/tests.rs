//! Prices, amounts and lookups, and costs against big integers.

use proptest::prelude::*;

use super::fuzzing::searched;
use super::*;

fn usd(digits: u8) -> Denomination {
    Denomination { currency: "usd".parse().unwrap(), digits }
}

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn tokens(input: &str, cache_read: &str, cache_write: &str, output: &str) -> TokenPrices {
    TokenPrices {
        input: rate(input),
        cache_read: rate(cache_read),
        cache_write: rate(cache_write),
        output: rate(output),
    }
}

#[test]
fn a_price_is_read_as_text_with_at_most_six_decimals() {
    let millionths = |text: &str| text.parse::<Rate>().map(Rate::millionths);
    assert_eq!(millionths("1.25"), Ok(1_250_000));
    assert_eq!(millionths("0.000001"), Ok(1));
    assert_eq!(millionths("0.1000000000"), Ok(100_000));
    assert_eq!(millionths("1_000"), Ok(1_000_000_000));
    assert_eq!(millionths("1000000000"), Ok(1_000_000_000_000_000));
    assert_eq!(millionths("1000000000.000001"), Err(RateError::TooHigh));
    assert_eq!(millionths("99999999999999999999"), Err(DecimalError::TooLarge.into()));
    assert_eq!(millionths("0.0000001"), Err(DecimalError::TooFine(6).into()));
    for text in
        ["", ".5", "5.", "-1", "+1", "1e3", "1,5", "_1", "1.2.3", "0x1", "1._5", "NaN", "1.5_0"]
    {
        assert_eq!(millionths(text), Err(DecimalError::NotANumber.into()), "{text}");
    }
}

#[test]
fn money_is_shown_with_two_decimals_and_more_if_it_needs_them() {
    let shown = |units, digits| usd(digits).shown(units).to_string();
    assert_eq!(shown(500_000_000, 6), "500.00 usd");
    assert_eq!(shown(1, 6), "0.000001 usd");
    assert_eq!(shown(12_500_000, 6), "12.50 usd");
    assert_eq!(shown(7, 0), "7 usd");
    assert_eq!(shown(75, 1), "7.5 usd");
    assert_eq!(usd(6).to_string(), "usd-6");
    assert_eq!("usd-6".parse(), Ok(usd(6)));
    assert!("usd-10".parse::<Denomination>().is_err() && "usd".parse::<Denomination>().is_err());
}

#[test]
fn an_amount_has_the_currency_of_the_prices_and_no_more_decimals() {
    let units = |text: &str, digits| text.parse::<Amount>().and_then(|it| it.units(usd(digits)));
    assert_eq!(units("500 usd", 6), Ok(500_000_000));
    assert_eq!(units("1_000.25 USD", 2), Ok(100_025));
    assert_eq!(units("0.50 usd", 1), Ok(5));
    assert_eq!(units("0.25 usd", 1), Err(DecimalError::TooFine(1).into()));
    assert_eq!(units("5 eur", 2), Err(AmountError::OtherCurrency("usd".parse().unwrap())));
    for text in ["500", "500usd", "usd 5", "5 us$", "5 dollarsss", ""] {
        assert!(units(text, 6).is_err(), "{text}");
    }
    assert!(Amount::is_meant("500 usd") && Amount::is_meant("1.5  EUR"));
    for text in ["500", "20k", "unlimited", "5 %", "usd 5", "5 "] {
        assert!(!Amount::is_meant(text), "{text}");
    }
}

#[test]
fn the_sum_of_a_request_is_rounded_up_once() {
    // 1 token of each kind costs 0.5 + 0.5 + 0.5 + 0.5 micro-usd: 2 units, not 4.
    let price = Price { tokens: tokens("0.5", "0.5", "0.5", "0.5"), ..Price::default() };
    let one = Usage { input: 1, cache_read: 1, cache_write: 1, output: 1 };
    assert_eq!(price.units(&one, usd(6)), 2);
    assert_eq!(price.units(&one, usd(2)), 1);
    assert_eq!(price.units(&Usage { input: 1, ..Usage::default() }, usd(6)), 1);
    let gpt = Price { tokens: tokens("1.25", "0.125", "1.25", "10"), ..Price::default() };
    let usage = Usage { input: 1_000, cache_read: 9_000, cache_write: 0, output: 500 };
    // 1,250 + 1,125 + 5,000 micro-usd.
    assert_eq!(gpt.units(&usage, usd(6)), 7_375);
    let dear = Price { request: rate("0.01"), ..gpt };
    assert_eq!(dear.units(&usage, usd(6)), 17_375);
}

#[test]
fn the_price_of_a_long_input_holds_for_the_whole_request() {
    let long = LongPrice { above: 272_000, tokens: tokens("2.5", "0.25", "2.5", "15") };
    let price = Price {
        tokens: tokens("1.25", "0.125", "1.25", "10"),
        long: Some(long),
        ..Price::default()
    };
    let usage = Usage { input: 200_000, cache_read: 72_000, output: 1_000_000, ..Usage::default() };
    assert_eq!(price.units(&usage, usd(6)), 250_000 + 9_000 + 10_000_000);
    let longer = Usage { cache_read: 72_001, ..usage };
    assert_eq!(price.units(&longer, usd(6)), 500_000 + 18_001 + 15_000_000);
}

#[test]
fn an_estimate_is_never_less_than_the_cost_of_the_same_tokens_and_is_zero_for_free_models() {
    let price = Price { tokens: tokens("3", "0.3", "3.75", "15"), ..Price::default() };
    let usage = Usage { input: 1_000, output: 100, ..Usage::default() };
    assert_eq!(price.estimated_units(&usage, usd(6)), 3_750 + 1_500);
    assert_eq!(price.estimated_units(&Usage::default(), usd(6)), 0);
    let of_output = Price { tokens: tokens("0", "0", "0", "15"), ..Price::default() };
    let no_output = Usage { input: 1_000, ..Usage::default() };
    // It states 0 tokens of output, and is refused all the same when the budget is used up.
    assert_eq!(of_output.estimated_units(&no_output, usd(6)), 1);
    assert!(Price::default().is_free());
    assert_eq!(Price::default().estimated_units(&usage, usd(6)), 0);
    let rarely = LongPrice { above: 1, tokens: tokens("1", "1", "1", "1") };
    assert!(!Price { long: Some(rarely), ..Price::default() }.is_free());
}

fn table(names: &[&str]) -> PriceTable {
    PriceTable::new(names.iter().map(|name| (name.parse().unwrap(), Price::default())))
}

#[test]
fn the_exact_name_wins_then_the_longest_pattern_in_whatever_case() {
    let table = table(&["gpt-5*", "gpt-5-mini*", "GPT-5", "*", "gpt-5-mini-2026"]);
    let find = |name: &str| table.find(name).and_then(|index| table.name(index));
    assert_eq!(find("gpt-5"), Some("GPT-5"));
    assert_eq!(find("gpt-5-2025-08-07"), Some("gpt-5*"));
    assert_eq!(find("Gpt-5-Mini"), Some("gpt-5-mini*"));
    assert_eq!(find("gpt-5-mini-2026"), Some("gpt-5-mini-2026"));
    assert_eq!(find("claude"), Some("*"));
    assert_eq!(find(""), Some("*"));
    assert_eq!(find("k\u{130}"), Some("*"));
    let long = format!("gpt-5-mini{}", "x".repeat(1_000_000));
    assert_eq!(find(&long), Some("gpt-5-mini*"));
}

#[test]
fn names_of_entries_and_their_number_are_bounded() {
    let error = |name: &str| name.parse::<ModelPattern>().err();
    assert_eq!(error(""), Some(PatternError::Empty));
    assert_eq!(error("a*b"), Some(PatternError::Star));
    assert_eq!(error("a**"), Some(PatternError::Star));
    assert_eq!(error("m\u{f6}del"), Some(PatternError::Character));
    assert_eq!(error(&"x".repeat(256)), None);
    assert_eq!(error(&"x".repeat(257)), Some(PatternError::TooLong));
    let many = (0..=MAX_ENTRIES).map(|it| (format!("m{it}").parse().unwrap(), Price::default()));
    let table = PriceTable::new(many);
    assert_eq!(table.entries().len(), MAX_ENTRIES);
    assert_eq!((table.find("m9999"), table.find("m10000")), (Some(9999), None));
    // A name of which only the beginning counts is not an exact name.
    let exact = super::tests::table(&[&"x".repeat(256)]);
    assert_eq!((exact.find(&"X".repeat(256)), exact.find(&"x".repeat(257))), (Some(0), None));
}

#[test]
fn the_price_is_that_of_the_answers_model_if_it_is_listed() {
    let free = Price { request: rate("1"), ..Price::default() };
    let prices = |unknown| Prices {
        denomination: usd(6),
        table: Arc::new(table(&["gpt*", "mini"])),
        unknown,
    };
    let denied = prices(None);
    assert_eq!(denied.of_request(Some("claude")), None);
    assert_eq!(denied.of_request(None), None);
    let asked = denied.of_request(Some("gpt-5")).unwrap();
    assert_eq!(denied.of_answer(Some("mini"), Some(asked)), Some(PriceEntry::Listed(1)));
    assert_eq!(denied.of_answer(Some("claude"), Some(asked)), Some(asked));
    assert_eq!(denied.of_answer(None, Some(asked)), Some(asked));
    assert_eq!(denied.of_answer(Some("claude"), None), None);
    assert_eq!([denied.name(asked), denied.name(PriceEntry::Unknown)], ["gpt*", OTHER]);
    let priced = prices(Some(free));
    assert_eq!(priced.of_request(Some("claude")), Some(PriceEntry::Unknown));
    assert_eq!(priced.units(PriceEntry::Unknown, &Usage::default()), 1_000_000);
    assert_eq!(priced.of_answer(None, None), Some(PriceEntry::Unknown));
    // An entry of no table is never free.
    assert_eq!(denied.units(PriceEntry::Unknown, &Usage::default()), u64::MAX);
}

/// A natural number of any size, in digits of base 10^9, the lowest first: the reference for costs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Big(Vec<u32>);

impl Big {
    const BASE: u64 = 1_000_000_000;

    fn add_product(&mut self, one: u64, other: u64) {
        let digits = |mut number: u64| {
            let mut digits = Vec::new();
            while number > 0 {
                digits.push(number % Self::BASE);
                number /= Self::BASE;
            }
            digits
        };
        for (at, one) in digits(one).iter().enumerate() {
            for (beside, other) in digits(other).iter().enumerate() {
                let mut at = at + beside;
                let mut carry = one * other;
                while carry > 0 {
                    if self.0.len() <= at {
                        self.0.resize(at + 1, 0);
                    }
                    let sum = u64::from(self.0[at]) + carry;
                    self.0[at] = u32::try_from(sum % Self::BASE).unwrap();
                    carry = sum / Self::BASE;
                    at += 1;
                }
            }
        }
    }

    /// Divided by 10 to this power and rounded up, in decimal digits.
    fn divided(&self, power: usize) -> String {
        let mut text: String = self.0.iter().rev().map(|digit| format!("{digit:09}")).collect();
        text.insert_str(0, &"0".repeat(power + 1));
        let (whole, rest) = text.split_at(text.len() - power);
        let mut whole: Vec<u8> = whole.bytes().collect();
        if rest.bytes().any(|digit| digit != b'0') {
            whole.insert(0, b'0');
            for digit in whole.iter_mut().rev() {
                if *digit == b'9' {
                    *digit = b'0';
                } else {
                    *digit += 1;
                    break;
                }
            }
        }
        let text = String::from_utf8(whole).unwrap();
        let text = text.trim_start_matches('0');
        if text.is_empty() { "0".to_owned() } else { text.to_owned() }
    }
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let all = 0..=MAX_PRICE * 1_000_000;
    prop_oneof![0..2_000_000_u64, all].prop_map(|it| Rate::from_millionths(it).unwrap())
}

fn any_tokens() -> impl Strategy<Value = TokenPrices> {
    (any_rate(), any_rate(), any_rate(), any_rate()).prop_map(
        |(input, cache_read, cache_write, output)| TokenPrices {
            input,
            cache_read,
            cache_write,
            output,
        },
    )
}

fn any_usage() -> impl Strategy<Value = Usage> {
    let count = || prop_oneof![0..1_000_000_u64, any::<u64>()];
    (count(), count(), count(), count()).prop_map(|(input, cache_read, cache_write, output)| {
        Usage { input, cache_read, cache_write, output }
    })
}

proptest! {
    #[test]
    fn a_cost_is_that_of_big_integers(
        normal in any_tokens(),
        long in proptest::option::of((0..1_000_000_u64, any_tokens())),
        request in any_rate(),
        usage in any_usage(),
        digits in 0..=MAX_DIGITS,
    ) {
        let long = long.map(|(above, tokens)| LongPrice { above, tokens });
        let price = Price { tokens: normal, request, long };
        let own = long.filter(|long| usage.all_input() > long.above).map_or(normal, |it| it.tokens);
        let mut sum = Big(Vec::new());
        sum.add_product(own.input.millionths(), usage.input);
        sum.add_product(own.cache_read.millionths(), usage.cache_read);
        sum.add_product(own.cache_write.millionths(), usage.cache_write);
        sum.add_product(own.output.millionths(), usage.output);
        sum.add_product(request.millionths(), 1_000_000);
        let exact = sum.divided(usize::from(12 - digits));
        let expected = exact.parse().unwrap_or(u64::MAX);
        prop_assert_eq!(price.units(&usage, usd(digits)), expected);
        let estimate = price.estimated_units(&usage, usd(digits));
        prop_assert!(usage == Usage::default() || estimate >= expected);
    }

    #[test]
    fn a_written_number_is_read_again(value in any::<u64>(), digits in 0..=MAX_DIGITS) {
        let shown = usd(digits).shown(value).to_string();
        let amount: Amount = shown.parse().unwrap();
        prop_assert_eq!(amount.units(usd(digits)), Ok(value));
        prop_assert_eq!(amount.to_string().parse(), Ok(amount));
    }

    #[test]
    fn a_lookup_is_a_search_of_all_entries(
        names in proptest::collection::vec("[a-cA-C-]{0,4}\\*?", 0..20),
        model in "[a-cA-C-]{0,6}",
    ) {
        let patterns: Vec<ModelPattern> = names.iter().filter_map(|it| it.parse().ok()).collect();
        let table = PriceTable::new(patterns.iter().map(|it| (it.clone(), Price::default())));
        prop_assert_eq!(table.find(&model), searched(&patterns, &model));
    }

    #[test]
    fn no_text_makes_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzzing::prices(&bytes);
    }
}
