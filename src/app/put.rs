//! Changes of the configuration that operators ask for by the admin API.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;
use tollgate_core::time::Clock;
use tracing::info;

use super::admin::AdminListener;
use super::config_file::NewFile;
use super::file_work::{CALL_LIMIT, Unfinished};
use super::reload::{Loaded, NotReloaded, Source, apply, prepare, reload};
use super::shown_config::problems;
use super::supervisor::Supervisor;
use crate::admin::{ConfigCall, ConfigRequest, PutBy, Refused, Replaced, RunningConfig};
use crate::config::{self, Compiled, FileStamp, HeldFiles, NotInPlace, Progress};
use crate::patches::{IfMatch, Values};

/// Makes a change, and replies. If the caller stops waiting before it begins, it is not made. If
/// the future is dropped, the workers have the whole new configuration or nothing of it.
pub async fn answer(
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
            ConfigRequest::Reload => self.reload().await,
            ConfigRequest::Put { text, write } => {
                let is_forced = *if_match == IfMatch::Any;
                if !is_forced && !if_match.names(&self.admin.tag()) {
                    return Err(Refused::Stale);
                }
                let over = match write && !is_forced {
                    true => self.unchanged().await?,
                    false => None,
                };
                self.replace(text, write, over, actor).await
            }
            ConfigRequest::MayPersist(policy, patch) => {
                let patches = self.supervisor.patches();
                let values = patches.preview(&policy, patch, if_match, actor);
                let edited = self.persisted(&policy, &values.map_err(Refused::Patch)?).await?;
                let file = self.file().to_owned();
                let may = self.loaded.work.run(CALL_LIMIT, move |progress| {
                    progress.at(&file);
                    new_file(&file, &edited.text).map(|_| Replaced::default())
                });
                may.await.map_err(unfinished)?
            }
            ConfigRequest::Persist(policy) => {
                let snapshot = self.supervisor.snapshot();
                let patch = snapshot.patches.changed.get(&policy).and_then(|it| it.patch.as_ref());
                let gone = || Refused::conflict("the patch has ended in the meantime");
                let values = patch.map(|(change, _)| change.values.clone()).ok_or_else(gone)?;
                let FileText { text, stamp } = self.persisted(&policy, &values).await?;
                self.replace(text, true, stamp, actor).await
            }
        }
    }

    /// Runs the file as it is now.
    async fn reload(&mut self) -> Result<Replaced, Refused> {
        let before = self.running();
        let done = reload(self.supervisor, self.loaded, Some(self.admin), Source::File).await;
        match done {
            Ok(reloaded) => Ok(Replaced { before, after: self.running(), ..reloaded }),
            Err(NotReloaded { why, problems }) if problems.is_empty() => {
                let why = format!("not reloaded, the running configuration stays: {why}");
                Err(Refused::conflict(why))
            }
            Err(NotReloaded { problems, .. }) => {
                Err(Refused::FileMistakes { file: self.file().display().to_string(), problems })
            }
        }
    }

    /// Writes the configuration with this text into the file if `write`, and runs it. If one of both
    /// fails, neither is done. `over` is the stamp of the text that the file may lose, if not every
    /// text may be lost.
    async fn replace(
        &mut self,
        text: String,
        write: bool,
        over: Option<FileStamp>,
        actor: &str,
    ) -> Result<Replaced, Refused> {
        let file = self.loaded.watch.file().to_owned();
        let held = self.supervisor.held_files();
        let work = &self.loaded.work;
        let compiled = work
            .run(CALL_LIMIT, move |progress| compile(text, write, &file, &held, progress))
            .await;
        let Written { compiled, new_file, is_file } = compiled.map_err(unfinished)??;
        if self.reply.is_closed() {
            return Err(Refused::conflict("the call has taken too long"));
        }
        let warnings = problems(&compiled.warnings);
        let by = PutBy { actor: actor.to_owned(), at: Clock::System.wall() };
        let source = match write || is_file {
            true => Source::File,
            false => Source::Call(Arc::clone(&compiled.document.text), by),
        };
        let before = self.running();
        let ready = prepare(self.supervisor, compiled).await.map_err(|why| {
            Refused::conflict(format!("it cannot run here, so nothing has changed: {why}"))
        })?;
        // The last step that can fail.
        if let Some(new) = new_file {
            self.put_in_place(new, over).await?;
        }
        let needs_restart =
            apply(self.supervisor, self.loaded, Some(self.admin), ready, source).await;
        self.supervisor.reloaded(true);
        info!(%actor, written = write, "the configuration was replaced by a call");
        Ok(Replaced { before, after: self.running(), needs_restart, warnings })
    }

    /// The configuration that runs now.
    fn running(&self) -> RunningConfig {
        let digest = self.supervisor.snapshot().definitions.identity.config.clone();
        RunningConfig { masked: self.admin.masked(), digest }
    }

    /// Puts `new` in the place of the file.
    async fn put_in_place(&mut self, new: NewFile, over: Option<FileStamp>) -> Result<(), Refused> {
        let file = self.file().to_owned();
        let replaced = self.loaded.work.run(CALL_LIMIT, move |progress| {
            progress.at(&file);
            new.replace(over)
        });
        let replaced = match replaced.await {
            Ok(replaced) => replaced.map_err(|error| error.to_string()),
            Err(unfinished) => {
                Err(format!("{unfinished}; if it is written after all, the gateway reads it then"))
            }
        };
        let stamp = replaced.map_err(|why| unwritable(self.file(), &why))?;
        self.loaded.watch.wrote(stamp);
        Ok(())
    }

    fn file(&self) -> &Path {
        self.loaded.watch.file()
    }

    /// The stamp of the file.
    ///
    /// # Errors
    /// If the file has another text than the one that was in use from it last.
    async fn unchanged(&self) -> Result<Option<FileStamp>, Refused> {
        let FileText { text, stamp } = self.read().await?;
        if stamp != self.loaded.watch.seen() {
            let why = "the file has changed in the meantime, and is about to be read";
            return Err(Refused::conflict(why));
        }
        if *text != *self.loaded.file_text {
            let why = "the file has changed, and what it has now could not be reloaded";
            return Err(Refused::conflict(why));
        }
        Ok(stamp)
    }

    async fn read(&self) -> Result<FileText, Refused> {
        let file = self.file().to_owned();
        let read = self.loaded.work.run(CALL_LIMIT, move |progress| {
            progress.at(&file);
            let stamp = FileStamp::of(&file);
            config::read(&file).map(|text| FileText { text, stamp })
        });
        let read = read.await.map_err(unfinished)?;
        read.map_err(|error| Refused::conflict(format!("the file cannot be read: {error}")))
    }

    /// The text of the file with these values of a policy, and the stamp that it has without them.
    async fn persisted(&self, policy: &str, values: &Values) -> Result<FileText, Refused> {
        let FileText { text, stamp } = self.read().await?;
        if matches!(self.loaded.tried, Source::Call(..)) || *text != *self.loaded.text {
            let differs =
                "this node runs another configuration than its file, so nothing is written";
            return Err(Refused::conflict(differs));
        }
        let text = config::edited(&text, policy, values).map_err(|it| {
            let NotInPlace { because, paste } = it;
            let why = format!("the file cannot be changed in one place: {because}");
            Refused::Conflict { why, paste: Some(paste) }
        })?;
        Ok(FileText { text, stamp })
    }
}

/// A text of the file.
struct FileText {
    text: String,
    /// The stamp of the file before it was read.
    stamp: Option<FileStamp>,
}

/// A text that can be compiled and written.
struct Written {
    compiled: Compiled,
    /// Its text beside the file, if it is to replace it.
    new_file: Option<NewFile>,
    /// Whether it is what the file has already.
    is_file: bool,
}

fn compile(
    text: String,
    write: bool,
    file: &Path,
    held: &HeldFiles,
    progress: &Progress,
) -> Result<Written, Refused> {
    if let Some(report) = config::masked(&text, &file.to_string_lossy()) {
        return Err(Refused::Mistakes(problems(&report)));
    }
    let compiled = config::load_text(&text, file, held, progress)
        .map_err(|mistakes| Refused::Mistakes(problems(&mistakes.report)))?;
    progress.at(file);
    let is_file = config::read(file).is_ok_and(|now| now == text);
    let new_file = write.then(|| new_file(file, &text)).transpose()?;
    Ok(Written { compiled, new_file, is_file })
}

fn new_file(file: &Path, text: &str) -> Result<NewFile, Refused> {
    NewFile::write(file, text).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, why: &impl Display) -> Refused {
    let file = file.display();
    Refused::conflict(format!("the file {file} cannot be written, so nothing changes: {why}"))
}

fn unfinished(why: Unfinished) -> Refused {
    Refused::conflict(format!("nothing changes: {why}"))
}
