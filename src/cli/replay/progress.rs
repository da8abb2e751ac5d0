//! How far logs were read, in one line of a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use tollgate_core::time::{Span, monotonic};

/// The time between two lines.
const INTERVAL: Duration = Duration::from_millis(250);

/// How far logs were read.
pub struct Progress {
    is_shown: bool,
    /// How often the logs are read, and how often they were read before.
    readings: u32,
    reading: u32,
    began: Instant,
    shown: Option<Instant>,
    read: u64,
}

impl Progress {
    /// For logs that are read so often. Nothing is shown if standard error is no terminal.
    pub fn new(readings: u32) -> Self {
        let is_shown = io::stderr().is_terminal();
        Self { is_shown, readings, reading: 1, began: monotonic(), shown: None, read: 0 }
    }

    /// Shows that so many bytes were read, of so many if this is known.
    pub fn show(&mut self, read: u64, of: Option<u64>) {
        let now = monotonic();
        if read < self.read {
            (self.reading, self.began) = (self.reading + 1, now);
        }
        self.read = read;
        let since = now.duration_since(self.shown.unwrap_or(self.began));
        if !self.is_shown || since < INTERVAL {
            return;
        }
        self.shown = Some(now);
        let reading = match self.readings {
            1 => String::new(),
            readings => format!("reading {} of {readings}: ", self.reading),
        };
        let text = line(read, of, now.duration_since(self.began));
        // A closed terminal loses nothing but progress.
        let _ = write!(io::stderr().lock(), "\r{reading}{text}\u{1b}[K");
    }

    /// Removes the line.
    pub fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}

/// `512 of 2048 MiB (25 %), 85 MiB/s, 18s left`
fn line(read: u64, of: Option<u64>, elapsed: Duration) -> String {
    let mib = |bytes: u64| bytes >> 20;
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = read.saturating_mul(1000) / ms;
    let speed = match mib(rate) {
        0 => format!("{} KiB/s", rate >> 10),
        mib => format!("{mib} MiB/s"),
    };
    match of {
        Some(of) if of > 0 => {
            let share = read.saturating_mul(100) / of;
            let left = Span::from_secs(of.saturating_sub(read).div_ceil(rate.max(1)));
            format!("{} of {} MiB ({share} %), {speed}, {left} left", mib(read), mib(of))
        }
        _ => format!("{} MiB, {speed}", mib(read)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rate_and_remaining_time() {
        let read = 512 << 20;
        let of = 2048 << 20;
        let elapsed = Duration::from_secs(8);
        assert_eq!(line(read, Some(of), elapsed), "512 of 2048 MiB (25 %), 64 MiB/s, 24s left");
        assert_eq!(line(read, None, elapsed), "512 MiB, 64 MiB/s");
        assert_eq!(
            line(1 << 20, Some(9 << 20), elapsed),
            "1 of 9 MiB (11 %), 128 KiB/s, 1m4s left"
        );
        assert_eq!(line(0, Some(0), Duration::ZERO), "0 MiB, 0 KiB/s");
    }
}
