//! Every rule, applied to the files of the project.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::LazyLock;

use crate::tree::{self, Finding, Tree};
use crate::{
    api, chains, crates, cycles, documents, functions, layers, locks, names, pictures, portability,
    prose, text, tuples, versions,
};

/// The files of the project, read once.
static TREE: LazyLock<Tree> =
    LazyLock::new(|| Tree::read(&tree::root()).expect("the files of the project can be read"));

/// Fails with all findings of `rule`, one line each.
fn hold(rule: fn(&Tree) -> Vec<Finding>) {
    let findings: Vec<String> = rule(&TREE).iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn the_tree_contains_the_sources() {
    let own = "crates/tidy/src/rules.rs";
    for path in ["Cargo.toml", "docs/architecture.md", "src/lib.rs", own, ".ci/run"] {
        assert!(TREE.contains(path), "{path} is missing: the rules would pass by seeing nothing");
    }
}

#[test]
fn no_rust_file_is_longer_than_the_bound() {
    hold(text::too_long);
}

#[test]
fn no_function_is_longer_than_the_bound() {
    hold(functions::too_long);
}

#[test]
fn published_crates_compile_with_the_rust_of_debian() {
    hold(chains::let_chains);
}

#[test]
fn every_rust_file_opens_with_what_it_is_for() {
    hold(text::no_opening);
}

#[test]
fn each_variable_has_a_statement_of_its_own() {
    hold(tuples::tuples_in_let);
}

#[test]
fn no_line_ends_in_blanks_or_holds_a_tab() {
    hold(text::blanks);
}

#[test]
fn no_marker_of_unfinished_work_is_left() {
    hold(text::markers);
}

#[test]
fn no_path_of_one_machine_is_written_down() {
    hold(text::machine_paths);
}

#[test]
fn every_crate_has_a_row_and_uses_what_it_permits() {
    hold(crates::unlisted_crates);
}

#[test]
fn imports_point_down() {
    hold(layers::upward_imports);
}

#[test]
fn no_files_import_each_other() {
    hold(cycles::import_cycles);
}

#[test]
fn linux_is_used_in_one_place() {
    hold(portability::linux_outside_platform);
}

#[test]
fn foreign_crates_are_used_in_their_modules_only() {
    hold(layers::misplaced_crates);
}

#[test]
fn lock_files_know_what_the_workspace_needs() {
    hold(locks::stale_locks);
}

#[test]
fn all_versions_agree() {
    hold(versions::other_versions);
}

#[test]
fn all_compilers_agree() {
    hold(versions::other_compilers);
}

#[test]
fn no_name_contains_an_empty_word() {
    hold(names::empty_words);
}

#[test]
fn phrases_are_plain() {
    hold(prose::phrases);
}

#[test]
fn documents_name_no_vague_persons() {
    hold(prose::vague_words);
}

#[test]
fn linked_files_exist() {
    hold(documents::dead_links);
}

#[test]
fn linked_headings_exist() {
    hold(documents::dead_anchors);
}

#[test]
fn references_of_links_have_addresses() {
    hold(documents::dangling_references);
}

#[test]
fn paths_in_documents_exist() {
    hold(documents::missing_paths);
}

#[test]
fn documents_that_are_read_first_are_short() {
    hold(documents::long_documents);
}

#[test]
fn every_page_is_in_the_index() {
    hold(documents::unlisted_pages);
}

#[test]
fn tests_named_in_documents_exist() {
    hold(documents::missing_tests);
}

#[test]
fn every_promise_of_a_table_names_its_test() {
    hold(documents::untested_promises);
}

#[test]
fn every_golden_configuration_has_its_report() {
    hold(documents::unpaired_reports);
}

/// `UPDATE_GOLDEN=1` accepts the interface as it is.
#[test]
fn the_interface_of_the_library_is_the_one_that_was_accepted() {
    let path = tree::root().join("limiter/api.txt");
    let found = api::interface(&TREE);
    assert!(found.contains("impl Limiter\n"), "the interface is not found");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).expect("the file can be written");
    }
    let accepted = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(accepted.lines()).position(|(new, old)| new != old);
    let line = differs.map_or(found.lines().count().min(accepted.lines().count()), |at| at) + 1;
    assert!(
        found == accepted,
        "the public interface differs from line {line} of limiter/api.txt on: undo the change, or \
         accept it with UPDATE_GOLDEN=1 and name it in CHANGELOG.md"
    );
}

/// A user of the library without features compiles few crates, and no C.
#[test]
fn the_library_alone_needs_few_crates() {
    const MOST: usize = 40;
    const BANNED: [&str; 11] = [
        "hyper",
        "hyper-util",
        "rustls",
        "clap",
        "redb",
        "redis",
        "aws-lc-rs",
        "cc",
        "axum",
        "jsonwebtoken",
        "serde-saphyr",
    ];
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = "tree --locked --package tollgate-limiter --no-default-features \
                     --edges normal,build --prefix none --format {p}";
    let output = Command::new(cargo)
        .args(arguments.split_whitespace())
        .current_dir(tree::root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("names are text");
    let crates: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|it| !it.is_empty())
        .collect();
    let banned: Vec<_> = BANNED.iter().filter(|it| crates.contains(**it)).collect();
    assert!(banned.is_empty(), "the library alone must not need {banned:?}");
    assert!((2..=MOST).contains(&crates.len()), "{} crates: {crates:?}", crates.len());
}

#[test]
fn each_picture_is_shown() {
    hold(pictures::unused);
}

#[test]
fn the_chart_of_accuracy_has_the_figures_of_its_page() {
    hold(pictures::other_figures);
}
