//! Something that becomes true once and stays so, for the tasks of one thread that
//! wait for it.
//!
//! They go on in the order in which they came. A `watch` of tokio would wake them in
//! an order that it draws anew in each process, and the same seed would not make the
//! same run of the checker.

use std::cell::Cell;

use tokio::sync::Notify;

/// Closed until it is opened.
#[derive(Debug, Default)]
pub(super) struct Latch {
    is_open: Cell<bool>,
    opened: Notify,
}

impl Latch {
    /// Opens it, for good.
    pub(super) fn open(&self) {
        if !self.is_open.replace(true) {
            self.opened.notify_waiters();
        }
    }

    /// Returns when it is open.
    pub(super) async fn wait(&self) {
        if !self.is_open.get() {
            self.opened.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::{spawn_local, yield_now};

    use super::*;
    use crate::store::redis::testing::run;

    #[test]
    fn those_that_wait_go_on_in_their_order_and_later_ones_at_once() {
        run(async {
            let (latch, gone_on) = (Rc::new(Latch::default()), Rc::new(RefCell::new(Vec::new())));
            for number in 0..32 {
                let (latch, gone_on) = (Rc::clone(&latch), Rc::clone(&gone_on));
                spawn_local(async move {
                    latch.wait().await;
                    gone_on.borrow_mut().push(number);
                });
            }
            yield_now().await;
            assert!(gone_on.borrow().is_empty());
            latch.open();
            latch.wait().await;
            yield_now().await;
            assert_eq!(*gone_on.borrow(), (0..32).collect::<Vec<_>>());
        });
    }
}
