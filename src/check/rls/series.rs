//! The labels of a descriptor in metrics: the first two levels of its path.
//!
//! They are the labels that the mapping rules of envoyproxy/ratelimit give to its counters. A
//! value stands beside its key only if the configuration contains it, or demands it
//! (`value_to_metric`, `detailed_metric`). As there, `:` and `|` are written as `_`, and so are the
//! dots of IPv4 addresses.

/// The labels of the counters of one descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Series {
    /// The first entry: its key, or its key and its value with `_` between them.
    pub key1: Box<str>,
    /// The second entry.
    pub key2: Option<Box<str>>,
}

/// The longest label with a value of a request, in bytes. Longer ones are cut: values are chosen by
/// clients.
const MAX_BYTES: usize = 256;
/// The longest label with a value of the configuration. Those of Envoy Gateway contain the names of
/// a route twice, and have up to 1,200 bytes.
const MAX_CONFIGURED_BYTES: usize = 2048;

impl Series {
    /// Labels under construction.
    pub const fn builder() -> SeriesBuilder {
        SeriesBuilder { levels: 0, key1: String::new(), key2: String::new() }
    }
}

/// Gathers labels, level by level.
#[derive(Debug)]
pub struct SeriesBuilder {
    levels: usize,
    key1: String,
    key2: String,
}

impl SeriesBuilder {
    /// Adds the label of the next level, whose value the configuration contains. Levels below the
    /// second have none.
    pub fn level(&mut self, key: &str, value: &str) {
        self.add(key, value, MAX_CONFIGURED_BYTES);
    }

    /// Adds the label of the next level, whose value a request has chosen.
    pub fn level_of_request(&mut self, key: &str, value: &str) {
        self.add(key, value, MAX_BYTES);
    }

    fn add(&mut self, key: &str, value: &str, most_bytes: usize) {
        let label = match self.levels {
            0 => &mut self.key1,
            1 => &mut self.key2,
            _ => return,
        };
        self.levels += 1;
        label.push_str(key);
        if !value.is_empty() {
            label.push('_');
            label.push_str(value);
        }
        let cut = label.floor_char_boundary(most_bytes);
        label.truncate(cut);
        if label.bytes().any(|it| matches!(it, b':' | b'|' | b'.')) {
            *label = as_statistic(label);
        }
    }

    pub fn finish(self) -> Series {
        let key2 = (self.levels > 1).then(|| self.key2.into());
        Series { key1: self.key1.into(), key2 }
    }
}

/// The label as envoyproxy/ratelimit names its statistics.
fn as_statistic(label: &str) -> String {
    let mut written = String::with_capacity(label.len());
    let mut rest = label;
    while let Some(first) = rest.chars().next() {
        let len = match ipv4_len(rest) {
            Some(len) => len,
            None => first.len_utf8(),
        };
        let (part, after) = rest.split_at(len);
        let has_address = len > first.len_utf8();
        written.extend(part.chars().map(|c| match c {
            ':' | '|' => '_',
            '.' if has_address => '_',
            other => other,
        }));
        rest = after;
    }
    written
}

/// The length of four numbers of up to three digits, with dots between them, with which `text`
/// begins.
fn ipv4_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut len = 0;
    for number in 0..4 {
        if number > 0 {
            if bytes.get(len) != Some(&b'.') {
                return None;
            }
            len += 1;
        }
        let digits = bytes[len..].iter().take(3).take_while(|it| it.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        len += digits;
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_levels_have_labels_and_long_labels_are_cut() {
        let mut series = Series::builder();
        series.level("message_type", "marketing");
        series.level("to_number", "");
        series.level("third", "x");
        let series = series.finish();
        assert_eq!(&*series.key1, "message_type_marketing");
        assert_eq!(series.key2.as_deref(), Some("to_number"));
        let mut long = Series::builder();
        long.level_of_request("k", &"ä".repeat(1000));
        let long = long.finish();
        assert!(long.key1.len() <= MAX_BYTES && long.key1.len() > MAX_BYTES - 2);
        assert_eq!(long.key2, None);
    }

    #[test]
    fn a_label_of_the_configuration_has_room_for_two_names_of_a_route() {
        let route = "r".repeat(600);
        let mut series = Series::builder();
        series.level(&route, &route);
        series.level("k", &"v".repeat(3000));
        let series = series.finish();
        assert_eq!(*series.key1, format!("{route}_{route}"));
        assert_eq!(series.key2.map(|it| it.len()), Some(MAX_CONFIGURED_BYTES));
    }

    #[test]
    fn characters_of_statistics_are_written_as_envoyproxy_ratelimit_writes_them() {
        for (key, value, expected) in [
            ("masked_remote_address", "192.168.0.0/16", "masked_remote_address_192_168_0_0/16"),
            ("path", "/v1.2|a:b", "path_/v1.2_a_b"),
            ("rule-0-x|y.z-match-0", "", "rule-0-x_y.z-match-0"),
            // Three digits at most, as in the pattern there.
            ("a", "1234.5.6.7890", "a_1234_5_6_7890"),
            ("a", "1.2.3", "a_1.2.3"),
            ("ä.ö", "1.2.3.4.5", "ä.ö_1_2_3_4.5"),
        ] {
            let mut series = Series::builder();
            series.level(key, value);
            assert_eq!(&*series.finish().key1, expected);
        }
    }
}
