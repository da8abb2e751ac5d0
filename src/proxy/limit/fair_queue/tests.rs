//! Properties of the queue, against a model that keeps all requests in a map.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// A request: its ticket, and whether each of two endpoints is accepted.
type Item = [bool; 2];

#[derive(Clone, Debug)]
enum Step {
    Push {
        client: u8,
        item: Item,
    },
    /// The number selects a request.
    Leave(usize),
    Take(usize),
    TakeInTurn(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..6, any::<Item>()).prop_map(|(client, item)| Step::Push { client, item }),
        1 => any::<usize>().prop_map(Step::Leave),
        2 => (0_usize..2).prop_map(Step::Take),
        2 => (0_usize..2).prop_map(Step::TakeInTurn),
    ]
}

/// The requests that wait, with their clients.
type Model = BTreeMap<u64, (u8, Item)>;

/// Checks that a request that was taken may be taken, and removes it from the model. Returns its
/// client.
fn check_taken(
    model: &mut Model,
    taken: &Waiting<Item>,
    endpoint: usize,
) -> Result<u8, TestCaseError> {
    let (client, item) = model.remove(&taken.ticket).expect("a request is granted once");
    prop_assert_eq!(item, taken.item);
    prop_assert!(item[endpoint]);
    Ok(client)
}

proptest! {
    #[test]
    fn nothing_is_lost_or_granted_twice(steps in prop::collection::vec(step(), 0..200)) {
        let mut queue = FairQueue::default();
        let mut model = Model::new();
        for (ticket, step) in (0..).zip(steps) {
            match step {
                Step::Push { client, item } => {
                    queue.push(client, ticket, item);
                    model.insert(ticket, (client, item));
                }
                Step::Leave(number) => {
                    let chosen = model.iter().nth(number % model.len().max(1));
                    if let Some((ticket, (client, item))) = chosen.map(|(a, b)| (*a, *b)) {
                        prop_assert_eq!(queue.remove(client, ticket), Some(item));
                        prop_assert_eq!(queue.remove(client, ticket), None);
                        model.remove(&ticket);
                    }
                }
                Step::Take(endpoint) => match queue.take(|it| it[endpoint]) {
                    Some(taken) => {
                        let client = check_taken(&mut model, &taken, endpoint)?;
                        let is_earlier = |(ticket, (other, item)): (&u64, &(u8, Item))| {
                            *ticket < taken.ticket && *other == client && item[endpoint]
                        };
                        prop_assert!(!model.iter().any(is_earlier), "a client keeps its order");
                    }
                    None => prop_assert!(!model.values().any(|(_, item)| item[endpoint])),
                },
                Step::TakeInTurn(endpoint) => {
                    if let Some(taken) = queue.take_in_turn(|it| it[endpoint]) {
                        check_taken(&mut model, &taken, endpoint)?;
                    }
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.any(|it| it[0]), model.values().any(|(_, item)| item[0]));
            let clients = queue.turn.len() + queue.later.len();
            prop_assert_eq!(clients, queue.lines.len());
        }
    }

    /// While a client waits, each other client is served once before it, and twice if requests of one
    /// worker are preferred: at the end of one round and at the beginning of the next.
    #[test]
    fn clients_take_turns(
        steps in prop::collection::vec((any::<bool>(), 0_u8..5, 0_usize..2), 0..200),
        is_in_turn in any::<bool>(),
    ) {
        let mut queue = FairQueue::default();
        let mut model: BTreeMap<u64, u8> = BTreeMap::new();
        let mut served_since: BTreeMap<(u8, u8), usize> = BTreeMap::new();
        let mut overtaken: BTreeMap<u64, u32> = BTreeMap::new();
        let rest = (0..200).map(|number| (false, 0, number % 2));
        for (ticket, (is_push, client, worker)) in (0..).zip(steps.into_iter().chain(rest)) {
            if is_push {
                queue.push(client, ticket, worker);
                model.insert(ticket, client);
                continue;
            }
            let preferred =
                if is_in_turn { queue.take_in_turn(|it| *it == worker) } else { None };
            let Some(taken) = preferred.or_else(|| queue.take(|_| true)) else { continue };
            let served = model.remove(&taken.ticket).expect("a request is granted once");
            let first = model.iter().find(|(_, client)| **client == served).map(|(it, _)| *it);
            if let Some(first) = first.filter(|first| *first < taken.ticket) {
                let times = overtaken.entry(first).or_default();
                *times += 1;
                prop_assert!(is_in_turn && *times <= MAX_OVERTAKEN, "{first} of {served}");
            }
            served_since.retain(|(waits, _), _| *waits != served && model.values().any(|it| it == waits));
            let waiting: BTreeSet<u8> = model.values().copied().collect();
            for waits in waiting.into_iter().filter(|it| *it != served) {
                let times = served_since.entry((waits, served)).or_default();
                *times += 1;
                prop_assert!(*times <= 1 + usize::from(is_in_turn), "{served} before {waits}");
            }
        }
        prop_assert_eq!(queue.len(), 0);
    }
}

#[test]
fn a_client_with_many_requests_delays_another_by_one() {
    let mut queue = FairQueue::default();
    (0..1000).for_each(|ticket| queue.push('a', ticket, ()));
    assert_eq!(queue.take(|()| true).map(|it| it.ticket), Some(0));
    queue.push('b', 1000, ());
    let next: Vec<u64> = (0..3).filter_map(|_| queue.take(|()| true)).map(|it| it.ticket).collect();
    assert_eq!(next, [1, 1000, 2]);
}

#[test]
fn a_request_that_comes_back_keeps_its_place() {
    let mut queue = FairQueue::default();
    (1..4).for_each(|ticket| queue.push('a', ticket, ()));
    let taken = queue.take(|()| true).map(|it| it.ticket);
    assert_eq!(taken, Some(1));
    queue.push('a', 1, ());
    assert_eq!(queue.take(|()| true).map(|it| it.ticket), Some(1));
}

/// Requests that leave before any is granted must not use up memory.
#[test]
fn clients_without_requests_are_forgotten() {
    let mut queue = FairQueue::default();
    for client in 0..100_000_u64 {
        queue.push(client, client, ());
        assert_eq!(queue.remove(client, client), Some(()));
        assert!(queue.lines.len() <= MAX_EMPTY + 2);
        assert!(queue.turn.len() + queue.later.len() <= MAX_EMPTY + 2);
    }
}
