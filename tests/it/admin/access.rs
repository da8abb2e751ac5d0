//! Which callers are admitted, and which are refused.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, DistinguishedName, KeyPair, SanType};
use serde_json::{Value, json};

use super::{
    AdminClient, METRICS, Made, OPERATE, READ, calls, gateway, guarded, section, statuses,
};
use crate::support::{Certificates, Gateway, eventually};

#[test]
fn without_a_credential_everything_but_health_is_refused() {
    let gateway = gateway("", "");
    let client = AdminClient::without_token(&gateway);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    for call in guarded(&gateway) {
        let (response, Made { method, path, .. }) = (call.by(&client), &call);
        assert_eq!(response.status, 401, "{method} {path}: {}", response.text());
        assert!(response.field("WWW-Authenticate").is_some_and(|it| it.starts_with("Bearer")));
        assert_eq!(response.field("Content-Type"), Some("application/problem+json"));
    }
    // A path that does not exist tells no more.
    assert_eq!(client.get("/v1/none").status, 401);
}

#[test]
fn each_role_may_make_its_calls_and_no_others() {
    let gateway = gateway("", "");
    for (token, rank) in [(METRICS, 1), (READ, 2), (OPERATE, 3)] {
        let client = AdminClient::new(&gateway, token);
        for call in guarded(&gateway) {
            let Made { method, path, .. } = &call;
            let needed = match (&**method, &**path) {
                (_, "/metrics") => 1,
                ("GET", _) | (_, "/v1/explain") => 2,
                _ => 3,
            };
            let response = call.by(&client);
            let is_refused = response.status == 403;
            assert_eq!(is_refused, rank < needed, "{method} {path} as {token}: {response:?}");
            assert!(response.status < 500, "{response:?}");
        }
    }
}

#[test]
fn a_foreign_host_origin_or_site_changes_nothing() {
    let gateway = gateway("", "hosts: [gateway.example]");
    let client = AdminClient::new(&gateway, OPERATE);
    assert_eq!(statuses(&gateway, "ann", 4), [200, 200, 200, 429]);
    let path = "/v1/policies/each/keys/ann";
    let own = format!("Host: {}", client.address);
    for (host, field) in [
        ("Host: evil.example", ""),
        ("Host: 127.0.0.1.evil.example", ""),
        (&*own, "Origin: http://evil.example"),
        (&own, "Origin: null"),
        (&own, "Sec-Fetch-Site: cross-site"),
        (&own, "Sec-Fetch-Site: same-site"),
    ] {
        let fields: Vec<&str> = Some(field).filter(|it| !it.is_empty()).into_iter().collect();
        for (method, path) in [("DELETE", path), ("GET", "/v1/config"), ("GET", "/metrics")] {
            let response = client.send_to(host, method, path, &fields, "");
            assert_eq!(response.status, 403, "{host} {field} {method} {path}");
            assert_eq!(response.field("Access-Control-Allow-Origin"), None);
        }
    }
    assert_eq!(statuses(&gateway, "ann", 1), [429]);
    // A preflight allows nothing.
    let asked = ["Origin: http://evil.example", "Access-Control-Request-Method: DELETE"];
    let response = client.send("OPTIONS", path, &asked, "");
    assert!(response.status >= 400 && response.field("Access-Control-Allow-Methods").is_none());
    // A form of a web page cannot send these types.
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let fields = [&*format!("Content-Type: {content_type}")];
        let response = client.send("POST", "/v1/config/check", &fields, "listeners: []");
        assert_eq!(response.status, 415, "{content_type}");
    }
    let named = client.send_to("Host: Gateway.Example:9901", "DELETE", path, &[], "");
    assert_eq!(named.status, 200, "{}", named.text());
    let own_origin = format!("Origin: http://{}", client.address);
    let response =
        client.send("GET", "/v1/status", &[&own_origin, "Sec-Fetch-Site: same-origin"], "");
    assert_eq!(response.status, 200);
    assert_eq!(statuses(&gateway, "ann", 1), [200]);
}

#[test]
fn wrong_tokens_are_slowed_down_and_recorded() {
    let gateway = gateway("", "");
    let wrong = AdminClient::new(&gateway, "wrong-0123456789abcdef");
    let tried: Vec<u16> = (0..12).map(|_| wrong.get("/v1/status").status).collect();
    assert_eq!(tried[..10], [401; 10]);
    assert_eq!(tried[10..], [429; 2]);
    assert!(wrong.get("/v1/status").number("Retry-After") >= 1);
    // Otherwise a client could go on trying, and the answer to the right token would tell it.
    assert_eq!(AdminClient::new(&gateway, OPERATE).get("/v1/status").status, 429);
    assert_eq!(wrong.get("/healthz").status, 200);
    let failed = || gateway.log().matches("a login failed").count();
    eventually("the log has all", || failed() >= 10);
    assert_eq!(failed(), 10, "{}", gateway.log());
    assert!(!gateway.log().contains("wrong-0123456789abcdef"));
}

#[test]
fn one_credential_may_call_fifty_times_a_second() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, READ);
    eventually("there are too many calls", || {
        let statuses: Vec<u16> = (0..200).map(|_| client.get("/v1/status").status).collect();
        statuses.contains(&429)
    });
    assert_eq!(AdminClient::new(&gateway, OPERATE).get("/v1/status").status, 200);
}

#[test]
fn every_answer_forbids_stores_and_guesses() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    for call in calls(&gateway) {
        let (response, Made { method, path, .. }) = (call.by(&client), &call);
        assert_eq!(response.field("Cache-Control"), Some("no-store"), "{method} {path}");
        assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{method} {path}");
    }
    let long = format!("X-Long: {}", "x".repeat(20_000));
    assert!(client.send("GET", "/v1/status", &[&long], "").status >= 400);
    let yaml = "#".repeat(5 * 1024 * 1024);
    let fields = ["Content-Type: application/yaml"];
    assert_eq!(client.send("POST", "/v1/config/check", &fields, &yaml).status, 413);
}

/// The mode of the socket file is that of the start. A later reload once forgot that.
#[test]
fn other_users_of_a_socket_need_a_restart_after_every_reload() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("admin.sock");
    let yaml = |admin: &str| {
        format!(
            "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
             routes: [{{ path: \"/*\", respond: {{ body: ok }} }}]\n\
             admin: {{ address: \"unix:{}\"{admin} }}\n",
            socket.display()
        )
    };
    let needs_restart = || {
        let mut curl = Command::new("curl");
        curl.args(["-s", "--unix-socket"]).arg(&socket).arg("http://localhost/v1/config");
        let output = curl.output().expect("curl is installed");
        let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (shown["generation"].clone(), shown["needs_restart"].clone())
    };
    let gateway = Gateway::start(&yaml(""));
    let told = || gateway.log().matches("admin.uids: changed in the file").count();
    assert_eq!(needs_restart(), (json!(1), json!([])));
    let others = yaml(", uids: [65533]");
    for generation in [2, 3] {
        gateway.reload(&others);
        eventually("it is in use", || needs_restart().0 == json!(generation));
        assert_eq!(needs_restart().1, json!(["admin.uids"]));
        assert_eq!(told(), generation - 1);
    }
    gateway.reload(&yaml(""));
    eventually("it is in use", || needs_restart() == (json!(4), json!([])));
}

#[test]
fn a_unix_socket_admits_the_own_user_without_a_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("admin.sock");
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         routes: [{{ path: \"/*\", respond: {{ body: ok }} }}]\n\
         admin: {{ address: \"unix:{}\" }}\n",
        socket.display()
    ));
    let mode = fs::metadata(&socket).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut curl = Command::new("curl");
    curl.args(["-s", "--unix-socket"]).arg(&socket).arg("http://localhost/v1/status");
    let output = curl.output().expect("curl is installed");
    let body: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(body["state"], "ok");
    let command = format!("curl --unix-socket {}", socket.display());
    eventually("the log has the command", || gateway.log().contains(&command));
}

#[test]
fn tokens_change_by_a_reload() {
    let gateway = gateway("", "");
    let new = "another-0123456789abcdef";
    assert_eq!(AdminClient::new(&gateway, new).get("/v1/status").status, 401);
    gateway.reload(&super::yaml("", "").replace(READ, new));
    assert_eq!(AdminClient::new(&gateway, new).get("/v1/status").status, 200);
    assert_eq!(AdminClient::new(&gateway, READ).get("/v1/status").status, 401);
    assert!(!gateway.log().contains("needs a restart"), "{}", gateway.log());
    // A token that has expired is none.
    let expired = section("")
        .replace(&format!("token: {READ}"), &format!("token: {READ}, expires: 2020-01-01"));
    gateway.reload(&super::yaml("", "").replace(&section(""), &expired));
    assert_eq!(AdminClient::new(&gateway, READ).get("/v1/status").status, 401);
    assert_eq!(AdminClient::new(&gateway, OPERATE).get("/v1/status").status, 200);
}

#[test]
fn a_client_certificate_has_the_role_of_its_subject() {
    let made = Certificates::temporary("127.0.0.1");
    let (other, other_key) = made.sign("other");
    // An authority may let its clients choose this name.
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let name = "CN=client".try_into().expect("it is ASCII");
    params.subject_alt_names = vec![SanType::URI(name)];
    let pair = KeyPair::generate().expect("a key");
    let [alias, alias_key] =
        ["alias.pem", "alias-key.pem"].map(|file| made.client().with_file_name(file));
    fs::write(&alias, made.sign_with(&params, &pair)).expect("a file");
    fs::write(&alias_key, pair.serialize_pem()).expect("a file");
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         routes: [{{ path: \"/*\", respond: {{ body: ok }} }}]\n\
         admin:\n  address: \"127.0.0.1:0\"\n  \
           clients: [{{ subject: \"CN=client\", role: read }}]\n  \
           tls: {{ certificates: [{{ cert: {:?}, key: {:?} }}], client_ca: {:?} }}\n",
        made.server(),
        made.server_key(),
        made.ca()
    ));
    let status = |certificate: &Path, key: &Path, method: &str, path: &str| {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", method]);
        curl.arg("--cacert").arg(made.ca());
        curl.arg("--cert").arg(certificate).arg("--key").arg(key);
        curl.arg(format!("https://{}{path}", gateway.addresses()[1]));
        String::from_utf8(curl.output().expect("curl is installed").stdout).expect("a status")
    };
    let client = made.client();
    let key = made.client_key();
    assert_eq!(status(&client, &key, "GET", "/v1/status"), "200");
    assert_eq!(status(&client, &key, "DELETE", "/v1/policies/a/keys/b"), "403");
    assert_eq!(status(&other, &other_key, "GET", "/v1/status"), "401");
    assert_eq!(status(&alias, &alias_key, "GET", "/v1/status"), "401");
}
