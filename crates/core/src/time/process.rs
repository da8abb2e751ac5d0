//! The clock of this process, shared by all its threads.
//!
//! Reading it takes no lock. The course is stored in atomics, and is read again if it was
//! changed meanwhile (a sequence lock, as in H.-J. Boehm, "Can seqlocks get along with
//! programming language memory models?"). The first thread that reads the clock after
//! [`LOOK`] compares it with the wall clock.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};
use std::time::Instant;

use parking_lot::Mutex;

use super::follower::{Course, Follower};
use super::system::{monotonic, wall};
use super::{Moment, Span, Timestamp};

/// The time until the clock is compared with the wall clock again.
const LOOK: Span = Span::from_millis(100);

/// The longest time between the readings of both clocks.
const LONGEST_READ: Span = Span::MILLISECOND;

static PROCESS: LazyLock<ProcessClock> = LazyLock::new(ProcessClock::start);

/// The current time for decisions.
pub(super) fn now() -> Timestamp {
    PROCESS.moment().now
}

/// The current moment.
pub(super) fn moment() -> Moment {
    PROCESS.moment()
}

struct ProcessClock {
    start: Instant,
    follower: Mutex<Follower>,
    course: Published,
}

impl ProcessClock {
    fn start() -> Self {
        let follower = Follower::new(Span::ZERO, wall());
        let course = Published::new(follower.course());
        Self { start: monotonic(), follower: Mutex::new(follower), course }
    }

    fn moment(&self) -> Moment {
        let monotonic = monotonic();
        let passed = self.passed(monotonic);
        let course = self.course(passed);
        Moment { now: course.at(passed), wall: course.wall(passed), monotonic }
    }

    /// How long the clock has run at this time.
    fn passed(&self, at: Instant) -> Span {
        Span::from(at.duration_since(self.start))
    }

    /// The course after this time.
    fn course(&self, passed: Span) -> Course {
        let course = self.course.read();
        if passed.as_micros() < course.from.as_micros().saturating_add(LOOK.as_micros()) {
            return course;
        }
        // One thread makes the comparison. The others use the present course.
        if let Some(mut follower) = self.follower.try_lock() {
            if follower.course() == course {
                let wall = wall();
                let read = self.passed(monotonic());
                // If the thread was suspended between the readings, it would find a difference
                // that does not exist.
                if read.as_micros() - passed.as_micros() < LONGEST_READ.as_micros() {
                    follower.look(passed, wall);
                    self.course.write(follower.course());
                    return follower.course();
                }
            }
        }
        course
    }
}

/// A course that one thread writes and all threads read.
#[derive(Debug)]
struct Published {
    /// Odd while a thread writes.
    version: AtomicU64,
    from_us: AtomicU64,
    at_us: AtomicU64,
    ahead_us: AtomicI64,
}

impl Published {
    const fn new(Course { from, at, ahead_us }: Course) -> Self {
        Self {
            version: AtomicU64::new(0),
            from_us: AtomicU64::new(from.as_micros()),
            at_us: AtomicU64::new(at.as_micros()),
            ahead_us: AtomicI64::new(ahead_us),
        }
    }

    fn read(&self) -> Course {
        loop {
            let before = self.version.load(Ordering::Acquire);
            let course = Course {
                from: Span::from_micros(self.from_us.load(Ordering::Relaxed)),
                at: Timestamp::from_micros(self.at_us.load(Ordering::Relaxed)),
                ahead_us: self.ahead_us.load(Ordering::Relaxed),
            };
            fence(Ordering::Acquire);
            if before % 2 == 0 && self.version.load(Ordering::Relaxed) == before {
                return course;
            }
            std::hint::spin_loop();
        }
    }

    /// Must be called by one thread at a time.
    fn write(&self, Course { from, at, ahead_us }: Course) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.from_us.store(from.as_micros(), Ordering::Relaxed);
        self.at_us.store(at.as_micros(), Ordering::Relaxed);
        self.ahead_us.store(ahead_us, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn threads_never_read_a_partly_written_course() {
        let course = |n: u64| Course {
            from: Span::from_micros(n),
            at: Timestamp::from_micros(3 * n),
            ahead_us: -n.cast_signed(),
        };
        let published = Published::new(course(0));
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !ended.load(Ordering::Relaxed) {
                        let read = published.read();
                        let n = read.from.as_micros();
                        assert_eq!(read, course(n));
                        assert!(n >= last);
                        last = n;
                    }
                });
            }
            (1..200_000).for_each(|n| published.write(course(n)));
            ended.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn it_never_goes_back_and_is_the_wall_clock() {
        let first = now();
        let mut last = first;
        while last.since(first) < Span::from_millis(250) {
            let next = now();
            assert!(next >= last);
            last = next;
        }
        // This fails only if the clock of the machine is set at the same time.
        let off = wall().since(last).max(last.since(wall()));
        assert!(off < Span::SECOND, "{off}");
    }
}
