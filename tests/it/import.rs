//! `tollgate import`: files, exit codes, and that nothing is written which cannot be used.

use std::fs;
use std::path::Path;

use crate::support::Program;

/// A configuration whose limit is taken, and whose secret is not shown.
const GOOD: &str = "limit_req_zone $binary_remote_addr zone=a:1m rate=10r/s;
server {
    listen 8080;
    location / {
        limit_req zone=a burst=5 nodelay;
        proxy_set_header Authorization \"Bearer hunter2\";
        proxy_pass http://127.0.0.1:9000;
    }
}
";

fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(directory.path().join(name), text).expect("a file");
    }
    directory
}

fn path(directory: &tempfile::TempDir, name: &str) -> String {
    directory.path().join(name).to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn what_is_imported_passes_check_and_has_no_secret() {
    let files = directory(&[("nginx.conf", GOOD)]);
    let output = path(&files, "gateway.yaml");
    let input = path(&files, "nginx.conf");
    let ran = Program::run(&["import", "nginx", "-o", &output, &input]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), ""), "{}", ran.stderr);
    let yaml = fs::read_to_string(&output).expect("it is written");
    assert!(yaml.contains("\"${AUTHORIZATION}\"") && !yaml.contains("hunter2"), "{yaml}");
    assert!(ran.stderr.contains("set the variable AUTHORIZATION"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    // The file is there now.
    let again = Program::run(&["import", "nginx", "-o", &output, &input]);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("exists: name another file"), "{}", again.stderr);
    // Without a file the same bytes go to standard output, and JSON has them, too.
    let ran = Program::run(&["import", "nginx", &input]);
    assert_eq!(ran.stdout, yaml);
    let ran = Program::run(&["import", "nginx", "--json", &input]);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(document["gateway"], yaml);
    assert_eq!(document["exit_code"], 0);
    assert_eq!(document["variables"][0]["name"], "AUTHORIZATION");
}

#[test]
fn losses_have_exit_codes_and_can_be_accepted() {
    let text = GOOD.replace("listen 8080;", "listen 8080; auth_jwt on;");
    let files = directory(&[("nginx.conf", &text)]);
    let input = path(&files, "nginx.conf");
    assert_eq!(Program::run(&["import", "nginx", &input]).code, Some(2));
    assert_eq!(Program::run(&["import", "nginx", "--accept", "auth_jwt", &input]).code, Some(1));
    let ran = Program::run(&["import", "nginx", "--accept", "auth", &input]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("--accept auth: no construct"), "{}", ran.stderr);
}

#[test]
fn nothing_is_written_if_a_file_cannot_be_read() {
    let files = directory(&[
        ("broken.conf", "server {"),
        ("template.conf", "server { listen {{ port }}; }"),
        ("mail.conf", "events { }"),
        ("cycle.conf", "include more.inc;\nserver { listen 80; }"),
        ("more.inc", "include more.inc;"),
        ("odd.yaml", "a: [1, 2"),
    ]);
    for (kind, name, says) in [
        ("nginx", "broken.conf", "has no end"),
        ("nginx", "template.conf", "render it first"),
        ("nginx", "mail.conf", "there is no server"),
        ("nginx", "cycle.conf", "nested too deep"),
        ("nginx", "absent.conf", "cannot be read"),
        ("ingress-nginx", "odd.yaml", "no YAML"),
    ] {
        let output = path(&files, "gateway.yaml");
        let ran = Program::run(&["import", kind, "-o", &output, &path(&files, name)]);
        assert_eq!(ran.code, Some(2), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{name}: {}", ran.stderr);
        assert!(!Path::new(&output).exists(), "{name}");
    }
}

/// Only nginx read it, so requests of a lost route of Kong got 404 in spite of it.
#[test]
fn the_old_server_gets_the_requests_of_routes_that_are_lost() {
    let good = "- { name: b, paths: [/b], service: s }";
    let file = |routes: &str| {
        format!("services: [{{ name: s, url: 'http://127.0.0.1:9' }}]\nroutes:\n{routes}\n")
    };
    let files = directory(&[
        (
            "lost.yaml",
            &file(&format!("{good}\n- {{ name: a, paths: ['~/a/[0-9]+$'], service: s }}")),
        ),
        ("good.yaml", &file(good)),
        ("limits.yaml", "domain: d\ndescriptors:\n  - { key: k }\n"),
    ]);
    let run = |kind: &str, name: &str| {
        let url = "http://127.0.0.1:8001";
        Program::run(&["import", kind, "--rest", url, &path(&files, name)])
    };
    let ran = run("kong", "lost.yaml");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("its requests go to http://127.0.0.1:8001"), "{}", ran.stderr);
    let last = ran.stdout.lines().rfind(|line| line.contains("path: "));
    assert_eq!(last, Some("  - { path: /*, upstream: rest }"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("  rest: { endpoints: [http://127.0.0.1:8001] }"),
        "{}",
        ran.stdout
    );
    // Nothing is lost, so the old server has nothing to do.
    let ran = run("kong", "good.yaml");
    assert!(!ran.stdout.contains("8001"), "{}", ran.stdout);
    let ran = run("envoy-ratelimit", "limits.yaml");
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""));
    assert!(
        ran.stderr.contains("--rest is for routes, and envoy-ratelimit has none"),
        "{}",
        ran.stderr
    );
}

/// The report was thrown away if nothing could be taken, and only it says why.
#[test]
fn the_report_says_why_nothing_is_written() {
    let kong = "routes: [{ name: a, paths: ['~/a/'], service: s }]\nservices: [{ name: s, url: http://a }]";
    let traefik = "http:\n  routers:\n    a: { rule: PathRegexp(`^/g`), service: s }\n";
    let envoy = "domain: d\ndescriptors:\n  - { key: k, value: w*z }\n";
    let ingress = "kind: Ingress\nspec: { ingressClassName: other }\n";
    let files = directory(&[
        ("kong", kong),
        ("traefik", traefik),
        ("envoy-ratelimit", envoy),
        ("ingress-nginx", ingress),
    ]);
    for (kind, says) in [
        ("kong", "kong:1: not taken (a loss): paths: ~/a/: no regular expressions"),
        ("traefik", "traefik:3: not taken (a loss): routers: a: "),
        ("envoy-ratelimit", "envoy-ratelimit:3: not taken (a loss): key: k=w*z: "),
        ("ingress-nginx", "ingress-nginx:2: needless: Ingress: its class is other"),
    ] {
        let input = path(&files, kind);
        let output = path(&files, "gateway.yaml");
        let ran = Program::run(&["import", kind, "-o", &output, &input]);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{kind}: {}", ran.stderr);
        let at = |text: &str| ran.stderr.find(text);
        assert!(at(says).is_some(), "{kind}: {}", ran.stderr);
        assert!(at(says) < at("error: nothing is imported: "), "{kind}: {}", ran.stderr);
        let ran = Program::run(&["import", kind, "--json", "-o", &output, &input]);
        assert_eq!(ran.code, Some(2), "{kind}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: nothing is imported: "), "{kind}: {}", ran.stderr);
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        assert_eq!(document["exit_code"], 2, "{kind}");
        assert_ne!(document["constructs"], serde_json::json!([]), "{kind}");
        assert!(!Path::new(&output).exists(), "{kind}");
    }
    // So is a report beside a file that is not written.
    let files = directory(&[("nginx.conf", GOOD), ("gateway.yaml", "")]);
    let args = ["import", "nginx", "--json", "-o", &path(&files, "gateway.yaml")];
    let ran = Program::run(&[&args[..], &[&path(&files, "nginx.conf")]].concat());
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((ran.code, &document["exit_code"]), (Some(2), &serde_json::json!(2)));
}

/// A name could clear the screen, and hide a loss.
#[test]
fn names_of_a_file_do_not_control_the_terminal() {
    let text = GOOD.replace("listen 8080;", "listen 8080; auth\u{1b}[2J on;");
    let files = directory(&[("nginx.conf", &text), ("bad.conf", "\u{1b}[2J {")]);
    for name in ["nginx.conf", "bad.conf"] {
        let ran = Program::run(&["import", "nginx", "--color", "always", &path(&files, name)]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(!ran.stderr.contains("\u{1b}[2J"), "{:?}", ran.stderr);
        let is_named = ran.stderr.contains("auth\\u{1b}[2J");
        assert!(is_named || name == "bad.conf", "{:?}", ran.stderr);
    }
}
