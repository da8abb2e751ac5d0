//! Upstreams, key sets and geo files.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::{bad, check, good};
use crate::support::mmdb::{MmdbWriter, place};
use crate::support::{Backend, Certificates, Origin, Program, Reserved, Speaks, read_certificate};

fn answering(status: &'static str, body: &'static str) -> Origin {
    let length = body.len();
    Origin::answering(move |_| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")
    })
}

fn upstream(endpoint: &str, more: &str) -> String {
    format!("upstreams: {{ app: {{ endpoints: [\"{endpoint}\"], {more} }} }}\n")
}

/// A backend by TLS with these certificates.
fn secure(made: &Certificates) -> Backend {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let key = PrivateKeyDer::from_pem_file(made.server_key()).expect("the test's own key");
    let chain = vec![read_certificate(&made.server())];
    let config = builder.with_no_client_auth().with_single_cert(chain, key);
    Backend::start(Speaks::Tls(Arc::new(config.expect("they belong together"))))
}

#[test]
fn what_is_not_connected_to_has_no_line() {
    let (output, path) = check(&upstream("builtin:echo", ""));
    assert_eq!(good(output).lines().count(), 1);
    let (output, _) = check("nothing: 1\n");
    assert_eq!(output.code, Some(2));
    let missing = Program::run(&["check", "--connect", "-c", &format!("{path}.missing")]);
    assert_eq!(missing.code, Some(2));
}

#[test]
fn an_endpoint_is_connected_to_and_its_health_check_sent() {
    let origin = answering("200 OK", "hello");
    let endpoint = format!("http://{}", origin.address());
    let found = good(check(&upstream(&endpoint, "health: { path: /up }")).0);
    let line = format!("upstreams.app.endpoints: {endpoint}: good (connected in ");
    assert!(found.contains(&line) && found.contains(", health check 200)"), "{found}");
    let heads: Vec<String> = origin.received().into_iter().map(|it| it.head).collect();
    assert!(heads.len() == 1 && heads[0].starts_with("GET /up "), "{heads:?}");
    let by_name = endpoint.replace("127.0.0.1", "localhost");
    let output = check(&upstream(&by_name, "")).0;
    let found = output.stdout;
    assert!(found.contains(&format!("{by_name} at {}: good", origin.address())), "{found}");
}

#[test]
fn an_endpoint_that_cannot_be_used_is_reported_with_the_step_that_fails() {
    let nothing = Reserved::new();
    let ill = answering("503 Service Unavailable", "");
    // It answers before it has read a request.
    let plain = Origin::serving(|stream, _| {
        use std::io::Write as _;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let http = |address| format!("http://{address}");
    for (sections, error) in [
        (
            upstream(&http(nothing.address()), ""),
            "it cannot be reached: Connection refused (os error 111)\n      | see whether it runs",
        ),
        (
            upstream(&http(ill.address()), "health: { path: /up }"),
            "the health check of /up has the status 503\n",
        ),
        (upstream("http://no-such-name.invalid:80", ""), "its name cannot be looked up: "),
        (upstream("unix:/nowhere/app.sock", ""), "it cannot be reached: No such file"),
        (
            upstream(&format!("https://{}", plain.address()), ""),
            "| write http:// if it has no TLS on this port\n",
        ),
    ] {
        let (output, path) = check(&sections);
        let report = bad(output);
        let begin = format!("{path}: error: upstreams.app.endpoints: ");
        assert!(report.starts_with(&begin) && report.contains(error), "{report}");
    }
}

#[test]
fn a_certificate_of_an_endpoint_is_judged_by_the_settings_of_its_upstream() {
    let made = Certificates::temporary("app.test");
    let other = Certificates::temporary("app.test");
    let backend = secure(&made);
    let endpoint = format!("https://{}", backend.address());
    let tls = |ca: &Certificates, more: &str| {
        upstream(&endpoint, &format!("tls: {{ ca: {:?}{more} }}", ca.ca()))
    };
    let found = good(check(&tls(&made, ", server_name: app.test")).0);
    assert!(found.contains(", TLS 1.3, HTTP/1.1)"), "{found}");
    for (sections, error, remedy) in [
        (
            tls(&made, ""),
            "certificate not valid for name \"127.0.0.1\"",
            "| write the name of the certificate in tls.server_name of the upstream\n",
        ),
        (tls(&other, ", server_name: app.test"), "invalid peer certificate: ", "of the upstream\n"),
    ] {
        let report = bad(check(&sections).0);
        assert!(report.contains(error) && report.contains(remedy), "{report}");
    }
}

fn jwks(url: &str) -> String {
    format!(
        "client: {{ user: {{ jwt: {{ jwks: \"{url}\", algorithms: [ES256], audience: a }} }} }}\n\
         policies: {{ p: {{ key: user, limit: 1/s }} }}\n"
    )
}

#[test]
fn a_key_set_is_fetched_and_its_keys_are_counted() {
    let set = include_str!("../../../crates/core/src/policy/jwt/test_keys/set.json");
    let issuer = answering("200 OK", set);
    let (output, _) = check(&jwks(&format!("http://{}/keys", issuer.address())));
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("client.user.jwt.jwks: http://"), "{}", output.stdout);
    assert!(output.stdout.contains(": good (1 key, "), "{}", output.stdout);
    let nothing = Reserved::new();
    let other = answering("200 OK", "<html>");
    for (url, error) in [
        (format!("http://{}/keys", nothing.address()), "the server cannot be reached\n"),
        (format!("http://{}/keys", other.address()), "the response is not a JSON Web Key Set"),
    ] {
        let report = bad(check(&jwks(&url)).0);
        assert!(report.contains("client.user.jwt.jwks: ") && report.contains(error), "{report}");
    }
}

#[test]
fn a_geo_file_has_its_kind_and_age() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("city.mmdb");
    let file = MmdbWriter::new("GeoLite2-City").insert("192.0.2.0/24", &place("DE", None));
    std::fs::write(&path, file.finish()).expect("a file");
    let section = format!(
        "client: {{ geo: {{ database: {} }} }}\npolicies: {{ p: {{ key: country, limit: 1/s }} }}\n",
        path.display()
    );
    let (output, _) = check(&section);
    let line = format!("client.geo.database: {}: good (GeoLite2-City, built ", path.display());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains(&line), "{}", output.stdout);
}
