//! An event that happens once, for the tasks of one thread that wait for it.
//!
//! The tasks resume in the order in which they began to wait. A `watch` of tokio wakes
//! tasks in a random order, so a seed of the checker would not reproduce its run.

use std::cell::Cell;

use tokio::sync::Notify;

/// An event. It has not happened until it is set, and is never unset.
#[derive(Debug, Default)]
pub(super) struct OnceEvent {
    is_set: Cell<bool>,
    waiters: Notify,
}

impl OnceEvent {
    /// Sets the event and wakes all tasks that wait for it.
    pub(super) fn set(&self) {
        if !self.is_set.replace(true) {
            self.waiters.notify_waiters();
        }
    }

    /// Returns when the event is set.
    pub(super) async fn wait(&self) {
        if !self.is_set.get() {
            self.waiters.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::{spawn_local, yield_now};

    use super::*;
    use crate::testing::run;

    #[test]
    fn waiting_tasks_resume_in_their_order_and_later_tasks_do_not_wait() {
        run(async {
            let event = Rc::new(OnceEvent::default());
            let resumed = Rc::new(RefCell::new(Vec::new()));
            for number in 0..32 {
                let event = Rc::clone(&event);
                let resumed = Rc::clone(&resumed);
                spawn_local(async move {
                    event.wait().await;
                    resumed.borrow_mut().push(number);
                });
            }
            yield_now().await;
            assert!(resumed.borrow().is_empty());
            event.set();
            event.wait().await;
            yield_now().await;
            assert_eq!(*resumed.borrow(), (0..32).collect::<Vec<_>>());
        });
    }
}
