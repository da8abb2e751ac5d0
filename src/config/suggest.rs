//! "Did you mean": the known name that is closest to one that is not known.

use std::cmp::Reverse;

use super::problem::Problems;

/// Names longer than this are compared with nothing.
const MAX_CHARS: usize = 64;
/// So many known names are looked at: advice is not worth quadratic time.
const MAX_KNOWN: usize = 500;

/// Advice for someone who wrote `name` where one of `known` was expected:
/// the closest of them, or all of them if `listed` and there are any. Of several
/// that are as close it is the first, which is the default where there is one.
pub(super) fn advice<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
    listed: &str,
    problems: &Problems,
) -> String {
    if problems.is_full() {
        return String::new();
    }
    if let Some(best) = closest(name, known.clone()).or_else(|| same_start(name, known.clone())) {
        return format!("did you mean \"{best}\"?");
    }
    let names: Vec<&str> = known.take(MAX_KNOWN).collect();
    match names.len() {
        0 => String::new(),
        1..=24 => format!("{listed}: {}", names.join(", ")),
        _ => format!("{listed}: {}, ...", names[..24].join(", ")),
    }
}

/// The known name with the fewest edits, if they are few for its length.
fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let chars = name.chars().count();
    if chars > MAX_CHARS {
        return None;
    }
    known
        .take(MAX_KNOWN)
        .filter(|other| other.chars().count().abs_diff(chars) <= allowed_edits(chars))
        .map(|other| (edits(name, other), other))
        .filter(|(distance, other)| *distance <= allowed_edits(chars.min(other.chars().count())))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// The known name that begins most like `name`, if at least half of it is the same.
fn same_start<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let half = name.chars().count().div_ceil(2).max(3);
    known
        .take(MAX_KNOWN)
        .map(|other| (name.chars().zip(other.chars()).take_while(|(a, b)| a == b).count(), other))
        .filter(|(shared, _)| *shared >= half)
        .min_by_key(|(shared, _)| Reverse(*shared))
        .map(|(_, other)| other)
}

/// A third of the characters may differ, and one in short names.
fn allowed_edits(chars: usize) -> usize {
    (chars / 3).max(1)
}

/// Insertions, deletions, substitutions and swaps of neighbours (optimal
/// string alignment), in lower case and with `-` as `_`.
fn edits(one: &str, other: &str) -> usize {
    let fold = |text: &str| -> Vec<char> {
        text.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
    };
    let (one, other) = (fold(one), fold(other));
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let differs = usize::from(one[i - 1] != other[j - 1]);
            let mut best = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + differs);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_suggested_and_a_far_one_is_not() {
        let known = ["per-client", "global", "limit", "hosts"];
        let cases = [
            ("per-clent", Some("per-client")),
            ("per_client", Some("per-client")),
            ("lmiit", Some("limit")),
            ("hots", Some("hosts")),
            ("Global", Some("global")),
            ("redis", None),
        ];
        for (name, expected) in cases {
            assert_eq!(closest(name, known.into_iter()), expected, "{name}");
        }
    }

    #[test]
    fn without_a_close_name_one_that_begins_alike_is_suggested() {
        let known = ["global", "per-client"];
        assert_eq!(same_start("per-usr", known.into_iter()), Some("per-client"));
        assert_eq!(same_start("pe", known.into_iter()), None);
    }

    #[test]
    fn of_several_names_that_are_as_close_the_first_is_suggested() {
        let known = ["sliding_window", "sliding_log", "token_bucket"];
        assert_eq!(same_start("sliding", known.into_iter()), Some("sliding_window"));
        assert_eq!(same_start("sliding_l", known.into_iter()), Some("sliding_log"));
        assert_eq!(closest("a", ["b", "c"].into_iter()), Some("b"));
    }
}
