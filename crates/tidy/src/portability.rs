//! Interfaces that only Linux has are used in `src/platform` alone, so that the gateway
//! builds on other systems.

use crate::code::{self, is_name, line_of};
use crate::crates::{CRATES, Crate};
use crate::tree::{File, Finding, Tree};

/// The only folder that may use them.
const PLATFORM: &str = "src/platform/";

/// Names that only Linux has, or that distinguish systems.
const NAMES: [&str; 22] = [
    "target_os",
    "linux",
    "android",
    "SockFilter",
    "attach_filter",
    "sd_notify",
    "listenfd",
    "from_abstract_name",
    "as_abstract_name",
    "accept4",
    "epoll",
    "inotify",
    "eventfd",
    "signalfd",
    "timerfd",
    "memfd_create",
    "io_uring",
    "prctl",
    "sched_setaffinity",
    "set_cpu_affinity",
    "set_tcp_user_timeout",
    "bind_device",
];

/// Files of Linux, as string literals name them.
const FILES: [&str; 3] = ["\"/proc/", "\"/sys/", "\"/dev/shm"];

/// Uses of Linux outside [`PLATFORM`].
pub(crate) fn linux_outside_platform(tree: &Tree) -> Vec<Finding> {
    let is_judged = |file: &&File| {
        // The rules name what they look for.
        let programs = CRATES.iter().filter(|it| it.package != "tollgate-tidy");
        let mut sources = programs.map(Crate::sources);
        sources.any(|it| file.path.starts_with(&it)) && !file.path.starts_with(PLATFORM)
    };
    let mut findings = Vec::new();
    for file in tree.rust().filter(is_judged) {
        let code = code::only(&file.text);
        for name in NAMES {
            for (at, _) in code.match_indices(name) {
                let is_word =
                    !code[..at].ends_with(is_name) && !code[at + name.len()..].starts_with(is_name);
                if is_word {
                    findings.push(finding(file, line_of(&code, at), name));
                }
            }
        }
        for (number, line) in file.lines() {
            let named = FILES.iter().filter(|name| line.contains(**name));
            findings.extend(named.map(|name| finding(file, number, name)));
        }
    }
    findings
}

fn finding(file: &File, line: usize, name: &str) -> Finding {
    let what = format!("`{name}` exists on Linux only: move the use to {PLATFORM}");
    file.finding(line, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        linux_outside_platform(&Tree::sample(&[(path, text)])).len()
    }

    #[test]
    fn linux_is_found_outside_its_folder_only() {
        for text in [
            "use std::os::linux::net::SocketAddrExt;",
            "#[cfg(target_os = \"freebsd\")]",
            "socket.attach_filter(&filter)?;",
            "fs::read(\"/proc/self/limits\")",
        ] {
            assert_eq!(count("src/server/a.rs", text), 1, "{text}");
            assert_eq!(count("limiter/src/a.rs", text), 1, "{text}");
            assert_eq!(count("src/platform/linux.rs", text), 0, "{text}");
            assert_eq!(count("tests/it/a.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn other_words_and_comments_are_no_use_of_linux() {
        assert_eq!(
            count("src/a.rs", "// linux\nlet linux_like = \"linux\"; use std::os::unix;"),
            0
        );
    }
}
