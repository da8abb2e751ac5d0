//! The house rules that the compiler and clippy cannot hold, run as tests.
//!
//! A rule is a function from the [`Tree`] of the project's files to what it
//! finds there. Here every rule meets the real tree; beside its code, every rule
//! meets a small bad tree that it must find fault with.

mod code;
mod documents;
mod layers;
mod names;
mod text;
mod tree;

use std::path::Path;

use tree::{Finding, Tree};

/// Fails with everything that `rule` finds, one line each.
fn hold(rule: fn(&Tree) -> Vec<Finding>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tree = Tree::read(root).expect("the files of the project can be read");
    let findings: Vec<String> = rule(&tree).iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn the_tree_holds_the_sources() {
    let tree = Tree::read(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("readable");
    for path in ["Cargo.toml", "src/lib.rs", "tests/tidy/main.rs", ".ci/run"] {
        assert!(tree.contains(path), "{path} is missing: the rules would pass by seeing nothing");
    }
}

#[test]
fn no_rust_file_is_longer_than_the_bound() {
    hold(text::too_long);
}

#[test]
fn every_rust_file_opens_with_what_it_is_for() {
    hold(text::no_opening);
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
fn imports_point_down() {
    hold(layers::upward_imports);
}

#[test]
fn foreign_crates_stay_where_they_belong() {
    hold(layers::misplaced_crates);
}

#[test]
fn nothing_has_a_name_that_says_nothing() {
    hold(names::empty_words);
}

#[test]
fn links_in_documents_lead_to_files() {
    hold(documents::dead_links);
}

#[test]
fn tests_that_documents_name_are_there() {
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
