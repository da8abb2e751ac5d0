//! Publishes the figures of this node while one of the nodes watches.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate_core::time::Clock;
use tollgate_redis::ControlStore;

use super::record::Figures;
use crate::telemetry::{History, Metrics, TopHistory};

/// The time between two looks whether there is a watch.
const LOOK: Duration = Duration::from_secs(1);
/// The time after a publication until the next look. With that, it is two seconds.
const REST: Duration = Duration::from_secs(1);
/// The time in which all workers show the minute in progress, if they have not done so.
const FIRST_LOOK: Duration = Duration::from_millis(250);

/// What a node publishes, and where.
pub struct Publisher {
    /// The way to the other nodes.
    pub control: Rc<ControlStore>,
    /// All metrics.
    pub metrics: Arc<Metrics>,
    /// The heaviest clients of each policy.
    pub top: Arc<TopHistory>,
    /// The figures of the last minutes, which the admin listener keeps. None: there is no
    /// admin listener, and the figures begin with the watch.
    pub history: Option<Rc<History>>,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Publisher(..)")
    }
}

impl Publisher {
    /// Publishes while there is a watch, until the task is dropped.
    pub async fn publish(self) {
        let clock = Clock::System;
        let mut own: Option<History> = None;
        loop {
            sleep(LOOK).await;
            // While Redis is away nothing can be published. The links log the error.
            if !self.control.is_watched().await.unwrap_or(false) {
                own = None;
                continue;
            }
            if !self.top.read(clock.wall()) {
                sleep(FIRST_LOOK).await;
            }
            let history: &History = match &self.history {
                Some(kept) => kept,
                None => {
                    let totals = self.metrics.totals();
                    let history = own.get_or_insert_with(|| History::new(clock.now(), totals));
                    history.add(self.metrics.totals(), clock.now(), clock.wall());
                    history
                }
            };
            let figures = Figures::of(history, &self.top, clock.wall());
            let text = figures.encode(ControlStore::MAX_FIGURES_BYTES);
            // It is tried again, and until then the others list this node as missing.
            let _ = self.control.publish_figures(text.as_bytes()).await;
            sleep(REST).await;
        }
    }
}
