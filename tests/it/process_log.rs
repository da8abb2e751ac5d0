//! The log of the process: its thread keeps a full output away from everything else.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Program, eventually, now, signal};

/// A stream that the test reads or leaves full, as a pipe that is not read.
struct Outlet {
    ours: UnixStream,
    theirs: UnixStream,
}

impl Outlet {
    fn new() -> Self {
        let (ours, theirs) = UnixStream::pair().expect("two ends");
        ours.set_nonblocking(true).expect("it is a socket");
        Self { ours, theirs }
    }

    fn stdio(&self) -> Stdio {
        OwnedFd::from(self.theirs.try_clone().expect("a descriptor")).into()
    }

    fn fill(&self) {
        self.theirs.set_nonblocking(true).expect("it is a socket");
        // Single bytes fit last.
        for size in [4096, 1] {
            while (&self.theirs).write(&vec![b'#'; size]).is_ok() {}
        }
        self.theirs.set_nonblocking(false).expect("it is a socket");
    }

    /// Reads until `condition` holds of the text that no test has written.
    fn read_until(&self, condition: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        let mut buffer = [0; 65536];
        eventually("the log is written", || {
            match (&self.ours).read(&mut buffer) {
                Ok(read) => text += &String::from_utf8_lossy(&buffer[..read]).replace('#', ""),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            condition(&text)
        });
        text
    }
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(socket: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Each line waited for its place in the pipe: the gateway did not listen before a reader
/// came, a signal stopped the control thread, and the process did not end.
#[test]
fn a_full_pipe_delays_neither_the_start_nor_requests_nor_the_stop() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("socket");
    let file = directory.path().join("gateway.yaml");
    let yaml = format!(
        "listeners: [{{ address: \"unix:{}\" }}]\nroutes: [{{ path: \"/*\", respond: {{ body: ok }} }}]\n",
        socket.display()
    );
    std::fs::write(&file, yaml).expect("a file");
    let outlet = Outlet::new();
    outlet.fill();
    let mut command: Command = Program::command();
    command.env_remove("TOLLGATE_LOG_FORMAT").arg("run").arg("-c").arg(&file);
    command.stdout(outlet.stdio()).stderr(outlet.stdio());
    let mut process = Running(command.spawn().expect("the program was built"));
    eventually("the gateway listens", || get(&socket).is_ok());
    signal(&process.0, "USR1");
    signal(&process.0, "HUP");
    let answered = (0..200).filter(|_| get(&socket).is_ok_and(|it| it.starts_with("HTTP/1.1 200")));
    assert_eq!(answered.count(), 200);
    // The output is no terminal, so all lines are JSON.
    let text =
        outlet.read_until(|text| text.contains(" reloaded") || text.contains("\"reloaded\""));
    let start = text.lines().find(|line| line.contains(" serves ")).expect("the first line");
    let start: serde_json::Value = serde_json::from_str(start).expect("JSON");
    assert_eq!(start["level"], "INFO");
    outlet.fill();
    signal(&process.0, "TERM");
    let begun = now();
    eventually("the process ends", || process.0.try_wait().is_ok_and(|ended| ended.is_some()));
    assert!(now() - begun < Duration::from_secs(6), "a stuck output delays the stop by a second");
    assert_eq!(process.0.wait().expect("it has ended").code(), Some(0));
}
