//! Durations, sizes and rates, as the gateway writes them.

/// A duration in the largest unit that gives a whole number.
pub fn period(ms: u64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let unit = UNITS.iter().find(|(size, _)| ms >= *size && ms.is_multiple_of(*size));
    unit.map_or_else(|| "0s".to_owned(), |(size, name)| format!("{}{name}", ms / size))
}

/// A size in the largest unit that gives a whole number.
pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size));
    unit.map_or_else(|| bytes.to_string(), |(size, name)| format!("{}{name}", bytes / size))
}

/// A number with at most two digits behind the point: `thousandths` of one.
pub fn decimal(thousandths: u64) -> String {
    let hundredths = (thousandths + 5) / 10;
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The whole part of a text, and its unit.
pub fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_largest_whole_unit() {
        assert_eq!(
            [0, 1, 1500, 60_000, 90_000, 3_600_000].map(period),
            ["0s", "1ms", "1500ms", "1m", "90s", "1h"]
        );
        assert_eq!([1, 1024, 1 << 20, (1 << 20) + 1].map(size), ["1", "1KiB", "1MiB", "1048577"]);
        assert_eq!([960, 1000, 59_940, 5].map(decimal), ["0.96", "1", "59.94", "0.01"]);
        assert_eq!(number_and_unit("10r/s"), Some((10, "r/s")));
    }
}
