//! What is installed with the program: the manual, the package for Debian and its configuration, and
//! the image.
//! `packaging/deb/test` boots a system with the package, which takes minutes and needs root.

use std::path::Path;
use std::process::Command;

use crate::support::{Program, as_root};

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The output of a command that succeeds.
fn output(command: &mut Command) -> String {
    let done = command.output().expect("scripts/test installs the programs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The manual and completions, in a new directory.
fn documents() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let mut write = Command::new(project().join("packaging/documents"));
    output(write.arg(env!("CARGO_BIN_EXE_tollgate")).arg(directory.path()));
    directory
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let documents = documents();
    let page = |name: &str| {
        std::fs::read_to_string(documents.path().join("man").join(name)).expect("a page")
    };
    let first = page("tollgate.1");
    for command in ["run", "check", "override", "explain", "top", "replay", "schema"] {
        assert!(first.contains(&format!("tollgate\\-{command}(1)")), "{command} in {first}");
        assert!(page(&format!("tollgate-{command}.1")).contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(page("tollgate-check.1").contains("tollgate check \\-\\-routes"), "the examples");
    assert!(!documents.path().join("man/tollgate-man.1").exists(), "for builders of packages only");
    assert!(!Program::run(&["--help"]).stdout.contains("  man"), "for builders of packages only");
}

#[test]
fn a_manual_without_a_directory_is_a_failure_that_names_it() {
    let output = Program::run(&["man", "/nowhere/man"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.starts_with("error: cannot write the manual to /nowhere/man: "));
}

#[test]
fn the_configuration_of_the_package_is_good() {
    let file = project().join("packaging/deb/gateway.yaml").display().to_string();
    let output = Program::run(&["check", "-c", &file]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    // A socket of systemd has exactly this address.
    let socket = std::fs::read_to_string(project().join("packaging/systemd/tollgate.socket"));
    assert!(socket.expect("it is shipped").contains("\nListenStream=127.0.0.1:8080\n"));
    let text = std::fs::read_to_string(&file).expect("it is shipped");
    assert!(text.contains("\n  - address: 127.0.0.1:8080\n"));
}

/// The package is built as a release builds it, around a small file instead of the program.
#[test]
fn the_package_has_the_same_bytes_each_time() {
    let documents = documents();
    let at = |name: &str| documents.path().join(name);
    std::fs::write(at("program"), "a program").expect("a file");
    let build = |out: &str| {
        let mut build = Command::new(project().join("packaging/deb/build"));
        build.arg(at("program")).args(["amd64", "1.2.3-rc.1"]).arg(at(out));
        output(build.env("DOCUMENTS", documents.path()).env("SOURCE_DATE_EPOCH", "1700000000"));
        std::fs::read(at(out)).expect("a package")
    };
    assert!(build("first.deb") == build("second.deb"), "a package depends on when it is built");

    let field =
        |name| output(Command::new("dpkg-deb").arg("--field").arg(at("first.deb")).arg(name));
    assert_eq!((field("Version").trim(), field("Architecture").trim()), ("1.2.3~rc.1", "amd64"));
    let contents =
        output(Command::new("dpkg-deb").env("TZ", "UTC").arg("--contents").arg(at("first.deb")));
    let line = |path: &str| {
        let end = format!(" .{path}");
        contents.lines().find(|line| line.ends_with(&end)).unwrap_or_else(|| panic!("no {path}"))
    };
    for (mode, path) in [
        ("-rwxr-xr-x", "/usr/bin/tollgate"),
        ("-rw-r-----", "/etc/tollgate/gateway.yaml"),
        ("-rw-r--r--", "/etc/default/tollgate"),
        ("-rw-r--r--", "/usr/lib/systemd/system/tollgate.service"),
        ("-rw-r--r--", "/usr/lib/systemd/system/tollgate.socket"),
        ("-rw-r--r--", "/usr/lib/sysusers.d/tollgate.conf"),
        ("-rw-r--r--", "/usr/share/man/man1/tollgate-run.1.gz"),
        ("-rw-r--r--", "/usr/share/bash-completion/completions/tollgate"),
        ("-rw-r--r--", "/usr/share/zsh/vendor-completions/_tollgate"),
        ("-rw-r--r--", "/usr/share/fish/vendor_completions.d/tollgate.fish"),
        ("-rw-r--r--", "/usr/share/doc/tollgate/THIRD-PARTY.gz"),
        ("-rw-r--r--", "/usr/share/doc/tollgate/changelog.gz"),
        ("-rw-r--r--", "/usr/share/doc/tollgate/examples/write-config.conf"),
    ] {
        assert!(line(path).starts_with(&format!("{mode} root/root ")), "{}", line(path));
        assert!(line(path).contains(" 2023-11-14 "), "{}", line(path));
    }
}

/// The last stage of docker/Dockerfile, around a small file instead of the program.
#[test]
fn the_image_has_the_same_bytes_each_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("program"), "a program").expect("a file");
    let build = |out: &str| {
        // As another user than root, buildah would need a range of users.
        let mut build = as_root("env");
        build.args(["REVISION=abc", "SOURCE_DATE_EPOCH=1700000000"]);
        build.arg(project().join("packaging/image/build"));
        output(build.arg(at("program")).args(["amd64", "1.2.3"]).arg(at(out)));
        std::fs::read(at(out)).expect("an image")
    };
    assert!(build("first") == build("second"), "an image depends on when it is built");

    output(Command::new("tar").arg("-xf").arg(at("first")).arg("-C").arg(directory.path()));
    let read = |name: &str| -> serde_json::Value {
        let text = std::fs::read(at(name)).expect("it is in the image");
        serde_json::from_slice(&text).expect("it is JSON")
    };
    let manifest = &read("manifest.json")[0];
    assert_eq!(manifest["RepoTags"][0], "tollgate:1.2.3");
    let image = read(manifest["Config"].as_str().expect("a name"));
    let config = &image["config"];
    assert_eq!((&image["architecture"], &image["os"]), (&"amd64".into(), &"linux".into()));
    assert_eq!((&config["User"], &config["Hostname"]), (&"10001:10001".into(), &"".into()));
    assert_eq!(config["Healthcheck"]["Test"][2], "health");
    assert_eq!(config["Labels"]["org.opencontainers.image.revision"], "abc");

    let layer = at(manifest["Layers"][0].as_str().expect("a name"));
    let list = output(Command::new("tar").args(["--numeric-owner", "-tvf"]).arg(&layer));
    let line = |path: &str| {
        let end = format!(" {path}");
        list.lines().find(|line| line.ends_with(&end)).unwrap_or_else(|| panic!("no {path}"))
    };
    for (beginning, path) in [
        ("-rwxr-xr-x 0/0 ", "usr/local/bin/tollgate"),
        ("-rw-r--r-- 0/0 ", "etc/ssl/certs/ca-certificates.crt"),
        ("drwxr-xr-x 10001/10001 ", "run/tollgate/"),
        ("drwxr-xr-x 10001/10001 ", "var/lib/tollgate/"),
        ("drwxr-xr-x 10001/10001 ", "tmp/"),
    ] {
        assert!(line(path).starts_with(beginning), "{}", line(path));
    }
    output(Command::new("tar").arg("-xf").arg(&layer).arg("-C").arg(directory.path()));
    let file = at("etc/tollgate/gateway.yaml").display().to_string();
    let checked = Program::run(&["check", "-c", &file]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""));
}

/// A file that was forgotten would deploy the program of the last release.
#[test]
fn a_new_version_is_written_into_all_files_that_name_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let files = [
        "Cargo.toml",
        "docker/Dockerfile",
        "docs/envoy-gateway.md",
        "docs/install.md",
        "docs/kubernetes.md",
        "packaging/bump",
        "packaging/chart/Chart.yaml",
        "packaging/kubernetes/base/kustomization.yaml",
        "packaging/kubernetes/eg-image/envoy-gateway-config.yaml",
    ];
    for name in files {
        std::fs::create_dir_all(at(name).parent().expect("it has one")).expect("a directory");
        std::fs::copy(project().join(name), at(name)).expect("it is there");
    }
    let old = env!("CARGO_PKG_VERSION");
    let changes = format!("# Changes\n\n## Unreleased\n\n- One.\n\n## {old} - 2026-01-02\n");
    std::fs::write(at("CHANGELOG.md"), changes).expect("a file");
    // Without the other crates, cargo cannot write the lock files.
    for name in ["fuzz", "bench/library", "bin"] {
        std::fs::create_dir_all(at(name)).expect("a directory");
    }
    std::os::unix::fs::symlink("/bin/true", at("bin/cargo")).expect("a link");
    let path = std::env::var("PATH").expect("it is set");
    let mut bump = Command::new(at("packaging/bump"));
    output(bump.arg("98.7.6").env("PATH", format!("{}:{path}", at("bin").display())));
    for name in files.into_iter().filter(|name| *name != "packaging/bump") {
        let text = std::fs::read_to_string(at(name)).expect("it is there");
        assert!(text.contains("98.7.6"), "{name}");
        for before in ["tollgate:", "tollgate-", "tollgate_", "newTag: ", "ersion: "] {
            assert!(!text.contains(&format!("{before}{old}")), "{before}{old} in {name}");
        }
    }
}

/// The order of semver.org, 11: numbers are not compared as text.
#[test]
fn versions_have_the_order_of_their_numbers() {
    let script = "import runpy, sys\n\
                  order = runpy.run_path(sys.argv[1])['order']\n\
                  found = sorted(reversed(sys.argv[2:]), key=order)\n\
                  assert found == sys.argv[2:], found\n";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(project().join("packaging/bump"));
    output(python.args([
        "0.9.0",
        "0.10.0",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-rc.2",
        "1.0.0-rc.10",
        "1.0.0",
    ]));
}
