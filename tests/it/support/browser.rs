//! A browser that a test drives: Debian's Chromium without windows, over the DevTools protocol
//! (https://chromedevtools.github.io/devtools-protocol/) on a WebSocket. Its own program
//! for that takes half of the CPU time of the whole browser.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{PATIENCE, eventually, now};

/// What `chromium-headless-shell` starts. It does not end with that script.
const PROGRAM: &str = "/usr/lib/chromium/chromium-headless-shell";

/// One page of a browser.
pub(crate) struct Browser {
    process: Child,
    socket: BufReader<TcpStream>,
    session: Option<String>,
    calls: u64,
    /// What the browser has told of its own accord.
    pub(crate) events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().expect("a directory");
        let mut process = Command::new(PROGRAM)
            .args(["--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"])
            .args(["--disable-background-networking", "--no-first-run", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("chromium-headless-shell is installed: scripts/test installs it");
        let mut said = BufReader::new(process.stderr.take().expect("it is piped"));
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(said.read_line(&mut line).expect("text") > 0, "chromium does not start");
            if let Some((_, address)) = line.trim_end().split_once("listening on ws://") {
                break address.to_owned();
            }
        };
        // The pipe is read to its end, so that the browser never waits for room.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let socket = open(&address);
        let session = None;
        let events = Vec::new();
        let mut browser = Self { process, socket, session, calls: 0, events, _profile: profile };
        let page = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// The result of a command.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut command = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        send(self.socket.get_mut(), &command.to_string());
        loop {
            let message = self.receive();
            if message["id"] != self.calls {
                self.events.push(message);
                continue;
            }
            assert!(message["error"].is_null(), "{method}: {message}");
            return message["result"].clone();
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Whether something becomes true before the patience ends.
    pub(crate) fn settles(&mut self, mut is_true: impl FnMut(&mut Self) -> bool) -> bool {
        let begun = now();
        loop {
            if is_true(self) {
                return true;
            }
            if begun.elapsed() > PATIENCE {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        eventually(expression, || {
            let is_true = self.value(expression) == true;
            if !is_true {
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
            is_true
        });
    }

    /// Waits until the text of an element contains this.
    pub(crate) fn until_text(&mut self, selector: &str, text: &str) {
        let text = json!(text);
        self.until(&format!(
            "document.querySelector('{selector}')?.textContent.includes({text}) ?? false"
        ));
    }

    /// Presses a key that has no text, or `Enter`.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowDown" => 40,
            _ => unreachable!("the tests press no other key"),
        };
        let mut event =
            json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if key == "Enter" {
            event["text"] = json!("\r");
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Types a text where the focus is.
    pub(crate) fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses the tabulator until the focus is on the element that is meant.
    pub(crate) fn tab_to(&mut self, selector: &str) {
        let is_there = format!("document.activeElement.matches({})", json!(selector));
        for _ in 0..200 {
            if self.value(&is_there) == true {
                return;
            }
            self.press("Tab");
        }
        panic!("the tabulator never reaches {selector}");
    }

    /// Shows the page in a window of this width, in one of the two themes.
    pub(crate) fn resize(&mut self, width: u32, theme: &str) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let theme = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        self.call("Emulation.setEmulatedMedia", theme);
        self.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))");
    }

    /// Writes a picture of the whole page to the directory `TOLLGATE_SCREENSHOTS`, if it is
    /// set.
    pub(crate) fn picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("TOLLGATE_SCREENSHOTS") else { return };
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let data = self.call("Page.captureScreenshot", params);
        let bytes = STANDARD.decode(data["data"].as_str().expect("base64")).expect("base64");
        let path = std::path::Path::new(&directory).join(format!("{name}.png"));
        std::fs::write(path, bytes).expect("the directory can be written");
    }

    /// The next message (RFC 6455). The browser sends no masks.
    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        loop {
            let [first, second] = self.bytes::<2>();
            let length = match second & 0x7f {
                126 => u64::from(u16::from_be_bytes(self.bytes())),
                127 => u64::from_be_bytes(self.bytes()),
                short => u64::from(short),
            };
            let read = (&mut self.socket).take(length).read_to_end(&mut message);
            read.expect("a whole message");
            if first & 0x80 != 0 {
                return serde_json::from_slice(&message).expect("JSON");
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.socket.read_exact(&mut bytes).expect("the browser runs");
        bytes
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Opens the WebSocket at `address`, which has the form `host:port/path`.
fn open(address: &str) -> BufReader<TcpStream> {
    let (host, path) = address.split_once('/').expect("it has a path");
    let mut stream = TcpStream::connect(host).expect("chromium listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket has it");
    stream.set_nodelay(true).expect("a socket has it");
    let head = format!(
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("chromium reads");
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).expect("a response");
    assert!(line.contains(" 101 "), "{line}");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).expect("a head");
    }
    stream
}

/// Sends a text as one frame. Its mask is zero, which leaves the text as it is.
fn send(stream: &mut TcpStream, text: &str) {
    let mut frame = vec![0x81];
    match (u8::try_from(text.len()), u16::try_from(text.len())) {
        (Ok(length @ ..126), _) => frame.push(0x80 | length),
        (_, Ok(length)) => {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
        _ => panic!("the tests send no such long commands"),
    }
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    stream.write_all(&frame).expect("the browser runs");
}
