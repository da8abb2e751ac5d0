//! What fuzz targets check of prices.

use super::{Amount, Decimal, Denomination, ModelPattern, Price, PriceTable, Rate, Usage};

/// Texts of prices, amounts and names of models, one a line.
///
/// # Panics
/// If a text that is written again is read as something else, or a lookup differs from a search of
/// all entries.
pub fn prices(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for line in text.lines() {
        if let Ok(rate) = line.parse::<Rate>() {
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        if let Ok(number) = Decimal::read(line) {
            assert_eq!(Decimal::read(&number.to_string()), Ok(number));
        }
        if let Ok(amount) = line.parse::<Amount>() {
            assert_eq!(amount.to_string().parse(), Ok(amount));
            let finest = Denomination { currency: amount.currency, digits: 9 };
            if let Ok(units) = amount.units(finest) {
                let again: Amount = finest.shown(units).to_string().parse().expect("it is shown");
                assert_eq!(again.units(finest), Ok(units));
            }
        }
    }
    let patterns: Vec<ModelPattern> = text.lines().filter_map(|it| it.parse().ok()).collect();
    let table = PriceTable::new(patterns.iter().map(|it| (it.clone(), Price::default())));
    for name in text.lines() {
        assert_eq!(table.find(name), searched(&patterns, name), "{name}");
    }
    let mut numbers =
        input.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
    let mut next = || numbers.next().unwrap_or_default();
    let price =
        Price { request: Rate::from_millionths(next()).unwrap_or_default(), ..Price::default() };
    let usage = Usage { input: next(), cache_read: next(), cache_write: next(), output: next() };
    let denomination = Denomination { currency: "usd".parse().expect("it is one"), digits: 6 };
    assert_eq!(price.units(&usage, denomination), price.request.millionths());
}

/// The index of the entry for a model, by a search of all entries.
pub(super) fn searched(patterns: &[ModelPattern], model: &str) -> Option<u16> {
    let model = model.to_ascii_lowercase();
    let folded = || (0_u16..).zip(patterns.iter().map(ModelPattern::folded));
    if let Some((index, _)) =
        folded().find(|(_, pattern)| !pattern.ends_with('*') && *pattern == model)
    {
        return Some(index);
    }
    let fits = |(_, pattern): &(u16, String)| {
        pattern.strip_suffix('*').is_some_and(|prefix| model.starts_with(prefix))
    };
    // The first of the longest ones: `max_by_key` returns the last.
    let mut all: Vec<_> = folded().filter(fits).collect();
    all.reverse();
    all.into_iter().max_by_key(|(_, pattern)| pattern.len()).map(|(index, _)| index)
}
