//! API keys in a file: credentials that routes demand, limits of keys and teams, and what upstreams
//! and operators see.

mod away;
mod credentials;
mod files;
mod imports;
mod invented;
mod library;
mod limits;
mod money;
mod scale;
mod stored;
mod topologies;
mod upstream;

use std::path::PathBuf;

use crate::support::{Gateway, Program};

/// A file of keys, which `tollgate key create` writes.
pub(crate) struct Keys(tempfile::TempDir);

impl Keys {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("keys.yaml")
    }

    fn shown(&self) -> String {
        self.path().to_str().expect("UTF-8").to_owned()
    }

    /// Makes a key, and returns its text.
    pub(crate) fn create(&self, arguments: &[&str]) -> String {
        let made = Program::run(&[&["key", "create", "--file", &self.shown()], arguments].concat());
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        made.stdout.trim_end().to_owned()
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap_or_default()
    }

    /// Replaces the file, as editors do.
    pub(crate) fn rewrite(&self, text: &str) {
        let new = self.0.path().join("new");
        std::fs::write(&new, text).expect("a file");
        std::fs::rename(&new, self.path()).expect("both are in one directory");
    }

    /// A gateway with these keys. `client` are further fields of its section, and `rest` is the rest
    /// of the file. It has one worker: several workers write the lines of the log in any order.
    pub(crate) fn start(&self, client: &str, rest: &str) -> Gateway {
        Gateway::start(&self.yaml(client, rest))
    }

    pub(crate) fn yaml(&self, client: &str, rest: &str) -> String {
        format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             client: {{ keys: {{ file: {:?} }}, {client} }}\n\
             runtime: {{ workers: 1 }}\n{rest}\n",
            self.path()
        )
    }
}

/// A route that demands a key and responds itself.
const DEMANDING: &str = "routes: [{ path: /*, auth: [api_key], respond: { body: ok } }]";

/// The field with a key.
pub(crate) fn field(key: &str) -> String {
    format!("X-Api-Key: {key}")
}

/// The id in a key.
pub(crate) fn id(key: &str) -> &str {
    key.split('_').nth(1).expect("PREFIX_ID_SECRET")
}

/// Another key of the usual form, which no file has.
pub(crate) fn invented() -> String {
    let made = Program::run(&["key", "create"]);
    made.stdout.lines().next().expect("the key").to_owned()
}
