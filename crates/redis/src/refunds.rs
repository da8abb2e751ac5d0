//! The refunds of one node, which its workers share, and what the log has of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tracing::warn;

use tollgate_core::digest::Key;
use tollgate_core::time::{Timestamp, monotonic};

use crate::StoreError;
use crate::shared::fallback::ServerStatus;
use crate::shared::refunds::{MAX_REFUNDS, Refund, Refunds};
use crate::throttle::Throttle;

/// All refunds behind a lock.
#[derive(Debug, Default)]
pub(super) struct SharedRefunds {
    all: Mutex<(Refunds, Warnings)>,
    /// The number of refunds that wait. It is read without the lock.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Warnings {
    of_doubts: Throttle,
    of_drops: Throttle,
}

impl SharedRefunds {
    fn with<T>(&self, step: impl FnOnce(&mut Refunds, &mut Warnings) -> T) -> T {
        let mut all = self.all.lock();
        let (refunds, warnings) = &mut *all;
        let done = step(refunds, warnings);
        self.waiting.store(refunds.waiting(), Ordering::Relaxed);
        done
    }

    /// The number of refunds that wait. It takes no lock.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// See [`Refunds::take`].
    pub(super) fn take(
        &self,
        most: usize,
        now: Timestamp,
        status: impl Fn(&Key) -> ServerStatus,
    ) -> Vec<Refund> {
        self.with(|it, _| it.take(most, now, status))
    }

    /// See [`Refunds::ended`].
    pub(super) fn ended(&self) {
        self.with(|it, _| it.ended());
    }

    /// Records that the store has not confirmed a refund, for this reason. It is sent again, if
    /// the store has certainly not given the units back.
    pub(super) fn failed(&self, refund: Refund, error: &StoreError, now: Timestamp) {
        let units = refund.units;
        self.with(|it, warnings| {
            let cause = error.cause().code();
            if error.may_have_counted() {
                it.doubt(units);
                if warnings.of_doubts.passes(monotonic()) {
                    warn!(
                        units, cause, %error,
                        remedy = "see the line about the server; the units are free when their \
                                  window ends",
                        "it is not known whether Redis has given units back; they are not given \
                         back again, and may stay charged"
                    );
                }
            } else if !it.keep(refund, now) && warnings.of_drops.passes(monotonic()) {
                warn!(
                    units, cause, %error, waiting = MAX_REFUNDS,
                    remedy = "see the line about the server; the units are free when their \
                              window ends",
                    "too many units wait to be given back to Redis; further ones stay charged"
                );
            }
        });
    }

    /// See [`Refunds::units_kept`].
    pub(super) fn units_kept(&self) -> [u64; 2] {
        self.all.lock().0.units_kept()
    }
}
