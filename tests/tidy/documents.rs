//! Documents and golden files: what they point at exists.

use crate::tree::{Finding, Tree};

/// Links from Markdown to files that are not there.
pub(crate) fn dead_links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in file.lines() {
            for link in links(line) {
                if !resolve(&file.path, link).is_some_and(|path| tree.contains(&path)) {
                    let what = format!("`{link}` leads to no file: correct the link or remove it");
                    findings.push(file.finding(number, what));
                }
            }
        }
    }
    findings
}

/// Golden configurations without a report, and reports without a configuration.
pub(crate) fn unpaired_reports(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.path.starts_with("tests/config/")) {
        let other = match file.path.rsplit_once('.') {
            Some((stem, "yaml")) => format!("{stem}.report"),
            Some((stem, "report")) => format!("{stem}.yaml"),
            _ => continue,
        };
        if !tree.contains(&other) {
            findings.push(file.finding(1, format!("{other} is missing: add it or remove this")));
        }
    }
    findings
}

/// Documents that name the test of each thing they promise.
const NAMING_TESTS: [&str; 2] = ["docs/http.md", "docs/redis.md"];

/// Tests that documents name and nobody has written.
pub(crate) fn missing_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| NAMING_TESTS.contains(&&*file.path)) {
        for (number, line) in file.lines() {
            for name in line.split('`').skip(1).step_by(2).filter(|name| name.contains("::")) {
                if !is_test(tree, name) {
                    let what = format!("there is no test `{name}`: name one that shows this");
                    findings.push(file.finding(number, what));
                }
            }
        }
    }
    findings
}

/// Cells of tables of promises that name no test, and tests in their lists that no
/// cell names. Such a table stands under this heading, and its tests in a numbered
/// list behind it.
pub(crate) fn untested_promises(tree: &Tree) -> Vec<Finding> {
    const HEADING: &str = "### The promises";
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| NAMING_TESTS.contains(&&*file.path)) {
        let mut lines = file.lines();
        let Some((heading, _)) = lines.find(|(_, line)| *line == HEADING) else { continue };
        let section: Vec<_> = lines.take_while(|(_, line)| !line.starts_with('#')).collect();
        let listed = |(line, text): &(usize, &str)| {
            let (number, test) = text.split_once(". ")?;
            Some((*line, number.parse::<usize>().ok()?, test.contains("::")))
        };
        let tests: Vec<_> = section.iter().filter_map(listed).collect();
        let mut named = Vec::new();
        // The first two rows are those of the names.
        for (line, row) in section.iter().filter(|(_, text)| text.starts_with('|')).skip(2) {
            for cell in row.trim_matches('|').split('|').skip(1) {
                let numbers = numbers(cell);
                let is_tested = |it: &usize| tests.iter().any(|(_, test, is)| test == it && *is);
                if numbers.is_empty() || !numbers.iter().all(is_tested) {
                    let what = format!("`{}` names no test: add its number", cell.trim());
                    findings.push(file.finding(*line, what));
                }
                named.extend(numbers);
            }
        }
        if named.is_empty() {
            findings.push(file.finding(heading, "there is no table of promises: add it"));
        }
        for (line, number, _) in tests.iter().filter(|(_, number, _)| !named.contains(number)) {
            let what = format!("no cell names test {number}: remove it or name it");
            findings.push(file.finding(*line, what));
        }
    }
    findings
}

/// The numbers in the parentheses of a cell, such as `(1, 4–6)`; others are text.
fn numbers(cell: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for inside in cell.split('(').skip(1).filter_map(|rest| rest.split(')').next()) {
        let range = |part: &str| {
            let (first, last) = part.split_once('–').unwrap_or((part, part));
            Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
        };
        let ranges: Option<Vec<_>> = inside.split(',').map(range).collect();
        numbers.extend(ranges.into_iter().flatten().flatten());
    }
    numbers
}

/// Whether the module of `module::function` has such a test, in itself or beside.
fn is_test(tree: &Tree, name: &str) -> bool {
    let (module, function) = name.rsplit_once("::").unwrap_or_default();
    let module = module.replace("::", "/");
    let places = [".rs", "/mod.rs", "/tests.rs"].map(|end| format!("/{module}{end}"));
    let declaration = format!("fn {function}(");
    tree.rust()
        .filter(|file| places.iter().any(|place| file.path.ends_with(place)))
        .any(|file| file.text.contains("#[test]") && file.text.contains(&declaration))
}

/// The targets of `[text](target)` in `line` that are files of the project,
/// without their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ', '#']).next())
        .filter(|target| !target.is_empty() && !target.contains(':'))
}

/// The path that `link` in the document at `path` means; none: it leaves the
/// project.
fn resolve(path: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in link.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_from_where_they_stand() {
        let readme = "[a](docs/a.md#part), [web](https://example.com/x), [here](#anchor)\n";
        let good = [("README.md", readme), ("docs/a.md", "[up](../README.md) [all](./)\n")];
        assert_eq!(dead_links(&Tree::sample(&good)), []);
    }

    #[test]
    fn links_to_nothing_and_out_of_the_project_are_found() {
        let text = "[gone](gone.md)\n[out](../../etc/passwd), [part](a.m)\n";
        let findings = dead_links(&Tree::sample(&[("docs/a.md", text)]));
        assert_eq!(findings.len(), 3);
        assert!(findings[0].to_string().starts_with("docs/a.md:1: `gone.md` leads to no file"));
    }

    #[test]
    fn tests_that_are_not_there_are_found() {
        let source = "#[test]\nfn it_holds() {}\n";
        let document =
            "| `head::it_holds`, `sub::it_holds` |\n| `x`, `head::gone`, `no::it_holds` |\n";
        let tree = Tree::sample(&[
            ("src/server/head/tests.rs", source),
            ("tests/it/sub/mod.rs", source),
            ("docs/http.md", document),
        ]);
        let findings = missing_tests(&tree);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].to_string().contains("docs/http.md:2: there is no test `head::gone`"));
    }

    #[test]
    fn promises_that_name_no_test_and_tests_of_no_promise_are_found() {
        let table = "### The promises\n\n| | a | b |\n|---|---|---|\n";
        let document = |rows: &str, list: &str| format!("{table}{rows}\n{list}\n## Next\n| x |\n");
        let find = |rows: &str, list: &str| {
            let document = document(rows, list);
            untested_promises(&Tree::sample(&[("docs/redis.md", &document)])).len()
        };
        let list = "1. `m::a`\n2. `m::b`\n3. `m::c`; and more: `m::d`\n";
        assert_eq!(find("| row | two (2 %) (1) | all (2–3) |\n", list), 0);
        assert_eq!(find("| row | none | all (1–3) |\n", list), 1);
        assert_eq!(find("| row | one (4) | all (1–3) |\n", list), 1);
        assert_eq!(find("| row | one (1) | two (2) |\n", list), 1);
        assert_eq!(find("", ""), 1);
    }

    #[test]
    fn golden_files_without_their_other_half_are_found() {
        let tree = Tree::sample(&[
            ("tests/config/good.yaml", ""),
            ("tests/config/good.report", ""),
            ("tests/config/lone.yaml", ""),
            ("tests/config/left.report", ""),
        ]);
        assert_eq!(unpaired_reports(&tree).len(), 2);
    }
}
