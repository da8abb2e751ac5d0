//! A thread with a single-threaded runtime that runs a store.

use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::{Arc, mpsc as threads};
use std::thread;
use std::time::Duration;

use http::StatusCode;
use smallvec::SmallVec;
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::{MissedTickBehavior, interval};

#[cfg(all(feature = "keys", feature = "redis"))]
use tollgate_core::api_keys::{Found, KeyId, Sought};
use tollgate_core::decision::{Claims, Ending, Headroom, Lease, OwnedDecision, RateLimiter};
use tollgate_core::meter::Metered;
use tollgate_core::policy::Policy;
use tollgate_core::store::SharedStore;
#[cfg(all(feature = "keys", feature = "redis"))]
use tollgate_core::store::keys::SharedKeys;
use tollgate_core::store::overrides::SharedOverrides;
use tollgate_core::time::{Clock, Timestamp};

#[cfg(all(feature = "keys", feature = "redis"))]
use super::key_job::KeyJob;

/// The period of the store's upkeep.
const UPKEEP: Duration = Duration::from_millis(100);

/// The sender to a lane. The lane's thread ends when it is dropped.
#[derive(Debug)]
pub(super) struct Lane {
    jobs: mpsc::UnboundedSender<Job>,
    /// Bounds the judgements in progress: each holds a permit until it is made.
    permits: Arc<Semaphore>,
}

#[derive(Debug)]
enum Job {
    Judge(Box<Question>),
    End(Settlement),
    /// These units are what the request has cost under each policy of the lease.
    Settle(Lease, u64, Timestamp),
    /// The request is not processed.
    GiveBack(Lease, Timestamp),
    #[cfg(all(feature = "keys", feature = "redis"))]
    Key(KeyJob),
    /// The store can decide.
    Ready(oneshot::Sender<()>),
    /// The lane has ended.
    Close(oneshot::Sender<()>),
}

/// What each lane opens on its own thread.
#[derive(Clone, Debug)]
pub(crate) struct LaneStore {
    pub(crate) store: SharedStore,
    pub(crate) overrides: Option<SharedOverrides>,
    /// API keys in the store.
    #[cfg(all(feature = "keys", feature = "redis"))]
    pub(crate) keys: Option<SharedKeys>,
    pub(crate) clock: Clock,
}

/// The claims of a request, and the receiver of the decision.
#[derive(Debug)]
struct Question {
    claims: Claims<Arc<Policy>>,
    headroom: Headroom,
    now: Timestamp,
    reply: oneshot::Sender<OwnedDecision>,
    permit: OwnedSemaphorePermit,
}

/// A lease, and the end of its request.
#[derive(Debug)]
struct Settlement {
    lease: Lease,
    status: Option<StatusCode>,
    request_bytes: Option<u64>,
    metered: SmallVec<[Metered; 1]>,
    now: Timestamp,
}

impl Lane {
    /// Starts the thread, which opens `store`, with at most `bound` judgements in progress.
    pub(super) fn start(number: usize, store: LaneStore, bound: NonZeroUsize) -> io::Result<Self> {
        let (jobs, coming) = mpsc::unbounded_channel();
        let (started, has_started) = threads::channel();
        thread::Builder::new().name(format!("limiter-{number}")).spawn(move || {
            let runtime =
                Builder::new_current_thread().enable_all().build_local(Default::default());
            let (result, runtime) = match runtime {
                Ok(runtime) => (Ok(()), Some(runtime)),
                Err(error) => (Err(error), None),
            };
            // The thread that starts this one waits for the result.
            let _ = started.send(result);
            if let Some(runtime) = runtime {
                runtime.block_on(run(&store, coming));
            }
        })?;
        has_started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread has ended")))?;
        // With a larger number, `Semaphore` panics.
        let bound = bound.get().min(Semaphore::MAX_PERMITS);
        Ok(Self { jobs, permits: Arc::new(Semaphore::new(bound)) })
    }

    /// Requests a judgement. None if the bound is reached, or the thread has ended.
    pub(super) fn judge(
        &self,
        claims: Claims<Arc<Policy>>,
        headroom: Headroom,
        now: Timestamp,
    ) -> Option<oneshot::Receiver<OwnedDecision>> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let (reply, answer) = oneshot::channel();
        let question = Question { claims, headroom, now, reply, permit };
        self.jobs.send(Job::Judge(Box::new(question))).ok().map(|()| answer)
    }

    /// Looks up an API key. None if the bound is reached, or the thread has ended.
    #[cfg(all(feature = "keys", feature = "redis"))]
    pub(super) fn find_key(
        &self,
        sought: Sought,
        now: Timestamp,
    ) -> Option<oneshot::Receiver<Found>> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let (reply, answer) = oneshot::channel();
        let job = KeyJob::Find { sought, now, reply, permit };
        self.jobs.send(Job::Key(job)).ok().map(|()| answer)
    }

    /// A request was made with the key `id`.
    #[cfg(all(feature = "keys", feature = "redis"))]
    pub(super) fn note_key_use(&self, sought: Sought, id: KeyId, now: Timestamp) {
        let _ = self.jobs.send(Job::Key(KeyJob::Used { sought, id, now }));
    }

    /// Settlements need no permit: each belongs to a judgement that had one.
    pub(super) fn end(&self, lease: Lease, ending: &Ending<'_>, now: Timestamp) {
        let Ending { status, request_bytes, metered } = *ending;
        let metered = metered.into();
        let settlement = Settlement { lease, status, request_bytes, metered, now };
        // If the thread has ended, the store has closed this node's part.
        let _ = self.jobs.send(Job::End(settlement));
    }

    pub(super) fn settle(&self, lease: Lease, units: u64, now: Timestamp) {
        let _ = self.jobs.send(Job::Settle(lease, units, now));
    }

    pub(super) fn give_back(&self, lease: Lease, now: Timestamp) {
        let _ = self.jobs.send(Job::GiveBack(lease, now));
    }

    /// Returns when the store can decide, or when the caller must not wait any longer.
    pub(super) async fn ready(&self) {
        self.answered(Job::Ready).await;
    }

    /// Ends the lane after what was sent before.
    pub(super) async fn close(&self) {
        self.answered(Job::Close).await;
    }

    /// Returns when the lane has answered the job, or has ended.
    async fn answered(&self, job: fn(oneshot::Sender<()>) -> Job) {
        let (reply, answer) = oneshot::channel();
        let _ = self.jobs.send(job(reply));
        let _ = answer.await;
    }
}

/// Runs a lane until its sender is dropped, or it is closed.
async fn run(store: &LaneStore, mut jobs: mpsc::UnboundedReceiver<Job>) {
    let clock = &store.clock;
    let opened = store.store.open(clock.clone());
    let overrides = store.overrides.as_ref().and_then(|overrides| overrides.open(&opened));
    #[cfg(all(feature = "keys", feature = "redis"))]
    let keys = store.keys.as_ref().and_then(|keys| keys.open(&opened));
    let store = opened;
    let limiter = Rc::new(RateLimiter::new(store).with_overrides(overrides));
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let closed = loop {
        tokio::select! {
            job = jobs.recv() => match job {
                Some(Job::Judge(question)) => drop(spawn_local(judge(Rc::clone(&limiter), question))),
                Some(Job::End(settlement)) => settle(&limiter, &settlement),
                Some(Job::Settle(lease, units, now)) => {
                    limiter.end_known(&lease, &lease.all_cost(units), now);
                }
                Some(Job::GiveBack(lease, now)) => limiter.give_back(&lease, now),
                #[cfg(all(feature = "keys", feature = "redis"))]
                Some(Job::Key(job)) => job.run(keys.as_ref()),
                Some(Job::Ready(reply)) => {
                    let limiter = Rc::clone(&limiter);
                    spawn_local(async move {
                        limiter.store().ready().await;
                        // The caller may have stopped waiting.
                        let _ = reply.send(());
                    });
                }
                Some(Job::Close(reply)) => break Some(reply),
                None => break None,
            },
            _ = upkeep.tick() => limiter.housekeep(clock.now()),
        }
    };
    // Judgements that were not made are answered without the store.
    drop(jobs);
    limiter.close(clock.now()).await;
    // The caller may have stopped waiting.
    let _ = closed.map(|reply| reply.send(()));
}

async fn judge(limiter: Rc<RateLimiter>, question: Box<Question>) {
    let Question { mut claims, headroom, now, reply, permit } = *question;
    let decision = limiter.judge().judge(&mut claims, headroom, now).await;
    // If the receiver was dropped, the units are given back.
    if let Err(decision) = reply.send(decision) {
        limiter.end(&decision.lease, &Ending::ABANDONED, now);
    }
    drop(permit);
}

fn settle(limiter: &RateLimiter, settlement: &Settlement) {
    let Settlement { lease, status, request_bytes, metered, now } = settlement;
    let ending = Ending { status: *status, request_bytes: *request_bytes, metered };
    limiter.end(lease, &ending, *now);
}
