//! When the program that prints a password runs. It reads no clock and runs nothing.

use std::time::{Duration, Instant};

use crate::config::PasswordCommand;

/// How long before the end of a password the next one is fetched.
const BEFORE_END: Duration = Duration::from_secs(60);
/// From a failure to the next run. It doubles until a run succeeds.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The shortest time between two runs because a server does not accept the password.
pub const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);

/// The times of runs.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The last run. None: nothing has run.
    last: Option<Run>,
}

#[derive(Debug)]
struct Run {
    command: PasswordCommand,
    at: Instant,
    next: Instant,
    /// The pause after the next failure.
    pause: Duration,
}

impl Schedule {
    /// Whether this program is to run now: it has not run last, or its time has come.
    pub fn is_due(&self, command: &PasswordCommand, now: Instant) -> bool {
        self.last.as_ref().is_none_or(|last| last.command != *command || last.next <= now)
    }

    /// The time of the next run, if there was one before.
    pub fn next(&self) -> Option<Instant> {
        self.last.as_ref().map(|last| last.next)
    }

    /// The program has run, and has printed a password or has failed.
    pub fn ran(&mut self, command: &PasswordCommand, succeeded: bool, now: Instant) {
        let same = self.last.take().filter(|last| last.command == *command);
        let pause = same.map_or(FIRST_PAUSE, |last| last.pause);
        let (wait, pause) = if succeeded {
            let lifetime = command.lifetime;
            (lifetime - BEFORE_END.min(lifetime / 2), FIRST_PAUSE)
        } else {
            (pause, (pause * 2).min(LONGEST_PAUSE))
        };
        self.last = Some(Run { command: command.clone(), at: now, next: now + wait, pause });
    }

    /// A server does not accept the password. Returns whether the program is to run now.
    pub fn refused(&mut self, now: Instant) -> bool {
        let Some(last) = &mut self.last else { return false };
        let is_due = now.saturating_duration_since(last.at) >= REFUSAL_INTERVAL;
        if is_due {
            last.next = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::time::monotonic;

    use super::*;

    fn command(lifetime_s: u64) -> PasswordCommand {
        PasswordCommand {
            program: "token".to_owned(),
            arguments: Vec::new(),
            directory: "/".into(),
            lifetime: Duration::from_secs(lifetime_s),
        }
    }

    #[test]
    fn it_runs_a_minute_before_the_end_or_after_half_of_a_short_time() {
        let now = monotonic();
        for (lifetime, next) in [(900, 840), (121, 61), (120, 60), (10, 5)] {
            let mut schedule = Schedule::default();
            let command = command(lifetime);
            assert!(schedule.is_due(&command, now) && schedule.next().is_none());
            schedule.ran(&command, true, now);
            let next = now + Duration::from_secs(next);
            assert_eq!(schedule.next(), Some(next));
            assert!(!schedule.is_due(&command, next - Duration::from_millis(1)));
            assert!(schedule.is_due(&command, next));
        }
    }

    #[test]
    fn after_failures_it_waits_longer_each_time_up_to_a_minute() {
        let mut schedule = Schedule::default();
        let mut now = monotonic();
        let command = command(900);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            schedule.ran(&command, false, now);
            let next = now + Duration::from_secs(seconds);
            assert_eq!(schedule.next(), Some(next));
            now = next;
        }
        schedule.ran(&command, true, now);
        schedule.ran(&command, false, now);
        assert_eq!(schedule.next(), Some(now + FIRST_PAUSE));
    }

    #[test]
    fn another_program_runs_at_once_and_has_failures_of_its_own() {
        let mut schedule = Schedule::default();
        let now = monotonic();
        let one = command(900);
        let other = command(901);
        schedule.ran(&one, false, now);
        schedule.ran(&one, false, now);
        assert!(schedule.is_due(&other, now));
        schedule.ran(&other, false, now);
        assert_eq!(schedule.next(), Some(now + FIRST_PAUSE));
    }

    #[test]
    fn a_refused_password_is_replaced_but_not_more_often_than_every_ten_seconds() {
        let mut schedule = Schedule::default();
        let now = monotonic();
        let command = command(900);
        assert!(!schedule.refused(now), "nothing has run");
        schedule.ran(&command, true, now);
        let soon = now + REFUSAL_INTERVAL;
        assert!(!schedule.refused(soon - Duration::from_millis(1)));
        assert!(schedule.refused(soon) && schedule.is_due(&command, soon));
        schedule.ran(&command, true, soon);
        assert!(!schedule.refused(soon + Duration::from_secs(9)));
    }
}
