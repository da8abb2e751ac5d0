//! How many idle connections a pool keeps.
//!
//! A pool without a configured number follows its use. It keeps all connections that were used
//! within the last seconds, because the same number of requests may come again, and a new
//! connection costs several times as much as a request. The connections of a pool above
//! [`KEPT`] take room that all pools of a worker share, so that many endpoints together do not
//! use up memory and open files.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Idle connections that a pool keeps until their idle timeout.
pub const KEPT: usize = 256;
/// How long an idle connection above that number is kept without use.
pub const SURPLUS_TIMEOUT: Duration = Duration::from_secs(5);

/// The room of a worker for idle connections above [`KEPT`] in all of its pools.
#[derive(Debug)]
pub struct IdleRoom {
    left: Cell<usize>,
    /// Whether the process lately had no file descriptor for a connection.
    is_exhausted: Cell<bool>,
}

impl IdleRoom {
    /// Room for so many connections.
    pub fn new(connections: usize) -> Rc<Self> {
        Rc::new(Self { left: Cell::new(connections), is_exhausted: Cell::new(false) })
    }

    /// Whether connections above [`KEPT`] are closed at once: their file descriptors are needed.
    pub fn set_exhausted(&self, is_exhausted: bool) {
        self.is_exhausted.set(is_exhausted);
    }
}

/// How many idle connections a pool keeps.
#[derive(Debug)]
pub enum IdleBound {
    /// At most this number.
    Fixed(usize),
    /// As many as were used lately.
    Following(Share),
}

/// What a pool has taken of the room of its worker. It is given back when this value is dropped.
#[derive(Debug)]
pub struct Share {
    room: Rc<IdleRoom>,
    taken: Cell<usize>,
}

impl IdleBound {
    /// The configured number, or the use.
    pub fn new(configured: Option<usize>, room: &Rc<IdleRoom>) -> Self {
        match configured {
            Some(number) => Self::Fixed(number),
            None => Self::Following(Share { room: Rc::clone(room), taken: Cell::new(0) }),
        }
    }

    /// The pool has `count` connections from now on. Returns false if it may not have so many.
    pub fn resize(&self, count: usize) -> bool {
        match self {
            Self::Fixed(most) => count <= *most,
            Self::Following(share) => share.resize(count.saturating_sub(KEPT)),
        }
    }

    /// How long the oldest of `count` connections is kept without use, if that is shorter than the
    /// idle timeout.
    pub fn surplus_timeout(&self, count: usize) -> Option<Duration> {
        match self {
            Self::Following(share) if count > KEPT => {
                let is_exhausted = share.room.is_exhausted.get();
                Some(if is_exhausted { Duration::ZERO } else { SURPLUS_TIMEOUT })
            }
            _ => None,
        }
    }
}

impl Share {
    fn resize(&self, wanted: usize) -> bool {
        let available = self.room.left.get() + self.taken.get();
        let is_enough = wanted <= available;
        if is_enough {
            self.room.left.set(available - wanted);
            self.taken.set(wanted);
        }
        is_enough
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_number_is_a_bound_of_its_own() {
        let room = IdleRoom::new(0);
        let bound = IdleBound::new(Some(300), &room);
        assert!(bound.resize(300) && !bound.resize(301));
        assert_eq!(bound.surplus_timeout(300), None);
    }

    #[test]
    fn pools_that_follow_their_use_share_the_room_above_what_each_may_keep() {
        let room = IdleRoom::new(100);
        let [first, second] = [(); 2].map(|()| IdleBound::new(None, &room));
        assert!(first.resize(KEPT + 70) && second.resize(KEPT + 30));
        assert!(!first.resize(KEPT + 71) && !second.resize(KEPT + 31));
        assert!(first.resize(KEPT - 1) && second.resize(KEPT + 100));
        assert!(first.resize(KEPT) && !first.resize(KEPT + 1));
        drop(second);
        assert!(first.resize(KEPT + 100));
        assert_eq!(first.surplus_timeout(KEPT), None);
        assert_eq!(first.surplus_timeout(KEPT + 1), Some(SURPLUS_TIMEOUT));
        room.set_exhausted(true);
        assert_eq!(first.surplus_timeout(KEPT), None);
        assert_eq!(first.surplus_timeout(KEPT + 1), Some(Duration::ZERO));
    }
}
