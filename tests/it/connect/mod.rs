//! `tollgate check --connect`: what it finds at servers and files, and its exit codes.

mod others;
mod rights;
mod store;
mod topologies;

use crate::support::{Output, Program};

/// The output of the check of a configuration that has these sections besides a listener and a
/// route, and the name of its file.
fn check(sections: &str) -> (Output, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.yaml").display().to_string();
    let text = format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         routes: [{{ path: \"/*\", respond: {{ body: ok }} }}]\n{sections}"
    );
    std::fs::write(&path, text).expect("a file");
    (Program::run(&["check", "--connect", "-c", &path]), path)
}

/// The output of the check of a store with these fields.
fn check_store(fields: &str) -> Output {
    check(&format!("store: {{ redis: {{ {fields} }} }}\n")).0
}

/// Checks that the servers can be used, without a warning, and returns what was found there.
fn good(output: Output) -> String {
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{}", output.stdout);
    output.stdout
}

/// Checks that a server cannot be used, and returns the report.
fn bad(output: Output) -> String {
    assert_eq!(output.code, Some(1), "{}{}", output.stdout, output.stderr);
    assert!(output.stderr.ends_with(" cannot be used as they are\n"), "{}", output.stderr);
    output.stderr
}
