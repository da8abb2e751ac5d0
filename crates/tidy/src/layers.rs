//! Imports point down: which module may use which, and where a foreign crate may be used. The
//! table of [`crates`](crate::crates) has the layers.

use crate::code::{self, is_name, line_of};
use crate::crates::{CRATES, Crate};
use crate::tree::{File, Finding, Tree};

/// Uses of a module that is not below the user.
pub(crate) fn upward_imports(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The modules of a crate without layers may use each other, but not in a circle.
    for own in CRATES.iter().filter(|it| !it.layers.is_empty()) {
        for (file, module) in modules(own, tree) {
            if own.layer(module).is_none() {
                let what = format!("give `{module}` a layer in crates/tidy/src/crates.rs");
                findings.push(file.finding(1, what));
                continue;
            }
            let code = code::only(&file.text);
            for (offset, used) in top_level_uses(own, &code, depth(own, &file.path)) {
                if let Some(what) = fault(own, module, used) {
                    findings.push(file.finding(line_of(&code, offset), what));
                }
            }
        }
    }
    findings
}

/// Uses of a foreign crate in a module that must not know it.
pub(crate) fn misplaced_crates(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for own in CRATES {
        for (file, module) in modules(own, tree) {
            let code = code::only(&file.text);
            for foreign in own.confined.iter().filter(|it| !it.modules.contains(&module)) {
                for offset in word_starts(&code, foreign.name) {
                    let what =
                        format!("`{module}` must not use `{}`: {}", foreign.name, foreign.why);
                    findings.push(file.finding(line_of(&code, offset), what));
                }
            }
        }
    }
    findings
}

/// What is wrong with `module` using the top-level name `used`.
fn fault(own: &Crate, module: &str, used: &str) -> Option<String> {
    let (Some(layer), Some(other)) = (own.layer(module), own.layer(used)) else {
        return Some(format!("`{used}` is no module: name the module that it comes from"));
    };
    if module == used || other < layer {
        None
    } else if other == layer {
        Some(format!(
            "`{module}` uses its neighbour `{used}`: move what both need down, or join them above"
        ))
    } else {
        Some(format!("`{module}` uses `{used}` above it: pass it in, or move what it needs down"))
    }
}

/// The files of the crate with their top-level modules. The roots are left out: they stand above
/// all layers.
fn modules<'t>(own: &Crate, tree: &'t Tree) -> impl Iterator<Item = (&'t File, &'t str)> {
    let sources = own.sources();
    tree.rust().filter_map(move |file| {
        let path = file.path.strip_prefix(&sources)?.strip_suffix(".rs")?;
        let module = path.split('/').next()?;
        (path != "lib" && path != "main").then_some((file, module))
    })
}

/// How many `super` lead from the module of this file to the crate's root.
fn depth(own: &Crate, path: &str) -> usize {
    let path = path.strip_prefix(own.folder).unwrap_or(path);
    let inner = path.strip_suffix("/mod.rs").unwrap_or(path);
    inner.split('/').count() - 1
}

/// Every top-level name that `code` reaches by `crate::` or by enough `super::`,
/// with the offset of the path.
fn top_level_uses<'c>(own: &Crate, code: &'c str, depth: usize) -> Vec<(usize, &'c str)> {
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
        let is_reached = |name: &&str| steps >= depth && own.layer(name).is_some();
        let reached = names(path).into_iter().filter(is_reached);
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
            let findings = found(upward_imports, "crates/core/src/policy/key.rs", source);
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
        assert_eq!(found(upward_imports, "crates/core/src/policy/key.rs", source), [""; 0]);
        assert_eq!(found(upward_imports, "src/lib.rs", "use crate::cli;"), [""; 0]);
    }

    #[test]
    fn a_module_without_a_row_and_a_name_that_is_no_module_are_found() {
        assert_eq!(found(upward_imports, "src/novel.rs", "").len(), 1);
        assert_eq!(
            found(upward_imports, "crates/core/src/policy/mod.rs", "use crate::{Policy, *};").len(),
            2
        );
    }

    #[test]
    fn a_confined_crate_is_found_where_it_must_not_be() {
        for (path, source) in [
            ("crates/core/src/store/memory.rs", "use hyper::Request;"),
            ("crates/core/src/decision/mod.rs", "fn f(b: hyper_util::rt::TokioIo) {}"),
            ("crates/core/src/policy/mod.rs", "type Y = serde_yaml::Value;"),
            ("src/app/mod.rs", "use anyhow::Context;"),
            ("src/proxy/mod.rs", "use serde_yaml::Value;"),
        ] {
            assert_eq!(found(misplaced_crates, path, source).len(), 1, "{path}: {source}");
        }
        assert_eq!(found(misplaced_crates, "src/proxy/mod.rs", "use hyper::body;"), [""; 0]);
        assert_eq!(found(misplaced_crates, "src/cli/mod.rs", "use anyhow::Result;"), [""; 0]);
        assert_eq!(
            found(misplaced_crates, "crates/core/src/store/a.rs", "// hyper\nlet hyperbole;"),
            [""; 0]
        );
    }
}
