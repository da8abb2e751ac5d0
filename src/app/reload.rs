//! Applies other configurations: the file when it has changed, and texts that operators put in
//! its place. A configuration with a mistake changes nothing.

use std::sync::Arc;
use std::time::Duration;

use tracing::{error, info, warn};

use super::admin::AdminListener;
use super::file_work::{FileWork, Unfinished};
use super::key_set;
use super::shown_config::problems;
use super::supervisor::{Prepared, Supervisor};
use super::watch::{Changed, FileWatch};
use crate::admin::{AdminSettings, ConfigProblem, PutBy, Replaced};
use crate::config::{self, Compiled, Document, LoadError, Mistakes, NamedFile, Report, Variables};

/// How long reading the files of a configuration may take. A database of locations with some hundred
/// megabytes takes some seconds.
const READ_LIMIT: Duration = Duration::from_secs(15);

/// The configuration in use, and where it comes from.
pub struct Loaded {
    pub watch: FileWatch,
    pub work: FileWork,
    /// The text in use.
    pub text: Arc<str>,
    /// The text that was in use from the file last.
    pub file_text: Arc<str>,
    /// The text and the variables of a configuration that is in no file.
    given: Option<(Arc<str>, Arc<Variables>)>,
    /// What was tried last. It is tried again when a file changes that it names.
    pub tried: Source,
}

/// Where a configuration comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The file, or the text that stands in its place.
    File,
    /// A call, with this text.
    Call(Arc<str>, PutBy),
}

/// Why a configuration does not run.
#[derive(Debug)]
pub struct NotReloaded {
    /// The reason, in lines.
    pub why: String,
    /// The mistakes of the configuration, if these are the reason.
    pub problems: Vec<ConfigProblem>,
}

impl From<String> for NotReloaded {
    fn from(why: String) -> Self {
        Self { why, problems: Vec::new() }
    }
}

/// What the files demand.
#[derive(Debug)]
pub enum Demand {
    /// This is to be applied.
    Apply(Source),
    /// Changes of files are not noticed, for this reason.
    Report(String),
}

impl Loaded {
    /// The configuration with this text, which was read from `file` and `others`.
    pub fn new(
        file: NamedFile,
        others: Vec<NamedFile>,
        text: Arc<str>,
        given: Option<Arc<Variables>>,
    ) -> Self {
        let watch = FileWatch::new(file, others);
        let work = FileWork::default();
        let given = given.map(|variables| (Arc::clone(&text), variables));
        let file_text = Arc::clone(&text);
        Self { watch, work, text, file_text, given, tried: Source::File }
    }

    /// Returns when a file has changed, or does not answer. A changed configuration file replaces
    /// what a call gave.
    pub async fn changed(&mut self) -> Demand {
        let changed = tokio::select! {
            changed = self.watch.changed() => changed,
            // Files that were read too slowly, or did not answer, have been read.
            () = self.work.late_end() => Changed::Others,
        };
        match changed {
            Changed::File => Demand::Apply(Source::File),
            Changed::Others => Demand::Apply(self.tried.clone()),
            Changed::Silent(path) => Demand::Report(format!(
                "the file {} does not answer, so changes of files are noticed late or not at all: \
                 see whether its file system is there; the signal HUP reads the configuration",
                path.display()
            )),
        }
    }
}

/// Reads the configuration again and applies it to the workers and the admin listener. If it
/// cannot run, the log says why, and nothing changes. If the future is dropped, the workers have
/// the whole new configuration or nothing of it. What is returned has no documents.
pub async fn reload(
    supervisor: &mut Supervisor,
    loaded: &mut Loaded,
    admin: Option<&AdminListener>,
    source: Source,
) -> Result<Replaced, NotReloaded> {
    loaded.tried = source.clone();
    let result = load_and_apply(supervisor, loaded, admin, source).await;
    match &result {
        Ok(_) => {
            supervisor.reloaded(true);
            info!(file = %loaded.watch.file().display(), "reloaded");
        }
        Err(NotReloaded { why, .. }) => failed(supervisor, admin, why.clone()),
    }
    result
}

async fn load_and_apply(
    supervisor: &mut Supervisor,
    loaded: &mut Loaded,
    admin: Option<&AdminListener>,
    source: Source,
) -> Result<Replaced, NotReloaded> {
    let compiled = load(supervisor, loaded, &source).await?;
    let warnings = problems(&compiled.warnings);
    let ready = prepare(supervisor, compiled).await?;
    let needs_restart = apply(supervisor, loaded, admin, ready, source).await;
    Ok(Replaced { needs_restart, warnings, ..Replaced::default() })
}

/// Reports that the files are not in use, for the reason `why`.
pub fn failed(supervisor: &Supervisor, admin: Option<&AdminListener>, why: String) {
    supervisor.reloaded(false);
    // The report of mistakes has lines of its own.
    let separator = if why.contains('\n') { '\n' } else { ' ' };
    error!("not reloaded, the running configuration stays:{separator}{why}");
    if let Some(admin) = admin {
        admin.reload_failed(why);
    }
}

/// Compiles what is to run. The error says why it cannot.
async fn load(
    supervisor: &Supervisor,
    loaded: &mut Loaded,
    source: &Source,
) -> Result<Compiled, NotReloaded> {
    let file = loaded.watch.file().to_owned();
    let held = supervisor.held_files();
    let source = source.clone();
    let given = loaded.given.clone();
    let compiled = loaded.work.run(READ_LIMIT, move |progress| match source {
        Source::File => match given {
            None => config::load_again(&file, &held, progress),
            Some((text, variables)) => {
                let name = file.to_string_lossy();
                Ok(config::load_given(&text, &name, &variables, &held, progress)?)
            }
        },
        Source::Call(text, _) => Ok(config::load_text(&text, &file, &held, progress)?),
    });
    let compiled = compiled.await.map_err(|unfinished| match unfinished {
        Unfinished::Late(..) => format!("{unfinished}; it is tried again when the file answers"),
        _ => unfinished.to_string(),
    })?;
    // A corrected file is noticed even if the file that names it does not change.
    match compiled {
        Ok(compiled) => {
            loaded.watch.set_others(compiled.files.clone());
            Ok(compiled)
        }
        Err(error) => {
            let why = error.to_string();
            let LoadError::Mistakes(Mistakes { report, files }) = error else {
                return Err(why.into());
            };
            loaded.watch.set_others(files);
            Err(NotReloaded { why, problems: problems(&report) })
        }
    }
}

/// A configuration that can run. If it is dropped, nothing has changed.
pub struct Ready {
    prepared: Prepared,
    admin: Option<AdminSettings>,
    /// The files that it names.
    files: Vec<NamedFile>,
    document: Document,
}

/// Does all that can fail before a configuration runs. The error says why it cannot run.
pub async fn prepare(supervisor: &Supervisor, compiled: Compiled) -> Result<Ready, String> {
    let Compiled { mut config, warnings, files, document, .. } = compiled;
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
    let admin = config.admin.take();
    let prepared = supervisor.prepare(config, keys).await.map_err(|error| error.to_string())?;
    Ok(Ready { prepared, admin, files, document })
}

/// Runs a configuration, and returns the names of changes that need a restart.
pub async fn apply(
    supervisor: &mut Supervisor,
    loaded: &mut Loaded,
    admin: Option<&AdminListener>,
    ready: Ready,
    source: Source,
) -> Vec<&'static str> {
    let Ready { prepared, admin: settings, files, document } = ready;
    let needs_restart = supervisor.reload(prepared).await;
    supervisor.set_from_file(matches!(source, Source::File));
    loaded.watch.set_others(files);
    loaded.text = Arc::clone(&document.text);
    loaded.tried = source.clone();
    let origin = match source {
        Source::File => {
            loaded.file_text = Arc::clone(&document.text);
            None
        }
        Source::Call(_, by) => Some(by),
    };
    match admin {
        Some(admin) => {
            admin.reloaded(settings, supervisor.snapshot(), document, origin, needs_restart)
        }
        None => {
            if settings.is_some() {
                warn!("admin: changed in the file, but the change needs a restart");
            }
            needs_restart
        }
    }
}
