//! The clients that a listener is for.

use std::net::IpAddr;

use ipnet::IpNet;
use rustix::process::geteuid;

/// The clients that a listener is for. Others are answered that they are not, and keep none of
/// these out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callers {
    /// All that can connect.
    All,
    /// Processes of root, of the user of this process, and of these users. For a Unix socket.
    Users(Vec<u32>),
    /// Peers at these addresses.
    At(Trust),
}

impl Callers {
    /// Whether a client at this address is one of them. `uid`: the user of its process, if it uses a
    /// Unix socket.
    pub fn include(&self, address: IpAddr, uid: Option<u32>) -> bool {
        match self {
            Self::All => true,
            Self::Users(users) => uid.is_some_and(|uid| is_allowed(uid, geteuid().as_raw(), users)),
            Self::At(trust) => trust.includes(address),
        }
    }
}

/// Whether a process of the user `uid` may use a Unix socket: root may, `own`, the user of this
/// process, and `users`.
pub fn is_allowed(uid: u32, own: u32, users: &[u32]) -> bool {
    uid == 0 || uid == own || users.contains(&uid)
}

/// Peers by their addresses. A Unix socket counts as the loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust(Vec<IpNet>);

impl Trust {
    /// The peers in these blocks.
    pub const fn new(blocks: Vec<IpNet>) -> Self {
        Self(blocks)
    }

    /// Whether the peer at this address is one of them.
    pub fn includes(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|block| block.contains(&address))
    }
}

impl Default for Trust {
    /// The loopback addresses.
    fn default() -> Self {
        let loopback = [IpNet::new_assert([127, 0, 0, 0].into(), 8), IpNet::from(LOOPBACK_V6)];
        Self(loopback.into())
    }
}

const LOOPBACK_V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_loopback_may_ask_unless_others_are_named() {
        let loopback = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"];
        let others = ["10.0.0.1", "::2", "::ffff:10.0.0.1", "128.0.0.1"];
        let includes = |trust: &Trust, text: &str| trust.includes(text.parse().expect("it is one"));
        assert!(loopback.iter().all(|text| includes(&Trust::default(), text)));
        assert!(!others.iter().any(|text| includes(&Trust::default(), text)));
        let trust = Trust::new(vec!["10.0.0.0/8".parse().expect("it is one")]);
        assert!(includes(&trust, "::ffff:10.0.0.1") && !includes(&trust, "127.0.0.1"));
    }
}
