//! Tells in the log whether the store of the API keys can be read, and which keys are both in the
//! store and in the file. The status and the metrics have the same.

mod duplicates;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::sleep;
use tollgate_core::store::keys::{KeyStorage, KeysAway, SharedKeys};
use tollgate_core::time::Clock;
use tracing::{info, warn};

use super::observed::Observed;

/// The interval of the looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks at the store until the tasks are dropped. Each change is told once.
pub fn watch(keys: SharedKeys, storage: Rc<dyn KeyStorage>, observed: Arc<Observed>) {
    spawn_local(watch_condition(keys.clone()));
    spawn_local(duplicates::watch(keys, storage, observed));
}

async fn watch_condition(keys: SharedKeys) {
    let mut told = None;
    loop {
        sleep(INTERVAL).await;
        let away = keys.away(Clock::System.now());
        if told != away {
            tell(away, keys.problem().as_deref());
            told = away;
        }
    }
}

fn tell(away: Option<KeysAway>, problem: Option<&str>) {
    match away {
        Some(away) => {
            warn!(cause = away.code(), error = problem, remedy = away.remedy(), "{}", away.text())
        }
        None => info!("the store of the API keys can be read again"),
    }
}
