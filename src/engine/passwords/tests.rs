//! Checks of passwords: their results, the queue and its thread.

use std::sync::mpsc;
use std::thread;

use tollgate_core::passwords::PasswordTable;
use tollgate_core::time::Span;

use super::kept::{KeptResults, Tag};
use super::queue::{MAX_WAITING, Queue};
use super::*;

/// The hash of "hunter2" with the least cost.
const HUNTER2: &str = "$2b$05$abcdefghijklmnopqrstuuoXuKqgZXLiJqzfmMXDDhSFPIvxV7t8.";
const NOW: Timestamp = Timestamp::from_micros(1_795_246_126_000_000);

fn login(user: &str, password: &str) -> Login {
    Login { user: user.into(), password: password.into() }
}

fn hash() -> BcryptHash {
    BcryptHash::parse(HUNTER2).expect("a hash")
}

fn address(number: u128) -> Principal {
    Principal::from_bits(number)
}

/// The result of a check that waits for the thread.
fn check(passwords: &Passwords, login: &Login, hash: BcryptHash) -> Result<bool, Busy> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let checked = passwords.check(login.clone(), hash, address(1), 30, NOW);
    runtime.expect("a runtime").block_on(checked)
}

fn after(seconds: u64) -> Timestamp {
    NOW.plus(Span::from_secs(seconds))
}

#[test]
fn a_result_is_kept_for_its_time_and_for_its_hash_alone() {
    let passwords = Passwords::default();
    let right = login("ann", "hunter2");
    let wrong = login("ann", "hunter3");
    assert_eq!(passwords.known(&right, &hash(), NOW), None);
    assert_eq!(check(&passwords, &right, hash()), Ok(true));
    assert_eq!(check(&passwords, &wrong, hash()), Ok(false));
    assert_eq!(passwords.checks(), [1, 1]);
    for (login, is_right, until) in [(&right, true, 300), (&wrong, false, 10)] {
        assert_eq!(passwords.known(login, &hash(), after(until - 1)), Some(is_right));
        assert_eq!(passwords.known(login, &hash(), after(until)), None);
    }
    let other = BcryptHash::stand_in(5);
    assert_eq!(passwords.known(&right, &other, NOW), None, "the line was changed");
    assert_eq!(passwords.known(&login("bob", "hunter2"), &hash(), NOW), None);
    // Two requests that asked at the same time cost one computation.
    assert_eq!(check(&passwords, &right, hash()), Ok(true));
    assert_eq!(passwords.checks(), [1, 1]);
}

#[test]
fn a_user_that_is_not_there_costs_a_computation_too() {
    let table = PasswordTable::parse(&format!("ann:{HUNTER2}")).expect("a table");
    let passwords = Passwords::default();
    assert_eq!(check(&passwords, &login("eve", "x"), *table.hash("eve")), Ok(false));
    assert_eq!(passwords.checks(), [1, 0]);
    assert_eq!(table.hash("eve").cost(), hash().cost());
}

#[test]
fn the_queue_has_a_bound_for_all_and_for_an_address() {
    let queue = Queue::default();
    let mut answers = Vec::new();
    let mut add = |of: u128, allowed| {
        let (answer, answered) = oneshot::channel();
        let login = login("ann", "x");
        let check = Check { login, hash: hash(), address: address(of), asked_at: NOW, answer };
        answers.push(answered);
        queue.add(check, allowed)
    };
    assert_eq!([add(0, 2), add(0, 2), add(0, 2)], [Ok(()), Ok(()), Err(Busy)]);
    for of in 2..64 {
        assert_eq!(add(of, 1), Ok(()));
    }
    assert_eq!(queue.len(), MAX_WAITING);
    assert_eq!(add(64, 1), Err(Busy));
    // Clients that leave make room. One of the first 40 was refused.
    answers.truncate(40);
    let (answer, _answered) = oneshot::channel();
    let check = Check {
        login: login("ann", "x"),
        hash: hash(),
        address: address(64),
        asked_at: NOW,
        answer,
    };
    assert_eq!(queue.add(check, 1), Ok(()));
    assert_eq!(queue.len(), 40);
}

#[test]
fn the_number_of_kept_results_has_a_bound() {
    let kept = KeptResults::default();
    let tag = |number: u32| -> Tag {
        let mut tag = [0; 32];
        tag[..4].copy_from_slice(&number.to_le_bytes());
        tag
    };
    kept.keep(tag(u32::MAX), true, NOW);
    for number in 0..100_000 {
        kept.keep(tag(number), false, NOW);
        assert!(kept.len() <= 10_001);
    }
    assert_eq!(kept.get(&tag(u32::MAX), NOW), Some(true), "wrong ones displace no right one");
    assert_eq!(kept.get(&tag(99_999), NOW), Some(false));
    assert_eq!(kept.get(&tag(0), NOW), None);
}

/// The thread holds what it shares with the workers. It must end, so that it can be freed.
#[test]
fn the_thread_ends_with_the_workers() {
    let passwords = Passwords::default();
    assert_eq!(check(&passwords, &login("ann", "hunter2"), hash()), Ok(true));
    let shared = Arc::clone(&passwords.shared);
    drop(passwords);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        while Arc::strong_count(&shared) > 1 {
            thread::yield_now();
        }
        sender.send(()).expect("the test waits");
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("the thread has ended");
}
