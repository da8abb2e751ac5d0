//! Reads a body before it is forwarded.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http_body::Frame;

use super::upload::Upload;
use crate::message::{Failure, FieldFilter};
use crate::server::{ClientBody, Demand};

/// Reads a body before it is forwarded, within the bounds of every upload: its size, and how slow
/// the client may be.
#[derive(Debug)]
pub struct BodyReader(Upload);

impl BodyReader {
    /// See [`RequestBody::new`](super::RequestBody::new).
    ///
    /// # Errors
    /// If the announced length exceeds `max_bytes`.
    pub fn new(
        incoming: ClientBody,
        max_bytes: Option<u64>,
        demand: Demand,
        filter: &Arc<FieldFilter>,
    ) -> Result<Self, Failure> {
        Upload::new(incoming, max_bytes, demand, filter).map(Self)
    }

    /// The next frame. None: the body has ended.
    pub async fn next(&mut self) -> Option<Result<Frame<Bytes>, Failure>> {
        poll_fn(|cx| self.0.poll_frame(cx)).await
    }

    /// The rest of the body.
    pub fn into_rest(self) -> ClientBody {
        self.0.into_incoming()
    }
}
