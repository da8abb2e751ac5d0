//! What a file says of its admin listener, for the commands that ask a running gateway.
//!
//! Only the section `admin` is read. Mistakes in others do not matter: a command may be about to
//! have them reported by the gateway.

use std::path::Path;

use super::NO_FILES;
use super::excerpt::Excerpts;
use super::model::AdminAccess;
use super::node::Value;
use super::problem::Problems;
use super::sections::RawConfig;
use super::surroundings::Surroundings;
use super::{
    LoadError, Mistakes, Progress, de, expand, secret_places, short_forms, text_file, unreadable,
    yaml,
};

/// How the admin listener of the file at `path` is reached. None if the file has no such section,
/// or none with an address. A token is missing if a `${...}` in it has no value here.
///
/// # Errors
/// If the file cannot be read, or is not YAML.
pub fn admin_access(path: &Path) -> Result<Option<AdminAccess>, LoadError> {
    let read = text_file::read_any(path).map_err(|error| unreadable(path, error))?;
    let text = read.text;
    let name = path.to_string_lossy();
    let env = |variable: &str| std::env::var(variable).ok();
    let progress = Progress::default();
    let around = Surroundings::new(&name, &env, &NO_FILES, &progress);
    let problems = Problems::default();
    let Some(mut tree) = yaml::parse(&text, &problems) else {
        let report = problems.report(&name, &text, &Excerpts::default());
        return Err(Mistakes { report, files: Vec::new() }.into());
    };
    if let Value::Map(entries) = &mut tree.value {
        entries.retain(|entry| entry.name() == "admin");
    }
    // These mistakes are those of the gateway, which reports them.
    let problems = Problems::default();
    short_forms::expand(&mut tree, &problems);
    secret_places::mark(&mut tree);
    expand::expand(&mut tree, &around, &problems);
    let raw: Option<RawConfig> = de::read(&tree, &problems);
    Ok(raw.and_then(|it| it.admin_access()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(text: &str) -> Result<Option<AdminAccess>, LoadError> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gateway.yaml");
        std::fs::write(&file, text).unwrap();
        admin_access(&file)
    }

    fn found(text: &str) -> AdminAccess {
        access(text).unwrap().expect("there is a section")
    }

    #[test]
    fn the_section_is_read_beside_mistakes_in_others() {
        let file = "nonsense: 1\nroutes: {}\npolicies: { a: { limit: lots } }\nadmin: ";
        let short = found(&format!(
            "{file}{{ address: \"127.0.0.1:9901\", token: 0123456789abcdef, probe: {{ address: \"127.0.0.1:2\" }} }}"
        ));
        assert_eq!(short.address.to_string(), "127.0.0.1:9901");
        assert_eq!(short.token.as_deref(), Some("0123456789abcdef"));
        assert_eq!(short.probe.unwrap().to_string(), "127.0.0.1:2");
        assert!(!short.is_encrypted);
        let socket = found(&format!("{file}{{ address: unix:/run/a.sock }}"));
        assert_eq!((&*socket.address.to_string(), socket.token), ("unix:/run/a.sock", None));
    }

    #[test]
    fn the_token_that_allows_most_is_taken_and_never_printed() {
        let listed = found(
            "admin:\n  address: 127.0.0.1:1\n  tls: { certificates: [] }\n  tokens:\n  \
             - { name: a, role: read, token: read-456789abcdef }\n  \
             - { name: b, role: operate, token: operate-9abcdef }\n  \
             - { name: c, role: metrics, token: metrics-9abcdef }\n",
        );
        assert_eq!(listed.token.as_deref(), Some("operate-9abcdef"));
        assert!(listed.is_encrypted && !format!("{listed:?}").contains("9abcdef"));
        let unset = found("admin: { address: \"127.0.0.1:1\", token: \"${TOLLGATE_NOT_SET}\" }");
        assert_eq!(unset.token, None);
    }

    #[test]
    fn a_file_that_is_no_yaml_is_reported() {
        assert!(matches!(access("admin: ["), Err(LoadError::Mistakes(_))));
        assert!(matches!(admin_access(Path::new("/none")), Err(LoadError::Unreadable { .. })));
        for without in ["routes: []\n", "admin: {}\n", "admin:\n", "- a\n"] {
            assert_eq!(access(without).unwrap(), None, "{without}");
        }
    }
}
