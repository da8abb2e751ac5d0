//! How often clients may call, and how often they may try tokens.
//!
//! The counters are those of the limiter itself, in a small memory of their own, so that they are
//! bounded however many addresses there are.

use std::net::IpAddr;

use tollgate_core::algorithm::{Algorithm, Quota, Retry, SlidingWindow};
use tollgate_core::consistency::Consistency;
use tollgate_core::digest::{Counter, Key, Principal, Secret};
use tollgate_core::store::{Charge, MemoryStore};
use tollgate_core::time::{Span, Timestamp};

/// Wrong tokens of one address in a minute.
const WRONG_TOKENS: u64 = 10;
/// Calls of one credential in a second.
const CALLS: u64 = 50;
/// Failed logins of all addresses in a minute that are recorded.
const RECORDED_FAILURES: u64 = 60;
/// Addresses and credentials that are remembered.
const MAX_KEYS: usize = 1024;
/// What one customer of a provider has of IPv6.
const IPV6_PREFIX: u32 = 64;

/// The counters.
#[derive(Debug)]
pub struct Bounds {
    store: MemoryStore,
    secret: Secret,
    wrong_tokens: Algorithm,
    calls: Algorithm,
    recorded: Algorithm,
}

#[derive(Clone, Copy)]
#[repr(u64)]
enum Kind {
    WrongTokens = 1,
    Calls = 2,
    Recorded = 3,
}

impl Bounds {
    pub fn new() -> Self {
        Self {
            store: MemoryStore::new(MAX_KEYS),
            secret: Secret::random(),
            wrong_tokens: window(WRONG_TOKENS, Span::from_secs(60)),
            calls: window(CALLS, Span::SECOND),
            recorded: window(RECORDED_FAILURES, Span::from_secs(60)),
        }
    }

    /// Whether a token of this address is looked at. A right token is not either after too
    /// many wrong ones: otherwise a client could go on trying.
    ///
    /// # Errors
    /// How long it is not.
    pub fn may_try(&self, address: IpAddr, now: Timestamp) -> Result<(), Span> {
        let address = network(address);
        let charge = self.charge(Kind::WrongTokens, &address, &self.wrong_tokens);
        waiting(self.store.look(&charge, now).retry)
    }

    /// Counts a wrong token of this address. Returns whether it is recorded.
    pub fn count_wrong_token(&self, address: IpAddr, now: Timestamp) -> bool {
        let address = network(address);
        let charge = self.charge(Kind::WrongTokens, &address, &self.wrong_tokens);
        self.store.apply(&[charge], now);
        let recorded = self.charge(Kind::Recorded, b"", &self.recorded);
        self.store.apply(&[recorded], now)[0].admitted
    }

    /// Counts a call with this credential.
    ///
    /// # Errors
    /// How long the client must wait, if there were too many.
    pub fn count_call(&self, credential: &str, now: Timestamp) -> Result<(), Span> {
        let charge = self.charge(Kind::Calls, credential.as_bytes(), &self.calls);
        waiting(self.store.apply(&[charge], now)[0].retry)
    }

    fn charge<'a>(&self, kind: Kind, value: &[u8], algorithm: &'a Algorithm) -> Charge<'a> {
        let mut digest = self.secret.digest();
        digest.value(value);
        let principal = Principal::from_bits(digest.finish());
        Charge {
            key: Key { principal, counter: Counter::from_bits(kind as u64) },
            algorithm,
            cost: 1,
            binding: true,
            consistency: Consistency::default(),
        }
    }
}

fn window(limit: u64, span: Span) -> Algorithm {
    let quota = Quota::new(limit, span).expect("the constants are within the bounds");
    Algorithm::SlidingWindow(SlidingWindow::new(quota))
}

fn waiting(retry: Retry) -> Result<(), Span> {
    match retry {
        Retry::Now => Ok(()),
        Retry::After(wait) => Err(wait),
        Retry::Never => Err(Span::from_secs(60)),
    }
}

/// An IPv4 address, or the network of an IPv6 address.
fn network(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => (address.to_bits() >> (128 - IPV6_PREFIX)).to_be_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::default().plus(Span::from_secs(1_000_000 + seconds))
    }

    #[test]
    fn ten_wrong_tokens_a_minute_are_looked_at_and_right_ones_cost_nothing() {
        let bounds = Bounds::new();
        let one: IpAddr = "192.0.2.1".parse().unwrap();
        let other: IpAddr = "192.0.2.2".parse().unwrap();
        for _ in 0..100 {
            assert_eq!(bounds.may_try(one, at(0)), Ok(()));
        }
        for _ in 0..WRONG_TOKENS {
            assert_eq!(bounds.may_try(one, at(0)), Ok(()));
            assert!(bounds.count_wrong_token(one, at(0)));
        }
        let wait = bounds.may_try(one, at(0)).expect_err("there were ten");
        assert!(!wait.is_zero() && wait <= Span::from_secs(120), "{wait}");
        assert_eq!(bounds.may_try(other, at(0)), Ok(()));
        assert_eq!(bounds.may_try("::ffff:192.0.2.1".parse().unwrap(), at(0)), Err(wait));
        assert_eq!(bounds.may_try(one, at(121)), Ok(()));
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let bounds = Bounds::new();
        for last in 0..WRONG_TOKENS {
            let address = format!("2001:db8::{last:x}").parse().unwrap();
            bounds.count_wrong_token(address, at(0));
        }
        assert!(bounds.may_try("2001:db8::ffff".parse().unwrap(), at(0)).is_err());
        assert!(bounds.may_try("2001:db8:0:1::".parse().unwrap(), at(0)).is_ok());
    }

    #[test]
    fn a_flood_of_addresses_is_remembered_within_a_bound_and_recorded_rarely() {
        let bounds = Bounds::new();
        let mut recorded = 0;
        for number in 0..100_000_u32 {
            let address = IpAddr::V4(std::net::Ipv4Addr::from_bits(number));
            recorded += u64::from(bounds.count_wrong_token(address, at(0)));
        }
        assert_eq!(recorded, RECORDED_FAILURES);
        assert!(bounds.store.live_keys(at(0)) <= 4 * MAX_KEYS, "{}", bounds.store.live_keys(at(0)));
    }

    #[test]
    fn a_credential_has_fifty_calls_a_second() {
        let bounds = Bounds::new();
        for _ in 0..CALLS {
            assert_eq!(bounds.count_call("oncall", at(0)), Ok(()));
        }
        assert!(bounds.count_call("oncall", at(0)).is_err());
        assert!(bounds.count_call("prometheus", at(0)).is_ok());
        assert!(bounds.count_call("oncall", at(2)).is_ok());
    }
}
