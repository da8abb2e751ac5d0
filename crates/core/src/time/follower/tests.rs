//! The clock under virtual time: a monotonic clock that only advances, and a wall clock
//! with any jumps.

use proptest::prelude::*;

use super::*;

const START_US: u64 = 1_795_246_126_000_000;
/// The period of the real clock's comparisons, and a longer one.
const LOOK: Span = Span::from_millis(100);

/// A machine with its two clocks.
struct Machine {
    monotonic_us: u64,
    /// The lead of the wall clock over the time that has really passed.
    wall_ahead_us: i64,
    clock: Follower,
}

impl Machine {
    fn new() -> Self {
        let clock = Follower::new(Span::ZERO, Timestamp::from_micros(START_US));
        Self { monotonic_us: 0, wall_ahead_us: 0, clock }
    }

    fn wall(&self) -> Timestamp {
        let us = START_US + self.monotonic_us;
        Timestamp::from_micros(us.saturating_add_signed(self.wall_ahead_us))
    }

    fn now(&self) -> Timestamp {
        self.clock.course().at(Span::from_micros(self.monotonic_us))
    }

    /// The deviation of the clock from even time, in microseconds.
    fn gained_us(&self) -> i64 {
        self.now().as_micros().cast_signed() - (START_US + self.monotonic_us).cast_signed()
    }

    fn runs(&mut self, span: Span) {
        let end_us = self.monotonic_us + span.as_micros();
        while self.monotonic_us < end_us {
            self.monotonic_us = end_us.min(self.monotonic_us + LOOK.as_micros());
            self.clock.look(Span::from_micros(self.monotonic_us), self.wall());
        }
    }

    fn wall_jumps(&mut self, by_us: i64) {
        self.wall_ahead_us += by_us;
    }

    /// Time passes, and only the wall clock counts it.
    fn is_suspended(&mut self, span: Span) {
        self.wall_ahead_us += span.as_micros().cast_signed();
    }
}

const HOUR_US: i64 = 3_600_000_000;

#[test]
fn an_hour_ahead_for_a_moment_moves_it_by_a_tenth_of_the_moment() {
    for by_us in [HOUR_US, -HOUR_US, 1000 * 24 * HOUR_US, 1_000_000] {
        let mut machine = Machine::new();
        machine.runs(Span::from_secs(100));
        machine.wall_jumps(by_us);
        machine.runs(Span::from_secs(30));
        assert!(machine.gained_us().abs() <= 3_000_000, "{by_us}: {}", machine.gained_us());
        machine.wall_jumps(-by_us);
        machine.runs(Span::from_secs(31));
        assert_eq!(machine.gained_us(), 0, "{by_us}");
        assert_eq!(machine.clock.steps_back(), 0);
    }
}

#[test]
fn after_a_suspension_the_clock_is_correct_within_a_minute() {
    let mut machine = Machine::new();
    machine.runs(Span::from_secs(10));
    machine.is_suspended(Span::from_secs(8 * 3600));
    machine.runs(Span::from_secs(61));
    assert_eq!(machine.now(), machine.wall());
    assert_eq!(machine.clock.steps_back(), 0);
}

#[test]
fn after_a_small_step_back_of_the_wall_clock_the_clock_runs_slower() {
    let mut machine = Machine::new();
    machine.wall_jumps(-300_000_000);
    let before = machine.now();
    machine.runs(Span::from_secs(100));
    // The clock notices the step at its next comparison.
    let passed = machine.now().since(before);
    assert!((Span::from_secs(90)..Span::from_millis(90_020)).contains(&passed), "{passed}");
    machine.runs(Span::from_secs(2901));
    assert_eq!(machine.now(), machine.wall());
    assert_eq!(machine.clock.steps_back(), 0);
}

#[test]
fn a_large_lasting_step_back_is_followed_in_one_step() {
    for years in [0, 4] {
        let mut machine = Machine::new();
        machine.wall_jumps(-HOUR_US - years * 365 * 24 * HOUR_US);
        machine.runs(Span::from_secs(59));
        assert_eq!(machine.clock.steps_back(), 0);
        machine.runs(Span::from_secs(2));
        assert_eq!(machine.now(), machine.wall());
        assert_eq!(machine.clock.steps_back(), 1);
    }
}

/// A temporary difference is not followed, but its drift is.
#[test]
fn a_wall_clock_that_alternates_is_not_followed() {
    let mut machine = Machine::new();
    for _ in 0..100 {
        machine.wall_jumps(HOUR_US);
        machine.runs(Span::from_secs(50));
        machine.wall_jumps(-HOUR_US);
        machine.runs(Span::from_secs(51));
        assert!(machine.gained_us().abs() <= 5_000_000);
    }
}

#[test]
fn an_inaccurate_monotonic_clock_is_corrected() {
    for drift_us in [5000, -5000] {
        let mut machine = Machine::new();
        for _ in 0..36_000 {
            machine.wall_jumps(drift_us);
            machine.runs(LOOK);
            let off_us =
                machine.now().since(machine.wall()).max(machine.wall().since(machine.now()));
            assert!(off_us <= Span::from_millis(10), "{off_us}");
        }
    }
}

#[test]
fn a_clock_before_the_epoch_or_at_the_end_of_time_does_no_harm() {
    for wall in [Timestamp::default(), Timestamp::from_micros(u64::MAX)] {
        let mut clock = Follower::new(Span::ZERO, Timestamp::from_micros(START_US));
        for s in 1..200 {
            clock.look(Span::from_secs(s), wall);
            clock.course().at(Span::from_secs(s + 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Until the next comparison a course knows the wall clock, however far it follows behind.
    #[test]
    fn a_course_knows_the_wall_clock(
        jumps in prop::collection::vec((-2 * HOUR_US..2 * HOUR_US, 0..200_u64), 1..8),
        passed_us in 0..LOOK.as_micros(),
    ) {
        let mut machine = Machine::new();
        for (by_us, stays_s) in jumps {
            machine.wall_jumps(by_us);
            machine.runs(Span::from_millis(500 + 1000 * stays_s));
            let read = Span::from_micros(machine.monotonic_us + passed_us);
            let expected = machine.wall().plus(Span::from_micros(passed_us));
            prop_assert_eq!(machine.clock.course().wall(read), expected);
        }
    }

    /// Between steps the clock runs at nine to eleven tenths of the speed. It goes back
    /// only in a step of more than ten minutes, and finally agrees with the wall clock.
    #[test]
    fn it_runs_evenly_and_arrives(
        jumps in prop::collection::vec(
            (prop_oneof![-2 * HOUR_US..2 * HOUR_US, -2_000_000..2_000_000_i64], 1..200_u64),
            0..12,
        ),
    ) {
        let mut machine = Machine::new();
        for (by_us, stays_s) in jumps {
            machine.wall_jumps(by_us);
            for _ in 0..stays_s * 2 {
                let before = machine.now();
                let steps = machine.clock.steps_back();
                machine.runs(Span::from_millis(500));
                let passed = machine.now().since(before);
                if machine.clock.steps_back() > steps {
                    prop_assert!(before.since(machine.now()) > Span::from_secs(599));
                } else {
                    prop_assert!(passed >= Span::from_millis(450), "{passed}");
                }
            }
        }
        machine.runs(Span::from_secs(6100));
        prop_assert_eq!(machine.now(), machine.wall());
    }

    #[test]
    fn what_it_shows_between_two_looks_only_goes_on(
        ahead_us in any::<i64>(),
        mut times_us in prop::collection::vec(0..10_000_000_000_u64, 2..20),
    ) {
        let course = Course { from: Span::SECOND, at: Timestamp::from_micros(START_US), ahead_us };
        times_us.sort_unstable();
        let shown: Vec<_> = times_us.iter().map(|&us| course.at(Span::from_micros(us))).collect();
        prop_assert!(shown.is_sorted());
    }
}
