//! The TLS settings of connections to servers. The configuration of rustls is made of them once, for
//! the first connection: the authorities of the system are in many files, and the worker that opens
//! a connection has other requests.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, Error};
use tollgate_core::tls::{self, ClientIdentity, ClientTlsError, Trust};

/// The TLS settings of connections. Two of them are equal if their parts are.
#[derive(Clone, Default)]
pub struct TlsSettings {
    parts: TlsParts,
    /// None until a connection has needed it. Clones share it.
    config: Arc<Mutex<Option<Arc<ClientConfig>>>>,
}

/// The parts of which TLS settings are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsParts {
    /// The trusted authorities. None: those that the system trusts when the first connection is
    /// opened.
    pub ca: Option<Vec<CertificateDer<'static>>>,
    /// The client certificate, for servers that request one.
    pub identity: Option<Identity>,
    /// The name that the certificates of the servers must be for. None: the host of each server,
    /// and in a cluster also the host of the URL, if another node is known by its address only.
    pub server_name: Option<ServerName<'static>>,
}

impl TlsSettings {
    /// Settings of these parts.
    pub fn new(parts: TlsParts) -> Self {
        Self { parts, config: Arc::default() }
    }

    /// The parts of which they are made.
    pub const fn parts(&self) -> &TlsParts {
        &self.parts
    }

    /// The configuration that all connections share. If it cannot be made, the next connection
    /// tries it again.
    ///
    /// # Errors
    /// If a part cannot be used, or the system trusts no authorities.
    pub(super) fn client_config(&self) -> Result<Arc<ClientConfig>, ClientTlsError> {
        let mut config = self.config.lock();
        if let Some(config) = &*config {
            return Ok(Arc::clone(config));
        }
        let trust = Trust::authorities(self.parts.ca.as_deref());
        let identity = self.parts.identity.as_ref().map(Identity::shown);
        let mut made = tls::client_config(trust, identity)?;
        // A server of OpenSSL that verifies clients may end the handshake if a session is resumed:
        // Redis does with `tls-session-caching no`. Connections are few and live long.
        made.resumption = Resumption::disabled();
        Ok(Arc::clone(config.insert(Arc::new(made))))
    }
}

impl PartialEq for TlsSettings {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Eq for TlsSettings {}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsSettings").field(&self.parts).finish()
    }
}

/// A certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The chain of certificates, with the client's certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key.
    pub key: Arc<PrivateKeyDer<'static>>,
}

impl Identity {
    /// Checks that certificate and key can be used together.
    ///
    /// # Errors
    /// If they cannot.
    pub fn check(&self) -> Result<(), Error> {
        tls::check_identity(self.shown())
    }

    fn shown(&self) -> ClientIdentity<'_> {
        ClientIdentity { chain: &self.chain, key: &self.key }
    }
}

/// Never prints the private key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without `ca`, each connection read all files of the authorities of the system.
    #[test]
    fn the_configuration_is_made_once_for_all_clones() {
        let settings = TlsSettings::default();
        let clone = settings.clone();
        let made = [&settings, &clone, &settings].map(|it| it.client_config().expect("it is made"));
        assert!(made.iter().all(|it| Arc::ptr_eq(it, &made[0])));
    }

    #[test]
    fn other_settings_have_their_own_configuration_and_may_be_equal() {
        let named = |name: &'static str| {
            let server_name = Some(ServerName::try_from(name).expect("a name"));
            TlsSettings::new(TlsParts { server_name, ..TlsParts::default() })
        };
        assert_eq!(named("a.test"), named("a.test"));
        assert_ne!(named("a.test"), named("b.test"));
        let [one, other] = [named("a.test"), named("a.test")].map(|it| it.client_config());
        assert!(!Arc::ptr_eq(&one.expect("it is made"), &other.expect("it is made")));
    }

    #[test]
    fn a_configuration_that_cannot_be_made_is_tried_again() {
        let settings = TlsSettings::new(TlsParts { ca: Some(Vec::new()), ..TlsParts::default() });
        for _ in 0..2 {
            let error = settings.client_config().err();
            assert_eq!(error, Some(ClientTlsError::NoAuthorities));
        }
    }
}
