//! The crates of the workspace, as one table: where each is, which others it may use, and the
//! layers of its modules. The rules on crates and modules read it. A crate is added by one row
//! here.

use crate::tree::{File, Finding, Tree};

/// One crate of the workspace.
pub(crate) struct Crate {
    /// The name in `Cargo.toml`.
    pub(crate) package: &'static str,
    /// The folder, which ends with `/`; empty for the root of the project.
    pub(crate) folder: &'static str,
    /// The packages of the workspace that it may use, also in its tests.
    pub(crate) uses: &'static [&'static str],
    /// The top-level modules from the lowest layer to the highest. A module may use those of
    /// lower layers, and none of its own layer.
    pub(crate) layers: &'static [&'static [&'static str]],
    /// Crates from outside the workspace that only some modules may name.
    pub(crate) confined: &'static [Confined],
}

/// A crate from outside the workspace that only some modules may name.
pub(crate) struct Confined {
    /// The crate, as code names it.
    pub(crate) name: &'static str,
    /// The top-level modules that may name it.
    pub(crate) modules: &'static [&'static str],
    /// The reason, and what to do in other modules.
    pub(crate) why: &'static str,
}

/// Deciding knows no connections, and no form of a file.
const OF_THE_GATEWAY: &[Confined] = &[
    Confined {
        name: "hyper",
        modules: &[],
        why: "deciding knows no connections: use the `http` types",
    },
    Confined { name: "hyper_util", modules: &[], why: "deciding knows no connections" },
    Confined { name: "serde_yaml", modules: &[], why: "only the gateway knows the form of a file" },
    Confined { name: "anyhow", modules: &[], why: "give the module an error of its own" },
];

/// All crates of the workspace. A crate comes after those that it uses.
pub(crate) const CRATES: &[Crate] = &[
    Crate {
        package: "tollgate-tidy",
        folder: "crates/tidy/",
        uses: &[],
        layers: &[
            &["code", "scratch", "tree"],
            &["crates", "modules"],
            &[
                "api",
                "chains",
                "cycles",
                "documents",
                "functions",
                "layers",
                "locks",
                "names",
                "pictures",
                "portability",
                "prose",
                "targets",
                "text",
                "tuples",
                "versions",
            ],
            &["rules"],
        ],
        confined: &[],
    },
    Crate {
        package: "tollgate-core",
        folder: "crates/core/",
        uses: &[],
        layers: &[
            &["time", "crc", "price"],
            &[
                "drain",
                "request",
                "digest",
                "algorithm",
                "consistency",
                "in_time",
                "log_fields",
                "meter",
                "pem",
                "tls",
            ],
            &["scalar", "testing", "text"],
            &["api_keys", "passwords"],
            &["policy", "store"],
            &["refusal", "routes"],
            &["decision"],
        ],
        confined: OF_THE_GATEWAY,
    },
    Crate {
        package: "tollgate-redis",
        folder: "crates/redis/",
        uses: &["tollgate-core"],
        layers: &[],
        confined: OF_THE_GATEWAY,
    },
    Crate {
        package: "tollgate-limiter",
        folder: "limiter/",
        uses: &["tollgate-core", "tollgate-redis"],
        layers: &[&["shared"], &["library"], &["layer"]],
        confined: OF_THE_GATEWAY,
    },
    Crate {
        package: "tollgate-import",
        folder: "crates/import/",
        uses: &[],
        layers: &[],
        confined: &[Confined {
            name: "serde_yaml",
            modules: &["node"],
            why: "only `node` knows the parser of YAML",
        }],
    },
    Crate {
        package: "tollgate-replay",
        folder: "crates/replay/",
        uses: &["tollgate-core"],
        layers: &[],
        confined: &[],
    },
    Crate {
        package: "tollgate-top",
        folder: "crates/top/",
        uses: &["tollgate-core"],
        layers: &[],
        confined: &[],
    },
    Crate {
        package: "tollgate",
        folder: "",
        uses: &[
            "tollgate-core",
            "tollgate-redis",
            "tollgate-limiter",
            "tollgate-import",
            "tollgate-replay",
            "tollgate-top",
        ],
        layers: &[
            &["boxed", "grpc"],
            &["api_keys", "platform", "telemetry", "io", "message", "patches", "turn"],
            &["server", "engine"],
            &["proxy"],
            &["snapshot"],
            &["gateway", "admin"],
            &["check"],
            &["config"],
            &["app", "embedded", "fuzzing"],
            &["cli"],
        ],
        confined: &[
            Confined {
                name: "serde_yaml",
                modules: &["config"],
                why: "only `config` knows the form of the file",
            },
            Confined {
                name: "anyhow",
                modules: &["cli"],
                why: "give the module an error of its own",
            },
        ],
    },
];

impl Crate {
    /// The path of its manifest.
    pub(crate) fn manifest(&self) -> String {
        format!("{}Cargo.toml", self.folder)
    }

    /// The folder of its sources, which ends with `/`.
    pub(crate) fn sources(&self) -> String {
        format!("{}src/", self.folder)
    }

    /// The layer of a top-level module, from 0.
    pub(crate) fn layer(&self, module: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.contains(&module))
    }
}

/// Members of the workspace without a row in [`CRATES`], rows without a member, and crates that use
/// others than their row permits.
pub(crate) fn unlisted_crates(tree: &Tree) -> Vec<Finding> {
    let Some(root) = tree.file("Cargo.toml") else {
        return vec![Finding::at("Cargo.toml", "it is missing: the crates are not known")];
    };
    let mut findings = Vec::new();
    for folder in members(&root.text) {
        if !CRATES.iter().any(|it| it.folder.trim_end_matches('/') == folder) {
            let what = format!("give {folder} a row in crates/tidy/src/crates.rs");
            findings.push(root.finding(1, what));
        }
    }
    for (at, own) in CRATES.iter().enumerate() {
        let Some(manifest) = tree.file(&own.manifest()) else {
            let what = "there is no such crate: remove its row in crates/tidy/src/crates.rs";
            findings.push(Finding::at(&own.manifest(), what));
            continue;
        };
        findings.extend(misnamed(own, manifest));
        findings.extend(foreign_uses(own, &CRATES[..at], manifest));
    }
    findings
}

/// The folders of the members by the root's manifest.
fn members(manifest: &str) -> Vec<&str> {
    let list = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']'));
    let list = list.map_or("", |(list, _)| list);
    list.split(',').map(|it| it.trim().trim_matches('"')).filter(|it| !it.is_empty()).collect()
}

fn misnamed(own: &Crate, manifest: &File) -> Option<Finding> {
    let name = format!("name = \"{}\"", own.package);
    let what = format!("the crate is not {}: correct crates/tidy/src/crates.rs", own.package);
    (!manifest.lines().any(|(_, line)| line == name)).then(|| manifest.finding(1, what))
}

/// Crates of the workspace in the dependencies of `own` that its row does not permit, or that are
/// not in the rows `above`.
fn foreign_uses(own: &Crate, above: &[Crate], manifest: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in manifest.lines() {
        let name = text.split([' ', '.', '=']).next().unwrap_or_default();
        if !CRATES.iter().any(|it| it.package == name) {
            continue;
        }
        if !own.uses.contains(&name) {
            let what = format!("{} must not use {name} (crates/tidy/src/crates.rs)", own.package);
            findings.push(manifest.finding(line, what));
        } else if !above.iter().any(|it| it.package == name) {
            let what = format!("{name} has a row below {}: move its row up", own.package);
            findings.push(manifest.finding(line, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        unlisted_crates(&Tree::sample(files)).iter().map(Finding::to_string).collect()
    }

    /// A tree in which every crate is as its row says.
    fn good() -> Vec<(String, String)> {
        let text = |it: &Crate| format!("members = []\nname = \"{}\"\n", it.package);
        CRATES.iter().map(|it| (it.manifest(), text(it))).collect()
    }

    fn found_with(path: &str, addition: &str) -> Vec<String> {
        let mut files = good();
        for (own, text) in &mut files {
            if own == path {
                text.push_str(addition);
            }
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        found(&files)
    }

    #[test]
    fn a_member_without_a_row_is_found() {
        assert_eq!(members("members = [\"limiter\",\n \"crates/a\"]\n"), ["limiter", "crates/a"]);
        let manifest = "members = [\n  \"limiter\",\n  \"crates/novel\",\n]\nname = \"tollgate\"\n";
        let findings = found(&[("Cargo.toml", manifest)]);
        assert!(findings[0].contains("give crates/novel a row"), "{findings:?}");
        let missing = findings.iter().filter(|it| it.contains("there is no such crate")).count();
        assert_eq!((findings.len(), missing), (CRATES.len(), CRATES.len() - 1), "{findings:?}");
    }

    #[test]
    fn a_crate_that_uses_another_than_its_row_permits_is_found() {
        assert_eq!(found_with("", ""), [""; 0]);
        assert_eq!(
            found_with("Cargo.toml", "tollgate-limiter = { path = \"limiter\" }\n").len(),
            0
        );
        for line in ["tollgate.workspace = true\n", "tollgate = { path = \"..\" }\n"] {
            let findings = found_with("limiter/Cargo.toml", line);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].contains("tollgate-limiter must not use tollgate"), "{findings:?}");
        }
    }
}
