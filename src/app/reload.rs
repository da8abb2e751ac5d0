//! Reading the file again. Only one that is good as a whole replaces what runs.

use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::fleet::Fleet;
use super::key_set;
use super::watch::FileWatch;
use crate::config::{self, Compiled, LoadError, Report};

/// Reads the watched file again and gives the workers what it says. If that is nothing
/// that can run, the log says why, and everything stays as it is. If
/// the future is dropped, the workers have all of it or nothing.
pub(super) async fn reload(fleet: &mut Fleet, watch: &mut FileWatch) {
    let file = watch.file().to_owned();
    // Files can take their time, and the process has signals to look at meanwhile.
    let databases = fleet.geo_files();
    let loaded = spawn_blocking(move || config::load_again(&file, &databases)).await;
    let Compiled { mut config, warnings, files } = match loaded {
        Ok(Ok(compiled)) => compiled,
        Err(error) => return error!("not reloaded, the running configuration stays: {error}"),
        Ok(Err(error)) => {
            error!("not reloaded, the running configuration stays:\n{error}");
            // Whoever mends one of them need not touch the file that names it.
            if let LoadError::Mistakes { files, .. } = error {
                watch.follow(files);
            }
            return;
        }
    };
    if !Report::is_empty(&warnings) {
        warn!("the new configuration has warnings:\n{warnings}");
    }
    watch.follow(files);
    let (keys, first) = key_set::begin(&mut config, fleet.keys());
    first.ended().await;
    // At a start they may come later; here that would make good tokens bad.
    if config.client.token_keys().is_some_and(|keys| !keys.can_verify()) && fleet.verifies_tokens()
    {
        let what = if keys.is_some() { "cannot be had" } else { "is gone" };
        error!("not reloaded, the running configuration stays: the key set {what}");
        return;
    }
    match fleet.reload(config, keys).await {
        Ok(()) => info!(file = %watch.file().display(), "reloaded"),
        Err(error) => error!("not reloaded, the running configuration stays: {error}"),
    }
}
