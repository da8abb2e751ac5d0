//! Which fields of trailers and interim responses are passed on.

use std::sync::Arc;

use crate::message::FieldFilter;
use crate::snapshot::Snapshot;

/// The filters of all routes. Each worker has its own: bodies and the callback for
/// interim responses share them, and other workers need not know how often.
#[derive(Debug)]
pub(super) struct Filters {
    /// For the requests of all routes.
    pub(super) requests: Arc<FieldFilter>,
    /// For responses, by the route's index.
    responses: Box<[Arc<FieldFilter>]>,
}

impl Filters {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let unedited = Arc::default();
        let responses = snapshot.routes.iter().map(|handling| match &handling.changes {
            Some(changes) => Arc::new(FieldFilter::new(changes.response.names())),
            None => Arc::clone(&unedited),
        });
        Self {
            requests: Arc::new(FieldFilter::new(snapshot.rules.guarded_names())),
            responses: responses.collect(),
        }
    }

    /// For the responses of the route with this index.
    pub(super) fn responses(&self, route: usize) -> &Arc<FieldFilter> {
        &self.responses[route]
    }
}
