//! Reading the file again. Only one that is good as a whole replaces what runs.

use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::fleet::Fleet;
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
    let Compiled { config, warnings, files } = match loaded {
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
    // At a start it may come later; here it would make good tokens bad.
    if config.client.token_keys().is_some_and(|keys| !keys.can_verify()) && fleet.verifies_tokens()
    {
        error!("not reloaded, the running configuration stays: the file of the key set is gone");
        return;
    }
    match fleet.reload(config).await {
        Ok(()) => info!(file = %watch.file().display(), "reloaded"),
        Err(error) => error!("not reloaded, the running configuration stays: {error}"),
    }
}
