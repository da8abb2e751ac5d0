//! Applies other configurations: the file when it has changed, and texts that operators put in
//! its place. A configuration with a mistake changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::admin::AdminListener;
use super::key_set;
use super::supervisor::Supervisor;
use super::watch::{Changed, FileWatch};
use crate::admin::PutBy;
use crate::config::{self, Compiled, LoadError, Report};

/// The configuration in use, and where it comes from.
pub(super) struct Loaded {
    pub(super) watch: FileWatch,
    /// The text in use.
    pub(super) text: Arc<str>,
    /// What was tried last. It is tried again when a file changes that it names.
    pub(super) tried: Source,
}

/// Where a configuration comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The file.
    File,
    /// A call, with this text.
    Call(Arc<str>, PutBy),
}

impl Loaded {
    /// The configuration with this text, which was read from `file` and `others`.
    pub(super) fn new(file: &Path, others: Vec<PathBuf>, text: Arc<str>) -> Self {
        Self { watch: FileWatch::new(file, others), text, tried: Source::File }
    }

    /// Returns when a file has changed, with what is to be applied. A changed configuration file
    /// replaces what a call gave.
    pub(super) async fn changed(&mut self) -> Source {
        match self.watch.changed().await {
            Changed::File => Source::File,
            Changed::Others => self.tried.clone(),
        }
    }
}

/// Reads the configuration again and applies it to the workers and the admin listener. If it
/// cannot run, the log says why, and nothing changes. If the future is dropped, the workers have
/// the whole new configuration or nothing of it.
pub(super) async fn reload(
    supervisor: &mut Supervisor,
    loaded: &mut Loaded,
    admin: Option<&mut AdminListener>,
    source: Source,
) {
    loaded.tried = source.clone();
    let result = match load(supervisor, loaded, &source).await {
        Ok(compiled) => apply(supervisor, loaded, admin.as_deref(), compiled, source).await,
        Err(why) => Err(why),
    };
    supervisor.reloaded(result.is_ok());
    match result {
        Ok(_) => info!(file = %loaded.watch.file().display(), "reloaded"),
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

/// Compiles what is to run. The error says why it cannot.
async fn load(
    supervisor: &Supervisor,
    loaded: &mut Loaded,
    source: &Source,
) -> Result<Compiled, String> {
    let file = loaded.watch.file().to_owned();
    // Reading may take long, and the process handles signals meanwhile.
    let (databases, source) = (supervisor.geo_files(), source.clone());
    let compiled = spawn_blocking(move || match source {
        Source::File => config::load_again(&file, &databases),
        Source::Call(text, _) => config::load_text(&text, &file, &databases),
    });
    let compiled = compiled.await.map_err(|error| error.to_string())?;
    // A corrected file is noticed even if the file that names it does not change.
    match compiled {
        Ok(compiled) => {
            loaded.watch.set_others(compiled.files.clone());
            Ok(compiled)
        }
        Err(error) => {
            let why = error.to_string();
            if let LoadError::Mistakes { files, .. } = error {
                loaded.watch.set_others(files);
            }
            Err(why)
        }
    }
}

/// Runs a configuration, and returns the names of changes that need a restart. The error says why
/// it cannot run.
pub(super) async fn apply(
    supervisor: &mut Supervisor,
    loaded: &mut Loaded,
    admin: Option<&AdminListener>,
    compiled: Compiled,
    source: Source,
) -> Result<Vec<&'static str>, String> {
    let Compiled { mut config, warnings, files, document } = compiled;
    if !Report::is_empty(&warnings) {
        warn!("the new configuration has warnings:\n{warnings}");
    }
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
    let needs_restart = supervisor.reload(config, keys).await.map_err(|error| error.to_string())?;
    supervisor.set_from_file(matches!(source, Source::File));
    loaded.watch.set_others(files);
    loaded.text = Arc::clone(&document.text);
    loaded.tried = source.clone();
    let origin = match source {
        Source::File => None,
        Source::Call(_, by) => Some(by),
    };
    match admin {
        Some(admin) => {
            Ok(admin.reloaded(settings, supervisor.snapshot(), document, origin, needs_restart))
        }
        None => {
            if settings.is_some() {
                warn!("admin: changed in the file, but the change needs a restart");
            }
            Ok(needs_restart)
        }
    }
}
