//! The filters for fields of trailers and interim responses.

use std::sync::Arc;

use http::HeaderName;

use crate::message::{CORS_FIELDS, FieldFilter};
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
        let responses = snapshot.routes.iter().map(|handling| {
            let edited = handling.changes.iter().flat_map(|changes| changes.response.names());
            let owned = handling.cors.iter().flat_map(|_| CORS_FIELDS.iter());
            let names: Vec<&HeaderName> = edited.chain(owned).collect();
            if names.is_empty() { Arc::clone(&unedited) } else { Arc::new(FieldFilter::new(names)) }
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
