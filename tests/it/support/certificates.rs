//! Certificates for servers and clients on the loopback, which are created for each test.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// Files in PEM: an authority, and the certificates that it has signed for a server and a
/// client.
#[derive(Debug)]
pub(crate) struct Certificates {
    directory: PathBuf,
    /// The directory, if this value removes it.
    _temporary: Option<TempDir>,
    issuer: Issuer<'static, KeyPair>,
}

impl Certificates {
    /// Creates them in this directory. The server's certificate is for this name or
    /// address.
    pub(crate) fn make(directory: &Path, server: &str) -> Self {
        let mut params = CertificateParams::new([]).expect("no names are good names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("a certificate");
        let directory = directory.to_owned();
        let issuer = Issuer::new(params, key);
        let made = Self { directory, _temporary: None, issuer };
        fs::write(made.ca(), authority.pem()).expect("a file");
        for (name, certificate, key) in [
            (server, made.server(), made.server_key()),
            ("client", made.client(), made.client_key()),
        ] {
            sign(&made.issuer, name, &certificate, &key);
        }
        made
    }

    /// Creates them in a directory that is removed with the value.
    pub(crate) fn temporary(server: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let made = Self::make(directory.path(), server);
        Self { _temporary: Some(directory), ..made }
    }

    /// Another certificate for this name and its key, in files with that name.
    pub(crate) fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let file = |end: &str| self.directory.join(format!("{name}{end}"));
        let certificate = file(".pem");
        let key = file("-key.pem");
        sign(&self.issuer, name, &certificate, &key);
        (certificate, key)
    }

    /// A certificate with these parameters and this key, as PEM.
    pub(crate) fn sign_with(&self, params: &CertificateParams, key: &KeyPair) -> String {
        params.signed_by(key, &self.issuer).expect("a certificate").pem()
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    pub(crate) fn server(&self) -> PathBuf {
        self.directory.join("server.pem")
    }

    pub(crate) fn server_key(&self) -> PathBuf {
        self.directory.join("server-key.pem")
    }

    pub(crate) fn client(&self) -> PathBuf {
        self.directory.join("client.pem")
    }

    pub(crate) fn client_key(&self) -> PathBuf {
        self.directory.join("client-key.pem")
    }
}

/// A certificate for `name`, and its key.
fn sign(issuer: &Issuer<'_, KeyPair>, name: &str, certificate: &Path, key: &Path) {
    let mut params = CertificateParams::new([name.to_owned()]).expect("it is a name");
    params.distinguished_name.push(DnType::CommonName, name);
    let pair = KeyPair::generate().expect("a key");
    let signed = params.signed_by(&pair, issuer).expect("a certificate");
    fs::write(certificate, signed.pem()).expect("a file");
    fs::write(key, pair.serialize_pem()).expect("a file");
}
