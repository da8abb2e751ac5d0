//! No import cycles: of the files and folders in one folder, none uses another that uses
//! it, directly or through others.
//!
//! A folder's own file (`mod.rs`) counts as one of its files. A name that it re-exports
//! counts as use of the file that the name comes from. Code for tests is left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::crates::CRATES;
use crate::modules::{Module, Modules};
use crate::tree::{Finding, Tree};

/// Files that are still in a cycle, by folder. The list can only shrink: a file that is in
/// no cycle any more must leave it.
const KNOWN: [(&str, &[&str]); 0] = [];

/// The files of one folder, and which others each of them uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Import cycles that are not in [`KNOWN`], and entries of it that are gone.
pub(crate) fn import_cycles(tree: &Tree) -> Vec<Finding> {
    judge(tree, &KNOWN)
}

fn judge(tree: &Tree, known: &[(&str, &[&str])]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_cycles = BTreeSet::new();
    for own in CRATES {
        for (folder, graph) in graphs(tree, own.sources().trim_end_matches('/')) {
            for cycle in cycles(&graph) {
                let is_known = |name: &String| {
                    known.iter().any(|(at, names)| *at == folder && names.contains(&&**name))
                };
                if !cycle.iter().all(is_known) {
                    let names = cycle.iter().cloned().collect::<Vec<_>>().join(", ");
                    let what = format!("these use each other: {names}: move what both need down");
                    findings.push(Finding::at(&folder, what));
                }
                in_cycles.extend(cycle.into_iter().map(|name| (folder.clone(), name)));
            }
        }
    }
    for (folder, names) in known {
        for name in *names {
            if !in_cycles.contains(&((*folder).to_owned(), (*name).to_owned())) {
                let what =
                    format!("`{name}` is in no cycle: remove it from the list of known ones");
                findings.push(Finding::at(folder, what));
            }
        }
    }
    findings
}

/// The graph of each folder below `root`.
fn graphs(tree: &Tree, root: &str) -> BTreeMap<String, Graph> {
    let modules = Modules::read(tree, root);
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    for (user, module) in modules.all() {
        for used in modules.uses(user, module) {
            let shared = user.iter().zip(&used).take_while(|(a, b)| a == b).count();
            let from = node(user, shared);
            let to = node(&used, shared);
            if from != to {
                let folder = [&[root.to_owned()], &user[..shared]].concat().join("/");
                let graph = graphs.entry(folder).or_default();
                graph.entry(from).or_default().insert(to.clone());
                graph.entry(to).or_default();
            }
        }
    }
    graphs
}

/// The child of the folder at `depth` that holds `module`; the folder's own file if it is
/// the folder itself.
fn node(module: &Module, depth: usize) -> String {
    module.get(depth).cloned().unwrap_or_else(|| "mod.rs".to_owned())
}

/// The sets of files that reach each other.
fn cycles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|start| (start, reachable(graph, start))).collect();
    let mut cycles = BTreeSet::new();
    for start in graph.keys().filter(|start| reached[start].contains(start)) {
        let returns =
            |other: &&String| reached[start].contains(other) && reached[other].contains(start);
        cycles.insert(graph.keys().filter(returns).cloned().collect::<BTreeSet<_>>());
    }
    cycles.into_iter().collect()
}

/// What `start` uses, directly or through others.
fn reachable<'g>(graph: &'g Graph, start: &'g String) -> BTreeSet<&'g String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(name) = open.pop() {
        open.extend(graph[name].iter().filter(|next| reached.insert(*next)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], known: &[(&str, &[&str])]) -> Vec<String> {
        judge(&Tree::sample(files), known).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_found_in_every_form() {
        for (one, other) in [
            ("use super::b::B;", "use super::a::A;"),
            ("use crate::x::b;", "fn f() { crate::x::a::g(); }"),
            ("use crate::{y, x::{b::{B, C}, self}};", "use super::{a};"),
            // Through the re-export of the folder.
            ("use super::{B};", "use crate::x::A;"),
        ] {
            let folder = "mod a; mod b; pub use a::A; pub use self::b::{B, C as D};";
            let files = [("src/x/mod.rs", folder), ("src/x/a.rs", one), ("src/x/b.rs", other)];
            let findings = found(&files, &[]);
            assert_eq!(findings.len(), 1, "{one} {other}: {findings:?}");
            assert!(findings[0].starts_with("src/x:1: these use each other: a, b"), "{findings:?}");
        }
    }

    #[test]
    fn a_cycle_through_folders_and_the_own_file_of_a_folder_is_found() {
        let files = [
            ("src/x/mod.rs", "mod a; mod b; mod c;"),
            ("src/x/a/mod.rs", "mod deep;"),
            ("src/x/a/deep.rs", "use super::super::b::B;"),
            ("src/x/b.rs", "use crate::x::c;"),
            ("src/x/c.rs", "use super::a::deep::D;"),
        ];
        assert!(found(&files, &[])[0].contains("a, b, c:"));
        let own = [("src/x/mod.rs", "mod a; fn f() { a::g() }"), ("src/x/a.rs", "use super::f;")];
        assert!(found(&own, &[])[0].contains("a, mod.rs:"));
    }

    #[test]
    fn one_direction_tests_and_visibilities_are_no_cycle() {
        let tests = "pub(in crate::x) struct A; pub(super) fn f() {}\n\
            #[cfg(test)]\nmod tests { use crate::x::b; }\n#[cfg(any(test, fuzzing))]\nmod t;";
        let files = [
            ("src/x/mod.rs", "mod a; mod b; pub use b::B;"),
            ("src/x/a.rs", tests),
            ("src/x/a/t.rs", "use crate::x::b;"),
            ("src/x/b.rs", "use super::a::A; // use crate::x::mod"),
        ];
        assert_eq!(found(&files, &[]), [""; 0]);
    }

    #[test]
    fn a_known_cycle_is_accepted_and_one_that_is_gone_must_leave_the_list() {
        let files = [
            ("src/x/mod.rs", "mod a; mod b;"),
            ("src/x/a.rs", "use super::b;"),
            ("src/x/b.rs", "use super::a;"),
        ];
        assert_eq!(found(&files, &[("src/x", &["a", "b"])]), [""; 0]);
        let findings = found(&files, &[("src/x", &["a", "b", "c"])]);
        assert!(findings[0].contains("`c` is in no cycle"), "{findings:?}");
        assert_eq!(found(&files, &[("src/y", &["a", "b"])]).len(), 3);
    }
}
