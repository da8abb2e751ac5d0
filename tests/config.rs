//! Mistakes in a configuration, and the exact report that each of them gets.
//!
//! `tests/config/NAME.yaml` is compiled and its report compared with
//! `NAME.report`. With `UPDATE_GOLDEN=1` in the environment the reports are
//! written anew; read the difference before you commit it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tollgate::config::Config;

/// What the variable `SECRET` holds: it must never be seen in a report.
const SECRET: &str = "hunter2-is-not-a-good-secret-at-all";

fn env(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some(SECRET.to_owned()),
        "SECRET_KEY" => Some("param:tenant_of_a_secret".to_owned()),
        _ => None,
    }
}

/// All golden files with what a user sees: the mistakes, or the warnings if there are none.
static REPORTS: LazyLock<Vec<(PathBuf, String)>> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let entries = fs::read_dir(directory).expect("the directory is part of the project");
    let paths = entries.map(|entry| entry.expect("the directory can be read").path());
    let yaml = paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let mut reports: Vec<(PathBuf, String)> =
        yaml.map(|path| (path.clone(), report(&path))).collect();
    reports.sort();
    reports
});

fn report(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("golden files are UTF-8 text");
    let report = match Config::parse(&text, "gateway.yaml", &env) {
        Ok(compiled) => compiled.warnings,
        Err(report) => report,
    };
    if report.is_empty() { String::new() } else { format!("{report}\n") }
}

#[test]
fn every_mistake_gets_its_exact_report() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for (path, actual) in &*REPORTS {
        let golden = path.with_extension("report");
        if update {
            fs::write(&golden, actual).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if *actual != expected {
            wrong.push(format!("{}\nexpected:\n{expected}\nactual:\n{actual}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_GOLDEN=1 accepts them all", wrong.join("\n"));
}

#[test]
fn every_golden_file_has_something_to_report() {
    assert!(REPORTS.len() >= 40, "only {} files", REPORTS.len());
    for (path, report) in &*REPORTS {
        assert!(!report.is_empty(), "{} has no mistake", path.display());
    }
}

#[test]
fn no_report_shows_the_value_of_a_reference() {
    let mut shown = 0;
    for (path, report) in &*REPORTS {
        assert!(!report.contains(SECRET), "{}:\n{report}", path.display());
        assert!(!report.contains("tenant_of_a_secret"), "{}:\n{report}", path.display());
        shown += report.matches("${SECRET}").count();
    }
    assert!(shown > 10, "the golden files say little about secrets");
}

#[test]
fn the_shipped_configuration_compiles_without_warnings() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway.yaml");
    let text = fs::read_to_string(path).unwrap();
    let compiled = Config::parse(&text, "gateway.yaml", &|_| None).unwrap();
    assert!(compiled.warnings.is_empty(), "{}", compiled.warnings);
    assert!(text.lines().count() < 60);
    // What the comments say of the admin listener is true.
    let on =
        text.replace("# admin:\n#   address", "admin:\n  address").replace("#   token", "  token");
    let token = |name: &str| (name == "TOLLGATE_ADMIN_TOKEN").then(|| SECRET.to_owned());
    let compiled = Config::parse(&on, "gateway.yaml", &token).unwrap();
    assert!(compiled.warnings.is_empty() && on.contains("\nadmin:\n"), "{}", compiled.warnings);
    assert!(Config::parse(&on, "gateway.yaml", &|_| None).is_err(), "it needs the token");
}

/// What `tollgate import` makes of the files in tests/import; the crate holds that it makes them.
#[test]
fn what_is_imported_compiles() {
    let mut count = 0;
    let variable = |_: &str| Some("0".repeat(64));
    let kinds = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import")).unwrap();
    for kind in kinds.map(|entry| entry.unwrap().path()) {
        for path in fs::read_dir(kind.join("expected")).unwrap().map(|entry| entry.unwrap().path())
        {
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let text = fs::read_to_string(&path).unwrap();
                if let Err(report) = Config::parse(&text, "gateway.yaml", &variable) {
                    panic!("{}: {report}", path.display());
                }
                count += 1;
            }
        }
    }
    assert!(count >= 18, "only {count} files");
}

/// The page was out of reach: the admin listener was a Unix socket in the container. And a mounted
/// file does not show that another one was renamed over it, so no reload saw a change.
#[test]
fn the_gateways_of_compose_mount_a_directory_and_publish_the_page() {
    let docker = Path::new(env!("CARGO_MANIFEST_DIR")).join("docker");
    let compose = fs::read_to_string(docker.join("compose.yaml")).unwrap();
    let sources: Vec<&str> = compose
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| line.split(['"', ' ']))
        .filter_map(|word| word.strip_prefix("./")?.split(':').next())
        .collect();
    assert!(sources.len() >= 3, "{sources:?}");
    for source in sources {
        assert!(
            docker.join(source).is_dir(),
            "compose.yaml mounts {source}, which is no directory"
        );
    }
    let text = fs::read_to_string(docker.join("tollgate/gateway.yaml")).unwrap();
    let token = |name: &str| (name == "TOLLGATE_ADMIN_TOKEN").then(|| SECRET.to_owned());
    let compiled = Config::parse(&text, "gateway.yaml", &token).unwrap();
    assert!(compiled.warnings.is_empty(), "{}", compiled.warnings);
    assert!(text.contains("address: 0.0.0.0:9901"), "all interfaces of the container");
    // To this machine only, because the token is sent without TLS.
    assert!(
        compose.contains("\"127.0.0.1:9901:9901\"") && compose.contains("\"127.0.0.1:9911:9901\"")
    );
}

/// The first fenced block of this page with this text.
fn block(page: &str, beginning: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = fs::read_to_string(path).expect("the project has this page");
    let block = text.split("```").skip(1).step_by(2).find(|block| block.contains(beginning));
    let block = block.unwrap_or_else(|| panic!("{page} shows no {beginning:?}"));
    block.split_once('\n').expect("a fence is a line").1.to_owned()
}

#[test]
fn the_readme_and_the_guide_show_configurations_that_compile() {
    let secret = |_: &str| Some(SECRET.to_owned());
    for page in ["README.md", "docs/guide.md"] {
        let compiled = Config::parse(&block(page, "listeners:"), "gateway.yaml", &secret).unwrap();
        assert!(compiled.warnings.is_empty(), "{page}: {}", compiled.warnings);
    }
}

#[test]
fn the_guide_shows_a_report_as_it_is() {
    let shown = block("docs/guide.md", "$ tollgate check");
    let (_, report) = shown.split_once('\n').expect("a command, and what it prints");
    let line = report.lines().find(|line| line.contains(" | ")).expect("the line itself");
    let (_, written) = line.split_once(" | ").expect("a line behind its number");
    let file = format!(
        "listeners: [{{ address: 0.0.0.0:8080 }}]\n\n\
         upstreams: {{ app: {{ endpoints: [http://127.0.0.1:9000] }} }}\n\
         policies:\n  per-client: {{ key: ip, limit: 100/minute }}\n\nroutes:\n{written}\n"
    );
    let actual = Config::parse(&file, "broken.yaml", &env).unwrap_err().to_string();
    assert_eq!(actual.trim_end(), report.trim_end());
}
