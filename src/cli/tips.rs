//! Tips for words that people try, because other programs have them.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words, and what to write instead.
const WORDS: &[(&[&str], &str)] = &[
    (&["start", "serve", "server", "up", "daemon"], "to run the gateway, write: tollgate run"),
    (
        &["stop", "quit", "shutdown", "down", "kill"],
        "to stop a gateway, send SIGTERM: systemctl stop tollgate, or kill PID; it finishes the \
         requests in progress",
    ),
    (
        &["restart"],
        "to restart, write: systemctl restart tollgate; for another configuration no restart is \
         needed: tollgate reload",
    ),
    (&["version", "-V", "-v"], "to print the version, write: tollgate --version"),
    (
        &["validate", "test", "lint", "verify", "configtest", "-t"],
        "to check a configuration, write: tollgate check FILE",
    ),
    (
        &["new", "create", "setup", "generate"],
        "for a configuration to begin with, write: tollgate init",
    ),
    (
        &["ping", "ready", "live", "healthcheck"],
        "to ask whether a gateway serves, write: tollgate health",
    ),
    (
        &["info", "stats", "stat", "show"],
        "to see what a gateway does, write: tollgate status, or tollgate top",
    ),
    (
        &["limit", "limits", "policies", "set"],
        "to see and change limits, write: tollgate policy list, or tollgate policy set POLICY LIMIT",
    ),
    (
        &["unban", "unblock", "clear", "flush"],
        "to forget the counters of a client, write: tollgate reset POLICY KEY",
    ),
    (
        &["log", "logs", "tail"],
        "the access log is on standard output, the log of the process on standard error; tollgate \
         top shows the last refusals",
    ),
    (
        &["dashboard", "ui", "page", "web"],
        "the page is at the address of the admin listener, which tollgate run prints",
    ),
    (
        &["config", "configuration"],
        "to check a configuration, write: tollgate check; to print its schema: tollgate schema",
    ),
    (&["simulate", "analyze", "analyse"], "to try limits on a log, write: tollgate replay LOG"),
];

/// The tip for wrong usage, if its word is one that people try.
pub fn of(error: &clap::Error) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    let (_, tip) = WORDS.iter().find(|(words, _)| words.contains(&&**word))?;
    Some(format!("error: there is no command {word:?}\n  {tip}"))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::super::args::Args;
    use super::*;

    fn tip(arguments: &[&str]) -> Option<String> {
        let error = Args::try_parse_from([&["tollgate"], arguments].concat()).err()?;
        of(&error)
    }

    #[test]
    fn words_of_other_programs_get_a_tip() {
        assert!(tip(&["stop"]).expect("a tip").contains("SIGTERM"));
        assert!(tip(&["version"]).expect("a tip").contains("--version"));
        assert!(tip(&["-t"]).expect("a tip").contains("tollgate check FILE"));
        assert_eq!(tip(&["nonsense"]), None);
        assert_eq!(tip(&["check"]), None);
    }

    /// A tip for a command would never be shown, and one must name only commands that exist.
    #[test]
    fn tips_name_commands_that_exist_and_stand_for_none() {
        let command = Args::command();
        let names: Vec<&str> = command.get_subcommands().map(|it| it.get_name()).collect();
        for (words, tip) in WORDS {
            assert!(words.iter().all(|word| !names.contains(word)), "{words:?}");
            for part in tip.split("tollgate ").skip(1) {
                let word = part.split([' ', ',', ';', ':']).next().unwrap_or_default();
                assert!(names.contains(&word) || word == "--version", "{tip}");
            }
        }
    }
}
