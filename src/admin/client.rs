//! The client of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderMap, Method};
use tollgate_core::time::Timestamp;

use super::audit::Entry;
use super::credentials::{Shown, Token};
use crate::server::Peer;

/// What all calls of one connection have in common.
#[derive(Debug)]
pub struct Client {
    pub address: SocketAddr,
    pub local: SocketAddr,
    pub is_encrypted: bool,
    /// The user of its process, over a Unix socket.
    pub uid: Option<u32>,
    /// The subject of its certificate.
    subject: Option<Arc<str>>,
    pub access: Access,
}

/// Which calls a listener serves to which clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// All calls, to clients with a credential.
    Full,
    /// Health, and the metrics if this is true, to all clients.
    Probe(bool),
}

impl Client {
    /// The client at the other end of a connection.
    pub fn new(peer: Peer, access: Access) -> Self {
        Self {
            address: peer.address,
            local: peer.local,
            is_encrypted: peer.is_encrypted,
            uid: peer.uid,
            subject: peer.identity,
            access,
        }
    }

    /// By what a call of this client is admitted.
    pub fn shown<'c>(&'c self, headers: &'c HeaderMap) -> Shown<'c> {
        Shown { uid: self.uid, subject: self.subject.as_deref(), token: Token::of(headers) }
    }

    /// What the audit log says of a call of this client, without its actor.
    pub fn entry(&self, method: &Method, path: &str, status: u16, now: Timestamp) -> Entry {
        let peer = match self.uid {
            Some(uid) => format!("uid {uid}"),
            None => self.address.ip().to_string(),
        };
        Entry {
            time: now.to_string(),
            peer,
            call: format!("{method} {path}").trim_end().to_owned(),
            status,
            ..Entry::default()
        }
    }
}
