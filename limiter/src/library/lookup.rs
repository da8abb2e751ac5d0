//! Lookups of API keys that the settings do not contain.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::request;
use tokio::sync::oneshot;
use tollgate_core::api_keys::{Found, Sought};
#[cfg(all(feature = "keys", feature = "redis"))]
use tollgate_core::policy::KnownKey;
use tollgate_core::policy::Subject;
use tollgate_core::request::RequestView;

use super::key_source::KeySource;
use super::{Limiter, PolicyHandle};

/// What was looked up, and the result. None: there was nothing to look up.
pub(super) type LookedUp = Option<(Sought, Found)>;

/// A lookup of the key of a request.
#[cfg_attr(
    not(all(feature = "keys", feature = "redis")),
    allow(dead_code, reason = "only Redis is waited for")
)]
#[derive(Debug)]
pub(super) enum Lookup {
    /// The result.
    Now(LookedUp),
    /// The result comes from the threads of the store.
    Later(ComingKey),
}

/// The result of a lookup that comes.
#[derive(Debug)]
pub(super) struct ComingKey {
    sought: Sought,
    coming: oneshot::Receiver<Found>,
}

impl Future for ComingKey {
    type Output = LookedUp;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LookedUp> {
        // A thread that has ended does not answer.
        let found = Pin::new(&mut self.coming).poll(cx).map(|found| found.unwrap_or(Found::Away));
        found.map(|found| Some((self.sought, found)))
    }
}

/// A request that waits for the lookup of its key.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) limiter: Limiter,
    pub(super) policies: Vec<PolicyHandle>,
    pub(super) head: request::Parts,
    pub(super) peer: Option<IpAddr>,
}

impl Limiter {
    /// Looks up the API key of this client, if the settings do not contain it.
    #[cfg_attr(
        not(all(feature = "keys", feature = "redis")),
        allow(unused_variables, reason = "only keys in a store are looked up")
    )]
    pub(super) fn look_up(&self, subject: &Subject<'_, '_>) -> Lookup {
        let Some(sought) = subject.sought_elsewhere() else { return Lookup::Now(None) };
        match &self.0.key_source {
            KeySource::Settings => Lookup::Now(None),
            #[cfg(feature = "keys")]
            KeySource::Held(keys) => Lookup::Now(Some((sought, keys.find(&sought)))),
            #[cfg(all(feature = "keys", feature = "redis"))]
            KeySource::Redis(_) => match self.0.shared.find_key(sought) {
                Some(coming) => Lookup::Later(ComingKey { sought, coming }),
                None => Lookup::Now(Some((sought, Found::Away))),
            },
        }
    }

    /// Looks up the API key of a request. A request that cannot be read has none.
    pub(super) fn look_up_of(&self, head: &request::Parts, address: IpAddr) -> Lookup {
        if matches!(self.0.key_source, KeySource::Settings) {
            return Lookup::Now(None);
        }
        match RequestView::of_service(head, address) {
            Ok(view) => self.look_up(&self.0.clients.subject(&view, None, self.clock().wall())),
            Err(_) => Lookup::Now(None),
        }
    }

    /// Tells the client which key was found, and notes that the key was used.
    #[cfg_attr(
        not(all(feature = "keys", feature = "redis")),
        allow(unused_variables, reason = "only keys in a store are looked up")
    )]
    pub(super) fn answer_key(&self, subject: &Subject<'_, '_>, looked_up: LookedUp) {
        let Some((sought, found)) = looked_up else { return };
        subject.answer_key(found);
        #[cfg(all(feature = "keys", feature = "redis"))]
        if let (KeySource::Redis(_), Some(KnownKey::Found(entry))) =
            (&self.0.key_source, subject.known_key())
        {
            self.0.shared.note_key_use(sought, entry.key.id);
        }
    }
}
