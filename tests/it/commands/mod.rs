//! Every command in README.md and docs/ runs as it is written, in the order of its document.
//!
//! `page` finds the commands, `scene` has the gateways and files of each document, and `listed`
//! the commands that do not run here. Only addresses and the token of the operator are others
//! than in the document. The module `recipes` runs those of docs/recipes.md, with their answers.

mod listed;
pub(crate) mod page;
pub(crate) mod scene;

use std::process::Command as Process;
use std::thread;

use listed::{Instead, LISTED, Listed};
use page::{Command, Page, Spelling, pages, project};
use scene::{Done, Scene};

use crate::support::Program;

impl Listed {
    fn is(&self, page: &Page, command: &Command) -> bool {
        self.page == page.path && command.text.starts_with(self.begins)
    }
}

#[test]
fn every_command_of_the_documents_runs_as_it_is_written() {
    let mut pages = pages();
    pages.retain(|page| !crate::recipes::PAGES.iter().any(|(path, _)| *path == page.path));
    let problems: Vec<String> = thread::scope(|scope| {
        let tried: Vec<_> = pages.iter().map(|page| scope.spawn(|| try_out(page))).collect();
        tried.into_iter().flat_map(|page| page.join().expect("no scene fails")).collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    let count: usize = pages.iter().map(|page| page.commands().len()).sum();
    assert!(count > 100, "only {count} commands are found");
}

#[test]
fn every_listed_command_is_in_its_document() {
    let pages = pages();
    for listed in LISTED {
        let page = pages.iter().find(|page| page.path == listed.page);
        let is_there =
            page.is_some_and(|page| page.commands().iter().any(|it| listed.is(page, it)));
        assert!(
            is_there,
            "{} has no command {:?}: remove it from LISTED",
            listed.page, listed.begins
        );
    }
}

/// A block without a language would not be tried out.
#[test]
fn blocks_of_commands_name_their_language() {
    for page in pages() {
        for (line, text) in page.without_language() {
            let is_command = ["$ ", "bench/", "cargo ", "curl ", "scripts/"]
                .iter()
                .any(|start| text.starts_with(start));
            assert!(!is_command, "{}:{line}: write ```sh or ```console: {text}", page.path);
        }
    }
}

/// The examples that `--help` shows have no gateway, so they are read.
#[test]
fn every_example_of_the_help_is_accepted() {
    let mut count = 0;
    for command in [
        "run",
        "init",
        "import",
        "prices",
        "check",
        "override",
        "explain",
        "top",
        "health",
        "status",
        "reload",
        "policy",
        "reset",
        "replay",
        "schema",
        "completions",
    ] {
        let help = Program::run(&[command, "--help"]).stdout;
        let (_, examples) = help.split_once("Example").expect("the help has examples");
        for line in examples.lines().filter_map(|line| line.strip_prefix("  ")) {
            // Without the commands around it, and without what the example explains.
            let Some(start) = line.find("tollgate ") else { continue };
            let text = &line[start..];
            let end = [" && ", " > ", "   "].iter().filter_map(|it| text.find(it)).min();
            let text = &text[..end.unwrap_or(text.len())];
            assert_eq!(mistake(text), None, "{line}");
            count += 1;
        }
    }
    assert!(count > 20, "only {count} examples are found");
}

/// The problems of the commands of a document.
fn try_out(page: &Page) -> Vec<String> {
    let commands = page.commands();
    if commands.is_empty() {
        return Vec::new();
    }
    let mut scene = Scene::of(page);
    let mut problems = Vec::new();
    for command in &commands {
        let loose = Spelling::of(&command.text).loose;
        let listed = LISTED.iter().find(|listed| listed.is(page, command));
        let problem = match listed.map(|listed| listed.instead) {
            _ if !loose.is_empty() => Some(format!("not in quotes: {loose:?}")),
            Some(Instead::Read) => mistake(&command.text),
            Some(Instead::Same(other)) => {
                let has_it = page::page(other).commands().iter().any(|it| it.text == command.text);
                (!has_it).then(|| format!("{other} has another command"))
            }
            instead => wrong_end(&command.text, instead, &scene.run(&command.text)),
        };
        let place = format!("{}:{}: {}", page.path, command.line, command.text);
        problems.extend(problem.map(|problem| format!("{place}\n{problem}")));
    }
    problems
}

/// Why a command that has run has not ended as the document shows it.
fn wrong_end(command: &str, instead: Option<Instead>, done: &Done) -> Option<String> {
    let is_good = match instead {
        Some(Instead::End(code)) => done.code == Some(code),
        Some(Instead::Get(statuses)) => {
            // curl ends with 22 after such an answer, if no other program follows it.
            matches!(done.code, Some(0 | 22))
                && statuses.iter().all(|it| done.statuses.contains(it))
                && done.statuses.iter().all(|it| statuses.contains(it))
        }
        Some(Instead::Read | Instead::Same(_)) | None => {
            done.code == Some(0)
                && done.statuses.iter().all(|it| (200..300).contains(it))
                && done.statuses.is_empty() != command.contains("curl ")
        }
    };
    let Done { code, statuses, output, .. } = done;
    (!is_good).then(|| format!("exit code {code:?}, statuses {statuses:?}\n{output}"))
}

/// Why a command that is not run cannot be right.
pub(crate) fn mistake(command: &str) -> Option<String> {
    let bash = |arguments: &[&str]| {
        let output = Process::new("bash").args(arguments).output().expect("bash is installed");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let (is_good, _, said) = bash(&["-n", "-c", command]);
    if !is_good {
        return Some(said);
    }
    let program = command.split_whitespace().next().unwrap_or_default();
    if program == "tollgate" {
        // The shell itself divides the text into arguments. It opens no files for it.
        let command = [" < ", " > "].iter().fold(command, |command, redirection| {
            command.split_once(redirection).map_or(command, |(before, _)| before)
        });
        let script = format!("tollgate() {{ printf '%s\\n' tollgate \"$@\"; }}; {command}");
        let (_, arguments, _) = bash(&["-c", &script]);
        return tollgate::cli::usage_error(arguments.lines());
    }
    let is_ours = ["bench/", "scripts/"].iter().any(|it| program.starts_with(it));
    (is_ours && !project().join(program).is_file()).then(|| format!("there is no {program}"))
}
