//! Changes of the configuration that operators ask for by the admin API.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tollgate_limiter::time::Clock;
use tracing::{error, info};

use super::admin::AdminListener;
use super::config_file::NewFile;
use super::reload::{Loaded, Source, apply};
use super::shown_config::problems;
use super::supervisor::Supervisor;
use crate::admin::{ConfigCall, ConfigRequest, PutBy, Refused, Replaced};
use crate::config::{self, Compiled, GeoFile, LoadError, NotInPlace};
use crate::patches::{IfMatch, Values};

/// Makes a change, and replies. If the caller stops waiting before it begins, it is not made. If
/// the future is dropped, the workers have the whole new configuration or nothing of it.
pub(super) async fn answer(
    supervisor: &mut Supervisor,
    loaded: &mut Loaded,
    admin: &AdminListener,
    call: ConfigCall,
) {
    let ConfigCall { requested, if_match, actor, reply } = call;
    let mut change = Changing { supervisor, loaded, admin, reply: &reply };
    let result = change.perform(requested, &if_match, &actor).await;
    // The caller may have stopped waiting.
    let _ = reply.send(result);
}

struct Changing<'a> {
    supervisor: &'a mut Supervisor,
    loaded: &'a mut Loaded,
    admin: &'a AdminListener,
    reply: &'a oneshot::Sender<Result<Replaced, Refused>>,
}

impl Changing<'_> {
    async fn perform(
        &mut self,
        requested: ConfigRequest,
        if_match: &IfMatch,
        actor: &str,
    ) -> Result<Replaced, Refused> {
        match requested {
            ConfigRequest::Put { text, write } => {
                let is_forced = *if_match == IfMatch::Any;
                if !is_forced && !if_match.names(&self.admin.tag()) {
                    return Err(Refused::Stale);
                }
                if write && !is_forced && !self.loaded.watch.is_as_seen() {
                    let why = "the file has changed in the meantime, and is about to be read";
                    return Err(Refused::conflict(why));
                }
                self.replace(text, write, actor).await
            }
            ConfigRequest::MayPersist(policy, patch) => {
                let patches = self.supervisor.patches();
                let values = patches.preview(&policy, patch, if_match, actor);
                let text = self.persisted(&policy, &values.map_err(Refused::Patch)?)?;
                new_file(self.loaded.watch.file(), &text).map(|_| Replaced::default())
            }
            ConfigRequest::Persist(policy) => {
                let snapshot = self.supervisor.snapshot();
                let patch = snapshot.patches.changed.get(&policy).and_then(|it| it.patch.as_ref());
                let gone = || Refused::conflict("the patch has ended in the meantime");
                let values = patch.map(|(change, _)| change.values.clone()).ok_or_else(gone)?;
                let text = self.persisted(&policy, &values)?;
                self.replace(text, true, actor).await
            }
        }
    }

    /// Writes the configuration with this text into the file if `write`, and runs it. If one of both
    /// fails, neither is done.
    async fn replace(
        &mut self,
        text: String,
        write: bool,
        actor: &str,
    ) -> Result<Replaced, Refused> {
        let file = self.loaded.watch.file().to_owned();
        let databases = self.supervisor.geo_files();
        let prepared = spawn_blocking(move || prepare(text, write, &file, &databases)).await;
        let failed = |_| Refused::conflict("the configuration could not be read");
        let Prepared { compiled, new_file, is_file } = prepared.map_err(failed)??;
        if self.reply.is_closed() {
            return Err(Refused::conflict("the call has taken too long"));
        }
        let warnings = problems(&compiled.warnings);
        let by = PutBy { actor: actor.to_owned(), at: Clock::System.wall() };
        let source = match write || is_file {
            true => Source::File,
            false => Source::Call(Arc::clone(&compiled.document.text), by),
        };
        let before = self.admin.masked();
        // A file that cannot be written is known before anything of the text is in force.
        let old_file = self.write(new_file)?;
        let applied = apply(self.supervisor, self.loaded, Some(self.admin), compiled, source).await;
        let needs_restart = applied.map_err(|why| self.undo(old_file, &why))?;
        self.supervisor.reloaded(true);
        info!(%actor, written = write, "the configuration was replaced by a call");
        Ok(Replaced { before, after: self.admin.masked(), needs_restart, warnings })
    }

    /// Replaces the file, if there is a new one. Returns the old one.
    fn write(&mut self, new: Option<NewFile>) -> Result<Option<Box<NewFile>>, Refused> {
        let Some(new) = new else { return Ok(None) };
        let (stamp, old) = new.replace().map_err(|error| unwritable(self.file(), &error))?;
        self.loaded.watch.wrote(stamp);
        Ok(old)
    }

    /// Gives the file its old text: the new one cannot run here, for the reason `why`.
    fn undo(&mut self, old: Option<Box<NewFile>>, why: &str) -> Refused {
        match old.map(|old| old.replace()) {
            None => {}
            Some(Ok((stamp, _))) => self.loaded.watch.wrote(stamp),
            Some(Err(cause)) => {
                let file = self.file().display();
                error!(
                    "{file} has a configuration that cannot run here, and not its old text: {cause}"
                );
                return Refused::conflict(format!(
                    "it cannot run here: {why}; but {file} has it now, because the old text could \
                     not be written: {cause}"
                ));
            }
        }
        Refused::conflict(format!("it cannot run here, so nothing has changed: {why}"))
    }

    fn file(&self) -> &Path {
        self.loaded.watch.file()
    }

    /// The text of the file with these values of a policy.
    fn persisted(&self, policy: &str, values: &Values) -> Result<String, Refused> {
        let file = self.loaded.watch.file();
        let differs = "this node runs another configuration than its file, so nothing is written";
        let text = config::read(file)
            .map_err(|error| Refused::conflict(format!("the file cannot be read: {error}")))?;
        if matches!(self.loaded.tried, Source::Call(..)) || *text != *self.loaded.text {
            return Err(Refused::conflict(differs));
        }
        config::edited(&text, policy, values).map_err(|NotInPlace { because, paste }| {
            let why = format!("the file cannot be changed in one place: {because}");
            Refused::Conflict { why, paste: Some(paste) }
        })
    }
}

/// A configuration that can run.
struct Prepared {
    compiled: Compiled,
    /// Its text beside the file, if it is to replace it.
    new_file: Option<NewFile>,
    /// Whether it is what the file has already.
    is_file: bool,
}

fn prepare(
    text: String,
    write: bool,
    file: &Path,
    databases: &[GeoFile],
) -> Result<Prepared, Refused> {
    if let Some(report) = config::masked(&text, &file.to_string_lossy()) {
        return Err(Refused::Mistakes(problems(&report)));
    }
    let compiled = config::load_text(&text, file, databases).map_err(|error| match error {
        LoadError::Mistakes { report, .. } => Refused::Mistakes(problems(&report)),
        LoadError::Unreadable { error, .. } => Refused::conflict(error.to_string()),
    })?;
    let is_file = config::read(file).is_ok_and(|now| now == text);
    let new_file = write.then(|| new_file(file, &text)).transpose()?;
    Ok(Prepared { compiled, new_file, is_file })
}

fn new_file(file: &Path, text: &str) -> Result<NewFile, Refused> {
    NewFile::write(file, text).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &io::Error) -> Refused {
    let file = file.display();
    Refused::conflict(format!("the file {file} cannot be written, so nothing changes: {error}"))
}
