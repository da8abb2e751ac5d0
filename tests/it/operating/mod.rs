//! The commands that ask and steer a running gateway.

mod first_run;
mod policy;
mod reload;
mod status;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Gateway, Output, Program};

/// Long enough.
const TOKEN: &str = "operate-0123456789abcdef";

/// A gateway whose admin listener is a Unix socket, and the directory of the socket.
fn with_socket(limit: &str) -> (Gateway, Directory) {
    let directory = Directory::new();
    let gateway = Gateway::start(&yaml(limit, &directory.admin()));
    (gateway, directory)
}

/// A gateway that counts by `X-Who`, with this section `admin`.
fn yaml(limit: &str, admin: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies:\n  each: {{ key: \"header:x-who\", limit: {limit}, missing_key: ip }}\n\
         routes: [{{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}]\n{admin}\n"
    )
}

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn socket(&self) -> PathBuf {
        self.path().join("admin.sock")
    }

    /// The URL of the socket.
    fn url(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    fn admin(&self) -> String {
        format!("admin: {{ address: \"{}\" }}", self.url())
    }
}

/// A command in this directory, in whose environment nothing names a gateway.
fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Program::command();
    command.args(arguments).current_dir(directory);
    command.env_remove("TOLLGATE_ADMIN").env_remove("TOLLGATE_ADMIN_TOKEN");
    command
}

fn done(command: &mut Command) -> Output {
    let output = command.output().expect("the program was built");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Output { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn run(directory: &Path, arguments: &[&str]) -> Output {
    done(&mut command(directory, arguments))
}
