//! `tollgate reload`: has a running gateway read its file again, and prints the result.
//!
//! The admin listener answers with the report. Without one, SIGHUP has the same effect, but only the
//! log of the gateway tells the result.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tollgate_top::clean;

use super::admin_client::{AdminError, mistake};
use super::which::{self, By, Gateway, GatewayArgs};
use crate::app::local_runtime;
use crate::config::LoadError;
use crate::platform::handles_hangup;

pub const EXAMPLES: &str = "\
Examples:
  tollgate reload                    asks the admin listener, and prints what has changed
  tollgate reload -c /etc/tollgate/gateway.yaml
  tollgate reload --pid 4711         sends SIGHUP if no admin listener answers
Exit code 0: the file runs; 1: it has mistakes, which are printed, and the running
configuration stays, or the gateway does not answer; 2: wrong usage.";

/// A reload takes 30 s at most.
const PATIENCE: Duration = Duration::from_secs(35);

#[derive(Clone, Debug, Args)]
pub struct ReloadArgs {
    #[command(flatten)]
    gateway: GatewayArgs,
    /// The process of the gateway, which gets SIGHUP if its admin listener does not answer
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
}

/// Why a gateway has not read its file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The gateway does not answer, or its file has mistakes.
    #[error(transparent)]
    Gateway(#[from] which::Problem),
    /// The signal cannot be sent.
    #[error("cannot send SIGHUP to the process {pid}: {error}")]
    Signal {
        /// The process.
        pid: i32,
        /// The reason.
        error: io::Error,
    },
    /// The signal would end the process.
    #[error("the process {0} does not handle SIGHUP, so it is not a running gateway")]
    NoGateway(i32),
    /// The gateway cannot be reached, and there is no process to send the signal to.
    #[error("{0}\nto send SIGHUP instead, name the process with --pid PID")]
    NoProcess(which::Problem),
    /// The system refuses a runtime.
    #[error("cannot start: {0}")]
    Start(io::Error),
}

impl Problem {
    /// Whether the fault is in the arguments. A file with mistakes is what the gateway refuses, too.
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Gateway(which::Problem::Config(LoadError::Mistakes(_))) => false,
            Self::Gateway(problem) | Self::NoProcess(problem) => problem.is_usage(),
            Self::NoGateway(_) | Self::Signal { .. } | Self::Start(_) => false,
        }
    }
}

/// Has the gateway read its file, and returns what is to be printed.
///
/// # Errors
/// If the gateway cannot be reached, or its file has mistakes.
pub fn run(args: &ReloadArgs) -> Result<String, Problem> {
    let gateway = args.gateway.find()?.waiting(PATIENCE);
    let runtime = local_runtime().map_err(Problem::Start)?;
    runtime.block_on(async {
        let Some(pid) = args.pid else {
            let answer = gateway.client.post_nothing("/v1/reload").await;
            return answer.map(|it| text(&clean::document(it))).map_err(|error| {
                let is_away = matches!(error, AdminError::Connect(_));
                let problem = gateway.problem(error);
                if is_away { Problem::NoProcess(problem) } else { problem.into() }
            });
        };
        match ask(&gateway, pid).await {
            Ok(answer) => Ok(text(&clean::document(answer))),
            Err(Unasked::Problem(problem)) => Err(problem.into()),
            Err(Unasked::Other(why)) => {
                signal(pid)?;
                Ok(format!("sent SIGHUP to the process {pid}, whose log tells the result: {why}\n"))
            }
        }
    })
}

/// Why the admin listener has not reloaded the gateway.
enum Unasked {
    /// It refuses to.
    Problem(which::Problem),
    /// It cannot be used, or is not that of the process.
    Other(String),
}

/// Asks the admin listener of this process.
async fn ask(gateway: &Gateway, pid: i32) -> Result<Value, Unasked> {
    let Gateway { url, by, client, .. } = gateway;
    if *by == By::Nothing && !url.starts_with("unix:") {
        return Err(Unasked::Other("its admin listener is not known".to_owned()));
    }
    if let Some(owner) = client.process().await.filter(|owner| *owner != pid) {
        return Err(Unasked::Other(format!("{url} is the socket of the process {owner}")));
    }
    client.post_nothing("/v1/reload").await.map_err(|error| {
        let may_signal = *by != By::Argument && error.is_shut();
        let problem = gateway.problem(error);
        if may_signal { Unasked::Other(problem.to_string()) } else { Unasked::Problem(problem) }
    })
}

fn signal(pid: i32) -> Result<(), Problem> {
    if handles_hangup(pid) == Some(false) {
        return Err(Problem::NoGateway(pid));
    }
    let process = Pid::from_raw(pid).ok_or(Problem::NoGateway(pid))?;
    let failed = |error: rustix::io::Errno| Problem::Signal { pid, error: error.into() };
    kill_process(process, Signal::HUP).map_err(failed)
}

/// What a reload has changed.
fn text(answer: &Value) -> String {
    let changes = answer["changes"].as_array().map_or(&[][..], Vec::as_slice);
    let more = answer["more_changes"].as_u64().unwrap_or(0);
    let count = changes.len() + usize::try_from(more).unwrap_or(0);
    let count = match count {
        0 => "nothing has changed".to_owned(),
        1 => "1 change".to_owned(),
        many => format!("{many} changes"),
    };
    let mut text = format!("reloaded: generation {}, {count}\n", answer["generation"]);
    for it in changes {
        let at = it["at"].as_str().unwrap_or("?");
        let _ = writeln!(text, "  {at}: {} -> {}", shown(&it["before"]), shown(&it["after"]));
    }
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    for it in answer["warnings"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "warning: {}", mistake(it));
    }
    for name in answer["needs_restart"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "needs a restart: {}", shown(name));
    }
    text
}

/// A value of a configuration.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "nothing".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reload_is_told_with_its_changes_and_warnings() {
        let answer = json!({
            "generation": 4, "more_changes": 1, "needs_restart": ["admin.address"],
            "changes": [{ "at": "/policies/each/limit", "before": "3/day", "after": null }],
            "warnings": [{ "line": 2, "column": 5, "message": "not used", "help": "remove it" }],
        });
        let told = "reloaded: generation 4, 2 changes\n  /policies/each/limit: 3/day -> nothing\n  \
                    and 1 more\nwarning: line 2, column 5: not used: remove it\n\
                    needs a restart: admin.address\n";
        assert_eq!(text(&answer), told);
        let none = json!({ "generation": 2, "changes": [], "more_changes": 0 });
        assert_eq!(text(&none), "reloaded: generation 2, nothing has changed\n");
    }
}
