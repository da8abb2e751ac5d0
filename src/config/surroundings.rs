//! The environment and the files around a configuration file.
//!
//! Every file that is read is recorded, so that the gateway can watch it.

use std::cell::RefCell;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use tollgate_core::api_keys::KeyForm;
use tollgate_core::time::{Clock, Timestamp};

use super::api_keys::{ApiKeyFile, Reading, Unusable};
use super::classes::{self, ClassFile};
use super::geo_file::{FileStamp, GeoFile};
use super::model::KeyFile;
use super::password_file::{self, PasswordFile, UnusablePasswords};
use super::prices::{self, PriceFile};
use super::{HeldFiles, Progress, byte_order_mark, ratelimit, regular_file};
use crate::server::CertificateDates;

/// The largest file in a `${file:...}` or in a field of the configuration, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The environment and the files around a configuration file.
pub struct Surroundings<'a> {
    /// The environment variables.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The directory of the file, where relative paths begin.
    pub directory: &'a Path,
    /// The present time, by which certificates have expired or not.
    pub now: Timestamp,
    /// The files that were read, or that do not exist, each once.
    pub files: RefCell<Vec<NamedFile>>,
    /// The certificates that the gateway shows, each once.
    pub certificates: RefCell<Vec<CertificateDates>>,
    /// The set of keys for tokens that is in a file.
    pub key_file: RefCell<Option<KeyFile>>,
    /// The files in use, which need not be read again.
    pub held: &'a HeldFiles,
    /// Which file is being read.
    pub progress: &'a Progress,
}

/// A file that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Its path.
    pub path: PathBuf,
    /// Its state before it was read. None: it could not be found.
    pub stamp: Option<FileStamp>,
}

impl<'a> Surroundings<'a> {
    /// Those of the file `name`. Nothing has been read from it yet.
    pub fn new(
        name: &'a str,
        env: &'a dyn Fn(&str) -> Option<String>,
        held: &'a HeldFiles,
        progress: &'a Progress,
    ) -> Self {
        Self {
            env,
            directory: Path::new(name).parent().unwrap_or(Path::new("")),
            now: Clock::System.wall(),
            files: RefCell::default(),
            certificates: RefCell::default(),
            key_file: RefCell::default(),
            held,
            progress,
        }
    }
}

impl Surroundings<'_> {
    /// The text of the file at `path`, which may have at most 1 MiB. A byte order mark before it
    /// is not a part of it.
    ///
    /// # Errors
    /// A sentence with the path, but without the contents.
    pub fn read(&self, path: &str) -> Result<String, String> {
        let mut text = String::from_utf8(self.bytes(path)?)
            .map_err(|_| format!("the file {path:?} is not UTF-8 text"))?;
        byte_order_mark::remove(&mut text);
        Ok(text)
    }

    /// The contents of the file at `path`, at most 1 MiB.
    ///
    /// # Errors
    /// A sentence with the path, but without the contents.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        let place = self.directory.join(path);
        let unreadable = |error| format!("the file {path:?} cannot be read: {error}");
        self.note(&place);
        let file = regular_file::open(&place).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if u64::try_from(bytes.len()).map_or(true, |bytes| bytes > MAX_FILE_BYTES) {
            return Err(format!("the file {path:?} is larger than 1 MiB"));
        }
        Ok(bytes)
    }

    /// The database in the file at `path`.
    ///
    /// # Errors
    /// The reason, as the end of a sentence about the file.
    pub fn database(&self, path: &str) -> Result<GeoFile, String> {
        let place = self.directory.join(path);
        self.note(&place);
        GeoFile::read(place, &self.held.databases)
    }

    /// The directory of envoyproxy/ratelimit at `path`. All files in it are noted before the first
    /// of them is read: a correction of one that cannot be read is a change, too.
    ///
    /// # Errors
    /// A sentence with the path of what cannot be read.
    pub fn directory(&self, path: &str, merge: bool) -> Result<ratelimit::Directory, String> {
        let place = self.directory.join(path);
        self.note(&place);
        let listing = ratelimit::Listing::of(&place);
        listing.paths.iter().for_each(|file| self.note(file));
        ratelimit::read(&listing, merge, |file| self.progress.at(file))
    }

    /// The database in use that was read from `path`.
    pub fn database_before(&self, path: &str) -> Option<GeoFile> {
        let place = self.directory.join(path);
        self.held.databases.iter().find(|it| it.path() == place).cloned()
    }

    /// The API keys of this form in the file at `path`, which messages call `shown`.
    ///
    /// # Errors
    /// If the file cannot be read, or has mistakes.
    pub fn api_keys(&self, path: &str, shown: &str, form: &KeyForm) -> Result<Reading, Unusable> {
        let place = self.directory.join(path);
        self.note(&place);
        ApiKeyFile::read(place, shown, form, self.held.api_keys.as_ref())
    }

    /// The API keys in use that were read from `path`.
    pub fn api_keys_before(&self, path: &str, form: &KeyForm) -> Option<ApiKeyFile> {
        let place = self.directory.join(path);
        self.held.api_keys.as_ref().filter(|it| it.is_of(&place, form)).cloned()
    }

    /// The classes in the file at `path`, which messages call `shown`.
    ///
    /// # Errors
    /// If the file cannot be read, or has mistakes.
    pub fn classes(&self, path: &str, shown: &str) -> Result<ClassFile, Unusable> {
        let place = self.directory.join(path);
        self.note(&place);
        classes::read(place, shown, self.held.classes.as_ref())
    }

    /// The classes in use that were read from `path`.
    pub fn classes_before(&self, path: &str) -> Option<ClassFile> {
        let place = self.directory.join(path);
        self.held.classes.as_ref().filter(|it| it.is_of(&place)).cloned()
    }

    /// The users in the file at `path`, which messages call `shown`.
    ///
    /// # Errors
    /// If the file cannot be read, or has mistakes.
    pub fn passwords(&self, path: &str, shown: &str) -> Result<PasswordFile, UnusablePasswords> {
        let place = self.directory.join(path);
        self.note(&place);
        password_file::read(place, shown, self.held.passwords.as_ref())
    }

    /// The users in use that were read from `path`.
    pub fn passwords_before(&self, path: &str) -> Option<PasswordFile> {
        let place = self.directory.join(path);
        self.held.passwords.as_ref().filter(|it| it.is_of(&place)).cloned()
    }

    /// The prices in the file at `path`, which messages call `shown`.
    ///
    /// # Errors
    /// If the file cannot be read, or has mistakes.
    pub fn prices(&self, path: &str, shown: &str) -> Result<PriceFile, Unusable> {
        let place = self.directory.join(path);
        self.note(&place);
        prices::read(place, shown, self.held.prices.as_ref())
    }

    /// The prices in use that were read from `path`.
    pub fn prices_before(&self, path: &str) -> Option<PriceFile> {
        let place = self.directory.join(path);
        self.held.prices.as_ref().filter(|it| it.is_of(&place)).cloned()
    }

    /// Whether a file exists at `path`, readable or not.
    pub fn has(&self, path: &str) -> bool {
        let place = self.directory.join(path);
        self.note(&place);
        !fs::metadata(&place).is_err_and(|it| it.kind() == ErrorKind::NotFound)
    }

    /// Notes that the file at `path` is read next. Its state is that of now, so that no change is
    /// lost that comes later.
    fn note(&self, path: &Path) {
        self.progress.at(path);
        let mut files = self.files.borrow_mut();
        if !files.iter().any(|it| it.path == path) {
            files.push(NamedFile { path: path.to_owned(), stamp: FileStamp::of(path) });
        }
    }
}
