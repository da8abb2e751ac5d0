//! Which listeners stay at a reload, and which worker has which sockets.

use std::sync::Arc;

use super::worker::ListenerId;
use crate::server::{Listener, ListenerSettings};

/// The sockets of a listener, one for each worker.
pub(super) type Sockets = (ListenerId, Vec<Listener>);

/// The index of the running listener for each wanted one: the first with its address that
/// matches no earlier one. Several listeners may have port 0, which means any free port.
pub(super) fn matching(
    running: &[Arc<ListenerSettings>],
    wanted: &[ListenerSettings],
) -> Vec<Option<usize>> {
    let mut taken = vec![false; running.len()];
    let find = |settings: &ListenerSettings| {
        let matches = |index: &usize| !taken[*index] && running[*index].address == settings.address;
        let found = (0..running.len()).find(matches);
        if let Some(index) = found {
            taken[index] = true;
        }
        found
    };
    wanted.iter().map(find).collect()
}

/// The sockets for each worker, one of each listener.
pub(super) fn by_worker(opened: Vec<Sockets>, workers: usize) -> Vec<Vec<(ListenerId, Listener)>> {
    let mut shares: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    for (id, listeners) in opened {
        for (share, listener) in shares.iter_mut().zip(listeners) {
            share.push((id, listener));
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ListenAddress;

    fn listeners(addresses: &[&str]) -> Vec<ListenerSettings> {
        let settings =
            |text: &&str| ListenerSettings::new(ListenAddress::Tcp(text.parse().unwrap()));
        addresses.iter().map(settings).collect()
    }

    #[test]
    fn listeners_are_matched_by_their_addresses() {
        let running: Vec<_> = listeners(&["1.1.1.1:80", "1.1.1.1:0", "1.1.1.1:0", "2.2.2.2:80"])
            .into_iter()
            .map(Arc::new)
            .collect();
        let wanted = listeners(&["1.1.1.1:0", "2.2.2.2:80", "3.3.3.3:80"]);
        assert_eq!(matching(&running, &wanted), [Some(1), Some(3), None]);
        let wanted = listeners(&["1.1.1.1:0", "1.1.1.1:0", "1.1.1.1:0"]);
        assert_eq!(matching(&running, &wanted), [Some(1), Some(2), None]);
        assert_eq!(matching(&running, &[]), []);
    }
}
