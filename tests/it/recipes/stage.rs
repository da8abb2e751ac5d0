//! What a recipe needs: its gateways, the backend of the page, Redis, and certificates.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::commands::page::Page;
use crate::commands::scene::Scene;
use crate::support::redis::{Options, Redis};
use crate::support::{Certificates, Reserved, eventually};

/// The directory of the admin socket.
const SOCKETS: &str = "/run/tollgate/";
/// The host of the certificates.
const HOST: &str = "api.example.com";

pub(super) struct Stage {
    scene: Scene,
    /// The configuration file.
    pub(super) file: PathBuf,
    _servers: (Option<Backend>, Option<Redis>),
    /// The directory of the admin socket.
    _sockets: Option<tempfile::TempDir>,
    /// The directory of certbot, and the options of curl that do not change.
    certbot: Option<(tempfile::TempDir, String)>,
}

impl Stage {
    /// Starts what the recipe needs. The page has the backend.
    pub(super) fn of(recipe: &Page, page: &Page) -> Self {
        let mut yaml = recipe.block("yaml");
        let mut backend = None;
        let mut redis = None;
        let mut directory = None;
        if yaml.contains("http://127.0.0.1:9000") {
            let started = backend.insert(Backend::start(&page.block("python")));
            yaml = yaml.replace("127.0.0.1:9000", &started.address());
        }
        if yaml.contains("redis://127.0.0.1:6379") {
            let started = redis.insert(Redis::start(Options::default()));
            yaml = yaml.replace("redis://127.0.0.1:6379", &started.url());
        }
        if yaml.contains("/etc/letsencrypt/") {
            let made = directory.insert(tempfile::tempdir().expect("a directory"));
            certify(made.path(), 1);
            yaml = yaml.replace("/etc/letsencrypt", made.path().to_str().expect("UTF-8"));
        }
        // An address of its own, which the system chooses.
        let listener = yaml.split_once("- address: ").expect("the recipe has a listener").1;
        let listener = listener.lines().next().unwrap_or_default().to_owned();
        yaml = yaml.replacen(&listener, "\"127.0.0.1:0\"", 1);
        let mut scene = Scene::empty();
        let sockets = yaml.contains(SOCKETS).then(|| tempfile::tempdir().expect("a directory"));
        if let Some(sockets) = &sockets {
            let here = format!("{}/", sockets.path().display());
            yaml = yaml.replace(SOCKETS, &here);
            scene.is_here(SOCKETS, &here);
        }
        let file = scene.file("gateway.yaml", &yaml);
        let mut certbot = None;
        for port in ports(recipe) {
            let address = scene.start_file("gateway.yaml").to_string();
            scene.is_here(&format!("127.0.0.1:{port}"), &address);
            if let Some(directory) = directory.take() {
                certbot = Some((directory, format!("connect-to = \"{HOST}:443:{address}\"\n")));
            }
        }
        let stage = Self { scene, file, _servers: (backend, redis), _sockets: sockets, certbot };
        stage.trust(1);
        stage
    }

    /// curl trusts the authority of this certificate only.
    fn trust(&self, number: u8) {
        if let Some((directory, options)) = &self.certbot {
            let authority = made(directory.path(), number).join("ca.pem");
            self.scene.with_curl(&format!("{options}cacert = {authority:?}\n"));
        }
    }

    /// Has another certificate, of another authority, as after a renewal.
    pub(super) fn renew(&self) {
        let (directory, _) = self.certbot.as_ref().expect("the recipe has certificates");
        certify(directory.path(), 2);
        self.trust(2);
    }

    /// What the command prints to standard output.
    pub(super) fn run(&mut self, command: &str) -> String {
        self.scene.run(command).stdout
    }
}

/// The ports of the gateways that the recipe starts.
fn ports(recipe: &Page) -> Vec<String> {
    let named = recipe.text.lines().filter_map(|line| line.strip_prefix("PORT="));
    let named: Vec<String> =
        named.filter_map(|rest| Some(rest.split_once(' ')?.0.to_owned())).collect();
    if named.is_empty() { vec!["8080".to_owned()] } else { named }
}

/// Where a certificate is before it is installed.
fn made(directory: &Path, number: u8) -> PathBuf {
    directory.join(format!("made{number}"))
}

/// Installs a certificate as certbot does: files with numbers, and links to the newest ones.
fn certify(directory: &Path, number: u8) {
    let [archive, live] = ["archive", "live"].map(|name| directory.join(name).join(HOST));
    let made = made(directory, number);
    for directory in [&archive, &live, &made] {
        fs::create_dir_all(directory).expect("a directory");
    }
    let certificates = Certificates::make(&made, HOST);
    for (from, name) in
        [(certificates.server_key(), "privkey"), (certificates.server(), "fullchain")]
    {
        let file = format!("{name}{number}.pem");
        fs::copy(from, archive.join(&file)).expect("a file");
        let link = live.join(format!("{name}.pem"));
        let new = live.join("new");
        symlink(format!("../../archive/{HOST}/{file}"), &new).expect("a link");
        fs::rename(new, link).expect("one directory");
    }
}

/// The backend of the page.
struct Backend {
    process: Child,
    reserved: Reserved,
    _directory: tempfile::TempDir,
}

impl Backend {
    fn start(program: &str) -> Self {
        let reserved = Reserved::new();
        let directory = tempfile::tempdir().expect("a directory");
        let port = reserved.address().port().to_string();
        assert_eq!(program.matches("9000").count(), 1, "the backend names its port once");
        let file = directory.path().join("backend.py");
        fs::write(&file, program.replace("9000", &port)).expect("a file");
        let mut python = Command::new("python3");
        python.arg(file).stdin(Stdio::null()).stdout(Stdio::null());
        let process = python.spawn().expect("python3 is installed");
        let address = reserved.address();
        eventually("the backend listens", || TcpStream::connect(address).is_ok());
        Self { process, reserved, _directory: directory }
    }

    fn address(&self) -> String {
        self.reserved.address().to_string()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
