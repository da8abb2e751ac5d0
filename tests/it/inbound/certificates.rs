//! Files of certificates as operators have them: two for one name, joined files, comments in other
//! encodings, and certificates that are not valid now.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_RSA_SHA256, SignatureAlgorithm, date_time_ymd,
};
use rustls::version::TLS13;

use crate::support::http::block_on;
use crate::support::{Certificates, Gateway, Program, TlsClient, eventually};

const NAME: &str = "a.test";

/// Answers every request. `tls`: the certificates; `more`: further sections.
fn yaml(certificates: &str, more: &str) -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\", tls: {{ certificates: [{certificates}] }} }}]\n\
         routes: [{{ path: \"/*\", respond: {{ body: ok }} }}]\n{more}"
    )
}

fn pair(certificate: &Path, key: &Path) -> String {
    format!("{{ cert: {certificate:?}, key: {key:?} }}")
}

/// A certificate that signs itself, in files of this directory.
fn own(
    directory: &Path,
    file: &str,
    algorithm: &'static SignatureAlgorithm,
    years: [i32; 2],
) -> (PathBuf, PathBuf) {
    let mut params = CertificateParams::new([NAME.to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, file);
    [params.not_before, params.not_after] = years.map(|year| date_time_ymd(year, 1, 1));
    let key = KeyPair::generate_for(algorithm).expect("a key");
    let [certificate, key_file] = ["pem", "key"].map(|end| directory.join(format!("{file}.{end}")));
    std::fs::write(&certificate, params.self_signed(&key).expect("signed").pem()).expect("a file");
    std::fs::write(&key_file, key.serialize_pem()).expect("a file");
    (certificate, key_file)
}

/// The signature that OpenSSL gets when it accepts only some. None if there is no handshake.
fn peer_signature(gateway: &Gateway, version: &str, signatures: &str) -> Option<String> {
    let address = gateway.address().to_string();
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-connect", &address, "-servername", NAME, version]);
    let output = openssl.args(["-sigalgs", signatures]).stdin(Stdio::null()).output();
    let text = String::from_utf8_lossy(&output.expect("openssl is installed").stdout).into_owned();
    let kind = text.lines().find_map(|line| line.strip_prefix("Peer signature type: "));
    kind.map(str::to_owned)
}

#[test]
fn of_two_certificates_for_one_name_a_client_gets_the_one_that_it_can_verify() {
    let directory = tempfile::tempdir().expect("a directory");
    let ecdsa = own(directory.path(), "ecdsa", &PKCS_ECDSA_P256_SHA256, [2020, 2100]);
    let rsa = own(directory.path(), "rsa", &PKCS_RSA_SHA256, [2020, 2100]);
    let both = [&ecdsa, &rsa].map(|(certificate, key)| pair(certificate, key)).join(", ");
    let gateway = Gateway::start(&yaml(&both, ""));
    assert!(!gateway.log().contains("warning"), "{}", gateway.log());
    let curve = "ecdsa_secp256r1_sha256";
    let old = "rsa_pkcs1_sha256";
    let new = "rsa_pss_rsae_sha256";
    for (version, signatures, kind) in [
        ("-tls1_3", curve, Some("ECDSA")),
        ("-tls1_3", new, Some("RSA-PSS")),
        ("-tls1_3", &format!("{new}:{curve}"), Some("ECDSA")),
        ("-tls1_3", &format!("{old}:{curve}"), Some("ECDSA")),
        ("-tls1_2", curve, Some("ECDSA")),
        ("-tls1_2", old, Some("RSA")),
        ("-tls1_3", "ed25519", None),
    ] {
        let got = peer_signature(&gateway, version, signatures);
        assert_eq!(got.as_deref(), kind, "{version} {signatures}");
    }
}

/// `cat leaf.pem chain.pem`, where the first file has no newline at its end, with a comment in
/// Latin-1.
#[test]
fn a_chain_of_joined_files_is_served_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = Certificates::make(directory.path(), "none");
    let mut params = CertificateParams::new(["middle".to_owned()]).expect("a name");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let middle_key = KeyPair::generate().expect("a key");
    let middle_pem = made.sign_with(&params, &middle_key);
    let middle = Issuer::new(params, middle_key);
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new([NAME.to_owned()]).expect("a name");
    let leaf = leaf.signed_by(&key, &middle).expect("signed").pem();
    let [file, key_file] = ["full.pem", "full.key"].map(|name| directory.path().join(name));
    let text = [b"subject=O = M\xfcller\n", leaf.trim_end().as_bytes(), middle_pem.as_bytes()];
    std::fs::write(&file, text.concat()).expect("a file");
    std::fs::write(&key_file, key.serialize_pem()).expect("a file");
    let gateway = Gateway::start(&yaml(&pair(&file, &key_file), ""));
    let client = TlsClient::speaking(&made, &TLS13);
    let stream = block_on(client.connect(gateway.address(), NAME)).expect("it is verified");
    assert_eq!(stream.get_ref().1.peer_certificates().map(<[_]>::len), Some(2));
}

#[test]
fn dates_of_certificates_are_in_the_check_the_log_the_status_and_the_metrics() {
    for (years, check, log, code) in [
        (
            [2020, 2021],
            "has expired at 2021-01-01",
            "a certificate has expired: renew it",
            "certificate_expires",
        ),
        (
            [2090, 2099],
            "is not valid before 2090-01-01",
            "a certificate is not valid yet",
            "certificate_not_yet_valid",
        ),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let (certificate, key) = own(directory.path(), "a", &PKCS_ECDSA_P256_SHA256, years);
        let socket = directory.path().join("admin.sock");
        let admin = format!("admin: {{ address: \"unix:{}\" }}\n", socket.display());
        let text = yaml(&pair(&certificate, &key), &admin);
        let file = directory.path().join("gateway.yaml");
        std::fs::write(&file, &text).expect("a file");
        let checked =
            Program::command().args(["check", "-c"]).arg(&file).output().expect("it runs");
        let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
        assert!(checked.status.success(), "{said}");
        assert!(said.contains("warning") && said.contains(check), "{said}");
        let gateway = Gateway::start(&text);
        eventually(log, || gateway.log().contains(log));
        assert!(gateway.log().contains(check), "{}", gateway.log());
        let ask = |path: &str| {
            let mut curl = Command::new("curl");
            curl.args(["-s", "--unix-socket"]).arg(&socket).arg(format!("http://localhost{path}"));
            let output = curl.output().expect("curl is installed");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        eventually(code, || ask("/v1/status").contains(code));
        let metrics = ask("/metrics");
        for name in ["expiry", "not_before"] {
            let sample =
                format!("tollgate_certificate_{name}_timestamp_seconds{{name=\"a.test\"}}");
            assert!(metrics.contains(&sample), "{metrics}");
        }
    }
}
