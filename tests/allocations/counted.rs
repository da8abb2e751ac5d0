//! The gateway in a process of its own that tells how often it has allocated.
//!
//! A line on its standard input begins counting, and the next line ends it; each gets a line in
//! answer, the second with the number of allocations.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::panic;
use std::process::{self, Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use alloc_tracker::Session;

/// Set in the process of the gateway.
const VARIABLE: &str = "TOLLGATE_TEST_COUNTED_GATEWAY";

/// What follows an answer, such as its record, is done after this time.
const SETTLED: Duration = Duration::from_millis(200);

/// Whether this process was started as the gateway.
pub(crate) fn is_the_gateway() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Runs the gateway with the arguments of this process.
pub(crate) fn run() -> ExitCode {
    thread::spawn(|| {
        if !matches!(panic::catch_unwind(tell), Ok(Ok(()))) {
            // Otherwise the parent waits for an answer for ever.
            process::abort();
        }
    });
    tollgate::cli::main()
}

/// Reads single bytes, because a buffer would be an allocation of its own.
fn next_line() -> io::Result<()> {
    let mut byte = [0];
    while byte[0] != b'\n' {
        io::stdin().read_exact(&mut byte)?;
    }
    Ok(())
}

fn answer(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")?;
    io::stdout().flush()
}

fn tell() -> io::Result<()> {
    next_line()?;
    let session = Session::new().no_stdout().no_file();
    let operation = session.operation("requests");
    let span = operation.measure_process().iterations(1);
    answer("counting")?;
    next_line()?;
    drop(span);
    let report = session.to_report();
    let count = report.operations().map(|(_, it)| it.total_allocations_count()).sum::<u64>();
    answer(&count.to_string())
}

/// The process of a gateway, as its parent sees it. It ends when this is dropped.
pub(crate) struct Gateway {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Gateway {
    /// Starts this program as a gateway with one listener.
    pub(crate) fn start(yaml: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let path = directory.path().join("gateway.yaml");
        std::fs::write(&path, yaml).expect("the file can be written");
        let mut process = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["run", "-c"])
            .arg(path)
            .env(VARIABLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let questions = process.stdin.take().expect("it was piped");
        let answers = BufReader::new(process.stdout.take().expect("it was piped"));
        let mut log = BufReader::new(process.stderr.take().expect("it was piped")).lines();
        let address = log.by_ref().map_while(Result::ok).find_map(|line| address_in(&line));
        let address = address.expect("the gateway says where it listens");
        // The log has a reader for as long as it lasts.
        thread::spawn(move || log.for_each(drop));
        Self { process, questions, answers, address, _directory: directory }
    }

    /// Begins counting.
    pub(crate) fn begin(&mut self) {
        self.ask();
    }

    /// Ends counting: the number of allocations.
    pub(crate) fn end(&mut self) -> f64 {
        self.ask().trim().parse().expect("a number")
    }

    fn ask(&mut self) -> String {
        thread::sleep(SETTLED);
        self.questions.write_all(b"\n").expect("the gateway reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the gateway answers");
        line
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The address and port in a line of the log about a listener.
fn address_in(line: &str) -> Option<SocketAddr> {
    let words = || line.split([' ', '=', '"', ',']);
    line.contains("listening").then(|| words().find_map(|word| word.parse().ok())).flatten()
}
