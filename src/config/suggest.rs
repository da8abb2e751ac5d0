//! "Did you mean": the known name that is most similar to an unknown one.

use std::cmp::Reverse;

use strsim::osa_distance;

use super::problem::Problems;

/// Longer names get no suggestion, because the comparison takes quadratic time.
const MAX_CHARS: usize = 64;
/// A name is compared with at most this many known names.
const MAX_KNOWN: usize = 500;
/// A list in an advice has at most this many names.
const MAX_LISTED: usize = 24;

/// The advice for an unknown `name`: the most similar of the `known` names, or a list of them that
/// begins with `listed`. If several are equally similar, the first is suggested. Where there is a
/// default, it comes first.
pub fn advice<'a>(
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
        1..=MAX_LISTED => format!("{listed}: {}", names.join(", ")),
        _ => format!("{listed}: {}, ...", names[..MAX_LISTED].join(", ")),
    }
}

/// The known name with the smallest edit distance, if that is small for its length.
fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let chars = name.chars().count();
    if chars > MAX_CHARS {
        return None;
    }
    // Case does not count, nor does `-` instead of `_`.
    let folded = |text: &str| text.replace('-', "_").to_ascii_lowercase();
    let name = folded(name);
    known
        .take(MAX_KNOWN)
        .filter(|other| other.chars().count().abs_diff(chars) <= allowed_edits(chars))
        .map(|other| (osa_distance(&name, &folded(other)), other))
        .filter(|(distance, other)| *distance <= allowed_edits(chars.min(other.chars().count())))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// The known name with the longest common beginning, if that is at least half of `name`.
fn same_start<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let half = name.chars().count().div_ceil(2).max(3);
    known
        .take(MAX_KNOWN)
        .map(|other| (name.chars().zip(other.chars()).take_while(|(a, b)| a == b).count(), other))
        .filter(|(shared, _)| *shared >= half)
        .min_by_key(|(shared, _)| Reverse(*shared))
        .map(|(_, other)| other)
}

/// A third of the characters may differ. In a short name, one character may differ.
fn allowed_edits(chars: usize) -> usize {
    (chars / 3).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_is_suggested_but_no_different_one() {
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
    fn without_a_similar_name_one_with_the_same_beginning_is_suggested() {
        let known = ["global", "per-client"];
        assert_eq!(same_start("per-usr", known.into_iter()), Some("per-client"));
        assert_eq!(same_start("pe", known.into_iter()), None);
    }

    #[test]
    fn of_several_equally_similar_names_the_first_is_suggested() {
        let known = ["sliding_window", "sliding_log", "token_bucket"];
        assert_eq!(same_start("sliding", known.into_iter()), Some("sliding_window"));
        assert_eq!(same_start("sliding_l", known.into_iter()), Some("sliding_log"));
        assert_eq!(closest("a", ["b", "c"].into_iter()), Some("b"));
    }
}
