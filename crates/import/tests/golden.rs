//! Configurations of others, with the `gateway.yaml` and the report that each of them gives.
//!
//! `tests/import/KIND/NAME.conf` or `.yaml` gives `tests/import/KIND/expected/NAME.yaml` and
//! `NAME.report`. With `UPDATE_GOLDEN=1` in the environment they are written anew; read the
//! difference before you commit it. The gateway compiles all of them in `tests/config.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_import::{Class, Imported, Job, Kind, import};

fn directory(kind: Kind) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/import").join(kind.name())
}

/// The inputs of a kind in their order.
fn inputs(kind: Kind) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory(kind)).expect("the directory is part of the project");
    let paths = entries.map(|entry| entry.expect("the directory can be read").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

fn job(kind: Kind, path: &Path) -> Job {
    // The first line may have options of the command.
    let text = fs::read_to_string(path).expect("inputs are text");
    let line = text.lines().next().and_then(|line| line.strip_prefix("# options: "));
    let mut words = line.unwrap_or_default().split_whitespace();
    let mut job =
        Job { kind, files: vec![path.to_owned()], rest: None, accept: Vec::new(), nodes: None };
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default().to_owned();
        match word {
            "--rest" => job.rest = Some(value),
            "--accept" => job.accept.push(value),
            "--nodes" => job.nodes = value.parse().ok(),
            word => panic!("{}: {word} is no option here", path.display()),
        }
    }
    job
}

fn imported(kind: Kind, path: &Path) -> (String, String) {
    let whole = path.parent().expect("it is in a directory").display().to_string();
    let (yaml, report) = match import(&job(kind, path)) {
        Ok(Imported { yaml: Ok(yaml), report }) => {
            let text = format!("{}exit code {}\n", report.text(), report.exit_code());
            (yaml, text)
        }
        Ok(Imported { yaml: Err(error), report }) => {
            (String::new(), format!("{}{error}\n", report.text()))
        }
        Err(error) => (String::new(), format!("{error}\n")),
    };
    let relative = |text: String| text.replace(&format!("{whole}/"), "");
    (relative(yaml), relative(report))
}

#[test]
fn every_input_gives_its_configuration_and_report() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for kind in Kind::ALL {
        let expected = directory(kind).join("expected");
        for path in inputs(kind) {
            let (yaml, report) = imported(kind, &path);
            let stem = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
            for (extension, actual) in [("yaml", &yaml), ("report", &report)] {
                let golden = expected.join(format!("{stem}.{extension}"));
                if update && !actual.is_empty() {
                    fs::create_dir_all(&expected).unwrap();
                    fs::write(&golden, actual).unwrap();
                }
                let before = fs::read_to_string(&golden).unwrap_or_default();
                if before != *actual {
                    wrong.push(format!("{}\nactual:\n{actual}", golden.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_GOLDEN=1 accepts them all", wrong.join("\n"));
}

#[test]
fn each_kind_has_ten_inputs_of_all_classes() {
    for kind in Kind::ALL {
        let inputs = inputs(kind);
        assert!(inputs.len() >= 10, "{kind} has only {}", inputs.len());
        let reports: Vec<_> =
            inputs.iter().filter_map(|path| import(&job(kind, path)).ok()).collect();
        for class in [Class::Taken, Class::Different, Class::NotTaken, Class::Needless] {
            let has =
                reports.iter().any(|it| it.report.constructs().iter().any(|it| it.class == class));
            assert!(has, "no input of {kind} is {}", class.words());
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for kind in Kind::ALL {
        for path in inputs(kind) {
            assert_eq!(imported(kind, &path), imported(kind, &path), "{}", path.display());
        }
    }
}

/// Secrets of the inputs have these texts.
#[test]
fn no_secret_is_in_a_configuration_or_a_report() {
    let mut inputs_with_secrets = 0;
    for kind in Kind::ALL {
        for path in inputs(kind) {
            let text = fs::read_to_string(&path).unwrap();
            let (yaml, report) = imported(kind, &path);
            for secret in
                ["hunter2", "dXNlcjpwYXNz", "a-secret-of-our-own", "a-very-secret-key", "Basic abc"]
            {
                inputs_with_secrets += usize::from(text.contains(secret));
                assert!(!yaml.contains(secret), "{}: {secret}", path.display());
                assert!(!report.contains(secret), "{}: {secret}", path.display());
            }
        }
    }
    assert!(inputs_with_secrets > 5);
}

#[test]
fn every_construct_of_a_report_has_a_line() {
    for kind in Kind::ALL {
        for path in inputs(kind) {
            let Ok(it) = import(&job(kind, &path)) else { continue };
            for construct in it.report.constructs() {
                assert!(construct.place.line > 0, "{}: {construct:?}", path.display());
            }
        }
    }
}

/// The block of a page that begins with this fence, from the first one that contains the text.
fn block(page: &str, fence: &str, contains: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).expect("the project has this page");
    let mut blocks = text.split("```").skip(1).step_by(2);
    let found = blocks.find(|it| it.starts_with(fence) && it.contains(contains));
    let found = found.unwrap_or_else(|| panic!("{page} has no {fence} with {contains}"));
    found.split_once('\n').expect("a fence is a line").1.to_owned()
}

/// What is imported from a text under this name.
fn of_text(kind: Kind, name: &str, text: &str) -> (String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    fs::write(&path, text).expect("a file");
    imported(kind, &path)
}

#[test]
fn the_pages_show_what_is_imported() {
    for (page, kind, input, policy) in [
        ("from-kong.md", Kind::Kong, "services:", "orders-minute: {"),
        ("from-traefik.md", Kind::Traefik, "routers:", "api-limit: {"),
    ] {
        let (yaml, _) = of_text(kind, "input.yaml", &block(page, "yaml", input));
        let shown = block(page, "yaml", "policies:");
        let line = shown.lines().find(|line| line.contains(policy)).expect("its policy");
        assert!(yaml.contains(line), "{page}: {line}\n{yaml}");
        let path = shown.lines().find(|line| line.contains("- path:")).expect("its route");
        assert!(yaml.contains(path), "{page}: {path}\n{yaml}");
    }
    let (_, report) = of_text(Kind::Nginx, "nginx.conf", &block("import.md", "nginx", "server"));
    let console = block("import.md", "console", "tollgate import");
    let shown: Vec<&str> = console.lines().filter(|line| !line.starts_with("$ ")).collect();
    let report = report.replace("exit code 2\n", "");
    assert_eq!(report.lines().collect::<Vec<_>>(), shown);
    // The page on nginx has the same policies by hand.
    let (yaml, _) =
        of_text(Kind::Nginx, "nginx.conf", &block("from-nginx.md", "nginx", "limit_req"));
    for policy in [
        "pages: { key: ip, algorithm: token_bucket, limit: 10/s, burst: 21 }",
        "open: { key: ip, algorithm: concurrency, limit: 5, response: { status: 503 } }",
        "limit: 600/minute",
        "max_delay: 5s",
    ] {
        assert!(yaml.contains(policy), "{policy}\n{yaml}");
    }
}
