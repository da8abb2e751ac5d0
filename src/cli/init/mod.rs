//! `tollgate init`: writes a configuration to begin with.

mod answers;
mod args;
mod problem;
mod text;

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _, stderr, stdin};
use std::path::Path;

use self::answers::{Answers, Lines, Terminal};
pub use self::args::{EXAMPLES, InitArgs};
pub use self::problem::Problem;
use super::whole_file;
use crate::config::{Config, Report};

/// What is printed.
pub enum Output {
    /// The configuration itself.
    Text(String),
    /// The file is written, and this is what to do with it.
    Written(String),
}

/// Makes the configuration, and writes it unless it is to be printed.
///
/// # Errors
/// If an argument is wrong, or the file is there already or cannot be written.
pub fn run(args: &InitArgs) -> Result<Output, Problem> {
    // Before the questions: the answers would be lost.
    if !args.print && !args.force && args.file.exists() {
        return Err(Problem::Exists(args.file.clone()));
    }
    let mut lines = Lines { input: stdin().lock(), output: stderr() };
    let is_terminal = stdin().is_terminal() && stderr().is_terminal();
    let terminal = is_terminal.then_some(&mut lines as &mut dyn Terminal);
    let answers = Answers::new(args, terminal)?;
    let text = text::text(&answers);
    check(&text)?;
    if args.print {
        return Ok(Output::Text(text));
    }
    write(&args.file, &text, args.force)?;
    Ok(Output::Written(next(&args.file, &answers)))
}

/// # Errors
/// If the configuration has mistakes, or a warning.
fn check(text: &str) -> Result<(), Problem> {
    // The token is set later.
    let env = |name: &str| std::env::var(name).ok().or_else(|| Some("0".repeat(64)));
    let warnings = Config::parse(text, "gateway.yaml", &env).map_err(Problem::Mistakes)?.warnings;
    if Report::is_empty(&warnings) { Ok(()) } else { Err(Problem::Mistakes(warnings)) }
}

/// The file of the service that the package for Debian installs.
const OF_PACKAGE: &str = "/etc/tollgate/gateway.yaml";

/// The mode of a file that is gone when it is to be replaced.
const MODE: u32 = 0o644;

fn write(path: &Path, text: &str, force: bool) -> Result<(), Problem> {
    let unwritable = |error: io::Error| match error.kind() {
        ErrorKind::AlreadyExists => Problem::Exists(path.to_owned()),
        _ => Problem::Unwritable { path: path.to_owned(), error },
    };
    // A file that is written in place is lost on a full disk, and a gateway could read a part of it.
    if force && path.is_file() {
        return whole_file::write(path, text, MODE).map_err(unwritable);
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    if force {
        options.truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = options.open(path).map_err(unwritable)?;
    file.write_all(text.as_bytes()).map_err(unwritable)
}

/// What to do with the file.
fn next(file: &Path, answers: &Answers) -> String {
    let named = match file.to_str() {
        Some("gateway.yaml") => String::new(),
        _ => format!(" {}", file.display()),
    };
    let port = answers.listen.rsplit_once(':').map_or("8080", |(_, port)| port);
    let curl = match answers.listen.starts_with("unix:") {
        true => String::new(),
        false => format!("\n  curl -i http://127.0.0.1:{port}/"),
    };
    let start = match file == Path::new(OF_PACKAGE) {
        true => "systemctl reload-or-restart tollgate".to_owned(),
        false => format!("tollgate run{named}"),
    };
    format!("{} is written. Next:\n  tollgate check{named}\n  {start}{curl}\n", file.display())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    /// A process that has the old file open reads all of it.
    #[test]
    fn an_old_file_is_replaced_as_a_whole_behind_its_link() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.yaml");
        let link = directory.path().join("link");
        write(&file, "old", false).unwrap();
        symlink("gateway.yaml", &link).unwrap();
        assert!(matches!(write(&link, "new", false), Err(Problem::Exists(_))));
        let old = fs::File::open(&file).unwrap();
        write(&link, "new", true).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(io::read_to_string(&old).unwrap(), "old");
        assert_ne!(old.metadata().unwrap().ino(), fs::metadata(&file).unwrap().ino());
        write(&directory.path().join("other.yaml"), "new", true).unwrap();
    }

    #[test]
    fn the_file_of_the_package_is_that_of_the_service() {
        let answers = Answers {
            to: "http://127.0.0.1:9000".to_owned(),
            limit: "100/minute".to_owned(),
            key: "ip".to_owned(),
            listen: "0.0.0.0:8080".to_owned(),
            trusted_proxies: Vec::new(),
            redis: None,
            admin: None,
        };
        let shown = next(Path::new(OF_PACKAGE), &answers);
        assert!(shown.contains("  systemctl reload-or-restart tollgate\n"), "{shown}");
        assert!(!shown.contains("tollgate run"), "{shown}");
        let own = next(Path::new("own.yaml"), &answers);
        assert!(own.contains("  tollgate run own.yaml"), "{own}");
    }
}
