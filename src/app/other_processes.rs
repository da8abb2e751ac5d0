//! Tells in the log that another process listens on an address of this one. The system then gives
//! connections to both. One process takes over from another in this way; a forgotten one decides by
//! another configuration, and the gateway sees no error.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{info, warn};

use super::observed::Observed;
use crate::platform::{OtherListener, OtherListeners};

/// The interval of the looks.
const INTERVAL: Duration = Duration::from_secs(5);

/// Looks for other processes until the task is dropped. The first look is at once.
pub async fn watch(observed: Arc<Observed>) {
    let mut looks = OtherListeners::default();
    let mut known = Arc::<[OtherListener]>::default();
    loop {
        let own = observed.own_sockets();
        // To find the process of a new socket takes a look at all processes.
        let looked = spawn_blocking(move || {
            let found = looks.look(&own);
            (looks, found)
        });
        // It panics never, and is not dropped as long as this task runs.
        let Ok((again, found)) = looked.await else { return };
        looks = again;
        tell(&known, &found);
        known = found.into();
        observed.set_other_listeners(Arc::clone(&known));
        sleep(INTERVAL).await;
    }
}

/// Tells what has begun, and what has ended.
fn tell(known: &[OtherListener], found: &[OtherListener]) {
    for other in found.iter().filter(|it| !known.contains(it)) {
        warn!(
            "{other}; that is expected while one process takes over from the other, otherwise stop \
             one of them"
        );
    }
    for other in known.iter().filter(|it| !found.contains(it)) {
        info!(address = %other.address, "ended: {other}");
    }
}
