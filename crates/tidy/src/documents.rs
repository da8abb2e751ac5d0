//! Checks that files and tests that documents and golden files refer to exist.

use crate::tree::{File, Finding, Tree};

/// Links in Markdown to files that do not exist.
pub(crate) fn dead_links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in file.lines() {
            for link in links(line) {
                if !resolve(&file.path, link).is_some_and(|path| tree.contains(&path)) {
                    let what = format!("`{link}` leads to no file: correct or remove the link");
                    findings.push(file.finding(number, what));
                }
            }
        }
    }
    findings
}

/// Links in Markdown to headings that do not exist.
pub(crate) fn dead_anchors(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in file.lines() {
            for (link, anchor) in anchors(line) {
                let path = if link.is_empty() {
                    Some(file.path.clone())
                } else {
                    resolve(&file.path, link)
                };
                let target = tree.files().find(|other| Some(&other.path) == path.as_ref());
                if target.is_some_and(|target| !has_heading(target, anchor)) {
                    let what = format!("`{link}#{anchor}` leads to no heading: correct the anchor");
                    findings.push(file.finding(number, what));
                }
            }
        }
    }
    findings
}

/// The links of `line` that have anchors: the file, empty for this one, and the anchor.
fn anchors(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains(':')).filter_map(|target| target.split_once('#'))
}

/// Whether a heading of this file has this anchor: its words in small letters, with
/// hyphens between them.
fn has_heading(file: &File, anchor: &str) -> bool {
    let headings = file.lines().filter_map(|(_, line)| line.strip_prefix('#'));
    headings.map(|heading| heading.trim_start_matches('#').trim()).any(|heading| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).eq(anchor.chars())
    })
}

/// Links by reference, such as `[text][name]`, whose name has no address in its document, and
/// addresses that no link uses. An address is a line: `[name]: https://...`.
pub(crate) fn dangling_references(tree: &Tree) -> Vec<Finding> {
    let address = |line: &str| Some(line.strip_prefix('[')?.split_once("]: ")?.0.to_owned());
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.path.ends_with(".md")) {
        let addresses: Vec<_> =
            file.lines().filter_map(|(number, line)| Some((number, address(line)?))).collect();
        let mut used = Vec::new();
        for (number, line) in file.lines() {
            // Not in inline code, where it may be an index.
            let text: String = line.split('`').step_by(2).collect();
            for name in text.split("][").skip(1).filter_map(|rest| rest.split(']').next()) {
                if !addresses.iter().any(|(_, it)| it == name) {
                    let what = format!("[{name}] has no address: add the line `[{name}]: URL`");
                    findings.push(file.finding(number, what));
                }
                used.push(name.to_owned());
            }
        }
        for (number, name) in addresses.iter().filter(|(_, name)| !used.contains(name)) {
            findings.push(file.finding(*number, format!("no link uses [{name}]: remove it")));
        }
    }
    findings
}

/// Documents that are read first, and so are short.
const SHORT: [&str; 2] = ["README.md", "docs/architecture.md"];
/// The most lines that such a document may have.
const MAX_SHORT_LINES: usize = 150;

/// Documents of [`SHORT`] beyond [`MAX_SHORT_LINES`].
pub(crate) fn long_documents(tree: &Tree) -> Vec<Finding> {
    let judge = |file: &File| {
        let count = file.text.lines().count();
        let what = format!("{count} lines, {MAX_SHORT_LINES} at most: shorten it");
        (count > MAX_SHORT_LINES).then(|| file.finding(count, what))
    };
    tree.files().filter(|file| SHORT.contains(&&*file.path)).filter_map(judge).collect()
}

/// The page that lists all others.
const INDEX: &str = "docs/README.md";

/// Pages in `docs` that [`INDEX`] does not link.
pub(crate) fn unlisted_pages(tree: &Tree) -> Vec<Finding> {
    let Some(index) = tree.files().find(|file| file.path == INDEX) else {
        return vec![Finding::at(INDEX, "it is missing: list all pages by task")];
    };
    let listed: Vec<String> = index
        .lines()
        .flat_map(|(_, line)| links(line))
        .filter_map(|link| resolve(INDEX, link))
        .collect();
    let is_page = |file: &&File| file.path.starts_with("docs/") && file.path.ends_with(".md");
    let pages = tree.files().filter(is_page).filter(|file| file.path != INDEX);
    let missing = pages.filter(|file| !listed.contains(&file.path));
    missing
        .map(|file| file.finding(1, format!("{INDEX} does not link this page: add it")))
        .collect()
}

/// The directories of the project whose files documents name.
const DIRECTORIES: [&str; 13] = [
    ".ci",
    "bench",
    "benches",
    "crates",
    "docker",
    "docs",
    "examples",
    "fuzz",
    "limiter",
    "packaging",
    "scripts",
    "src",
    "tests",
];

/// Paths in the inline code of Markdown that do not exist. The changelog may name
/// files of earlier versions.
pub(crate) fn missing_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let documents = tree.files().filter(|file| file.path.ends_with(".md"));
    for file in documents.filter(|file| file.path != "CHANGELOG.md") {
        for (number, line) in file.lines() {
            let missing = inline_code(line).filter_map(path_of).filter(|path| !tree.contains(path));
            findings.extend(missing.map(|path| {
                file.finding(number, format!("there is no `{path}`: name the path that exists"))
            }));
        }
    }
    findings
}

/// The path at the start of a piece of inline code, if it is a path of the project.
fn path_of(code: &str) -> Option<&str> {
    let word = code.split_whitespace().next()?.trim_end_matches('/');
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let (directory, _) = word.split_once('/')?;
    // The tree leaves the corpus out.
    let is_known = DIRECTORIES.contains(&directory) && !word.starts_with("fuzz/corpus");
    (is_known && word.chars().all(is_part)).then_some(word)
}

/// The inline code of `line`, without its marks.
fn inline_code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
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

/// Documents that name a test for each guarantee.
const NAMING_TESTS: [&str; 3] = ["docs/http.md", "docs/operations.md", "docs/redis.md"];

/// Tests that documents name and that do not exist.
pub(crate) fn missing_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| NAMING_TESTS.contains(&&*file.path)) {
        for (number, line) in file.lines() {
            for name in inline_code(line).filter(|name| name.contains("::")) {
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

/// Whether the module of `module::function` has this test, in its own file or in its
/// file of tests.
fn is_test(tree: &Tree, name: &str) -> bool {
    let (module, function) = name.rsplit_once("::").unwrap_or_default();
    let module = module.replace("::", "/");
    let places = [".rs", "/mod.rs", "/tests.rs"].map(|end| format!("/{module}{end}"));
    let declaration = format!("fn {function}(");
    tree.rust()
        .filter(|file| places.iter().any(|place| file.path.ends_with(place)))
        .any(|file| file.text.contains("#[test]") && file.text.contains(&declaration))
}

/// The targets of `[text](target)` in `line` that are files of the project, without
/// anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ', '#']).next())
        .filter(|target| !target.is_empty() && !target.contains(':'))
}

/// The path of `link` in the document at `path`; none if it is outside the project.
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
    fn links_are_relative_to_their_document() {
        let readme = "[a](docs/a.md#part), [web](https://example.com/x), [here](#anchor)\n";
        let good = [("README.md", readme), ("docs/a.md", "[up](../README.md) [all](./)\n")];
        assert_eq!(dead_links(&Tree::sample(&good)), []);
    }

    #[test]
    fn dead_links_and_links_out_of_the_project_are_found() {
        let text = "[gone](gone.md)\n[out](../../etc/passwd), [part](a.m)\n";
        let findings = dead_links(&Tree::sample(&[("docs/a.md", text)]));
        assert_eq!(findings.len(), 3);
        assert!(findings[0].to_string().starts_with("docs/a.md:1: `gone.md` leads to no file"));
    }

    #[test]
    fn anchors_without_a_heading_are_found() {
        let text =
            "# A page\n## One's `long` name\n[a](#ones-long-name) [b](b.md#a-page) [c](#b)\n";
        let files = [("docs/a.md", text), ("docs/b.md", "# A page\n[d](a.md#gone)\n")];
        let findings = dead_anchors(&Tree::sample(&files));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].to_string().starts_with("docs/a.md:3: `#b` leads to no heading"));
        assert!(
            findings[1].to_string().starts_with("docs/b.md:2: `a.md#gone` leads to no heading")
        );
    }

    #[test]
    fn references_without_an_address_and_addresses_without_a_link_are_found() {
        let text = "[a][one] and [b `x`][two], not `c[0][1]`\n[one]: https://example.com/\n";
        let count = |text: &str| dangling_references(&Tree::sample(&[("docs/a.md", text)])).len();
        assert_eq!(count(&format!("{text}[two]: https://example.com/2\n")), 0);
        assert_eq!(count(&format!("{text} [two]: in the line before\n")), 1);
        assert_eq!(count(&format!("{text}[two]: x\n[three]: y\n")), 1);
    }

    #[test]
    fn tests_that_do_not_exist_are_found() {
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
    fn paths_that_do_not_exist_are_found() {
        let document = "Run `scripts/test --lib`, read `src/a/` and `src/a/mod.rs`.\n\
            Not `src/b.rs`, `a/b`, `docs/NAME is long`, `10/h` or `fuzz/corpus/x`.\n";
        let tree = Tree::sample(&[
            ("docs/a.md", document),
            ("CHANGELOG.md", "`src/old.rs`\n"),
            ("src/a/mod.rs", ""),
            ("scripts/test", ""),
        ]);
        let findings: Vec<String> = missing_paths(&tree).iter().map(Finding::to_string).collect();
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("docs/a.md:2: there is no `src/b.rs`"), "{findings:?}");
        assert!(findings[1].starts_with("docs/a.md:2: there is no `docs/NAME`"), "{findings:?}");
    }

    #[test]
    fn long_documents_are_found() {
        let count = |path: &str, lines: usize| {
            long_documents(&Tree::sample(&[(path, &"x\n".repeat(lines))])).len()
        };
        for path in SHORT {
            assert_eq!((count(path, MAX_SHORT_LINES), count(path, MAX_SHORT_LINES + 1)), (0, 1));
        }
        assert_eq!(count("docs/README.md", MAX_SHORT_LINES + 1), 0);
    }

    #[test]
    fn pages_that_the_index_does_not_link_are_found() {
        let index = "[a](a.md), [up](../README.md) and [c](c.md#part), not `b.md`\n";
        let pages = [("docs/a.md", "x\n"), ("docs/b.md", "x\n"), ("docs/c.md", "x\n")];
        let files = [&pages[..], &[(INDEX, index), ("CHANGELOG.md", "x\n")]].concat();
        let findings = unlisted_pages(&Tree::sample(&files));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].to_string().starts_with("docs/b.md:1: docs/README.md does not link"));
        assert_eq!(unlisted_pages(&Tree::sample(&pages)).len(), 1, "without an index");
    }

    #[test]
    fn unpaired_golden_files_are_found() {
        let tree = Tree::sample(&[
            ("tests/config/good.yaml", ""),
            ("tests/config/good.report", ""),
            ("tests/config/lone.yaml", ""),
            ("tests/config/left.report", ""),
        ]);
        assert_eq!(unpaired_reports(&tree).len(), 2);
    }
}
