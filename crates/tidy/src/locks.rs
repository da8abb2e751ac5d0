//! The projects beside the workspace (fuzz targets, a comparison) have lock files of their own,
//! which must know what the crates of the workspace need.

use crate::crates::CRATES;
use crate::tree::{File, Finding, Tree};

/// Lock files that lack a dependency of a crate of the workspace. `--locked` refuses them.
pub(crate) fn stale_locks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for lock in tree.files().filter(|file| file.path.ends_with("/Cargo.lock")) {
        for own in CRATES {
            let name = own.package;
            let manifest = tree.file(&own.manifest());
            let (Some(needed), Some(locked)) = (manifest, locked(lock, name)) else {
                continue;
            };
            let missing = dependencies(needed).filter(|it| !locked.contains(it));
            findings.extend(missing.map(|it| {
                let update = "run cargo update --workspace with its manifest";
                lock.finding(1, format!("{name} needs {it}: {update}"))
            }));
        }
    }
    findings
}

/// The crates that a manifest needs with all features, also for building.
fn dependencies(manifest: &File) -> impl Iterator<Item = &str> {
    let mut is_list = false;
    manifest.text.lines().filter_map(move |line| {
        if line.starts_with('[') {
            is_list = line.ends_with("dependencies]")
                && !line.contains("dev-")
                && !line.starts_with("[workspace.");
        }
        let (name, value) =
            line.split_once(" = ").filter(|_| is_list && !line.starts_with(['#', '[']))?;
        let renamed = value.split_once("package = \"").and_then(|(_, it)| it.split('"').next());
        let name = name.trim_end_matches(".workspace");
        (!value.contains("optional = true")).then(|| renamed.unwrap_or(name))
    })
}

/// What a package needs by the lock file, if it is there.
fn locked<'l>(lock: &'l File, name: &str) -> Option<Vec<&'l str>> {
    let begin = format!("\nname = \"{name}\"\n");
    let package = lock.text.split("[[package]]").find(|it| it.starts_with(&begin))?;
    let (_, list) = package.split_once("dependencies = [")?;
    // Where a crate is there in several versions, its version follows.
    let names = list.lines().filter_map(|line| line.trim().strip_prefix('"'));
    Some(names.filter_map(|it| it.split([' ', '"']).next()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_a_lock_file_lacks_is_found() {
        let manifest = "[features]\na = []\n\n[dependencies]\nbytes = \"1\"\n\
             yaml = { package = \"saphyr\", version = \"2\" }\nh2 = { version = \"1\", optional = true }\n\
             # cc = \"1\"\n\n[target.'cfg(target_os = \"linux\")'.dependencies]\nlibc = \"1\"\n\n\
             [dev-dependencies]\naxum = \"1\"\n";
        let lock = |names: &str| {
            format!(
                "[[package]]\nname = \"bytes\"\n\n[[package]]\nname = \"tollgate\"\n\
                 version = \"1\"\ndependencies = [\n{names}]\n"
            )
        };
        let tree = |names: &str| {
            let lock = lock(names);
            Tree::sample(&[("Cargo.toml", manifest), ("fuzz/Cargo.lock", &lock)])
        };
        assert_eq!(stale_locks(&tree(" \"bytes 1.2.3\",\n \"libc\",\n \"saphyr\",\n")), []);
        let found = stale_locks(&tree(" \"bytes\",\n"));
        let found: Vec<String> = found.iter().map(Finding::to_string).collect();
        let at = "fuzz/Cargo.lock:1: tollgate needs";
        let update = "run cargo update --workspace with its manifest";
        assert_eq!(found, [format!("{at} saphyr: {update}"), format!("{at} libc: {update}")]);
    }
}
