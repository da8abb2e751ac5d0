//! The labels of a descriptor in metrics: the first two levels of its path.
//!
//! They are the labels that the mapping rules of envoyproxy/ratelimit give to its counters. A
//! value stands beside its key only if the configuration contains it, or demands it
//! (`value_to_metric`, `detailed_metric`).

/// The labels of the counters of one descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Series {
    /// The first entry: its key, or its key and its value with `_` between them.
    pub key1: Box<str>,
    /// The second entry.
    pub key2: Option<Box<str>>,
}

/// The longest label, in bytes. Longer ones are cut: values are chosen by clients.
const MAX_BYTES: usize = 256;

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
    /// Adds the label of the next level. Levels below the second have none.
    pub fn level(&mut self, key: &str, value: &str) {
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
        let cut = label.floor_char_boundary(MAX_BYTES);
        label.truncate(cut);
    }

    pub fn finish(self) -> Series {
        let key2 = (self.levels > 1).then(|| self.key2.into());
        Series { key1: self.key1.into(), key2 }
    }
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
        long.level("k", &"ä".repeat(1000));
        let long = long.finish();
        assert!(long.key1.len() <= MAX_BYTES && long.key1.len() > MAX_BYTES - 2);
        assert_eq!(long.key2, None);
    }
}
