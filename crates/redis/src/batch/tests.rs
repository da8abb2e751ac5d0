//! The queue keeps its bounds, and sends each call once and in order.

use futures_util::FutureExt as _;
use proptest::prelude::*;
use smallvec::SmallVec;

use super::super::deadline::{PendingReply, ReplySender};
use super::super::script::Encoded;
use super::*;

fn call(body: u64) -> (Call, PendingReply) {
    let (answer, receiver) = ReplySender::new();
    let encoded = Encoded { keys: SmallVec::new(), body: body.to_string().into() };
    let repeat = Repeat::Never;
    (Call { encoded, group: 0, asking: false, is_apart: false, repeat, answer }, receiver)
}

fn bodies(batch: &[Call]) -> Vec<String> {
    batch.iter().map(|call| String::from_utf8_lossy(&call.encoded.body).into_owned()).collect()
}

#[test]
fn a_call_goes_out_at_once_while_few_are_in_flight_and_then_joins_the_next_batch() {
    let mut queue = Queue::default();
    let mut receivers = Vec::new();
    let mut push = |queue: &mut Queue, body| {
        let (call, receiver) = call(body);
        queue.push(call);
        receivers.push(receiver);
    };
    for body in 0..2 {
        push(&mut queue, body);
        assert_eq!(bodies(&queue.take().expect("a batch may be sent")), [body.to_string()]);
    }
    push(&mut queue, 2);
    push(&mut queue, 3);
    assert!(queue.take().is_none());
    queue.finished();
    assert_eq!(bodies(&queue.take().expect("one batch has ended")), ["2", "3"]);
    assert!(!queue.is_idle());
    queue.finished();
    queue.finished();
    assert!(queue.is_idle());
}

/// The connection breaks under a call that may be sent again. Then the server is given up.
#[test]
fn a_call_that_was_sent_once_and_is_not_sent_again_may_have_been_counted() {
    let mut queue = Queue::default();
    let (sent, of_sent) = call(0);
    queue.push(sent);
    let batch = queue.take().expect("a batch may be sent");
    queue.finished();
    queue.put_back(batch);
    let (waiting, of_waiting) = call(1);
    queue.push(waiting);
    queue.fail_all(&StoreError::Away);
    let told =
        |receiver: PendingReply| receiver.now_or_never().expect("the call has ended").unwrap_err();
    assert!(told(of_sent).may_have_counted());
    assert_eq!(told(of_waiting), StoreError::Away);
}

#[test]
fn all_calls_that_are_made_before_the_batch_is_taken_go_with_it() {
    let mut queue = Queue::default();
    assert!(!queue.needs_sender(), "no call waits");
    let calls: Vec<_> = (0..3).map(call).collect();
    let (calls, _receivers): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
    let begins: Vec<_> = calls
        .into_iter()
        .map(|call| {
            queue.push(call);
            queue.needs_sender()
        })
        .collect();
    assert_eq!(begins, [true, false, false]);
    assert_eq!(bodies(&queue.take().expect("a batch may be sent")), ["0", "1", "2"]);
    assert!(!queue.needs_sender(), "no call waits");
    let (fourth, _receiver) = call(3);
    queue.push(fourth);
    assert!(queue.needs_sender());
    queue.release_sender();
    assert!(queue.needs_sender());
}

#[test]
fn a_call_without_a_waiting_caller_is_not_sent() {
    let mut queue = Queue::default();
    let (abandoned, receiver) = call(1);
    drop(receiver);
    queue.push(abandoned);
    assert!(queue.take().is_none());
    assert!(queue.is_idle());
}

#[test]
fn a_call_that_was_put_back_goes_before_those_that_wait_and_is_known_to_be_sent_twice() {
    let mut queue = Queue::default();
    let (first, one) = call(1);
    queue.push(first);
    assert_eq!(one.times_sent(), 0);
    let batch = queue.take().expect("a batch may be sent");
    assert_eq!(one.times_sent(), 1);
    assert!(batch[0].answer.may_be_sent_again());
    let (second, two) = call(2);
    queue.push(second);
    queue.finished();
    queue.put_back(batch);
    let batch = queue.take().expect("a batch may be sent");
    assert_eq!(bodies(&batch), ["1", "2"]);
    assert_eq!((one.times_sent(), two.times_sent()), (2, 1));
    assert!(!batch[0].answer.may_be_sent_again());
    drop(two);
    assert!(!batch[1].answer.may_be_sent_again(), "its caller does not wait");
}

/// A number of calls is no bound: they are answered in time or not.
#[test]
fn many_calls_wait() {
    let mut queue = Queue::default();
    let calls: Vec<_> = (0..20_000).map(call).collect();
    let (calls, receivers): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
    assert!(calls.into_iter().all(|call| queue.push(call)));
    assert!(receivers.into_iter().all(|receiver| receiver.now_or_never().is_none()));
    assert_eq!(queue.overloads(), 0);
}

#[test]
fn a_call_without_memory_fails_and_is_counted() {
    let mut queue = Queue { waiting: Waiting::with_bytes(0), ..Queue::default() };
    let (call, receiver) = call(1);
    assert!(!queue.push(call));
    assert_eq!(receiver.now_or_never(), Some(Err(StoreError::Overloaded)));
    assert_eq!(queue.overloads(), 1);
}

#[test]
fn all_waiting_calls_fail_when_the_server_is_away() {
    let mut queue = Queue::default();
    let (call, receiver) = call(1);
    queue.push(call);
    queue.fail_all(&StoreError::Away);
    assert_eq!(receiver.now_or_never(), Some(Err(StoreError::Away)));
    assert!(queue.take().is_none());
}

proptest! {
    /// Each call is taken once, in order, in batches within the bounds.
    #[test]
    fn each_call_is_sent_once_and_in_order(steps in prop::collection::vec(0_u8..4, 0..2000)) {
        let mut queue = Queue::default();
        let mut receivers = Vec::new();
        let mut pushed = 0_u64;
        let mut in_flight = 0_usize;
        let mut taken = Vec::new();
        for step in steps {
            match step {
                0 | 1 => {
                    let (call, receiver) = call(pushed);
                    queue.push(call);
                    receivers.push(receiver);
                    pushed += 1;
                }
                2 => {
                    if let Some(batch) = queue.take() {
                        prop_assert!((1..=64).contains(&batch.len()));
                        taken.extend(bodies(&batch));
                        in_flight += 1;
                    }
                }
                _ if in_flight > 0 => {
                    queue.finished();
                    in_flight -= 1;
                }
                _ => {}
            }
            prop_assert!(in_flight <= 2);
        }
        let sent = u64::try_from(taken.len()).expect("few");
        prop_assert_eq!(taken, (0..sent).map(|body| body.to_string()).collect::<Vec<_>>());
    }
}
