//! Users by name and password (HTTP Basic authentication).

mod credentials;
mod files;
mod guesses;
mod queue;

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::support::{Client, Gateway};

/// The hash of "hunter2" with the least cost, as `htpasswd -B -C 5` makes it.
const HUNTER2: &str = "$2y$05$abcdefghijklmnopqrstuuoXuKqgZXLiJqzfmMXDDhSFPIvxV7t8.";

/// A route that demands a user and responds itself.
const DEMANDING: &str = "routes: [{ path: /open, respond: { body: ok } }, \
                         { path: /*, auth: [user], respond: { body: ok } }]";

/// A file of users.
pub(crate) struct Users(tempfile::TempDir);

impl Users {
    /// A file with the users ann and bob, whose password is "hunter2".
    pub(crate) fn new() -> Self {
        let users = Self(tempfile::tempdir().expect("a directory"));
        users.rewrite(&format!("ann:{HUNTER2}\nbob:{HUNTER2}\n"));
        users
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("htpasswd")
    }

    /// Replaces the file, as editors do.
    fn rewrite(&self, text: &str) {
        let new = self.0.path().join("new");
        std::fs::write(&new, text).expect("a file");
        std::fs::rename(&new, self.path()).expect("both are in one directory");
    }

    fn yaml(&self, client: &str, rest: &str) -> String {
        let rest = self.without_listener(client, rest);
        format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: a, role: read, \
             token: read-0123456789abcdef }}], hosts: [gateway.test] }}\n{rest}"
        )
    }

    /// The configuration of a gateway that only other proxies ask.
    pub(crate) fn without_listener(&self, client: &str, rest: &str) -> String {
        format!(
            "client: {{ user: {{ basic: {{ file: {:?}, realm: staff }} }}, {client} }}\n\
             runtime: {{ workers: 1 }}\n{rest}\n",
            self.path()
        )
    }

    /// A gateway with these users. `client` are further fields of its section, and `rest` is the
    /// rest of the file.
    fn start(&self, client: &str, rest: &str) -> Gateway {
        Gateway::start(&self.yaml(client, rest))
    }
}

/// The field with a name and a password.
fn field(user: &str, password: &str) -> String {
    format!("Authorization: {}", basic(user, password))
}

/// The value of the field.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// A document of the admin API of `gateway`.
fn shown(gateway: &Gateway, path: &str) -> String {
    let mut client = Client::connect(gateway.addresses()[1]);
    client.get(path, &["Authorization: Bearer read-0123456789abcdef"]).text()
}

/// The value of a metric.
fn metric(gateway: &Gateway, series: &str) -> u64 {
    let text = shown(gateway, "/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("{series}: {text}"))
}
