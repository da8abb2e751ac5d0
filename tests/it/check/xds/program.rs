//! `tollgate ratelimit`: the program in the place of envoyproxy/ratelimit.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::super::grpc::{ask, descriptor, status_of_health};
use super::server::{Server, daily, domain};
use crate::support::{Client, Gateway, Program, eventually};

/// The program under the name of the original, with this environment alone.
fn ratelimit(directory: &tempfile::TempDir, environment: &[(&str, &str)]) -> Command {
    let link = directory.path().join("ratelimit");
    symlink(env!("CARGO_BIN_EXE_tollgate"), &link).expect("a link");
    let mut command = Command::new(link);
    command.env_clear().envs(environment.iter().copied());
    command
}

#[test]
fn the_environment_of_envoy_gateway_starts_the_service() {
    let server = Server::new();
    let url = server.address().to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let environment = [
        ("LOG_LEVEL", "info"),
        ("LOG_FORMAT", "text"),
        ("USE_STATSD", "false"),
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", &*url),
        ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        // It is away: this node counts alone.
        ("REDIS_URL", "127.0.0.1:1"),
        ("USE_PROMETHEUS", "true"),
        ("HOST", "127.0.0.1"),
        ("PORT", "0"),
        ("GRPC_HOST", "127.0.0.1"),
        ("GRPC_PORT", "0"),
        ("PROMETHEUS_ADDR", "127.0.0.1:0"),
    ];
    let mut gateway = Gateway::start_command(ratelimit(&directory, &environment), 3);
    let [http, grpc, metrics] = gateway.addresses()[..] else { panic!("three listeners") };
    assert_eq!(server.nth(0).node.map(|it| it.id), Some("envoy-ratelimit".to_owned()));
    assert_eq!(status_of_health(grpc), 1, "Envoy Gateway wants it to be ready");
    server.say("1", "a", &[domain("d", vec![daily("k", 2)])]);
    eventually("the limits are there", || server.asked().iter().any(|it| it.version == "1"));
    let codes = (0..3).map(|_| ask(grpc, "d", vec![descriptor(&[("k", "v")], None)]).code);
    assert_eq!(codes.collect::<Vec<_>>(), [1, 1, 2]);
    let mut healthcheck = Client::connect(http);
    assert_eq!(healthcheck.get("/healthcheck", &[]).status, 200);
    let shown = Client::connect(metrics).get("/metrics", &[]).text();
    let count = "ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"k\"";
    assert!(shown.contains(count), "{shown}");
    let log = gateway.log();
    assert!(log.contains("USE_STATSD has no effect"), "{log}");
    gateway.terminate();
    eventually("it is not healthy any more", || healthcheck.get("/healthcheck", &[]).status == 500);
    drop(healthcheck);
    assert!(gateway.wait().success());
}

#[test]
fn the_configuration_that_is_printed_is_a_configuration_without_secrets() {
    let directory = tempfile::tempdir().expect("a directory");
    let environment = [
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("REDIS_URL", "127.0.0.1:6379"),
        ("REDIS_AUTH", "s3cret"),
        ("REDIS_TIMEOUT", "5s"),
    ];
    let printed = ratelimit(&directory, &environment).arg("--print-config").output();
    let printed = printed.expect("the program was built");
    let yaml = String::from_utf8(printed.stdout).expect("UTF-8");
    assert!(printed.status.success() && yaml.contains("password: \"${REDIS_AUTH}\""), "{yaml}");
    assert!(
        yaml.starts_with("# REDIS_TIMEOUT has no effect") && !yaml.contains("s3cret"),
        "{yaml}"
    );
    let file = directory.path().join("gateway.yaml");
    std::fs::write(&file, yaml).expect("a file");
    let mut check = Program::command();
    let check = check.args(["check", "-c"]).arg(&file).env("REDIS_AUTH", "s3cret").output();
    assert!(check.expect("the program was built").status.success());
}

#[test]
fn an_environment_with_mistakes_is_refused_with_all_of_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let environment = [("BACKEND_TYPE", "memcache"), ("SHADOW_MODE", "perhaps")];
    let output = ratelimit(&directory, &environment).output().expect("the program was built");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("BACKEND_TYPE=memcache is not supported"), "{said}");
    assert!(said.contains("the value of SHADOW_MODE cannot be used"), "{said}");
}
