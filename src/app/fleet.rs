//! All workers and all listeners: started together, changed by a reload,
//! stopped together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::join;
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tracing::{info, warn};

use super::RunError;
use super::files;
use super::foundation::Foundation;
use super::key_set::{self, Fetched};
use super::systemd::Inherited;
use super::worker::{Change, Worker};
use crate::config::{Config, GeoFile};
use crate::drain::{Drain, Stop};
use crate::proxy::{self, UpstreamShared};
use crate::server::{BindError, Capacity, Listener, ListenerSettings, ListenerTerms, Terms};
use crate::snapshot::Snapshot;
use crate::telemetry::AccessLog;

/// How much longer than a drain the workers may take to end.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Tells a listener from all that this process has had: an address may be given
/// up and taken again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListenerId(u64);

/// All workers and all listeners.
pub(super) struct Fleet {
    foundation: Foundation,
    inherited: Inherited,
    snapshot: Arc<Snapshot>,
    geo_files: Vec<GeoFile>,
    keys: Option<Fetched>,
    listeners: Vec<(ListenerId, ListenerTerms)>,
    listeners_so_far: u64,
    /// For how many connections of clients there are files, and who has them.
    room: usize,
    /// The most connections that the log has said to be too many for these files.
    said_too_many: usize,
    capacity: Capacity,
    workers: Vec<(mpsc::UnboundedSender<Change>, JoinHandle<()>)>,
    drain_limit: Duration,
}

/// How the workers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// All of them, by themselves.
    Whole,
    /// Some still run and will be cut off with the process.
    Cut,
}

/// A listener's sockets, one for each worker.
type Sockets = (ListenerId, Vec<Listener>);

impl Fleet {
    /// Binds all listeners first, so that a port in use stops the start, and then
    /// starts one thread for each worker.
    ///
    /// # Errors
    /// If an address, a file or a thread cannot be had.
    pub(super) async fn start(
        mut config: Config,
        inherited: Inherited,
        echo: SocketAddr,
        log: Option<&AccessLog>,
        drain: &Drain,
    ) -> Result<Self, RunError> {
        let workers = config.runtime.workers.unwrap_or_else(cores);
        let foundation = Foundation::new(&config, echo)?;
        let (keys, first_keys) = key_set::begin(&mut config, None);
        let listeners = std::mem::take(&mut config.listeners);
        let room = files::for_clients(files::raise(), workers);
        let mut fleet = Self {
            listeners: Vec::new(),
            listeners_so_far: 0,
            room,
            said_too_many: 0,
            capacity: Capacity::new(room),
            workers: Vec::with_capacity(workers),
            drain_limit: config.runtime.drain,
            geo_files: std::mem::take(&mut config.geo_files),
            keys,
            snapshot: Arc::new(foundation.snapshot(config, &[])),
            inherited,
            foundation,
        };
        for address in fleet.inherited.addresses() {
            if !listeners.iter().any(|settings| settings.address == *address) {
                warn!(%address, "a socket was passed on, but no listener has its address");
            }
        }
        let opened = fleet.open(listeners.iter(), workers)?;
        fleet.warn_of_files();
        join!(find(&fleet.snapshot.upstreams), first_keys.ended());
        for (index, listeners) in by_worker(opened, workers).into_iter().enumerate() {
            let (sender, changes) = mpsc::unbounded_channel();
            let worker = Worker {
                listeners,
                changes,
                snapshot: Arc::clone(&fleet.snapshot),
                store: fleet.foundation.store.clone(),
                overrides: fleet.foundation.overrides.clone(),
                log: log.map(AccessLog::worker),
                drain: drain.clone(),
                drain_limit: fleet.drain_limit,
            };
            let name = format!("worker-{index}");
            let thread = thread::Builder::new().name(name).spawn(move || worker.run())?;
            fleet.workers.push((sender, thread));
        }
        Ok(fleet)
    }

    /// Gives all workers another configuration, whose tokens are verified by `keys` if
    /// these are fetched, and returns when all of them have it. What of it takes a restart is said in the log and left as it is.
    ///
    /// # Errors
    /// If a listener cannot be had as it is wanted; then nothing has changed.
    ///
    /// Nothing changes before all is known that has to be waited for, so that the
    /// future may be dropped: listeners and routes change together then, or not at all.
    pub(super) async fn reload(
        &mut self,
        mut config: Config,
        keys: Option<Fetched>,
    ) -> Result<(), BindError> {
        let needs_restart = self.foundation.needs_restart(&config);
        let (wanted, drain_limit) = (std::mem::take(&mut config.listeners), config.runtime.drain);
        let geo_files = std::mem::take(&mut config.geo_files);
        let before = &self.snapshot.upstreams;
        let snapshot = self.foundation.snapshot(config, before);
        let is_new = |it: &&Arc<UpstreamShared>| !before.iter().any(|old| Arc::ptr_eq(old, it));
        find(&snapshot.upstreams.iter().filter(is_new).cloned().collect::<Vec<_>>()).await;
        let (opened, closed) = self.renew_listeners(&wanted)?;
        for name in needs_restart {
            warn!("{name}: changed in the file, but only a restart changes it here");
        }
        self.drain_limit = drain_limit;
        self.snapshot = Arc::new(snapshot);
        (self.geo_files, self.keys) = (geo_files, keys);
        self.tell_workers(opened, &closed).await;
        Ok(())
    }

    /// Opens and closes listeners and gives them other terms, as it is wanted, or
    /// changes nothing. Returns what has been opened, and what is to be closed.
    fn renew_listeners(
        &mut self,
        wanted: &[ListenerSettings],
    ) -> Result<(Vec<Sockets>, Vec<ListenerId>), BindError> {
        let running = self.listeners.iter().map(|(_, terms)| terms.settings());
        let running: Vec<Arc<ListenerSettings>> = running.collect();
        let places = places(&running, wanted);
        let wanted = wanted.iter().zip(&places);
        let new = wanted.clone().filter(|(_, place)| place.is_none()).map(|(new, _)| new);
        let mut changed = Vec::new();
        for (settings, place) in wanted {
            if let Some(place) = place.filter(|place| *running[*place] != *settings) {
                changed.push((place, Terms::new(settings.clone())?));
            }
        }
        let opened = self.open(new, self.workers.len())?;
        for (place, terms) in changed {
            self.listeners[place].1.change(terms);
        }
        let closed = self.close_all_but(&places, running.len());
        self.warn_of_files();
        Ok((opened, closed))
    }

    /// Gives all workers the present configuration, and returns when they have it.
    async fn tell_workers(&self, opened: Vec<Sockets>, closed: &[ListenerId]) {
        let (done, mut all_done) = mpsc::channel(1);
        let mut opened = by_worker(opened, self.workers.len()).into_iter();
        for (worker, _) in &self.workers {
            // A worker that has panicked takes nothing any more.
            let _ = worker.send(Change {
                snapshot: Arc::clone(&self.snapshot),
                open: opened.next().unwrap_or_default(),
                close: closed.to_vec(),
                drain_limit: self.drain_limit,
                _done: done.clone(),
            });
        }
        drop(done);
        all_done.recv().await;
    }

    /// Opens listeners, or none of them.
    fn open<'s>(
        &mut self,
        settings: impl Iterator<Item = &'s ListenerSettings>,
        workers: usize,
    ) -> Result<Vec<Sockets>, BindError> {
        let bound: Vec<_> = settings
            .map(|settings| {
                let terms = Terms::new(settings.clone())?;
                match self.inherited.at(&settings.address) {
                    Some(socket) => Listener::adopt(terms, socket, workers, &self.capacity),
                    None => Listener::bind(terms, workers, &self.capacity),
                }
            })
            .collect::<Result<_, _>>()?;
        let mut opened = Vec::with_capacity(bound.len());
        for (listeners, terms) in bound {
            info!(address = %listeners[0].address(), workers, "listening");
            let id = ListenerId(self.listeners_so_far);
            self.listeners_so_far += 1;
            self.listeners.push((id, terms));
            opened.push((id, listeners));
        }
        Ok(opened)
    }

    /// Says if listeners may have more connections than there are files for. A
    /// reload that asks for no more than before says nothing again.
    fn warn_of_files(&mut self) {
        let wanted = self.listeners.iter().map(|(_, terms)| terms.settings().max_connections);
        let (wanted, room) = (wanted.fold(0, usize::saturating_add), self.room);
        if wanted > room.max(self.said_too_many) {
            self.said_too_many = wanted;
            warn!(
                "max_connections adds up to {wanted}, but the limit on open files leaves room \
                 for {room} clients, and more will wait: raise it (`ulimit -n`, LimitNOFILE), \
                 or lower max_connections"
            );
        }
    }

    /// Forgets those of the first `running` listeners that have no place any more.
    fn close_all_but(&mut self, places: &[Option<usize>], running: usize) -> Vec<ListenerId> {
        let mut index = 0;
        let mut closed = Vec::new();
        self.listeners.retain(|(id, terms)| {
            let stays = index >= running || places.contains(&Some(index));
            index += 1;
            if !stays {
                info!(address = %terms.settings().address, "listening no longer");
                closed.push(*id);
            }
            stays
        });
        closed
    }

    /// Whether tokens are verified by any key.
    pub(super) fn verifies_tokens(&self) -> bool {
        self.snapshot.rules.clients().verifies_tokens()
    }

    /// The databases in force, and the files that they were read from.
    pub(super) fn geo_files(&self) -> Vec<GeoFile> {
        self.geo_files.clone()
    }

    /// The set of keys that is fetched, if there is one.
    pub(super) fn keys(&self) -> Option<&Fetched> {
        self.keys.as_ref()
    }

    /// How long requests under way may take when the process is to stop.
    pub(super) fn drain_limit(&self) -> Duration {
        self.drain_limit
    }

    /// Stops all workers.
    pub(super) async fn stop(self, stop: Stop) -> Ended {
        if !stop.finish(self.drain_limit + DRAIN_GRACE).await {
            return Ended::Cut;
        }
        for (_, thread) in self.workers {
            if thread.join().is_err() {
                warn!("a worker had panicked");
            }
        }
        Ended::Whole
    }
}

/// Finds out where upstreams are, and from then on how they are doing, for as
/// long as somebody needs them.
async fn find(upstreams: &[Arc<UpstreamShared>]) {
    proxy::resolve(upstreams).await;
    upstreams.iter().for_each(|upstream| drop(spawn_local(proxy::look_after(upstream))));
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// For each wanted listener which running one it is: the first that nobody else
/// is and that has its address. Several may have the port 0, which stands for
/// any.
fn places(running: &[Arc<ListenerSettings>], wanted: &[ListenerSettings]) -> Vec<Option<usize>> {
    let mut taken = vec![false; running.len()];
    let place = |settings: &ListenerSettings| {
        let is_it = |index: &usize| !taken[*index] && running[*index].address == settings.address;
        let found = (0..running.len()).find(is_it);
        if let Some(index) = found {
            taken[index] = true;
        }
        found
    };
    wanted.iter().map(place).collect()
}

/// Gives each worker its socket of every listener.
fn by_worker(opened: Vec<Sockets>, workers: usize) -> Vec<Vec<(ListenerId, Listener)>> {
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
    fn a_listener_is_the_one_that_has_its_address() {
        let running: Vec<_> = listeners(&["1.1.1.1:80", "1.1.1.1:0", "1.1.1.1:0", "2.2.2.2:80"])
            .into_iter()
            .map(Arc::new)
            .collect();
        let wanted = listeners(&["1.1.1.1:0", "2.2.2.2:80", "3.3.3.3:80"]);
        assert_eq!(places(&running, &wanted), [Some(1), Some(3), None]);
        let wanted = listeners(&["1.1.1.1:0", "1.1.1.1:0", "1.1.1.1:0"]);
        assert_eq!(places(&running, &wanted), [Some(1), Some(2), None]);
        assert_eq!(places(&running, &[]), []);
    }
}
