//! The small pieces of a body that arrive together, as one piece.
//!
//! The HTTP library hands over each chunk of a request by itself, and reads the next one after that.
//! A client that sends chunks of one byte would cause a system call and a chunk of the upstream for
//! each byte.

use std::mem;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::Frame;

use crate::message::Failure;

/// Pieces up to this size are joined.
const SMALL_BYTES: usize = 4 * 1024;
/// So many bytes are held at most, and then those of one more small piece.
const MAX_HELD_BYTES: usize = 16 * 1024;

type Next = Option<Result<Frame<Bytes>, Failure>>;

/// Joins small pieces as long as each turn of the worker brings another one. So a piece waits for a
/// turn, and never for the client.
#[derive(Debug, Default)]
pub struct Gatherer {
    held: BytesMut,
    /// Whether a piece has come since this task was last woken for one.
    has_grown: bool,
    /// What comes after the held bytes.
    next: Option<Next>,
}

impl Gatherer {
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.next.is_none()
    }

    /// The next frame of the body that `poll_frame` reads.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut poll_frame: impl FnMut(&mut Context<'_>) -> Poll<Next>,
    ) -> Poll<Next> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(next);
        }
        loop {
            match poll_frame(cx) {
                Poll::Pending if self.held.is_empty() => return Poll::Pending,
                Poll::Pending if mem::take(&mut self.has_grown) => {
                    // The task that reads from the client runs before this one runs again.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Pending => return Poll::Ready(self.release()),
                Poll::Ready(next) => match small(&next) {
                    Some(data) => {
                        self.held.extend_from_slice(data);
                        self.has_grown = true;
                        if self.held.len() >= MAX_HELD_BYTES {
                            return Poll::Ready(self.release());
                        }
                    }
                    None if self.held.is_empty() => return Poll::Ready(next),
                    None => {
                        self.next = Some(next);
                        return Poll::Ready(self.release());
                    }
                },
            }
        }
    }

    fn release(&mut self) -> Next {
        self.has_grown = false;
        Some(Ok(Frame::data(self.held.split().freeze())))
    }
}

/// The bytes of a small piece.
fn small(next: &Next) -> Option<&Bytes> {
    let data = next.as_ref()?.as_ref().ok()?.data_ref()?;
    (data.len() <= SMALL_BYTES).then_some(data)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;

    /// What a body does when it is polled.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Data(usize),
        /// Nothing is there yet.
        Pause,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let lengths = prop_oneof![0..200_usize, 3000..6000_usize];
        let step = prop_oneof![3 => lengths.prop_map(Step::Data), 2 => Just(Step::Pause)];
        prop::collection::vec(step, 0..40)
    }

    /// The frames that come of a body, if it is polled again after each pause.
    fn gathered(steps: &[Step], end: &Next) -> Vec<Next> {
        let mut steps: VecDeque<Step> = steps.to_vec().into();
        let mut gatherer = Gatherer::default();
        let mut frames = Vec::new();
        for _ in 0..1000 {
            let polled = gatherer.poll(&mut Context::from_waker(Waker::noop()), |_| {
                match steps.pop_front() {
                    Some(Step::Pause) => Poll::Pending,
                    Some(Step::Data(length)) => {
                        Poll::Ready(Some(Ok(Frame::data(vec![b'x'; length].into()))))
                    }
                    None => Poll::Ready(match end {
                        Some(Ok(_)) => Some(Ok(Frame::trailers(HeaderMap::new()))),
                        Some(Err(failure)) => Some(Err(*failure)),
                        None => None,
                    }),
                }
            });
            if let Poll::Ready(frame) = polled {
                let is_data = matches!(&frame, Some(Ok(frame)) if frame.is_data());
                frames.push(frame);
                if !is_data {
                    assert!(gatherer.is_empty());
                    return frames;
                }
            }
        }
        panic!("the body does not end: {frames:?}");
    }

    fn length(next: &Next) -> usize {
        next.as_ref().and_then(|it| it.as_ref().ok()?.data_ref()).map_or(0, Bytes::len)
    }

    proptest! {
        #[test]
        fn all_bytes_come_in_order_and_the_end_comes_last(steps in steps(), end in 0..3) {
            let end = match end {
                0 => None,
                1 => Some(Ok(Frame::trailers(HeaderMap::new()))),
                _ => Some(Err(Failure::BodyBroken)),
            };
            let frames = gathered(&steps, &end);
            let sent: usize = steps
                .iter()
                .map(|step| if let Step::Data(length) = step { *length } else { 0 })
                .sum();
            prop_assert_eq!(frames.iter().map(length).sum::<usize>(), sent);
            let last = frames.last().expect("an end");
            prop_assert_eq!(format!("{last:?}"), format!("{end:?}"));
            let largest = frames.iter().map(length).max().unwrap_or(0);
            prop_assert!(largest < MAX_HELD_BYTES + SMALL_BYTES, "{}", largest);
        }
    }

    /// The library pauses after each chunk, until the task that reads from the client has run.
    #[test]
    fn pieces_of_consecutive_turns_are_joined() {
        let steps = [Step::Data(100), Step::Pause].repeat(200);
        let frames = gathered(&steps, &None);
        let lengths: Vec<usize> = frames.iter().map(length).collect();
        assert_eq!(lengths, [16_400, 3600, 0]);
    }

    /// A body that pauses for two turns has nothing more for now.
    #[test]
    fn a_piece_waits_for_one_turn_only() {
        let steps = [Step::Data(1), Step::Pause, Step::Pause, Step::Data(2)];
        let frames = gathered(&steps, &None);
        assert_eq!(frames.iter().map(length).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
