//! Directories of envoyproxy/ratelimit, good ones and faulty ones.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::check::rls::{Amount, Unit};

fn of(path: &Path, merge: bool) -> Result<Directory, String> {
    read(&Listing::of(path), merge, |_| {})
}

/// The mistakes and warnings of one file with this text.
fn problems(text: &str) -> String {
    reports(&[("a.yaml", text)], false)
}

fn reports(files: &[(&str, &str)], merge: bool) -> String {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let read = of(directory.path(), merge).unwrap();
    let texts: Vec<String> = read.reports.iter().map(|(_, report)| report.to_string()).collect();
    let text = texts.join("\n").replace(&format!("{}/", directory.path().display()), "");
    assert_eq!(read.is_faulty, text.contains("error:"), "{text}");
    text
}

const LIMIT: &str = "rate_limit: { unit: second, requests_per_unit: 1 }";

/// A file with one descriptor that has these fields.
fn with(fields: &str) -> String {
    format!("domain: d\ndescriptors:\n  - {{ key: k, {fields} }}\n")
}

#[test]
fn each_mistake_names_its_file_and_its_place() {
    let unit = "rate_limit: { unit: fortnight, requests_per_unit: 1 }";
    let unlimited = "rate_limit: { unit: second, unlimited: true }";
    let own = "rate_limit: { unit: day, requests_per_unit: 1, name: a, replaces: [{ name: a }] }";
    let nameless = "rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: }] }";
    let cases: [(String, &str); 17] = [
        (String::new(), "a.yaml: error: the file is empty"),
        ("domain: [".to_owned(), "a.yaml:1:9: error: this is not valid YAML"),
        ("descriptors: []".to_owned(), "error: the file has no domain"),
        ("domain: ''".to_owned(), "error: the file has no domain"),
        ("domain: d\nratelimit: 1".to_owned(), "a.yaml:2:1: error: \"ratelimit\" is not a word"),
        ("domain: d\ndescriptors:\n  - a".to_owned(), "a.yaml:3:5: error: expected a descriptor"),
        ("domain: d\ndescriptors:\n  - value: a".to_owned(), "error: the descriptor has no key"),
        (with("ratelimit: {}"), "did you mean \"rate_limit\"?"),
        (with(unit), "error: \"fortnight\" is not a unit"),
        (with(unlimited), "error: an unlimited limit has no unit"),
        (with("rate_limit: { requests_per_unit: 1 }"), "error: the limit has no unit"),
        (with("rate_limit: { unit: day, requests_per_unit: -1 }"), "not a number of requests"),
        (with("rate_limit: { unit: day, requests_per_unit: 4294967296 }"), "not a number of"),
        (with("share_threshold: true, value: a"), "error: only the values of a wildcard"),
        (with(own), "error: a limit cannot replace itself"),
        (with(nameless), "error: the replaced limit has no name"),
        (with("metadata: text, rate_limit: { unlimited: true }"), "\"metadata\" is a text"),
    ];
    for (text, expected) in &cases {
        let found = problems(text);
        assert!(found.contains(expected), "{text}\n{found}");
    }
}

#[test]
fn words_without_effect_are_warnings() {
    let misplaced = "rate_limit: { unit: day, requests_per_unit: 1, shadow_mode: true }";
    for (fields, expected) in [
        (misplaced, "warning: \"shadow_mode\" has no effect in a rate_limit"),
        ("rate_limit: { unit: day }", "warning: the limit is 0"),
    ] {
        let found = problems(&with(fields));
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_composite_key_exists_once_on_its_level() {
    let text = format!(
        "domain: d\ndescriptors:\n  - {{ key: a, value: b, {LIMIT} }}\n  - {{ key: a_b, {LIMIT} }}\n"
    );
    let found = problems(&text);
    assert!(found.contains("a.yaml:4:12: error: there is a second descriptor d.a_b"), "{found}");
}

#[test]
fn a_domain_has_one_file_unless_files_are_merged() {
    let first = format!("domain: d\ndescriptors:\n  - {{ key: a, {LIMIT} }}\n");
    let second = format!("domain: d\ndescriptors:\n  - {{ key: b, {LIMIT} }}\n");
    let files = [("a.yaml", &*first), ("b.yaml", &*second)];
    let found = reports(&files, false);
    assert!(found.starts_with("b.yaml:1:9: error: another file is about the domain \"d\" too"));
    assert_eq!(reports(&files, true), "");
    let found = reports(&[("a.yaml", &*first), ("b.yaml", &*first)], true);
    assert!(found.contains("b.yaml:3:12: error: there is a second descriptor d.a"), "{found}");
}

#[test]
fn all_words_and_the_forms_of_yaml_1_1_are_read() {
    let text = "---\ndomain: all\ndescriptors:\n  - key: 7\n    value: 1.5\n    rate_limit:\n      \
                unit: WEEK\n      requests_per_unit: 1_000\n      name: n\n      replaces:\n        \
                - name: m\n    shadow_mode: yes\n    quota_mode: off\n    detailed_metric: true\n    \
                value_to_metric:\n    metadata: { a: { b: [1, x, true] } }\n    descriptors:\n  - \
                key: w\n    value: a*\n    share_threshold: on\n    descriptors:\n      - key: \
                below\n        rate_limit: { unlimited: true }\n";
    assert_eq!(problems(text), "");
    let mut reading = Reading { levels: BTreeMap::new(), merge: false };
    let report = Problems::default();
    reading.file(text, &report);
    let [rule, shared] = reading.levels["all"].nodes() else { panic!("two nodes") };
    assert_eq!((&*rule.name(), rule.value_to_metric), ("7_1.5", false));
    let rule = rule.rule.as_ref().unwrap();
    assert_eq!(rule.amount, Amount::PerUnit(1000, Unit::Week));
    assert_eq!((&*rule.name, &*rule.replaces[0]), ("n", "m"));
    assert_eq!((rule.shadow, rule.quota, rule.detailed_metric), (true, false, true));
    let metadata = serde_json::json!({ "a": { "b": [1.0, "x", true] } });
    assert_eq!(serde_json::Value::Object(rule.metadata.clone()), metadata);
    assert!(shared.share_threshold && shared.rule.is_none());
    let below = &shared.below.nodes()[0];
    assert_eq!(below.rule.as_ref().unwrap().amount, Amount::Unlimited);
}

/// As Kubernetes mounts a map of files: names with dots behind which the files are.
#[test]
fn files_behind_links_are_read_and_hidden_ones_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("..1")).unwrap();
    fs::create_dir_all(at("deep/er")).unwrap();
    fs::write(at("..1/a.yaml"), "domain: a").unwrap();
    symlink("..1", at("..data")).unwrap();
    symlink("..data/a.yaml", at("a.yaml")).unwrap();
    fs::write(at("deep/er/any-name"), "domain: b").unwrap();
    fs::write(at(".hidden.yaml"), "broken: [").unwrap();
    let read = of(directory.path(), false).unwrap();
    let mut names: Vec<&str> = read.domains.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
    assert!(!read.is_faulty && read.reports.is_empty());
    assert_eq!(Listing::of(directory.path()).paths.len(), 5);
    assert!(of(&at("missing"), false).unwrap_err().contains("missing cannot be read"));
    fs::write(at("deep/bytes"), [0xff]).unwrap();
    assert!(of(directory.path(), false).unwrap_err().contains("it is not UTF-8 text"));
}
