//! Interim responses of an endpoint on their way to the client.

use std::sync::Arc;

use http::Response;

use crate::message::FieldFilter;
use crate::server::Interim;

/// Passes interim responses on to the client of one request.
#[derive(Debug)]
pub struct InterimRelay {
    interim: Interim,
    filter: Arc<FieldFilter>,
}

impl InterimRelay {
    /// To the client behind `interim`, with the fields that pass `filter`.
    pub fn new(interim: Interim, filter: &Arc<FieldFilter>) -> Self {
        Self { interim, filter: Arc::clone(filter) }
    }

    pub fn send(&self, response: &Response<()>) {
        let fields = self.filter.interim(response.headers().clone());
        self.interim.send(response.status(), &fields);
    }
}
