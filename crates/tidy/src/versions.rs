//! All files that name the version of the project name the same one.

use crate::crates::CRATES;
use crate::tree::{File, Finding, Tree};

/// Files that name the version, and what stands before and behind it in a line. The program that writes a
/// new version there is packaging/bump.
const PLACES: [(&str, &str, &str); 8] = [
    ("docker/Dockerfile", "ARG VERSION=", ""),
    ("docs/envoy-gateway.md", "container: { image: \"registry.example/tollgate:", "\" }"),
    ("docs/install.md", "cd tollgate-", "-x86_64-linux-musl"),
    ("docs/kubernetes.md", "kind load image-archive dist/tollgate-", "-image-amd64.tar"),
    ("packaging/chart/Chart.yaml", "version: ", ""),
    ("packaging/chart/Chart.yaml", "appVersion: ", ""),
    ("packaging/kubernetes/base/kustomization.yaml", "- { name: tollgate, newTag: ", " }"),
    ("packaging/kubernetes/eg-image/envoy-gateway-config.yaml", "image: tollgate:", ""),
];

/// Files with another version than the workspace. The changelog counts by its newest release.
pub(crate) fn other_versions(tree: &Tree) -> Vec<Finding> {
    let Some((_, _, version)) = tree.file("Cargo.toml").and_then(|it| value(it, "version = "))
    else {
        return vec![Finding::at(
            "Cargo.toml",
            "it names no version: add it to [workspace.package]",
        )];
    };
    let mut findings = Vec::new();
    let mut judge = |found: Option<(&File, usize, String)>| {
        if let Some((file, line, other)) = found.filter(|(_, _, other)| *other != version) {
            let what = format!("{other} is not {version} of Cargo.toml: run scripts/release bump");
            findings.push(file.finding(line, what));
        }
    };
    for lock in tree.files().filter(|file| file.path.ends_with("Cargo.lock")) {
        CRATES.iter().for_each(|it| judge(locked(lock, it.package)));
    }
    for (path, beginning, end) in PLACES {
        judge(tree.file(path).and_then(|file| between(file, beginning, end)));
    }
    // Before the first release there is only "Unreleased".
    judge(tree.file("CHANGELOG.md").and_then(released));
    findings
}

/// Other compilers than that of the workspace: the one that rustup uses, and the one of the image.
pub(crate) fn other_compilers(tree: &Tree) -> Vec<Finding> {
    let Some((_, _, version)) = tree.file("Cargo.toml").and_then(|it| value(it, "rust-version = "))
    else {
        let what = "it names no compiler: add rust-version to [workspace.package]";
        return vec![Finding::at("Cargo.toml", what)];
    };
    let places = [
        ("rust-toolchain.toml", "channel = "),
        ("docker/Dockerfile", "FROM docker.io/library/rust:"),
    ];
    let mut findings = Vec::new();
    for (path, beginning) in places {
        match tree.file(path).and_then(|file| value(file, beginning)) {
            Some((file, line, other)) if !is_release(&other, &version) => {
                let what = format!("{other} is not rust-version = \"{version}\" of Cargo.toml");
                findings.push(file.finding(line, what));
            }
            Some(_) => {}
            None => findings.push(Finding::at(path, "it names no compiler")),
        }
    }
    findings
}

/// Whether a compiler, such as `1.95.0` or `1.95-bookworm`, is of this version.
fn is_release(compiler: &str, version: &str) -> bool {
    compiler
        .strip_prefix(version)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', ' ']))
}

/// The value after the beginning of the first line with this one, without quotes.
fn value<'f>(file: &'f File, beginning: &str) -> Option<(&'f File, usize, String)> {
    file.lines().find_map(|(number, line)| {
        Some((file, number, line.strip_prefix(beginning)?.trim_matches('"').to_owned()))
    })
}

/// The same of a line that may be indented, without its end.
fn between<'f>(file: &'f File, beginning: &str, end: &str) -> Option<(&'f File, usize, String)> {
    file.lines().find_map(|(number, line)| {
        let value = line.trim_start().strip_prefix(beginning)?.strip_suffix(end)?;
        Some((file, number, value.trim_matches('"').to_owned()))
    })
}

/// The version of a crate by a lock file.
fn locked<'f>(lock: &'f File, name: &str) -> Option<(&'f File, usize, String)> {
    let named = format!("name = \"{name}\"");
    let (at, _) = lock.lines().find(|(_, line)| *line == named)?;
    let (number, line) = lock.lines().nth(at)?;
    Some((lock, number, line.strip_prefix("version = ")?.trim_matches('"').to_owned()))
}

/// The newest release in the changelog.
fn released(changelog: &File) -> Option<(&File, usize, String)> {
    changelog.lines().find_map(|(number, line)| {
        let heading = line.strip_prefix("## ").filter(|it| *it != "Unreleased")?;
        let version = heading.split_once(" - ").map_or(heading, |(version, _)| version);
        Some((changelog, number, version.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_compilers_are_found() {
        let count = |channel: &str, image: &str| {
            let channel = format!("[toolchain]\nchannel = \"{channel}\"\n");
            let image = format!("FROM docker.io/library/rust:{image} AS build\n");
            other_compilers(&Tree::sample(&[
                ("Cargo.toml", "rust-version = \"1.95\"\n"),
                ("rust-toolchain.toml", &channel),
                ("docker/Dockerfile", &image),
            ]))
            .len()
        };
        assert_eq!((count("1.95.0", "1.95-bookworm"), count("1.95", "1.95.1")), (0, 0));
        assert_eq!((count("1.96.0", "1.95"), count("stable", "1.9")), (1, 2));
        assert_eq!(
            other_compilers(&Tree::sample(&[("Cargo.toml", "rust-version = \"1\"\n")])).len(),
            2
        );
    }

    #[test]
    fn other_versions_are_found_in_every_place() {
        let lock = |version: &str| {
            format!(
                "[[package]]\nname = \"tollgate\"\nversion = \"{version}\"\n\n\
                 [[package]]\nname = \"tokio\"\nversion = \"1.0.0\"\n"
            )
        };
        let count = |version: &str| {
            let tree = Tree::sample(&[
                ("Cargo.toml", "[workspace.package]\nversion = \"1.2.0\"\n"),
                ("Cargo.lock", &lock(version)),
                ("fuzz/Cargo.lock", &lock(version)),
                ("docs/install.md", &format!("cd tollgate-{version}-x86_64-linux-musl\n")),
                ("docker/Dockerfile", &format!("ARG VERSION={version}\n")),
                (
                    "docs/envoy-gateway.md",
                    &format!("  container: {{ image: \"registry.example/tollgate:{version}\" }}\n"),
                ),
                (
                    "docs/kubernetes.md",
                    &format!("kind load image-archive dist/tollgate-{version}-image-amd64.tar\n"),
                ),
                (
                    "packaging/kubernetes/base/kustomization.yaml",
                    &format!("images:\n  - {{ name: tollgate, newTag: {version} }}\n"),
                ),
                (
                    "packaging/kubernetes/eg-image/envoy-gateway-config.yaml",
                    &format!("          container:\n            image: tollgate:{version}\n"),
                ),
                (
                    "packaging/chart/Chart.yaml",
                    &format!("version: {version}\nappVersion: \"{version}\"\n"),
                ),
                (
                    "CHANGELOG.md",
                    &format!("## Unreleased\n\n## {version} - 2026-01-02\n\n## 0.1.0 - x\n"),
                ),
            ]);
            other_versions(&tree).len()
        };
        assert_eq!((count("1.2.0"), count("1.1.9")), (0, 11));
        assert_eq!(other_versions(&Tree::sample(&[])).len(), 1);
    }

    /// A place that is written in another way would not be judged.
    #[test]
    fn the_places_are_in_the_files() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (path, beginning, end) in PLACES {
            let text = std::fs::read_to_string(root.join(path)).unwrap();
            let tree = Tree::sample(&[(path, &text)]);
            let found = tree.file(path).and_then(|file| between(file, beginning, end));
            assert!(found.is_some(), "{path} has no line with {beginning}");
        }
    }
}
