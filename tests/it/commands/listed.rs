//! The commands that do not run in the test as others do, each with the reason.

/// What is done instead of running the command and looking for success.
#[derive(Clone, Copy)]
pub(super) enum Instead {
    /// It is read and not run: `bash -n` accepts it, `tollgate` its own arguments, and a program
    /// of the project is there.
    Read,
    /// It runs, and curl gets these statuses and no others.
    Get(&'static [u16]),
    /// It runs, and ends with this exit code.
    End(i32),
    /// It does not run, because this document has the same command.
    Same(&'static str),
}

use Instead::{End, Get, Read, Same};

/// A command of a document.
pub(super) struct Listed {
    pub(super) page: &'static str,
    /// The beginning of the command.
    pub(super) begins: &'static str,
    pub(super) instead: Instead,
    #[expect(dead_code, reason = "it is for the reader of the list")]
    reason: &'static str,
}

const fn listed(
    page: &'static str,
    begins: &'static str,
    instead: Instead,
    reason: &'static str,
) -> Listed {
    Listed { page, begins, instead, reason }
}

const COMPILES: &str = "it compiles the project";
const INSTALLS: &str = "it installs programs on the machine";
const MEASURES: &str = "it measures for minutes, and needs other gateways";
const UNTIL_STOPPED: &str = "it runs until it is stopped";
const STORE_OF_KEYS: &str = "it needs a store of keys: tests/it/api_keys/stored.rs has one";
const CLUSTER: &str = "it needs a cluster; scripts/test-chart tests the objects without one";
const REFUSED: &str = "it goes on until the limit is reached";
const LONG: &str = "so many requests of curl take seconds, and on a busy machine minutes";

pub(super) const LISTED: &[Listed] = &[
    listed("docs/envoy-gateway.md", "env -i CONFIG_TYPE", Read, UNTIL_STOPPED),
    listed("docs/from-ingress-nginx.md", "kubectl get", Read, "it needs a cluster"),
    listed("docs/import.md", "tollgate import nginx -o", End(2), "an access rule is lost"),
    listed("docs/import.md", "tollgate import nginx --accept", End(1), "a limit differs"),
    listed("docs/keys-api.md", "curl \"http", Get(&[401]), "it has no key"),
    listed("docs/keys-api.md", "tollgate key create --store", Read, STORE_OF_KEYS),
    listed("docs/keys-api.md", "tollgate key list", Read, STORE_OF_KEYS),
    listed("docs/keys-api.md", "tollgate key show", Read, STORE_OF_KEYS),
    listed("docs/keys-api.md", "tollgate key set", Read, STORE_OF_KEYS),
    listed("docs/keys-api.md", "tollgate key rotate", Read, STORE_OF_KEYS),
    listed("docs/keys-api.md", "tollgate key revoke", Read, STORE_OF_KEYS),
    listed("docs/keys-api.md", "tollgate key find", Read, STORE_OF_KEYS),
    listed("docs/keys-api.md", "tollgate key export", Read, STORE_OF_KEYS),
    listed("docs/keys-api.md", "tollgate key import", Read, STORE_OF_KEYS),
    listed("docs/keys-api.md", "tollgate team", Read, STORE_OF_KEYS),
    listed("README.md", "cargo install --locked --path .", Read, COMPILES),
    listed("README.md", "tollgate run --to", Read, UNTIL_STOPPED),
    listed("docs/abuse.md", "scripts/fuzz ", Read, COMPILES),
    listed("docs/abuse.md", "cargo test --lib fuzzing", Read, COMPILES),
    listed("docs/accuracy.md", "cargo run --release -p tollgate-core", Read, COMPILES),
    listed("docs/admin.md", "docker run", Read, "it needs Docker and an image of another project"),
    listed("docs/behind-caddy.md", "sudo apt install", Read, INSTALLS),
    listed("docs/behind-caddy.md", "for i in $(seq 101)", Same("docs/behind-nginx.md"), LONG),
    listed("docs/behind-envoy.md", "python3 -m venv envoy", Read, INSTALLS),
    listed("docs/behind-envoy.md", "for i in $(seq 101)", Same("docs/behind-nginx.md"), LONG),
    listed("docs/behind-haproxy.md", "sudo apt install", Read, INSTALLS),
    listed("docs/behind-haproxy.md", "for i in $(seq 101)", Same("docs/behind-nginx.md"), LONG),
    listed("docs/behind-nginx.md", "sudo apt install", Read, INSTALLS),
    listed("docs/behind-nginx.md", "for i in $(seq 101)", Get(&[200, 429]), REFUSED),
    listed("docs/behind-proxies.md", "tollgate run -c gateway.yaml", Read, UNTIL_STOPPED),
    listed("docs/behind-traefik.md", "for i in $(seq 101)", Same("docs/behind-nginx.md"), LONG),
    listed("docs/check-api.md", "curl \"$CHECK/v1/check\" -H 'Prefer", Get(&[429]), "a refusal"),
    listed(
        "docs/check-api.md",
        "curl \"$CHECK/v1/check\" -d '{\"checks\": [{",
        Get(&[400]),
        "a mistake",
    ),
    listed(
        "docs/check-connect.md",
        "tollgate check --connect",
        Read,
        "it needs the servers of others",
    ),
    listed("docs/explain.md", "tollgate explain -c gateway.yaml", End(3), "a refusal"),
    listed(
        "docs/explain.md",
        "tollgate explain --admin http://127.0.0.1:9901 --id",
        End(3),
        "a refusal",
    ),
    listed(
        "docs/explain.md",
        "tollgate explain --admin https://",
        Read,
        "it needs two public names",
    ),
    listed("docs/kubernetes.md", "kind load", Read, CLUSTER),
    listed("docs/kubernetes.md", "kubectl ", Read, CLUSTER),
    listed("docs/kubernetes.md", "for i in $(seq 11)", Read, CLUSTER),
    listed("docs/kubernetes.md", "helm install", Read, CLUSTER),
    listed("docs/install.md", "", Read, "it builds releases, and installs them on the machine"),
    listed("docs/guide.md", "tollgate run --to", Read, UNTIL_STOPPED),
    listed(
        "docs/guide.md",
        "tollgate check -c broken.yaml",
        End(2),
        "it shows a report of mistakes",
    ),
    listed("docs/performance.md", "bench/race", Read, MEASURES),
    listed("docs/performance.md", "bench/growth", Read, MEASURES),
    listed("docs/ratelimit-service.md", "grpcurl", Read, "it needs grpcurl"),
    listed("docs/redis.md", "cargo run --release", Read, COMPILES),
    listed("docs/redis.md", "bench/cpu-per-request", Read, MEASURES),
    listed("docs/running.md", "tollgate run -c gateway.yaml", Read, UNTIL_STOPPED),
    listed("docs/scaling.md", "bench/field-expiration", Read, MEASURES),
    listed("docs/scaling.md", "bench/store-cpu", Read, MEASURES),
];
