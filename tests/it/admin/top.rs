//! `tollgate top`, as text and in a terminal.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{OPERATE, READ, gateway, statuses};
use crate::support::redis::{Options, Redis};
use crate::support::{Gateway, Program, eventually};

const COLUMNS: usize = 100;
const ROWS: usize = 30;

/// Runs it with these arguments, for this gateway. Returns the exit code and both outputs.
fn once(gateway: &Gateway, arguments: &[&str]) -> (Option<i32>, String, String) {
    let admin = format!("http://{}", gateway.addresses()[1]);
    let mut command = Program::command();
    command.args(["top", "--admin", &admin]).args(arguments).env("TOLLGATE_ADMIN_TOKEN", READ);
    let output = command.output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn it_prints_figures_and_shows_them_in_a_terminal() {
    let gateway = gateway("runtime: { workers: 1 }", "");
    // A node whose requests are refused is not well.
    let (code, out, _) = once(&gateway, &["--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &document["nodes"][0]["status"]["state"]), (Some(0), &"ok".into()));
    let (_, out, _) = once(&gateway, &["--once", "--policy", "each"]);
    assert!(out.contains("n1    ok") && !out.contains("open"), "{out}");
    assert_eq!(statuses(&gateway, "ann", 4), [200, 200, 200, 429]);
    let mut text = String::new();
    eventually("all figures are there", || {
        // Eight calls each time, and a credential has 50 in a second.
        thread::sleep(Duration::from_millis(400));
        let (code, out, err) = once(&gateway, &["--once", "--policy", "each"]);
        assert_eq!(code, Some(0), "{err}");
        text = out;
        text.contains("25.0 %") && text.contains("header x-who a")
    });
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let places = ["Overview\n", "Policies\n", "Keys\n", "Refusals\n", "Upstreams\n", "Store\n"];
    assert!(places.map(|it| text.find(it)).is_sorted(), "{text}");
    // One of two gateways is away.
    let (code, out, err) = once(&gateway, &["--once", "--admin", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(1), "{out}");
    assert!(
        out.contains("n2    lost") && err.contains("127.0.0.1:1: cannot connect"),
        "{out}{err}"
    );
    for wrong in [
        &["--admin", "x"][..],
        &["--scope", "cluster", "--admin", "http://a"],
        &["--interval", "1"],
    ] {
        assert_eq!(once(&gateway, wrong).0, Some(2), "{wrong:?}");
    }
    in_a_terminal(&gateway);
}

#[test]
fn without_redis_it_shows_everything_but_the_nodes() {
    let mut redis = Redis::start(Options::default());
    let store = format!("store: {{ redis: {{ url: \"{}\" }} }}", redis.url());
    let gateway = gateway(&store, "");
    redis.kill();
    let mut text = String::new();
    eventually("the nodes are not known", || {
        // A credential has 50 calls in a second.
        thread::sleep(Duration::from_millis(400));
        text = once(&gateway, &["--once"]).1;
        text.contains("! n1: nodes not refreshed: 503 Service Unavailable: the nodes are listed in")
            && text.contains("! store_away since")
    });
    assert!(text.contains("\neach "), "{text}");
    let (code, out, err) = once(&gateway, &["--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let node = &document["nodes"][0];
    assert_eq!(
        (code, &node["nodes"], &node["error"]),
        (Some(0), &Value::Null, &Value::Null),
        "{err}"
    );
    assert!(node["failures"]["nodes"].as_str().is_some_and(|it| it.contains("503")), "{node}");
}

fn in_a_terminal(gateway: &Gateway) {
    let admin = format!("http://{}", gateway.addresses()[1]);
    let mut terminal = Terminal::start(&format!("top --admin {admin} --interval 500ms"));
    terminal.shows("[1 Overview]");
    terminal.shows("n1    ok");
    terminal.press("3");
    terminal.shows("header x-who a…");
    terminal.press("e");
    terminal.shows("Used      3 of 3 (policy)");
    terminal.press("qr");
    terminal.shows("Reset header x-who a…");
    terminal.press("y");
    terminal.shows("header x-who a… is reset");
    eventually("it is admitted", || statuses(gateway, "ann", 1) == [200]);
    terminal.press("4");
    terminal.shows("[4 Refusals]");
    // A script that rotates logs signals every process of this name.
    terminal.signal("USR1", &admin);
    terminal.press("1");
    terminal.shows("[1 Overview]");
    terminal.press("q");
    terminal.ends();
}

/// The program in a pseudo-terminal, which `script` of util-linux makes.
struct Terminal {
    process: Child,
    keys: ChildStdin,
    output: Arc<Mutex<String>>,
}

impl Terminal {
    fn start(arguments: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_tollgate");
        let run = format!("stty cols {COLUMNS} rows {ROWS}; '{program}' {arguments}; stty -a");
        let mut command = Command::new("script");
        command.args(["-q", "-f", "-c", &run, "/dev/null"]);
        command.env("TOLLGATE_ADMIN_TOKEN", OPERATE).env("TERM", "xterm").env("SHELL", "/bin/sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("util-linux has it");
        let keys = process.stdin.take().expect("it was piped");
        let mut stdout = process.stdout.take().expect("it was piped");
        let output = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&output);
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                bytes.extend_from_slice(&buffer[..count]);
                *seen.lock().expect("no thread panics with it") =
                    String::from_utf8_lossy(&bytes).into_owned();
            }
        });
        Self { process, keys, output }
    }

    fn press(&mut self, keys: &str) {
        for key in keys.bytes() {
            self.keys.write_all(&[key]).and_then(|()| self.keys.flush()).expect("it runs");
        }
    }

    /// Sends this signal to the program itself, which asks this gateway.
    fn signal(&self, name: &str, admin: &str) {
        let start = format!("{}\0top\0--admin\0{admin}\0", env!("CARGO_BIN_EXE_tollgate"));
        let processes = std::fs::read_dir("/proc").expect("the system has it").flatten();
        let mut paths = processes.map(|entry| entry.path());
        let has_started = |path: &std::path::PathBuf| {
            let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
            line.starts_with(start.as_bytes())
        };
        let process = paths.find(has_started).expect("it runs");
        let number = process.file_name().expect("a number");
        let status = Command::new("kill").args(["-s", name]).arg(number).status();
        assert!(status.expect("kill is installed").success());
    }

    fn output(&self) -> String {
        self.output.lock().expect("no thread panics with it").clone()
    }

    /// Waits until the screen has this text.
    fn shows(&self, text: &str) {
        eventually(text, || screen(&self.output()).contains(text));
    }

    /// Waits for the end. The terminal is as it was before.
    fn ends(mut self) {
        eventually("the terminal is restored", || self.output().contains("icanon"));
        self.process.wait().expect("it ends");
        let output = self.output();
        let (view, after) = output.split_once("\u{1b}[?1049l").expect("the view is left");
        assert!(view.contains("\u{1b}[?1049h"));
        assert!(after.contains("\u{1b}[?25h"), "the cursor is shown: {after:?}");
        assert!(!after.contains("-icanon") && !after.contains("-echo "), "{after}");
    }
}

/// What a terminal shows after this output.
fn screen(output: &str) -> String {
    let mut cells = vec![vec![' '; COLUMNS]; ROWS];
    let mut x = 0;
    let mut y = 0;
    let mut rest = output.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                let (parameters, last) = sequence(&mut rest);
                let mut numbers = parameters.split(';').map(|it| it.parse().unwrap_or(1_usize));
                if last == 'H' {
                    y = numbers.next().unwrap_or(1).max(1) - 1;
                    x = numbers.next().unwrap_or(1).max(1) - 1;
                } else if last == 'J' {
                    cells = vec![vec![' '; COLUMNS]; ROWS];
                }
            }
            '\r' => x = 0,
            '\n' => y += 1,
            c => {
                if let Some(cell) = cells.get_mut(y).and_then(|row| row.get_mut(x)) {
                    *cell = c;
                }
                x += 1;
            }
        }
    }
    cells.iter().map(|row| row.iter().collect::<String>() + "\n").collect()
}

/// The parameters and the last character of an escape sequence.
fn sequence(rest: &mut std::str::Chars<'_>) -> (String, char) {
    let mut parameters = String::new();
    if rest.next() != Some('[') {
        return (parameters, ' ');
    }
    for c in rest {
        if c.is_ascii_alphabetic() {
            return (parameters, c);
        }
        parameters.push(c);
    }
    (parameters, ' ')
}
