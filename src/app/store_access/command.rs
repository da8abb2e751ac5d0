//! Runs a program that prints a password.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, copy, sink};
use tokio::join;
use tokio::process::Command;
use tokio::time::timeout;
use tollgate_redis::Password;

use crate::config::PasswordCommand;

/// How long a run may take.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The longest password, in bytes. Tokens have some thousand.
const MAX_PASSWORD: usize = 64 * 1024;
/// The part of the program's messages that an error has, in bytes.
const MAX_MESSAGE: usize = 300;

/// Why a program has printed no password. The text has nothing of the program's output, but of its
/// messages if it has failed.
#[derive(Debug, Error)]
pub enum CommandError {
    /// It cannot be started.
    #[error("{0:?} cannot be started: {1}")]
    Start(String, io::Error),
    /// It does not end.
    #[error("{0:?} has not ended within {limit} s", limit = TIME_LIMIT.as_secs())]
    Late(String),
    /// It reports a failure.
    #[error("{0:?} has failed ({1}): {2}")]
    Failed(String, ExitStatus, String),
    /// It has printed something else.
    #[error("{0:?} has printed {1}")]
    NoPassword(String, &'static str),
    /// Its output cannot be read.
    #[error("the output of {0:?} cannot be read: {1}")]
    Output(String, io::Error),
}

/// The password that the program prints. A program that takes too long is killed.
///
/// # Errors
/// If it does not end in time, reports a failure, or prints no password.
pub async fn run(command: &PasswordCommand) -> Result<Password, CommandError> {
    let PasswordCommand { program, arguments, directory, .. } = command;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(if directory.as_os_str().is_empty() { ".".as_ref() } else { &**directory })
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| CommandError::Start(program.clone(), error))?;
    let output = child.stdout.take();
    let messages = child.stderr.take();
    let all = async {
        join!(beginning(output, MAX_PASSWORD + 1), beginning(messages, MAX_MESSAGE), child.wait())
    };
    let ended = timeout(TIME_LIMIT, all).await;
    let (output, messages, status) = ended.map_err(|_| CommandError::Late(program.clone()))?;
    let unreadable = |error| CommandError::Output(program.clone(), error);
    let status = status.map_err(unreadable)?;
    if !status.success() {
        let messages = messages.unwrap_or_default();
        return Err(CommandError::Failed(program.clone(), status, shown(&messages)));
    }
    password(output.map_err(unreadable)?)
        .map_err(|what| CommandError::NoPassword(program.clone(), what))
}

/// The beginning of what a program writes. The rest is read too, so that the program can end.
async fn beginning(from: Option<impl AsyncRead + Unpin>, bytes: usize) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    if let Some(mut from) = from {
        let limit = u64::try_from(bytes).unwrap_or(u64::MAX);
        (&mut from).take(limit).read_to_end(&mut read).await?;
        copy(&mut from, &mut sink()).await?;
    }
    Ok(read)
}

/// The password in the output: one line. The error is the end of a sentence.
fn password(output: Vec<u8>) -> Result<Password, &'static str> {
    if output.len() > MAX_PASSWORD {
        return Err("more than 64 KiB");
    }
    let text = String::from_utf8(output).map_err(|_| "something else than text")?;
    let line = text.trim_end_matches(['\r', '\n']);
    if line.is_empty() {
        return Err("nothing");
    }
    if line.contains(['\r', '\n']) {
        return Err("more than one line, and the password must be the only one");
    }
    Ok(Password::new(line))
}

/// The messages of a program on one line.
fn shown(messages: &[u8]) -> String {
    let text = String::from_utf8_lossy(messages);
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let text = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if text.is_empty() { "it says nothing".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::local_runtime;

    fn run_shell(script: &str) -> Result<String, String> {
        let command = PasswordCommand {
            program: "/bin/sh".to_owned(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            directory: "/".into(),
            lifetime: Duration::from_secs(60),
        };
        let runtime = local_runtime().expect("a runtime");
        let printed = runtime.block_on(run(&command));
        printed.map(|it| it.expose().to_owned()).map_err(|it| it.to_string())
    }

    #[test]
    fn the_password_is_the_only_line() {
        assert_eq!(run_shell("echo secret"), Ok("secret".to_owned()));
        assert_eq!(run_shell("printf 'with blanks  '"), Ok("with blanks  ".to_owned()));
        assert_eq!(run_shell("printf 'secret\\r\\n'; echo message >&2"), Ok("secret".to_owned()));
        assert_eq!(run_shell("pwd"), Ok("/".to_owned()), "it runs in the directory");
    }

    #[test]
    fn an_error_says_what_happened_and_repeats_no_output() {
        for (script, expected) in [
            ("true", "has printed nothing"),
            ("echo hunter2; echo hunter2", "more than one line"),
            ("printf 'hunter2\\377'", "something else than text"),
            ("head -c 70000 /dev/zero | tr '\\0' x", "more than 64 KiB"),
            (
                "echo hunter2; echo 'no\n\tcredentials' >&2; exit 3",
                "(exit status: 3): no credentials",
            ),
            ("kill -9 $$", "(signal: 9 (SIGKILL)): it says nothing"),
            ("head -c 400000 /dev/zero >&2; exit 1", "(exit status: 1)"),
        ] {
            let error = run_shell(script).expect_err(script);
            assert!(error.contains(expected), "{script}: {error}");
            assert!(!error.contains("hunter2") && error.starts_with("\"/bin/sh\""), "{error}");
        }
    }

    #[test]
    fn a_program_that_cannot_be_started_is_named() {
        let command = PasswordCommand {
            program: "/no/such/program".to_owned(),
            arguments: Vec::new(),
            directory: "/".into(),
            lifetime: Duration::from_secs(60),
        };
        let error = local_runtime().expect("a runtime").block_on(run(&command)).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("\"/no/such/program\" cannot be started: "), "{text}");
    }
}
