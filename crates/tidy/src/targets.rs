//! Where `scripts/targets` finds a standard library for another target: in the compiler, from
//! rustup, from Debian, or nowhere. Other programs stand in for rustc, rustup and apt, so nothing
//! is fetched. A golden file has what it prints in each case; `UPDATE_GOLDEN=1` writes them anew.

use std::fmt::Write as _;
use std::process::Command;

use crate::scratch::Scratch;
use crate::tree;

/// A directory of programs that answer as these ones would. Each is text for the shell.
fn stand_ins(programs: &[(&str, &str)]) -> Scratch {
    let directory = Scratch::new();
    let texts = directory.path().join("texts");
    std::fs::create_dir(&texts).expect("a directory");
    // Another program writes the executable files. If this process did, a child that another test
    // starts at this moment would have them open for writing, and the system would not run them.
    let mut install = Command::new("install");
    install.args(["-m", "755"]);
    for (name, text) in programs {
        let path = texts.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a file");
        install.arg(path);
    }
    let installed = install.arg(directory.path()).status().expect("it is a part of Debian");
    assert!(installed.success());
    // The compiler of some targets has a library.
    let library = directory.path().join("libraries/x86_64-unknown-linux-gnu");
    std::fs::create_dir_all(&library).expect("a directory");
    std::fs::write(library.join("libstd-0123.rlib"), "").expect("a file");
    directory
}

const RUSTC: &str = "echo \"$(dirname \"$0\")/libraries/$4\"";
const RUSTUP: &str = "echo aarch64-unknown-linux-musl\necho 'x86_64-unknown-linux-gnu (installed)'";
const NO_RUSTUP: &str = "exit 1";
const APT_GET: &str = "exit 0";
/// `apt-cache show` of Debian 12 with its security updates.
const APT_CACHE: &str = "case $* in\n\
    *' rustc-web') echo 'Version: 1.96.0+dfsg1-1~deb12u2' ;;\n\
    *' libstd-rust-web-1.96') echo 'Depends: libc6 (>= 2.36), libllvm22 (>= 1:22.1.0)' ;;\n\
    esac";
/// Without its security updates.
const OLD_APT_CACHE: &str = "echo 'Version: 1.85.0+dfsg3-1~deb12u3'";

/// The exit code and the output of `scripts/targets` in a dry run with these programs.
fn found(target: &str, rustup: &str, apt_cache: &str) -> String {
    let programs = [
        ("rustc", RUSTC),
        ("rustup", rustup),
        ("apt-get", APT_GET),
        ("apt-cache", apt_cache),
        ("uname", "echo x86_64"),
    ];
    let programs = stand_ins(&programs);
    let output = Command::new(tree::root().join("scripts/targets"))
        .args(["--dry-run", "std", target])
        .env("PATH", format!("{}:/usr/bin:/bin", programs.path().display()))
        .env("CARGO_TARGET_DIR", "/build")
        .env_remove("RUSTC")
        .output()
        .expect("the script runs");
    let mut text = format!("exit code {}\n", output.status.code().unwrap_or(-1));
    for (name, bytes) in [("environment", output.stdout), ("messages", output.stderr)] {
        let printed = String::from_utf8(bytes).expect("it prints text");
        let _ = write!(text, "--- {name}\n{printed}");
    }
    text
}

fn hold(golden: &str, found: &str) {
    let path = tree::root().join("crates/tidy/targets").join(golden);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).expect("the file can be written");
    }
    let accepted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, accepted, "crates/tidy/targets/{golden}");
}

#[test]
fn the_library_of_the_compiler_comes_first() {
    hold("compiler.txt", &found("x86_64-unknown-linux-gnu", RUSTUP, APT_CACHE));
}

#[test]
fn rustup_comes_before_debian() {
    hold("rustup.txt", &found("aarch64-unknown-linux-musl", RUSTUP, APT_CACHE));
}

#[test]
fn debian_has_the_library_for_glibc_and_the_sources_for_musl() {
    hold("debian-gnu.txt", &found("aarch64-unknown-linux-gnu", NO_RUSTUP, APT_CACHE));
    hold("debian-musl.txt", &found("x86_64-unknown-linux-musl", NO_RUSTUP, APT_CACHE));
}

#[test]
fn without_a_library_the_remedies_are_named() {
    hold("none.txt", &found("x86_64-unknown-linux-musl", NO_RUSTUP, OLD_APT_CACHE));
}
