//! The file of users and passwords. It is read as a whole, and again only after it changed.

use std::path::PathBuf;

use tollgate_core::passwords::{LineFault, PasswordTable};

use super::held_text::{HeldText, Unusable};

/// The largest file.
const MAX_MIB: u64 = 4;

/// The users of a file, as it was read last.
pub type PasswordFile = HeldText<PasswordTable>;

/// Why a file gives no users. Its lines may have mistakes.
pub type UnusablePasswords = Unusable<Vec<LineFault>>;

/// Reads the file at `path`, which the configuration names `name`.
///
/// # Errors
/// If it cannot be read, or has mistakes.
pub fn read(
    path: PathBuf,
    name: &str,
    known: Option<&PasswordFile>,
) -> Result<PasswordFile, UnusablePasswords> {
    HeldText::read(path, name, known, MAX_MIB, PasswordTable::parse)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_file_has_a_largest_size_and_is_not_read_again_without_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("htpasswd");
        let why = |known: Option<&PasswordFile>| match read(path.clone(), "htpasswd", known) {
            Ok(file) => Ok(file),
            Err(UnusablePasswords::Unreadable(why)) => Err(why),
            Err(UnusablePasswords::Mistakes(faults)) => Err(format!("{faults:?}")),
        };
        assert!(why(None).unwrap_err().contains("cannot be read"));
        fs::write(&path, "#".repeat(4 * 1024 * 1024)).unwrap();
        let known = why(None).unwrap();
        assert!(known.table.is_empty() && known.is_current);
        let again = why(Some(&known)).unwrap();
        assert!(Arc::ptr_eq(&known.table, &again.table));
        let anew = why(Some(&known.outdated())).unwrap();
        assert!(!Arc::ptr_eq(&again.table, &anew.table) && anew.is_current);
        fs::write(&path, "#".repeat(4 * 1024 * 1024 + 1)).unwrap();
        assert_eq!(why(None).unwrap_err(), "it is larger than 4 MiB");
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(why(None).unwrap_err(), "it is not UTF-8 text");
    }

    /// Regression: the mark was a part of the first name, so the password of that user was wrong.
    #[test]
    fn a_byte_order_mark_belongs_to_no_user() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("htpasswd");
        let hash = "$2y$05$abcdefghijklmnopqrstuuCJ3x6Yw8Yk1qOe0dYQfE1Tn2pQm5yqK";
        fs::write(&path, format!("\u{feff}alice:{hash}\n")).unwrap();
        let file = read(path, "htpasswd", None);
        assert!(file.is_ok_and(|file| file.table.contains("alice")));
    }
}
