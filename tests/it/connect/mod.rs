//! `tollgate check --connect`: what it finds at servers and files, and its exit codes.

mod others;
mod rights;
mod store;
mod topologies;

use crate::support::{Output, Program};

/// The output of the check of a configuration that has these sections besides a listener and a
/// route, and the name of its file. The route uses the upstream `app` and the policy `p`, if they are
/// there.
fn check(sections: &str) -> (Output, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.yaml").display().to_string();
    let is_there = |section| sections.contains(section);
    let action = if is_there("upstreams:") { "upstream: app" } else { "respond: { body: ok }" };
    let policies = if is_there("policies:") { "[p]" } else { "[]" };
    let text = format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         routes: [{{ path: \"/*\", policies: {policies}, {action} }}]\n{sections}"
    );
    std::fs::write(&path, text).expect("a file");
    (Program::run(&["check", "--connect", "-c", &path]), path)
}

/// The output of the check of a store with these fields. On a machine with much load a server is
/// slow, so the timeout is long if the fields have none.
fn check_store(fields: &str) -> Output {
    let timeout = if fields.contains("timeout:") { "" } else { ", timeout: 3s" };
    check(&format!("store: {{ redis: {{ {fields}{timeout} }} }}\n")).0
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
