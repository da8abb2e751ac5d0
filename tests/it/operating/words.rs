//! What people write and read at a terminal: files as words, tips, colours, and JSON for programs.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{command, done, run};
use crate::support::Output;

const GOOD: &str = "listeners: [{ address: \"127.0.0.1:0\" }]\n\
                    routes: [{ path: /*, respond: { body: ok } }]\n";
const BROKEN: &str = "listeners: [{ address: \"127.0.0.1:0\" }]\n\
                      routes: [{ path: /*, upstrem: app }]\n";

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("good.yaml"), GOOD).expect("a file");
    fs::write(directory.path().join("broken.yaml"), BROKEN).expect("a file");
    directory
}

/// The output of a command that reads this text.
fn reading(arguments: &[&str], text: &str) -> Output {
    let empty = tempfile::tempdir().expect("a directory");
    let mut command = command(empty.path(), arguments);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = piped.spawn().expect("the program was built");
    process.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it is read");
    let output = process.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Output { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_file_is_a_word_an_option_or_standard_input() {
    let directory = directory();
    for arguments in [&["check", "good.yaml"][..], &["check", "-c", "good.yaml"]] {
        let good = run(directory.path(), arguments);
        assert_eq!(good.code, Some(0), "{}", good.stderr);
        assert!(good.stdout.starts_with("good.yaml: good (1 listener, 1 route"), "{}", good.stdout);
    }
    let twice = run(directory.path(), &["check", "-c", "good.yaml", "good.yaml"]);
    assert_eq!(twice.code, Some(2));
    let piped = reading(&["check", "-c", "-"], GOOD);
    assert!(piped.code == Some(0) && piped.stdout.starts_with("-: good"), "{}", piped.stderr);
    let broken = reading(&["check", "-c", "-"], BROKEN);
    assert!(broken.code == Some(2) && broken.stderr.starts_with("-:2:"), "{}", broken.stderr);
}

#[test]
fn programs_read_the_mistakes_as_json() {
    let directory = directory();
    let read = |file: &str, code| {
        let output = run(directory.path(), &["check", file, "--json", "--color", "always"]);
        assert_eq!((output.code, &*output.stderr), (Some(code), ""), "{}", output.stdout);
        serde_json::from_str::<Value>(&output.stdout).expect("JSON")
    };
    let good = read("good.yaml", 0);
    assert_eq!((&good["valid"], &good["errors"]), (&json!(true), &json!([])));
    assert_eq!((&good["file"], &good["counts"]["routes"]), (&json!("good.yaml"), &json!(1)));
    let restart = &good["needs_restart"];
    let has = |list: &str, path: &str| {
        restart[list].as_array().is_some_and(|it| it.contains(&json!(path)))
    };
    assert!(has("settings", "store") && has("except", "store.redis.password"), "{restart}");
    assert_eq!(restart["digest"].as_str().map(str::len), Some(32));
    let broken = read("broken.yaml", 2);
    assert_eq!(broken["needs_restart"], Value::Null);
    let errors = broken["errors"].as_array().expect("a list");
    let error = errors.iter().find(|it| it["column"] == 22).expect("it has a place");
    assert_eq!((&broken["valid"], &error["line"]), (&json!(false), &json!(2)));
    assert!(error["help"].as_str().is_some_and(|it| it.contains("upstream")), "{error}");
    let missing = read("none.yaml", 2);
    assert!(missing["errors"][0]["message"].as_str().is_some_and(|it| it.contains("none.yaml")));
}

#[test]
fn words_of_other_programs_get_a_tip() {
    let directory = directory();
    for (word, tip) in [
        ("stop", "SIGTERM"),
        ("version", "tollgate --version"),
        ("restart", "tollgate reload"),
        ("validate", "tollgate check FILE"),
        ("start", "tollgate run"),
    ] {
        let tried = run(directory.path(), &[word]);
        assert_eq!((tried.code, &*tried.stdout), (Some(2), ""));
        assert!(
            tried.stderr.starts_with(&format!("error: there is no command {word:?}\n  to ")),
            "{}",
            tried.stderr
        );
        assert!(tried.stderr.contains(tip), "{}", tried.stderr);
    }
    let other = run(directory.path(), &["nonsense"]);
    assert!(other.code == Some(2) && other.stderr.contains("unrecognized"), "{}", other.stderr);
}

#[test]
fn an_empty_directory_gets_an_offer() {
    let empty = tempfile::tempdir().expect("a directory");
    for arguments in [&["run"][..], &["check"]] {
        let offered = run(empty.path(), arguments);
        assert_eq!(offered.code, Some(2));
        for part in
            ["there is no gateway.yaml in this directory", "tollgate init ", "tollgate run --to "]
        {
            assert!(offered.stderr.contains(part), "{part}: {}", offered.stderr);
        }
    }
    // If a file that is named is missing, nothing else is offered.
    let named = run(empty.path(), &["check", "other.yaml"]);
    assert!(
        named.stderr.starts_with("error: cannot read the configuration other.yaml"),
        "{}",
        named.stderr
    );
}

#[test]
fn colours_are_where_they_are_wanted_and_change_no_text() {
    let directory = directory();
    let with = |option: &[&str], variables: &[(&str, &str)]| {
        let arguments = [&["check", "broken.yaml"], option].concat();
        let mut command = command(directory.path(), &arguments);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        done(command.envs(variables.iter().copied())).stderr
    };
    let plain = with(&[], &[]);
    assert!(!plain.contains('\u{1b}') && plain.contains("broken.yaml:2:22: error: "), "{plain}");
    let red = "\u{1b}[1m\u{1b}[31merror\u{1b}[0m";
    for (option, variables, has_colours) in [
        (&["--color", "always"][..], &[][..], true),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&["--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
        (&[], &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], false),
    ] {
        let text = with(option, variables);
        assert_eq!(text.contains(red), has_colours, "{option:?} {variables:?}: {text:?}");
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), plain);
    }
}
