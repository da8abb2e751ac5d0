//! What rules judge.

use std::sync::Arc;

use tollgate_core::store::Standing;
use tollgate_core::time::Timestamp;

use super::window::Window;
use crate::admin::node::PutBy;
use crate::platform::OtherListener;
use crate::proxy::UpstreamShared;
use crate::telemetry::Forwarder;

/// What the gateway knows of the world around it.
#[derive(Debug, Default)]
pub struct Known {
    /// The store, if nodes share one.
    pub store: Option<Standing>,
    /// Peers that name several clients and are not trusted.
    pub forwarders: Vec<Forwarder>,
    /// Other processes that listen on an address of this one.
    pub other_listeners: Arc<[OtherListener]>,
}

/// What rules judge.
pub struct Present<'p> {
    /// Why the last reload failed, and when.
    pub failure: Option<&'p (Timestamp, String)>,
    /// The call that gave the configuration in use. None: it is that of the file.
    pub origin: Option<&'p PutBy>,
    pub upstreams: &'p [Arc<UpstreamShared>],
    pub known: &'p Known,
    pub window: &'p Window,
}

impl Present<'_> {
    /// The time in seconds since the epoch.
    #[expect(clippy::cast_precision_loss, reason = "seconds are exact")]
    pub fn now_s(&self) -> f64 {
        self.window.now().as_secs() as f64
    }
}
