//! The program, started as a user starts it. It is stopped when the value is dropped.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{Client, Origin, PATIENCE, eventually, now, signal};

/// The program's executable, for commands that end without a signal.
pub(crate) struct Program;

/// The output and the exit code of a command.
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn command() -> Command {
        Self::logging_text(Command::new(env!("CARGO_BIN_EXE_tollgate")))
    }

    /// Starts it by a shell: `script` executes `$0`.
    pub(crate) fn by_shell(script: &str) -> Command {
        let mut shell = Self::logging_text(Command::new("sh"));
        shell.args(["-c", script, env!("CARGO_BIN_EXE_tollgate")]);
        shell
    }

    fn logging_text(mut command: Command) -> Command {
        command.env_remove("TOLLGATE_LOG").env("TOLLGATE_LOG_FORMAT", "text").env("NO_COLOR", "1");
        command
    }

    /// Runs it with this text as its standard input.
    pub(crate) fn given(arguments: &[&str], input: &str) -> Output {
        let mut command = Self::command();
        command.args(arguments).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built");
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(input.as_bytes()).expect("the program reads its input");
        drop(stdin);
        Self::output(child.wait_with_output().expect("it ends"))
    }

    pub(crate) fn run(arguments: &[&str]) -> Output {
        Self::output(Self::command().args(arguments).output().expect("the program was built"))
    }

    fn output(output: std::process::Output) -> Output {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Output {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// A running gateway.
pub(crate) struct Gateway {
    process: Child,
    addresses: Vec<SocketAddr>,
    log: Arc<Mutex<String>>,
    access_log: PathBuf,
    directory: tempfile::TempDir,
}

impl Gateway {
    /// Routes all requests to `origin`, limited by the policy `per-client` with these
    /// fields, such as `key: ip, limit: 3/minute`.
    pub(crate) fn limiting(origin: &Origin, policy: &str) -> Self {
        Self::limiting_with(origin, policy, "")
    }

    /// The same, with further sections of the file.
    pub(crate) fn limiting_with(origin: &Origin, policy: &str, top: &str) -> Self {
        Self::start(&format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
             policies: {{ per-client: {{ {policy} }} }}\n\
             routes: [{{ path: \"/*\", policies: [per-client], upstream: app }}]\n{top}\n",
            origin.address()
        ))
    }

    /// Routes all requests to `origin` without a limit, with further fields for the route
    /// and the upstream, and further sections of the file.
    pub(crate) fn forwarding(origin: &Origin, route: &str, upstream: &str, top: &str) -> Self {
        Self::start(&format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             upstreams: {{ app: {{ endpoints: [\"http://{}\"], {upstream} }} }}\n\
             routes: [{{ path: \"/*\", upstream: app, {route} }}]\n{top}\n",
            origin.address()
        ))
    }

    /// Routes all requests to the origin at `address` on one worker, with further fields
    /// for the listener.
    pub(crate) fn on_one_worker(address: SocketAddr, listener: &str) -> Self {
        Self::start(&format!(
            "listeners: [{{ address: \"127.0.0.1:0\", {listener} }}]\n\
             upstreams: {{ app: {{ endpoints: [\"http://{address}\"] }} }}\n\
             routes: [{{ path: \"/*\", upstream: app }}]\n\
             runtime: {{ workers: 1 }}\n"
        ))
    }

    /// Starts with this configuration. An access log in a file is added to it.
    pub(crate) fn start(yaml: &str) -> Self {
        Self::start_logging(yaml, "json")
    }

    /// The same, with this format of the access log.
    pub(crate) fn start_logging(yaml: &str, format: &str) -> Self {
        Self::start_by(Program::command(), yaml, format)
    }

    /// Starts with this configuration and this level of the process log.
    pub(crate) fn start_with_log(level: &str, yaml: &str) -> Self {
        let mut command = Program::command();
        command.env("TOLLGATE_LOG", level);
        Self::start_by(command, yaml, "json")
    }

    /// Routes all requests to `origin` on one worker, with further fields for the upstream,
    /// in a process with this limit on open files.
    pub(crate) fn with_files(most: u32, origin: &Origin, upstream: &str) -> Self {
        let yaml = format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             upstreams: {{ app: {{ endpoints: [\"http://{}\"], {upstream} }} }}\n\
             routes: [{{ path: \"/*\", upstream: app }}]\n\
             runtime: {{ workers: 1 }}\n",
            origin.address()
        );
        let shell = Program::by_shell(&format!("ulimit -n {most}; exec \"$0\" \"$@\""));
        Self::start_by(shell, &yaml, "json")
    }

    /// Starts with this configuration, whose file itself is mounted, in a mount namespace of its own.
    pub(crate) fn start_mounted(yaml: &str) -> Self {
        let mounted = "mount --bind \"$3\" \"$3\" && exec \"$0\" \"$@\"";
        Self::start_with_mounts(mounted, yaml)
    }

    /// Starts with this configuration and a list of hosts of its own, which is the file `hosts`
    /// beside that of the configuration: see [`Self::set_hosts`].
    pub(crate) fn start_with_hosts(yaml: &str, hosts: &str) -> Self {
        let mounted = format!(
            "hosts=\"$(dirname \"$3\")/hosts\" && echo \"{hosts}\" >\"$hosts\" && \
             mount --bind \"$hosts\" /etc/hosts && exec \"$0\" \"$@\""
        );
        Self::start_with_mounts(&mounted, yaml)
    }

    /// The hosts are these now.
    pub(crate) fn set_hosts(&self, hosts: &str) {
        std::fs::write(self.file().with_file_name("hosts"), hosts).expect("a file");
    }

    /// Starts by this script of a shell, in a mount namespace of its own.
    fn start_with_mounts(script: &str, yaml: &str) -> Self {
        // A user without the right to mount has it in a user namespace.
        let script = format!(
            "[ $(id -u) = 0 ] || as_root=--map-root-user; \
             exec unshare --mount $as_root sh -c '{script}' \"$0\" \"$@\""
        );
        Self::start_by(Program::by_shell(&script), yaml, "json")
    }

    /// Starts with this configuration, beside whose file the directory `dead` is mounted in a mount
    /// namespace of its own. Nothing answers for that directory, as for one of a network file system
    /// without its server: it is one of FUSE, whose file descriptor the gateway holds and never reads.
    pub(crate) fn start_with_dead_mount(yaml: &str) -> Self {
        let options = "fd=9,rootmode=40000,user_id=0,group_id=0";
        let mounted = format!(
            "dead=\"$(dirname \"$3\")/dead\" && mkdir \"$dead\" && exec 9<>/dev/fuse && \
             mount -i -t fuse -o {options} dead \"$dead\" && exec \"$0\" \"$@\""
        );
        Self::start_with_mounts(&mounted, yaml)
    }

    /// Whether a thread of the process waits for the file system that does not answer.
    pub(crate) fn waits_for_dead_mount(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process.id()));
        let mut threads = threads.expect("it is our child").flatten();
        threads.any(|thread| {
            let function = std::fs::read_to_string(thread.path().join("wchan"));
            function.is_ok_and(|function| function.contains("fuse"))
        })
    }

    fn start_by(mut command: Command, yaml: &str, format: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("gateway.yaml");
        let access_log = directory.path().join("access.log");
        std::fs::write(&file, format!("{yaml}{}", telemetry(&access_log, format))).expect("a file");
        command.arg("run").arg("-c").arg(&file);
        let lines = yaml.lines().filter(|line| !line.starts_with('#'));
        let listeners = lines.map(|line| line.matches("address:").count()).sum();
        Self::spawn(command, listeners, access_log, directory)
    }

    /// Replaces the configuration file, as editors do.
    pub(crate) fn rewrite(&self, yaml: &str) {
        let file = self.file();
        let new = self.directory.path().join("new");
        let yaml = format!("{yaml}{}", telemetry(&self.access_log, "json"));
        std::fs::write(&new, yaml).expect("a file");
        std::fs::rename(new, file).expect("both are in one directory");
    }

    /// The same, and waits until the new configuration is in effect.
    pub(crate) fn reload(&self, yaml: &str) {
        let reloads = || self.log().matches(" reloaded file=").count();
        let before = reloads();
        self.rewrite(yaml);
        eventually("the gateway reloads", || reloads() > before);
    }

    /// The configuration file.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("gateway.yaml")
    }

    /// Starts without a file. `arguments` follow `run`, and contain one listener.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self::start_program(Program::command(), arguments)
    }

    /// The same by a shell, whose `script` executes `$0` with `$@`.
    pub(crate) fn start_by_shell(script: &str, arguments: &[&str]) -> Self {
        Self::start_program(Program::by_shell(script), arguments)
    }

    /// Starts a program with its own arguments, which has so many listeners.
    pub(crate) fn start_command(command: Command, listeners: usize) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self::spawn(command, listeners, directory.path().join("access.log"), directory)
    }

    fn start_program(mut command: Command, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        command.arg("run").args(arguments);
        Self::spawn(command, 1, directory.path().join("access.log"), directory)
    }

    fn spawn(
        mut command: Command,
        listeners: usize,
        access_log: PathBuf,
        directory: tempfile::TempDir,
    ) -> Self {
        let spawned = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut process = spawned.expect("the program was built");
        let stderr = process.stderr.take().expect("it was piped");
        let log = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&log);
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut seen = seen.lock().expect("no thread panics with it");
                seen.push_str(&line);
                seen.push('\n');
            }
        });
        let mut gateway = Self { process, addresses: Vec::new(), log, access_log, directory };
        let deadline = now() + PATIENCE;
        while announced(&gateway.log()).count() < listeners {
            assert!(now() < deadline, "the gateway does not listen:\n{}", gateway.log());
            thread::sleep(std::time::Duration::from_millis(2));
        }
        gateway.addresses = listening(&gateway.log());
        gateway
    }

    /// The output of `tollgate override` with these arguments and this gateway's file.
    pub(crate) fn overrides(&self, arguments: &[&str]) -> Output {
        let file = self.file();
        let file = file.to_str().expect("the path is UTF-8");
        Program::run(&[&["override", "-c", file], arguments].concat())
    }

    /// The addresses of all its listeners so far.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        listening(&self.log())
    }

    /// The address of the first listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// The address of the second listener, which has TLS in this test.
    pub(crate) fn encrypted_address(&self) -> SocketAddr {
        self.addresses[1]
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// What the process has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no thread panics with it").clone()
    }

    /// The file of the access log.
    pub(crate) fn access_log(&self) -> PathBuf {
        self.access_log.clone()
    }

    /// The lines of the access log, as soon as there are `count`.
    pub(crate) fn access_lines(&self, count: usize) -> Vec<serde_json::Value> {
        let text = self.access_text(count);
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    /// The text of the access log, as soon as it has `count` lines.
    pub(crate) fn access_text(&self, count: usize) -> String {
        let mut text = String::new();
        eventually("the access log has all lines", || {
            text = std::fs::read_to_string(&self.access_log).unwrap_or_default();
            text.ends_with('\n') && text.lines().count() >= count
        });
        text
    }

    /// The id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The number of open sockets of the process. It opens files now and then, such as those in
    /// `/proc` that list the sockets of a port.
    pub(crate) fn open_sockets(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.process.id()));
        let links = files.expect("it is our child").flatten();
        let links = links.filter_map(|file| std::fs::read_link(file.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    }

    /// The resident memory of the process.
    pub(crate) fn resident_kib(&self) -> usize {
        self.status("VmRSS")
    }

    /// The resident memory of the process without that of files.
    pub(crate) fn private_kib(&self) -> usize {
        self.status("RssAnon")
    }

    /// The largest resident memory of the process so far.
    pub(crate) fn peak_kib(&self) -> usize {
        self.status("VmHWM")
    }

    /// A number from the process status of the kernel.
    fn status(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("it is our child");
        let line = status.lines().find(|line| line.starts_with(name)).expect("a line for it");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }

    /// Sends the signal to stop. Does not wait.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends the signal of this name.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.process, name);
    }

    /// Waits until the process has ended without a further signal.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the gateway ends", || {
            status = self.process.try_wait().expect("it is our child");
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            let _ = writeln!(io::stderr(), "the gateway's log:\n{}", self.log());
        }
    }
}

fn telemetry(access_log: &std::path::Path, format: &str) -> String {
    format!("telemetry: {{ access_log: {{ path: {access_log:?}, format: {format} }} }}\n")
}

/// The addresses and ports of the listeners in the log.
fn listening(log: &str) -> Vec<SocketAddr> {
    announced(log).filter_map(|address| address.parse().ok()).collect()
}

/// The same with Unix sockets, as the log writes them.
fn announced(log: &str) -> impl Iterator<Item = &str> {
    log.lines()
        .filter(|line| line.contains("listening") && !line.contains("no longer"))
        .filter_map(|line| line.split("address=").nth(1)?.split(' ').next())
}
