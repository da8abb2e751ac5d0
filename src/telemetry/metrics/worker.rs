//! The series of one worker, and the bound on the series of the process.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::time::monotonic;

use super::cell::{Cells, Counter, Histogram};
use super::family::{Bounds, Family, Kind};
use super::latest::Latest;
use crate::telemetry::warnings::Warnings;

/// The value of the labels that others choose, in the series that counts for those without
/// room. Of a status it is the class.
const OVERFLOW: &str = "_overflow";
/// The label of a status.
const STATUS: &str = "http_response_status_code";

/// The name of a metric and the values of its labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId {
    pub name: &'static str,
    pub labels: Box<[Box<str>]>,
}

impl SeriesId {
    pub fn new(family: &Family, labels: &[&str]) -> Self {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        Self { name: family.name, labels: labels.iter().map(|label| (*label).into()).collect() }
    }
}

/// One series of one worker.
#[derive(Debug)]
pub struct Series {
    pub id: SeriesId,
    pub family: &'static Family,
    pub cells: Arc<Cells>,
}

/// The series of the process with labels whose values others choose, such as the method of a
/// request and the status of an upstream. It bounds them. Other series are not among them: the
/// configuration bounds these, and no client takes their room.
#[derive(Debug)]
pub struct KnownSeries {
    max: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    ids: HashSet<SeriesId>,
    /// Whether a series had no room.
    is_full: bool,
    warnings: Warnings,
}

impl KnownSeries {
    pub fn new(max: usize) -> Self {
        Self { max, known: Mutex::default() }
    }

    /// Whether a series had no room.
    pub fn is_full(&self) -> bool {
        self.known.lock().is_full
    }

    /// The series of this metric under which to count: this one, or the one for the overflow.
    fn admit(&self, family: &Family, id: SeriesId) -> SeriesId {
        if family.chosen.is_empty() {
            return id;
        }
        let mut known = self.known.lock();
        if known.ids.contains(&id) {
            return id;
        }
        if known.ids.len() < self.max {
            known.ids.insert(id.clone());
            return id;
        }
        known.is_full = true;
        let warns = known.warnings.is_due(monotonic());
        drop(known);
        if warns {
            tracing::warn!(
                metric = family.name,
                max_series = self.max,
                remedy = "raise telemetry.metrics.max_series, and restart",
                "there is no room for more series of metrics: requests count in series with _overflow"
            );
        }
        overflow(family, &id)
    }
}

/// The series that counts for this one, without the values that others choose. It is one of
/// few: of a status the class stays, and an empty value stays.
fn overflow(family: &Family, id: &SeriesId) -> SeriesId {
    let of_label = |name: &str, value: &str| match value.chars().next() {
        Some(first) if name == STATUS => format!("{first}xx").into(),
        Some(_) if family.chosen.contains(&name) => OVERFLOW.into(),
        _ => value.into(),
    };
    let labels = family.labels.iter().zip(&id.labels);
    SeriesId { name: id.name, labels: labels.map(|(name, value)| of_label(name, value)).collect() }
}

/// The series of one worker, which the scrape reads. They stay when the worker ends.
#[derive(Debug, Default)]
pub struct WorkerSeries(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_id: HashMap<SeriesId, Arc<Cells>>,
    all: Vec<Arc<Series>>,
}

impl WorkerSeries {
    /// All series. The lock is held for the copy of a list only.
    pub fn all(&self) -> Vec<Arc<Series>> {
        self.0.lock().all.clone()
    }

    fn cells(&self, family: &'static Family, labels: &[&str], known: &KnownSeries) -> Arc<Cells> {
        let id = SeriesId::new(family, labels);
        if let Some(cells) = self.0.lock().by_id.get(&id) {
            return Arc::clone(cells);
        }
        let id = known.admit(family, id);
        let mut entries = self.0.lock();
        if let Some(cells) = entries.by_id.get(&id) {
            return Arc::clone(cells);
        }
        let numbers = match family.kind {
            Kind::Counter { .. } | Kind::Gauge => 1,
            Kind::Histogram(bounds) => bounds.upper.len() + 2,
        };
        let cells = Arc::new(Cells::new(numbers));
        entries.by_id.insert(id.clone(), Arc::clone(&cells));
        entries.all.push(Arc::new(Series { id, family, cells: Arc::clone(&cells) }));
        cells
    }
}

/// A worker's access to its series. It belongs to one thread, and is neither cloned nor
/// shared: a cell has one writer.
#[derive(Debug)]
pub struct WorkerMetrics {
    series: Arc<WorkerSeries>,
    known: Arc<KnownSeries>,
    latest: Arc<Latest>,
    _of_one_thread: PhantomData<Cell<()>>,
}

impl WorkerMetrics {
    pub fn new(series: Arc<WorkerSeries>, known: Arc<KnownSeries>, latest: Arc<Latest>) -> Self {
        Self { series, known, latest, _of_one_thread: PhantomData }
    }

    /// Sets a gauge whose last value holds, whichever worker sets it; None removes it.
    pub fn set_latest(&self, family: &'static Family, label: &str, value: Option<f64>) {
        match value {
            Some(value) => self.latest.set(family, label, value),
            None => self.latest.remove(family, label),
        }
    }

    /// The series of a counter or a gauge with these values of its labels. This allocates:
    /// the caller keeps the result.
    pub fn counter(&self, family: &'static Family, labels: &[&str]) -> Counter {
        Counter::new(self.series.cells(family, labels, &self.known))
    }

    /// The same of a histogram.
    pub fn histogram(&self, family: &'static Family, labels: &[&str]) -> Histogram {
        const NONE: Bounds = Bounds { upper: &[], per_unit: 1 };
        let bounds = match family.kind {
            Kind::Histogram(bounds) => bounds,
            Kind::Counter { .. } | Kind::Gauge => NONE,
        };
        Histogram::new(self.series.cells(family, labels, &self.known), bounds)
    }
}
