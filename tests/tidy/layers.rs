//! Imports point down: which module may use which, and where a foreign crate
//! may be used.

use crate::code::{self, is_name, line_of};
use crate::tree::{File, Finding, Tree};

/// The top-level modules of both crates from the lowest row to the highest. A
/// module may use those of lower rows, never its neighbours.
const ROWS: [&[&str]; 16] = [
    // tollgate-limiter
    &["time"],
    &["drain", "request", "digest", "algorithm", "consistency", "meter", "pem", "text"],
    &["policy", "store"],
    &["decision"],
    &["shared"],
    &["library"],
    &["layer"],
    // tollgate
    &[
        "platform",
        "telemetry",
        "gradient",
        "gather",
        "coalesced",
        "message",
        "routes",
        "patches",
        "turn",
    ],
    &["server", "engine"],
    &["proxy"],
    &["snapshot"],
    &["gateway", "admin", "replay"],
    &["check"],
    &["config"],
    &["app", "embedded", "fuzzing"],
    &["cli"],
];
/// Where the sources of the library are.
const LIMITER: &str = "limiter/src/";
/// The first row of the gateway's own modules.
const GATEWAY: usize = 7;

/// Foreign crates that only some modules may name, with the reason.
const CONFINED: [(&str, Scope, &str); 4] = [
    ("hyper", Scope::Outside(DECISIONS), "deciding knows no connections: use the `http` types"),
    ("hyper_util", Scope::Outside(DECISIONS), "deciding knows no connections"),
    ("serde_yaml", Scope::Inside(&["config"]), "only `config` knows the form of the file"),
    ("anyhow", Scope::Inside(&["cli"]), "give the module an error of its own"),
];
const DECISIONS: &[&str] = &["policy", "decision", "algorithm", "store", "request"];

enum Scope {
    Inside(&'static [&'static str]),
    Outside(&'static [&'static str]),
}

impl Scope {
    fn allows(&self, module: &str) -> bool {
        match self {
            Self::Inside(modules) => modules.contains(&module),
            Self::Outside(modules) => !modules.contains(&module),
        }
    }
}

/// Uses of a module that is not below the user.
pub(crate) fn upward_imports(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, module) in modules(tree) {
        let is_of_limiter = file.path.starts_with(LIMITER);
        if row(module).is_none_or(|row| (row < GATEWAY) != is_of_limiter) {
            findings
                .push(file.finding(1, format!("give `{module}` a row in tests/tidy/layers.rs")));
            continue;
        }
        let code = code::only(&file.text);
        for (offset, used) in top_level_uses(&code, depth(&file.path)) {
            if let Some(what) = fault(module, used) {
                findings.push(file.finding(line_of(&code, offset), what));
            }
        }
    }
    findings
}

/// Uses of a foreign crate in a module that must not know it.
pub(crate) fn misplaced_crates(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, module) in modules(tree) {
        let code = code::only(&file.text);
        for (foreign, scope, why) in &CONFINED {
            if scope.allows(module) {
                continue;
            }
            for offset in word_starts(&code, foreign) {
                let what = format!("`{module}` must not use `{foreign}`: {why}");
                findings.push(file.finding(line_of(&code, offset), what));
            }
        }
    }
    findings
}

/// What is wrong with `module` using the top-level name `used`.
fn fault(module: &str, used: &str) -> Option<String> {
    let (Some(own), Some(other)) = (row(module), row(used)) else {
        return Some(format!("`{used}` is no module: name the module that it comes from"));
    };
    if module == used || other < own {
        None
    } else if other == own {
        Some(format!(
            "`{module}` uses its neighbour `{used}`: move what both need down, or join them above"
        ))
    } else {
        Some(format!("`{module}` uses `{used}` above it: pass it in, or move what it needs down"))
    }
}

fn row(module: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&module))
}

/// The files of the crate with their top-level modules. The roots are left out:
/// they stand above all rows.
fn modules(tree: &Tree) -> impl Iterator<Item = (&File, &str)> {
    tree.rust().filter_map(|file| {
        let path = path_in_crate(&file.path)?.strip_suffix(".rs")?;
        let module = path.split('/').next()?;
        (path != "lib" && path != "main").then_some((file, module))
    })
}

fn path_in_crate(path: &str) -> Option<&str> {
    path.strip_prefix("src/").or_else(|| path.strip_prefix(LIMITER))
}

/// How many `super` lead from the module of this file to the crate's root.
fn depth(path: &str) -> usize {
    let path = path.strip_prefix("limiter/").unwrap_or(path);
    let inner = path.strip_suffix("/mod.rs").unwrap_or(path);
    inner.split('/').count() - 1
}

/// Every top-level name that `code` reaches by `crate::` or by enough `super::`,
/// with the offset of the path.
fn top_level_uses(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let mut uses = Vec::new();
    for offset in word_starts(code, "crate") {
        let names = code[offset..].strip_prefix("crate::").map(names).unwrap_or_default();
        uses.extend(names.into_iter().map(|name| (offset, name)));
    }
    for offset in word_starts(code, "super").filter(|at| !code[..*at].ends_with("super::")) {
        let path = code[offset..].trim_start_matches("super::");
        let steps = (code.len() - offset - path.len()) / "super::".len();
        // An inline module is one step deeper than its file, so its `super::x`
        // only counts where `x` is a module of the top level.
        let reached = names(path).into_iter().filter(|name| steps >= depth && row(name).is_some());
        uses.extend(reached.map(|name| (offset, name)));
    }
    uses
}

/// The first names of what follows `::`, one or a group in braces.
fn names(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else {
        return vec![first_name(path)];
    };
    let mut names = Vec::new();
    let mut open = 1_usize;
    let mut start = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        if open == 0 || (open == 1 && c == ',') {
            names.push(first_name(&group[start..at]));
            start = at + 1;
        }
        if open == 0 {
            break;
        }
    }
    names.retain(|name| !name.is_empty() && *name != "self");
    names
}

fn first_name(path: &str) -> &str {
    let path = path.trim_start();
    let end = path.find(|c| !is_name(c)).unwrap_or(path.len());
    if path.starts_with('*') { "*" } else { &path[..end] }
}

/// Where `word` stands alone in `code`.
fn word_starts<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !code[..at].ends_with(is_name) && !code[at + word.len()..].starts_with(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&Tree) -> Vec<Finding>, path: &str, source: &str) -> Vec<String> {
        rule(&Tree::sample(&[(path, source)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn an_import_from_above_is_found_in_every_form() {
        for source in [
            "use crate::decision::Decision;",
            "use crate::{digest, decision::{self, Decision}};",
            "use crate::{\n    digest::{Key, Secret},\n    decision,\n};",
            "fn f() -> crate::decision::Decision {}",
            "use super::super::decision;",
            "use super::super::{digest, decision};",
        ] {
            let findings = found(upward_imports, "limiter/src/policy/key.rs", source);
            assert_eq!(findings.len(), 1, "{source}: {findings:?}");
            assert!(findings[0].contains("`policy` uses `decision` above it"), "{findings:?}");
        }
    }

    #[test]
    fn a_neighbour_is_found_and_said_to_be_one() {
        let findings = found(upward_imports, "src/server/mod.rs", "\nuse super::engine;");
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("src/server/mod.rs:2: `server` uses its neighbour"));
    }

    #[test]
    fn imports_from_below_and_within_are_fine() {
        let source = "use super::Policy; use super::*; use crate::policy::key; \
            use crate::{digest::{Key, decision}, time}; pub(in crate::policy) struct S; \
            pub(crate) fn decision() {} // crate::decision\n const S: &str = \"crate::decision\";";
        assert_eq!(found(upward_imports, "limiter/src/policy/key.rs", source), [""; 0]);
        assert_eq!(found(upward_imports, "src/lib.rs", "use crate::cli;"), [""; 0]);
    }

    #[test]
    fn a_module_without_a_row_and_a_name_that_is_no_module_are_found() {
        assert_eq!(found(upward_imports, "src/novel.rs", "").len(), 1);
        assert_eq!(
            found(upward_imports, "limiter/src/policy/mod.rs", "use crate::{Policy, *};").len(),
            2
        );
    }

    #[test]
    fn a_confined_crate_is_found_where_it_must_not_be() {
        for (path, source) in [
            ("limiter/src/store/memory.rs", "use hyper::Request;"),
            ("limiter/src/decision/mod.rs", "fn f(b: hyper_util::rt::TokioIo) {}"),
            ("limiter/src/policy/mod.rs", "type Y = serde_yaml::Value;"),
            ("src/app/mod.rs", "use anyhow::Context;"),
        ] {
            assert_eq!(found(misplaced_crates, path, source).len(), 1, "{path}: {source}");
        }
        assert_eq!(found(misplaced_crates, "src/proxy/mod.rs", "use hyper::body;"), [""; 0]);
        assert_eq!(found(misplaced_crates, "src/cli/mod.rs", "use anyhow::Result;"), [""; 0]);
        assert_eq!(
            found(misplaced_crates, "limiter/src/store/a.rs", "// hyper\nlet hyperbole;"),
            [""; 0]
        );
    }
}
