//! Where the commands of a document run: a directory with its files, and its gateways.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::page::{Page, page, project};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, now};

/// The token of an operator, and of a caller of the check API.
const TOKEN: &str = "operate-0123456789abcdef";
/// The longest time of a command, in seconds.
const LONGEST: &str = "30";

/// What curl reads before its arguments: an answer that is no 2xx is a failure, and the status of
/// each answer is printed to standard error.
const CURL: &str = "silent\nshow-error\nfail-with-body\nmax-time = 20\n\
                    write-out = \"%{stderr}status %{http_code}\\n\"\n";

/// `tollgate`.
const PROGRAM: &str = "#!/bin/sh\nexec \"$PROGRAM\" \"$@\"\n";

/// How a command has ended.
pub(crate) struct Done {
    pub(super) code: Option<i32>,
    /// The statuses that curl has got.
    pub(super) statuses: Vec<u16>,
    pub(crate) stdout: String,
    /// Both outputs.
    pub(super) output: String,
}

pub(crate) struct Scene {
    /// The directory in which the commands run.
    directory: PathBuf,
    gateways: Vec<Gateway>,
    /// The store of the gateways.
    redis: Option<Redis>,
    /// What is written in the document, and what it is here: addresses and the token.
    here: Vec<(String, String)>,
    variables: Vec<(&'static str, String)>,
    /// The commands that have exported variables.
    exports: Vec<String>,
    /// The programs and files of the scene that are not in `directory`.
    own: tempfile::TempDir,
}

impl Scene {
    /// The scene of a document.
    pub(super) fn of(page: &Page) -> Self {
        let mut scene = Self::empty();
        match page.path.as_str() {
            "README.md" | "docs/guide.md" => scene.first_try(),
            "docs/admin.md" => {
                scene.operated();
                scene.refuse("7f9c1d2e");
            }
            "docs/check-api.md" => scene.asked(page),
            "docs/commands.md" => scene.steered(),
            "docs/explain.md" | "docs/top.md" => scene.observed(),
            "docs/ai.md" => {
                scene.file("model_prices.json", &page.block("json"));
            }
            "docs/import.md" => {
                scene.file("nginx.conf", &page.block("nginx"));
            }
            "docs/keys-api.md" => scene.with_keys(page),
            "docs/overrides.md" => scene.with_overrides(),
            "docs/ratelimit-service.md" => scene.descriptors(),
            "docs/replay.md" => scene.logs(page),
            path if path.starts_with("docs/behind-") => scene.limited(),
            _ => {}
        }
        scene
    }

    /// A directory without gateways.
    pub(crate) fn empty() -> Self {
        let own = tempfile::tempdir().expect("a directory");
        let bin = own.path().join("bin");
        std::fs::create_dir(&bin).expect("a directory");
        executable(&bin.join("tollgate"), PROGRAM);
        let mut scene = Self {
            directory: own.path().to_owned(),
            gateways: Vec::new(),
            redis: None,
            here: Vec::new(),
            variables: vec![("TOLLGATE_ADMIN_TOKEN", TOKEN.to_owned())],
            exports: Vec::new(),
            own,
        };
        scene.is_here("TOLLGATE_ADMIN_TOKEN=...", &format!("TOLLGATE_ADMIN_TOKEN={TOKEN}"));
        scene.with_curl("");
        scene
    }

    /// More options of curl, as lines of its configuration.
    pub(crate) fn with_curl(&self, options: &str) {
        self.own_file(".curlrc", &format!("{CURL}{options}"));
    }

    fn own_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.own.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// What is written in the document is this here.
    pub(crate) fn is_here(&mut self, written: &str, here: &str) {
        self.here.push((written.to_owned(), here.to_owned()));
    }

    /// Starts a gateway whose listeners have these addresses in the document. The first one's
    /// directory is that of the commands.
    fn start(&mut self, yaml: &str, listeners: &[&str]) -> Vec<SocketAddr> {
        let yaml =
            listeners.iter().fold(yaml.to_owned(), |yaml, it| yaml.replace(it, "127.0.0.1:0"));
        let gateway = Gateway::start(&yaml);
        let addresses = gateway.addresses();
        for (written, address) in listeners.iter().zip(&addresses) {
            // A client names no address for all interfaces.
            self.is_here(&written.replace("0.0.0.0", "127.0.0.1"), &address.to_string());
        }
        if self.gateways.is_empty() {
            self.directory = gateway.file().parent().expect("it is in a directory").to_owned();
        }
        self.gateways.push(gateway);
        addresses
    }

    /// Starts a gateway with a file that is where the commands run, and has one listener.
    pub(crate) fn start_file(&mut self, name: &str) -> SocketAddr {
        let file = self.directory.join(name);
        let gateway = Gateway::start_with(&["-c", file.to_str().expect("the path is UTF-8")]);
        let address = gateway.address();
        self.gateways.push(gateway);
        address
    }

    /// Writes a file where the commands run.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// The file of the project, and one with a mistake.
    fn first_try(&mut self) {
        let yaml = std::fs::read_to_string(project().join("gateway.yaml")).expect("it is there");
        self.start(&yaml, &["0.0.0.0:8080"]);
        self.file("broken.yaml", "routes: [{ path: /*, policies: [per-usr], upstream: app }]\n");
    }

    /// An admin listener over TCP, with a policy `per-client`. It has had no request: a refusal, or a
    /// decision that is slow on a busy machine, would be a reason of its status.
    fn operated(&mut self) {
        let overrides = self.own.path().join("overrides.redb");
        let store = format!("store: {{ overrides: {{ path: {overrides:?} }} }}");
        self.start(
            &with_admin("127.0.0.1:8080", "127.0.0.1:9901", &store),
            &["127.0.0.1:8080", "127.0.0.1:9901"],
        );
    }

    /// The same, and commands ask it if they name no other.
    fn steered(&mut self) {
        self.operated();
        self.asks(self.gateways[0].addresses()[1]);
    }

    /// The gateway with this admin listener is asked by commands that name no other.
    fn asks(&mut self, admin: SocketAddr) {
        self.variables.push(("TOLLGATE_ADMIN", format!("http://{admin}")));
    }

    /// Two gateways that share a store and have admin listeners over TCP, and one with a socket.
    fn observed(&mut self) {
        let redis = self.redis.insert(Redis::start(Options::default()));
        let store = format!("store: {{ redis: {{ url: \"{}\" }} }}", redis.url());
        let socket = format!("unix:{}", self.own.path().join("admin.sock").display());
        let first = with_admin("127.0.0.1:8080", "10.0.0.1:9901", &store);
        let admin = self.start(&first, &["127.0.0.1:8080", "10.0.0.1:9901"])[1];
        self.is_here("127.0.0.1:9901", &admin.to_string());
        let second = with_admin("127.0.0.1:8081", "10.0.0.2:9901", &store);
        self.start(&second, &["127.0.0.1:8081", "10.0.0.2:9901"]);
        self.start(&with_admin("127.0.0.1:8082", &socket, &store), &["127.0.0.1:8082"]);
        self.is_here("unix:/run/tollgate/admin.sock", &socket);
        self.asks(admin);
        self.refuse("7f9c1d2e4b6a80935c1e2f3a4b5c6d7e");
    }

    /// Sends requests of another client with this id until one is refused.
    fn refuse(&self, id: &str) {
        let mut client = self.gateways[0].client();
        let field = format!("X-Request-Id: {id}");
        let mut ask = || client.get("/", &[&field, "X-Forwarded-For: 192.0.2.9"]).status;
        assert!((0..10).any(|_| ask() == 429), "the limit is reached");
    }

    /// The gateway of the page, whose file of keys is where the commands write it.
    fn with_keys(&mut self, page: &Page) {
        let keys = self.own_file("keys.yaml", "keys: []\n");
        let keys = keys.to_str().expect("the path is UTF-8").to_owned();
        self.is_here("keys.yaml", &keys);
        let yaml = page.block("yaml").replace("keys.yaml", &keys);
        self.start(&yaml.replace("http://127.0.0.1:9000", "builtin:echo"), &["127.0.0.1:8080"]);
    }

    fn with_overrides(&mut self) {
        let overrides = self.own.path().join("overrides.redb");
        let yaml = format!(
            "listeners: [{{ address: \"127.0.0.1:8080\" }}]\n\
             store: {{ overrides: {{ path: {overrides:?} }} }}\n\
             policies: {{ per-client: {{ key: api_key, limit: 100/minute, overrides: true }} }}\n\
             routes: [{{ path: \"/*\", policies: [per-client], respond: {{ body: ok }} }}]\n"
        );
        self.start(&yaml, &["127.0.0.1:8080"]);
    }

    /// The gateway of the page, and the configuration of curl that it describes.
    fn asked(&mut self, page: &Page) {
        let yaml = page.block("yaml").replace("${CHECK_TOKEN}", TOKEN);
        let check = self.start(&yaml, &["127.0.0.1:8080", "127.0.0.1:9902"])[1];
        self.variables.push(("CHECK", format!("http://{check}")));
        let fields = format!(
            "header = \"Authorization: Bearer {TOKEN}\"\nheader = \"Content-Type: application/json\"\n"
        );
        self.with_curl(&fields);
    }

    /// Envoy's rate limit service over HTTP.
    fn descriptors(&mut self) {
        let limits = "domain: test\ndescriptors: [{ key: small, rate_limit: { unit: day, requests_per_unit: 5 } }]\n";
        let directory = self.own.path().join("ratelimit");
        std::fs::create_dir(&directory).expect("a directory");
        std::fs::write(directory.join("test.yaml"), limits).expect("a file");
        let yaml = format!(
            "check:\n  http: {{ address: \"127.0.0.1:9902\" }}\n  \
             grpc: {{ address: \"127.0.0.1:9903\", envoy_config: {directory:?} }}\n"
        );
        self.start(&yaml, &["127.0.0.1:9902", "127.0.0.1:9903"]);
    }

    /// The limit that the pages of all proxies use, without the proxy. `scripts/test-proxies` has
    /// the proxies. No window ends between the requests of a page, which take a while on a busy
    /// machine.
    fn limited(&mut self) {
        let yaml = page("docs/behind-proxies.md").block("yaml");
        let listener = "listeners: [{ address: \"127.0.0.1:8080\" }]\n";
        let yaml = yaml.replace("status: 204", "status: 200").replace("check: {", "# check: {");
        let yaml = yaml.replace("/minute", "/7d");
        self.start(&format!("{listener}{yaml}"), &["127.0.0.1:8080"]);
    }

    /// The two configurations of the page, and logs of requests.
    fn logs(&self, page: &Page) {
        let yaml = page.block("yaml");
        self.file("gateway.yaml", &yaml);
        self.file("new.yaml", &yaml.replace("60/minute", "20/minute"));
        let mut log = String::new();
        let mut json = String::new();
        for second in 10..60 {
            let day = format!("{second}");
            let host = second % 5;
            log += &format!(
                "203.0.113.{host} - - [21/Nov/2026:08:31:{day} +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"-\"\n"
            );
            json += &format!(
                "{{\"ts\":\"2026-11-21T08:31:{day}Z\",\"remote\":{{\"ip\":\"203.0.113.{host}\"}},\
                 \"url\":\"/a?b=1\",\"took\":1.5}}\n"
            );
        }
        self.file("access.log", &log);
        self.file("requests.json", &json);
    }

    /// Runs a command as it is written, but for what is otherwise here.
    pub(crate) fn run(&mut self, command: &str) -> Done {
        let command = self
            .here
            .iter()
            .fold(command.to_owned(), |text, (written, here)| text.replace(written, here));
        let script = [&self.exports.join("\n"), "\n", &command].concat();
        let path = std::env::var("PATH").expect("it is set");
        let mut shell = Command::new("timeout");
        shell.args(["--kill-after=1", LONGEST, "bash", "-c", &script]);
        shell.current_dir(&self.directory).stdin(Stdio::null());
        shell.env("PATH", format!("{}:{path}", self.own.path().join("bin").display()));
        shell.env("PROGRAM", env!("CARGO_BIN_EXE_tollgate")).env("CURL_HOME", self.own.path());
        shell.env("NO_COLOR", "1").envs(self.variables.iter().cloned());
        let begun = now();
        let output = shell.output().expect("bash and timeout are installed");
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        if command.starts_with("export ") {
            self.exports.push(command);
        }
        if let Some(lease) = lease(&stdout) {
            self.variables.push(("LEASE", lease));
        }
        let statuses = stderr.lines().filter_map(|line| line.strip_prefix("status ")?.parse().ok());
        Done {
            code: output.status.code(),
            statuses: statuses.collect(),
            output: format!("{stdout}{stderr}({} ms)", (now() - begun).as_millis()),
            stdout,
        }
    }
}

/// A gateway with two requests a minute for each client, and with an admin listener.
fn with_admin(listener: &str, admin: &str, store: &str) -> String {
    // A socket needs no token.
    let token = match admin.starts_with("unix:") {
        true => String::new(),
        false => format!("token: {TOKEN}, "),
    };
    format!(
        "listeners: [{{ address: \"{listener}\" }}]\n{store}\n\
         client: {{ trusted_proxies: [127.0.0.0/8] }}\n\
         policies: {{ per-client: {{ key: ip, limit: 2/minute, overrides: true }} }}\n\
         routes: [{{ path: \"/*\", policies: [per-client], respond: {{ body: ok }} }}]\n\
         admin: {{ address: \"{admin}\", {token}write_config: true }}\n"
    )
}

/// The lease in an answer.
fn lease(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    answer["lease"].as_str().map(str::to_owned)
}

fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
}
