//! Which clients are refused most, in bounded memory.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::IpAddr;

use tollgate_core::digest::PrincipalId;
use tollgate_core::policy::{KeyExpr, Policy};
use tollgate_core::time::{Span, Timestamp};

use super::key_table::KeyTable;

/// The most clients with refusals that are remembered of a policy.
const MAX_CLIENTS: usize = 1 << 16;
/// The most clients whose requests are counted, of all policies together.
const MAX_COUNTED: usize = 1 << 20;

/// A client as the log names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientName {
    /// The address of its latest request.
    Address(IpAddr),
    /// The id of its key.
    Id(PrincipalId),
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) if address.is_unspecified() => f.write_str("unknown address"),
            Self::Address(address) => address.fmt(f),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// A client with refusals.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusedClient {
    pub(super) name: ClientName,
    pub(super) refused: u64,
    /// Its requests, if they were counted.
    pub(super) judged: Option<u64>,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) longest_wait: Span,
}

/// The refusals of each client.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    clients: HashMap<u64, RefusedClient>,
    /// Whether clients were forgotten, so that counts can be too low.
    is_least: bool,
}

impl Refusals {
    /// Counts a refusal of the client with this digest.
    pub(super) fn add(&mut self, digest: u64, name: ClientName, now: Timestamp, wait: Span) {
        self.add_up_to(MAX_CLIENTS, digest, name, now, wait);
    }

    fn add_up_to(
        &mut self,
        most: usize,
        digest: u64,
        name: ClientName,
        now: Timestamp,
        wait: Span,
    ) {
        let new = RefusedClient {
            name,
            refused: 0,
            judged: None,
            first: now,
            last: now,
            longest_wait: Span::ZERO,
        };
        let client = self.clients.entry(digest).or_insert(new);
        (client.name, client.last) = (name, now);
        client.refused += 1;
        client.longest_wait = client.longest_wait.max(wait);
        if self.clients.len() > most {
            self.forget(most / 2);
        }
    }

    /// Forgets the clients with the fewest refusals.
    fn forget(&mut self, kept: usize) {
        let mut all: Vec<(u64, u64)> =
            self.clients.iter().map(|(digest, client)| (client.refused, *digest)).collect();
        all.sort_unstable_by_key(|client| std::cmp::Reverse(*client));
        for (_, digest) in all.split_off(kept.min(all.len())) {
            self.clients.remove(&digest);
        }
        self.is_least = true;
    }

    /// The clients with the most refusals, the most first.
    pub(super) fn top(&self, most: usize) -> Vec<(u64, RefusedClient)> {
        let mut all: Vec<_> = self.clients.iter().map(|(key, client)| (*key, *client)).collect();
        let order = |(key, client): &(u64, RefusedClient)| {
            (std::cmp::Reverse(client.refused), client.first, *key)
        };
        all.sort_unstable_by_key(order);
        all.truncate(most);
        all
    }

    /// Whether counts can be too low.
    pub(super) const fn is_least(&self) -> bool {
        self.is_least
    }
}

/// What the policies of a trial have said of each client.
#[derive(Debug)]
pub(super) struct Clients {
    policies: Vec<(bool, Refusals)>,
    judged: KeyTable<u64>,
}

impl Clients {
    /// Nothing, for these policies.
    pub(super) fn new<'p>(policies: impl Iterator<Item = &'p Policy>) -> Self {
        let policies =
            policies.map(|policy| (tells_clients_apart(&policy.key), Refusals::default()));
        Self { policies: policies.collect(), judged: KeyTable::default() }
    }

    /// Counts what a policy says of a request. `key` is the digest of its key, or none if it lacks
    /// the key. `wait` is none if the request is admitted.
    pub(super) fn add(
        &mut self,
        policy: usize,
        key: Option<(u64, ClientName)>,
        address: IpAddr,
        now: Timestamp,
        wait: Option<Span>,
    ) {
        let Some((is_by_client, refusals)) = self.policies.get_mut(policy) else { return };
        // Of a key that many clients share, clients are told apart by their addresses. A log with keys
        // can mask addresses, so there it is the key.
        let own = key.filter(|(_, name)| *is_by_client || matches!(name, ClientName::Id(_)));
        let (digest, name) =
            own.unwrap_or_else(|| (digest_of_address(address), ClientName::Address(address)));
        let place = (u16::try_from(policy).unwrap_or(u16::MAX), digest);
        if let Some(judged) = self.judged.get_mut(place) {
            *judged += 1;
        } else if self.judged.len() < MAX_COUNTED {
            self.judged.insert(place, 1);
        }
        if let Some(wait) = wait {
            refusals.add(digest, name, now, wait);
        }
    }

    /// The clients that a policy refuses most, and whether their counts can be too low.
    pub(super) fn top(&self, policy: usize, most: usize) -> (Vec<RefusedClient>, bool) {
        let Some((_, refusals)) = self.policies.get(policy) else { return (Vec::new(), false) };
        let place = |digest| (u16::try_from(policy).unwrap_or(u16::MAX), digest);
        let with_judged = |(digest, client)| RefusedClient {
            judged: self.judged.get(place(digest)).copied(),
            ..client
        };
        (refusals.top(most).into_iter().map(with_judged).collect(), refusals.is_least())
    }
}

/// Whether a key is that of one client, and not of a path or of all.
pub(super) fn tells_clients_apart(key: &KeyExpr) -> bool {
    let mut tells = false;
    key.visit(&mut |part| {
        tells |= matches!(
            part,
            KeyExpr::Ip
                | KeyExpr::ApiKey
                | KeyExpr::User
                | KeyExpr::Cookie(_)
                | KeyExpr::Jwt(_)
                | KeyExpr::TlsSubject
                | KeyExpr::Authorizer(_)
        );
    });
    tells
}

/// The digest of an address.
pub(super) fn digest_of_address(address: IpAddr) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn name(number: u8) -> ClientName {
        ClientName::Address(IpAddr::from([192, 0, 2, number]))
    }

    #[test]
    fn the_clients_with_the_most_refusals_come_first() {
        let mut refusals = Refusals::default();
        for (second, client) in [(1, 7), (2, 9), (3, 9), (4, 8), (5, 9), (6, 8)] {
            refusals.add(u64::from(client), name(client), at(second), Span::from_secs(second));
        }
        let top: Vec<_> = refusals.top(2).into_iter().map(|(_, client)| client).collect();
        assert_eq!(top.iter().map(|it| it.refused).collect::<Vec<_>>(), [3, 2]);
        assert_eq!((top[0].first, top[0].last), (at(2), at(5)));
        assert_eq!((top[0].name, top[0].longest_wait), (name(9), Span::from_secs(5)));
        assert!(!refusals.is_least());
    }

    #[test]
    fn a_client_with_many_refusals_stays_among_many_with_one() {
        let mut refusals = Refusals::default();
        for number in 0..10_000 {
            refusals.add_up_to(100, number, name(1), at(number), Span::ZERO);
            refusals.add_up_to(100, u64::MAX, name(2), at(number), Span::ZERO);
            assert!(refusals.clients.len() <= 100);
        }
        let top = refusals.top(1);
        assert_eq!((top[0].1.name, top[0].1.refused), (name(2), 10_000));
        assert!(refusals.is_least());
    }
}
