//! What rules judge.

use std::sync::Arc;

use tollgate_limiter::store::Standing;
use tollgate_limiter::time::Timestamp;

use super::window::Window;
use crate::admin::node::PutBy;
use crate::proxy::UpstreamShared;

/// What rules judge.
pub(super) struct Present<'p> {
    /// Why the last reload failed, and when.
    pub(super) failure: Option<&'p (Timestamp, String)>,
    /// The call that gave the configuration in use. None: it is that of the file.
    pub(super) origin: Option<&'p PutBy>,
    pub(super) upstreams: &'p [Arc<UpstreamShared>],
    pub(super) store: Option<&'p Standing>,
    pub(super) window: &'p Window,
}

impl Present<'_> {
    /// The time in seconds since the epoch.
    #[expect(clippy::cast_precision_loss, reason = "seconds are exact")]
    pub(super) fn now_s(&self) -> f64 {
        self.window.now().as_secs() as f64
    }
}
