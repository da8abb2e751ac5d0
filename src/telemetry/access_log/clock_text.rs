//! Times of lines as text. Most lines are of the same second as the one before.

use std::cell::{Cell, Ref, RefCell};

use tollgate_core::time::Timestamp;

/// Where the milliseconds begin from the end of a text: `.123Z`.
const AFTER_SECONDS: usize = ".123Z".len();

/// Writes times as RFC 3339, and writes only the milliseconds anew if the second is that of the
/// last time.
#[derive(Debug, Default)]
pub struct ClockText {
    text: RefCell<String>,
    /// The second of the text.
    second: Cell<Option<u64>>,
}

impl ClockText {
    /// The text of this time.
    pub fn of(&self, time: Timestamp) -> Ref<'_, str> {
        if self.second.replace(Some(time.as_secs())) == Some(time.as_secs()) {
            self.set_millis(time.as_micros() / 1000 % 1000);
        } else {
            self.text.replace(time.to_string());
        }
        Ref::map(self.text.borrow(), String::as_str)
    }

    fn set_millis(&self, millis: u64) {
        let mut text = self.text.borrow_mut();
        let seconds = text.len().saturating_sub(AFTER_SECONDS);
        text.truncate(seconds);
        text.push('.');
        for unit in [100, 10, 1] {
            let digit = u8::try_from(millis / unit % 10).unwrap_or(0);
            text.push(char::from(b'0' + digit));
        }
        text.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_text_is_that_of_the_time_in_any_order(
            times in prop::collection::vec((0..3_u64, 0..1_000_000_u64), 1..50),
            start in 0..300_000_000_000_u64, // up to the year 11476
        ) {
            let clock = ClockText::default();
            for (second, micros) in times {
                let time = Timestamp::from_micros((start + second) * 1_000_000 + micros);
                prop_assert_eq!(&*clock.of(time), time.to_string());
            }
        }
    }
}
