//! Permits and the queue, over all workers.

use std::time::Duration;

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::*;

const ENDPOINTS: [u64; 2] = [7, 8];
const ROOM: u64 = 1;

fn limit(max: usize, queue_length: usize) -> Arc<ConnectionLimit> {
    let queue_timeout = Duration::from_secs(1);
    let limit = ConnectionLimit::new(ConnectionSettings { max, queue_length, queue_timeout });
    limit.set_endpoints(0, ENDPOINTS.into_iter().map(|it| (it, true)));
    limit
}

fn client(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number])
}

fn place(number: u8) -> Place {
    Place { client: client(number), ticket: None }
}

fn only(endpoint: u64) -> Wanted {
    Wanted { only: Some(endpoint), ..Wanted::default() }
}

fn enter(limit: &Arc<ConnectionLimit>, number: u8, wanted: Wanted) -> Result<Waiter, QueueFull> {
    limit.enter(&mut place(number), wanted, ROOM)
}

/// What a request has been granted until now.
fn permit_of(waiter: &mut Waiter) -> Option<ConnectionPermit> {
    match waiter.granted().now_or_never()?? {
        Grant::Permit(permit) => Some(permit),
        Grant::HandedOver => panic!("no connection is handed over"),
    }
}

#[test]
fn permits_are_bounded_for_each_endpoint_and_go_to_the_next() {
    let limit = limit(2, 10);
    let permits = [(); 2].map(|()| limit.try_permit(7).expect("one is left"));
    assert!(limit.try_permit(7).is_none() && limit.has_permit(8));
    let mut first = enter(&limit, 1, only(7)).unwrap();
    let mut second = enter(&limit, 1, only(7)).unwrap();
    let mut other = enter(&limit, 1, Wanted::default()).unwrap();
    let other = permit_of(&mut other).expect("the other endpoint has permits");
    assert_eq!(other.endpoint(), 8);
    assert!(permit_of(&mut first).is_none());
    let [one, rest] = permits;
    drop(one);
    let granted = permit_of(&mut first).expect("the first gets it");
    assert!(permit_of(&mut second).is_none());
    assert_eq!(limit.counts(), ConnectionCounts { open: 3, waiting: 1 });
    drop((granted, rest));
    assert!(permit_of(&mut second).is_some());
    drop((first, second, other));
    assert_eq!(limit.counts(), ConnectionCounts { open: 0, waiting: 0 });
}

#[test]
fn the_queue_is_bounded_and_a_request_that_leaves_gives_back_its_place_or_its_permit() {
    let limit = limit(1, 2);
    let permit = limit.try_permit(7);
    let waiters = [(); 2].map(|()| enter(&limit, 1, only(7)).unwrap());
    assert_eq!(enter(&limit, 2, only(7)).unwrap_err(), QueueFull);
    let [first, mut second] = waiters;
    drop(first);
    let third = enter(&limit, 2, only(7)).unwrap();
    drop(permit);
    // The permit that the second has is not lost if it leaves before it has noticed.
    let granted = permit_of(&mut second).expect("the second has waited longest");
    drop((second, granted));
    drop(third);
    assert_eq!(limit.counts().open, 0);
    assert!(limit.try_permit(7).is_some());
}

#[test]
fn another_number_holds_at_once() {
    let limit = limit(1, 10);
    let first = limit.try_permit(7);
    let mut waiters = [(); 3].map(|()| enter(&limit, 1, only(7)).unwrap());
    let settings =
        |max| ConnectionSettings { max, queue_length: 10, queue_timeout: Duration::from_secs(1) };
    limit.change(1, settings(3));
    let granted = waiters.each_mut().map(permit_of);
    assert_eq!(granted.iter().flatten().count(), 2);
    limit.change(2, settings(1));
    drop(first);
    let [one, other, _] = granted;
    drop(one);
    assert!(permit_of(&mut waiters[2]).is_none(), "one is still open");
    drop(other);
    assert!(permit_of(&mut waiters[2]).is_some());
}

#[test]
fn a_worker_with_former_settings_changes_nothing() {
    let limit = limit(1, 10);
    let settings =
        ConnectionSettings { max: 1, queue_length: 1, queue_timeout: Duration::from_secs(1) };
    limit.change(1, settings);
    limit.set_endpoints(1, [(9, true)].into_iter());
    limit.set_endpoints(0, [(7, true)].into_iter());
    let endpoints: Vec<u64> = limit.state.lock().endpoints.keys().copied().collect();
    assert_eq!(endpoints, [9]);
}

#[test]
fn an_endpoint_out_of_service_gets_no_requests_from_the_queue() {
    let limit = limit(1, 10);
    let permits = ENDPOINTS.map(|it| limit.try_permit(it));
    let mut waiter = enter(&limit, 1, Wanted::default()).unwrap();
    limit.set_endpoints(0, [(7, false), (8, true)].into_iter());
    let [at_7, at_8] = permits;
    drop(at_7);
    assert!(permit_of(&mut waiter).is_none());
    limit.set_endpoints(0, [(7, true), (8, true)].into_iter());
    assert_eq!(permit_of(&mut waiter).map(|it| it.endpoint()), Some(7));
    drop(at_8);
    // An endpoint that is not there any more is forgotten with its last connection.
    let last = limit.try_permit(8);
    limit.set_endpoints(0, [(7, true)].into_iter());
    drop(last);
    assert!(!limit.state.lock().endpoints.contains_key(&8));
    // Each worker says it once, and one that stays out of service may have no connection.
    for _ in 0..3 {
        limit.set_endpoints(0, [(7, false), (8, true)].into_iter());
        let _at_8 = limit.try_permit(8).expect("it is free");
        let mut waiter = enter(&limit, 1, Wanted::default()).unwrap();
        assert!(permit_of(&mut waiter).is_none());
    }
}

#[test]
fn a_request_that_has_failed_at_all_endpoints_in_service_may_use_them_again() {
    let limit = limit(1, 10);
    let taken = limit.try_permit(8);
    let except = Wanted { except: SmallVec::from_slice(&[7]), ..Wanted::default() };
    let mut waiter = enter(&limit, 1, except).unwrap();
    assert!(permit_of(&mut waiter).is_none(), "the other endpoint is in service");
    limit.set_endpoints(0, [(7, true), (8, false)].into_iter());
    assert_eq!(permit_of(&mut waiter).map(|permit| permit.endpoint()), Some(7));
    drop(taken);
}

#[test]
fn idle_connections_are_asked_for_and_only_as_many_as_are_wanted() {
    let limit = limit(2, 10);
    let permits = [(); 2].map(|()| limit.try_permit(7));
    let [few, many] = [1, 2].map(|available| {
        let holder = Holder::new(7);
        limit.add_holder(&holder);
        holder.show(available);
        holder
    });
    let other = Holder::new(8);
    limit.add_holder(&other);
    other.show(9);
    let is_asked = |holder: &Holder| holder.asked().now_or_never().is_some();
    assert!(!limit.wants(7));
    let _first = enter(&limit, 1, only(7)).unwrap();
    assert!(is_asked(&many) && !is_asked(&few) && !is_asked(&other));
    assert!(limit.wants(7) && !limit.wants(8));
    limit.promise(7);
    assert!(!limit.wants(7), "a connection is about to be closed");
    let _second = enter(&limit, 2, only(7)).unwrap();
    many.show(0);
    limit.ask_again();
    assert!(!is_asked(&few));
    // The first request has the permit, and the second still waits.
    let [one, _rest] = permits;
    drop(one);
    assert!(is_asked(&few) && limit.wants(7));
}

#[test]
fn a_connection_stays_on_its_worker_if_a_request_there_has_its_turn() {
    let limit = limit(1, 10);
    let _permit = limit.try_permit(7);
    let elsewhere = 2;
    let _first = limit.enter(&mut place(1), only(7), elsewhere).unwrap();
    let tunnel = Wanted { is_new: true, ..only(7) };
    let _tunnel = limit.enter(&mut place(2), tunnel, ROOM).unwrap();
    let mut place = place(3);
    let _third = limit.enter(&mut place, only(7), ROOM).unwrap();
    assert!(limit.next_in_room(8, ROOM).is_none());
    let taken = limit.next_in_room(7, ROOM).map(|next| next.ticket);
    assert_eq!(taken, place.ticket);
    assert!(limit.next_in_room(7, ROOM).is_none());
    assert!(limit.next_in_room(7, elsewhere).is_some(), "it is the turn of the first");
}

#[derive(Clone, Debug)]
enum Step {
    Enter { client: u8, only: Option<usize>, except: Option<usize> },
    Leave(usize),
    Close(usize),
    Change(usize),
    Service([bool; 2]),
}

fn step() -> impl Strategy<Value = Step> {
    let endpoint = || prop::option::of(0_usize..2);
    prop_oneof![
        6 => (0_u8..4, endpoint(), endpoint())
            .prop_map(|(client, only, except)| Step::Enter { client, only, except }),
        2 => any::<usize>().prop_map(Step::Leave),
        4 => any::<usize>().prop_map(Step::Close),
        1 => (1_usize..4).prop_map(Step::Change),
        1 => any::<[bool; 2]>().prop_map(Step::Service),
    ]
}

proptest! {
    /// There are never more permits than the limit, no request waits although a permit is left for
    /// it, and in the end nothing is missing.
    #[test]
    fn permits_are_bounded_and_used(steps in prop::collection::vec(step(), 0..120)) {
        let limit = limit(2, 8);
        let mut max = 2;
        let mut version = 0;
        let mut in_service = [true; 2];
        let mut waiters: Vec<(Waiter, Wanted)> = Vec::new();
        let mut open: Vec<ConnectionPermit> = Vec::new();
        for step in steps {
            let count = |open: &[ConnectionPermit], endpoint: u64| {
                open.iter().filter(|it| it.endpoint() == endpoint).count()
            };
            let before = ENDPOINTS.map(|endpoint| count(&open, endpoint));
            match step {
                Step::Enter { client, only, except } => {
                    let wanted = Wanted {
                        only: only.map(|it| ENDPOINTS[it]),
                        except: except.into_iter().map(|it| ENDPOINTS[it]).collect(),
                        is_new: false,
                    };
                    match enter(&limit, client, wanted.clone()) {
                        Ok(waiter) => waiters.push((waiter, wanted)),
                        Err(QueueFull) => prop_assert_eq!(waiters.len(), 8),
                    }
                }
                Step::Leave(number) if !waiters.is_empty() => {
                    waiters.remove(number % waiters.len());
                }
                Step::Close(number) if !open.is_empty() => {
                    drop(open.swap_remove(number % open.len()));
                }
                Step::Leave(_) | Step::Close(_) => {}
                Step::Change(number) => {
                    max = number;
                    let queue_timeout = Duration::from_secs(1);
                    version += 1;
                    let settings = ConnectionSettings { max, queue_length: 8, queue_timeout };
                    limit.change(version, settings);
                }
                Step::Service(now) => {
                    in_service = now;
                    limit.set_endpoints(u64::MAX, ENDPOINTS.into_iter().zip(now));
                }
            }
            waiters.retain_mut(|(waiter, _)| match permit_of(waiter) {
                Some(permit) => {
                    open.push(permit);
                    false
                }
                None => true,
            });
            for (index, endpoint) in ENDPOINTS.into_iter().enumerate() {
                let open = count(&open, endpoint);
                prop_assert!(open <= max.max(before[index]));
                let has_room = in_service[index] && open < max;
                let is_waiting = waiters.iter().any(|(_, wanted)| {
                    wanted.only.is_none_or(|it| it == endpoint) && !wanted.except.contains(&endpoint)
                });
                prop_assert!(!(has_room && is_waiting), "a request waits for a permit that is left");
            }
            let counts = limit.counts();
            prop_assert_eq!((counts.open, counts.waiting), (open.len(), waiters.len()));
        }
        drop((waiters, open));
        prop_assert_eq!((limit.counts().open, limit.counts().waiting), (0, 0));
    }
}

/// Threads that open and close connections never have more of them than the limit.
#[test]
fn the_limit_is_exact_over_all_threads() {
    let limit = limit(3, 1000);
    let open = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let limit = &limit;
            let open = &open;
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                for _ in 0..500 {
                    let mut waiter = enter(limit, number, only(7)).unwrap();
                    let granted = runtime.block_on(waiter.granted());
                    assert!(open.fetch_add(1, Ordering::SeqCst) < 3);
                    std::thread::yield_now();
                    open.fetch_sub(1, Ordering::SeqCst);
                    drop(granted);
                }
            });
        }
    });
    assert_eq!((limit.counts().open, limit.counts().waiting), (0, 0));
}
