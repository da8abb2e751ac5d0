//! Which listeners there are, which of them stay at a reload, and which worker has which
//! sockets.

use std::sync::Arc;

use crate::config::Config;
use crate::server::{Listener, ListenerSettings};

/// Identifies a listener among all that this process has opened. An address does not: a
/// listener may be removed, and another one opened at its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(pub u64);

/// What the connections of a listener are served with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Requests are forwarded.
    Gateway,
    /// Questions are answered over HTTP.
    CheckHttp,
    /// Questions are answered over gRPC.
    CheckGrpc,
}

impl Purpose {
    /// How the log calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::CheckHttp => "check.http",
            Self::CheckGrpc => "check.grpc",
        }
    }
}

/// The listeners of a configuration.
pub fn wanted(config: &Config) -> Vec<(Purpose, ListenerSettings)> {
    let check = &config.check;
    let http = check.http.iter().map(|it| (Purpose::CheckHttp, &it.listener));
    let grpc = check.grpc.iter().map(|it| (Purpose::CheckGrpc, &it.listener));
    let gateway = config.listeners.iter().map(|it| (Purpose::Gateway, it));
    gateway.chain(http).chain(grpc).map(|(purpose, it)| (purpose, it.clone())).collect()
}

/// The sockets of a listener, one for each worker.
pub type Sockets = (ListenerId, Purpose, Vec<Listener>);

/// The sockets of one worker.
pub type Share = Vec<(ListenerId, Purpose, Listener)>;

/// The index of the running listener for each wanted one: the first with its purpose and address
/// that matches no earlier one. Several listeners may have port 0, which means any free port.
pub fn matching(
    running: &[(Purpose, Arc<ListenerSettings>)],
    wanted: &[(Purpose, ListenerSettings)],
) -> Vec<Option<usize>> {
    let mut taken = vec![false; running.len()];
    let find = |(purpose, settings): &(Purpose, ListenerSettings)| {
        let is_same = |other: &(Purpose, Arc<ListenerSettings>)| {
            other.0 == *purpose && other.1.address == settings.address
        };
        let matches = |index: &usize| !taken[*index] && is_same(&running[*index]);
        let found = (0..running.len()).find(matches);
        if let Some(index) = found {
            taken[index] = true;
        }
        found
    };
    wanted.iter().map(find).collect()
}

/// The sockets for each worker, one of each listener.
pub fn by_worker(opened: Vec<Sockets>, workers: usize) -> Vec<Share> {
    let mut shares: Vec<Share> = (0..workers).map(|_| Vec::new()).collect();
    for (id, purpose, listeners) in opened {
        for (share, listener) in shares.iter_mut().zip(listeners) {
            share.push((id, purpose, listener));
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ListenAddress;

    fn listeners(addresses: &[&str]) -> Vec<(Purpose, ListenerSettings)> {
        let settings =
            |text: &&str| ListenerSettings::new(ListenAddress::Tcp(text.parse().unwrap()));
        addresses.iter().map(|text| (Purpose::Gateway, settings(text))).collect()
    }

    fn running(addresses: &[&str]) -> Vec<(Purpose, Arc<ListenerSettings>)> {
        listeners(addresses).into_iter().map(|(purpose, it)| (purpose, Arc::new(it))).collect()
    }

    #[test]
    fn listeners_are_matched_by_their_addresses() {
        let running = running(&["1.1.1.1:80", "1.1.1.1:0", "1.1.1.1:0", "2.2.2.2:80"]);
        let wanted = listeners(&["1.1.1.1:0", "2.2.2.2:80", "3.3.3.3:80"]);
        assert_eq!(matching(&running, &wanted), [Some(1), Some(3), None]);
        let wanted = listeners(&["1.1.1.1:0", "1.1.1.1:0", "1.1.1.1:0"]);
        assert_eq!(matching(&running, &wanted), [Some(1), Some(2), None]);
        assert_eq!(matching(&running, &[]), []);
    }

    #[test]
    fn a_listener_with_another_purpose_is_another_listener() {
        let mut wanted = listeners(&["1.1.1.1:80"]);
        wanted[0].0 = Purpose::CheckHttp;
        assert_eq!(matching(&running(&["1.1.1.1:80"]), &wanted), [None]);
    }
}
