//! The filters for fields of trailers and interim responses.

use std::sync::Arc;

use crate::message::FieldFilter;
use crate::snapshot::Snapshot;

/// The filters of all routes. Each worker has its own copy, so that the reference counts
/// are not shared with other workers.
#[derive(Debug)]
pub struct Filters {
    /// The filter for requests of all routes.
    pub requests: Arc<FieldFilter>,
    /// The filters for responses, by the route's index.
    responses: Box<[Arc<FieldFilter>]>,
}

impl Filters {
    pub fn new(snapshot: &Snapshot) -> Self {
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

    /// The filter for responses of the route with this index.
    pub fn responses(&self, route: usize) -> &Arc<FieldFilter> {
        &self.responses[route]
    }
}
