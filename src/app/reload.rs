//! Reads the file again. A configuration with a mistake changes nothing.

use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::key_set;
use super::supervisor::Supervisor;
use super::watch::FileWatch;
use crate::config::{self, Compiled, LoadError, Report};

/// Reloads as [`apply`] does, and shows the result in the metrics.
pub(super) async fn reload(supervisor: &mut Supervisor, watch: &mut FileWatch) {
    let is_successful = apply(supervisor, watch).await;
    supervisor.reloaded(is_successful);
}

/// Reads the watched file again and applies it to the workers. If the new configuration
/// cannot run, the log says why, and nothing changes. If the future is dropped, the workers
/// have the whole new configuration or nothing of it. Returns whether the file is in use.
async fn apply(supervisor: &mut Supervisor, watch: &mut FileWatch) -> bool {
    let file = watch.file().to_owned();
    // Reading may take long, and the process handles signals meanwhile.
    let databases = supervisor.geo_files();
    let loaded = spawn_blocking(move || config::load_again(&file, &databases)).await;
    let Compiled { mut config, warnings, files } = match loaded {
        Ok(Ok(compiled)) => compiled,
        Err(error) => {
            error!("not reloaded, the running configuration stays: {error}");
            return false;
        }
        Ok(Err(error)) => {
            error!("not reloaded, the running configuration stays:\n{error}");
            // A corrected file is noticed even if the file that names it does not change.
            if let LoadError::Mistakes { files, .. } = error {
                watch.set_others(files);
            }
            return false;
        }
    };
    if !Report::is_empty(&warnings) {
        warn!("the new configuration has warnings:\n{warnings}");
    }
    watch.set_others(files);
    let (keys, first) = key_set::begin(&mut config, supervisor.keys());
    first.ended().await;
    // At a start the keys may arrive later. Here this would make valid tokens invalid.
    if config.client.token_keys().is_some_and(|keys| !keys.can_verify())
        && supervisor.verifies_tokens()
    {
        let what = if keys.is_some() { "cannot be fetched" } else { "is missing" };
        error!("not reloaded, the running configuration stays: the key set {what}");
        return false;
    }
    match supervisor.reload(config, keys).await {
        Ok(()) => info!(file = %watch.file().display(), "reloaded"),
        Err(error) => {
            error!("not reloaded, the running configuration stays: {error}");
            return false;
        }
    }
    true
}
