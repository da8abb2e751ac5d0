//! Reads the file again. A configuration with a mistake changes nothing.

use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::admin::AdminListener;
use super::key_set;
use super::supervisor::Supervisor;
use super::watch::FileWatch;
use crate::config::{self, Compiled, LoadError, Report};

/// Reads the watched file again and applies it to the workers and the admin listener. If the
/// new configuration cannot run, the log says why, and nothing changes. If the future is
/// dropped, the workers have the whole new configuration or nothing of it.
pub(super) async fn reload(
    supervisor: &mut Supervisor,
    watch: &mut FileWatch,
    admin: Option<&mut AdminListener>,
) {
    let result = apply(supervisor, watch, admin.as_deref()).await;
    supervisor.reloaded(result.is_ok());
    match result {
        Ok(()) => info!(file = %watch.file().display(), "reloaded"),
        Err(why) => {
            // The report of mistakes has lines of its own.
            let separator = if why.contains('\n') { '\n' } else { ' ' };
            error!("not reloaded, the running configuration stays:{separator}{why}");
            if let Some(admin) = admin {
                admin.reload_failed(why);
            }
        }
    }
}

/// The error says why the new configuration cannot run.
async fn apply(
    supervisor: &mut Supervisor,
    watch: &mut FileWatch,
    admin: Option<&AdminListener>,
) -> Result<(), String> {
    let file = watch.file().to_owned();
    // Reading may take long, and the process handles signals meanwhile.
    let databases = supervisor.geo_files();
    let loaded = spawn_blocking(move || config::load_again(&file, &databases)).await;
    let loaded = loaded.map_err(|error| error.to_string())?;
    let Compiled { mut config, warnings, files, document } = loaded.map_err(|error| {
        let why = error.to_string();
        // A corrected file is noticed even if the file that names it does not change.
        if let LoadError::Mistakes { files, .. } = error {
            watch.set_others(files);
        }
        why
    })?;
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
        return Err(format!("the key set {what}"));
    }
    let settings = config.admin.take();
    supervisor.reload(config, keys).await.map_err(|error| error.to_string())?;
    match admin {
        Some(admin) => admin.reloaded(settings, supervisor.snapshot(), document),
        None if settings.is_some() => {
            warn!("admin: changed in the file, but the change needs a restart");
        }
        None => {}
    }
    Ok(())
}
