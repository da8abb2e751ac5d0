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
use super::console::quoted;
use super::whole_file;
use crate::config::{Config, ListenAddress, Report};
use crate::server;

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
    // Before the questions: the answers would be lost. No file is kept open, because an interrupt during
    // the questions would leave it.
    if !args.print {
        check_writable(&args.file, args.force).map_err(|error| unwritable(&args.file, error))?;
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

/// The mode of a new file, from which the umask takes bits.
const MODE: u32 = 0o666;

/// Writes the file as a whole: one that is written in place is lost on a full disk, and a gateway could
/// read a part of it.
fn write(path: &Path, text: &str, force: bool) -> Result<(), Problem> {
    let written = match force {
        false => whole_file::write_new(path, text, MODE),
        true if is_special(path) => {
            let mut options = OpenOptions::new();
            let opened = options.write(true).create(true).truncate(true).open(path);
            opened.and_then(|mut file| file.write_all(text.as_bytes()))
        }
        true => whole_file::write(path, text, MODE),
    };
    written.map_err(|error| unwritable(path, error))
}

fn check_writable(path: &Path, force: bool) -> io::Result<()> {
    match force {
        false => whole_file::check_new(path),
        true if is_special(path) => Ok(()),
        true => whole_file::check(path),
    }
}

/// Whether no file takes the place of this one: it is such as /dev/stdout, or a link to a file that is
/// not there yet.
fn is_special(path: &Path) -> bool {
    path.symlink_metadata().is_ok() && !path.is_file()
}

fn unwritable(path: &Path, error: io::Error) -> Problem {
    match error.kind() {
        ErrorKind::AlreadyExists => Problem::Exists(path.to_owned()),
        _ => Problem::Unwritable { path: path.to_owned(), error },
    }
}

/// What to do with the file.
fn next(file: &Path, answers: &Answers) -> String {
    let named = match file.to_str() {
        Some("gateway.yaml") => String::new(),
        _ => format!(" {}", argument(file)),
    };
    let address = answers.listen.parse().map(|ListenAddress(address)| address.reachable());
    let curl = match address {
        Ok(server::ListenAddress::Tcp(address)) => format!("\n  curl -i http://{address}/"),
        Ok(server::ListenAddress::Unix(_)) | Err(_) => String::new(),
    };
    let start = match file == Path::new(OF_PACKAGE) {
        true => "systemctl reload-or-restart tollgate".to_owned(),
        false => format!("tollgate run{named}"),
    };
    format!("{} is written. Next:\n  tollgate check{named}\n  {start}{curl}\n", file.display())
}

/// A file as an argument of a command in a shell. Its name is no option.
fn argument(file: &Path) -> String {
    let text = file.to_string_lossy();
    quoted(&if text.starts_with('-') { format!("./{text}") } else { text.into_owned() })
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

    fn answers(listen: &str) -> Answers {
        Answers {
            to: "http://127.0.0.1:9000".to_owned(),
            limit: "100/minute".to_owned(),
            key: "ip".to_owned(),
            listen: listen.to_owned(),
            trusted_proxies: Vec::new(),
            redis: None,
            admin: None,
        }
    }

    #[test]
    fn the_next_commands_reach_the_gateway_and_name_the_file() {
        for (listen, url) in [
            ("0.0.0.0:8080", "http://127.0.0.1:8080/"),
            ("[::]:81", "http://[::1]:81/"),
            ("[::1]:8080", "http://[::1]:8080/"),
            ("192.0.2.1:8080", "http://192.0.2.1:8080/"),
        ] {
            let shown = next(Path::new("own.yaml"), &answers(listen));
            assert!(shown.ends_with(&format!("\n  curl -i {url}\n")), "{shown}");
        }
        let socket = next(Path::new("own.yaml"), &answers("unix:/run/own.sock"));
        assert!(!socket.contains("curl"), "{socket}");
        for (file, argument) in [("my file.yaml", "'my file.yaml'"), ("-x.yaml", "./-x.yaml")] {
            let shown = next(Path::new(file), &answers("0.0.0.0:8080"));
            let commands = format!("  tollgate check {argument}\n  tollgate run {argument}\n");
            assert!(shown.contains(&commands), "{shown}");
        }
    }

    #[test]
    fn the_file_of_the_package_is_that_of_the_service() {
        let answers = answers("0.0.0.0:8080");
        let shown = next(Path::new(OF_PACKAGE), &answers);
        assert!(shown.contains("  systemctl reload-or-restart tollgate\n"), "{shown}");
        assert!(!shown.contains("tollgate run"), "{shown}");
        let own = next(Path::new("own.yaml"), &answers);
        assert!(own.contains("  tollgate run own.yaml"), "{own}");
    }
}
