//! A guard between a client that sends what it is told and a library that reads
//! what it gets: for tests and fuzz targets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use super::*;
use crate::server::activity::Activity;
use crate::server::interim::InterimQueue;
use crate::server::pace::Demand;
use crate::time::monotonic;

pub(in crate::server) const BOUNDS: HeadBounds =
    HeadBounds { bytes: 8 * 1024, target_bytes: 1000, fields: 10 };

/// A client's bytes, in the pieces in which they come. It never ends.
#[derive(Debug, Default)]
pub(in crate::server) struct Pieces(pub(super) VecDeque<Vec<u8>>);

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(piece) = self.0.front_mut() else {
            return Poll::Pending;
        };
        let count = piece.len().min(buf.remaining());
        buf.put_slice(&piece[..count]);
        piece.drain(..count);
        if piece.is_empty() {
            self.0.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

/// Whether the task asks to be polled again at once.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(in crate::server) struct Guarded {
    pub(super) guard: Guard<Pieces>,
    #[cfg(test)]
    pub(super) activity: Rc<Activity>,
    pub(in crate::server) turns: Rc<Turns>,
    /// Room that the library has for what it reads.
    pub(in crate::server) room: usize,
}

impl Guarded {
    pub(in crate::server) fn new() -> Self {
        let activity = Rc::new(Activity::new(monotonic(), Demand::NONE));
        let turns = Rc::new(Turns::new(Rc::clone(&activity)));
        let writer = InterimQueue::default().writer();
        let guard = Guard::new(Pieces::default(), Rc::clone(&turns), BOUNDS, writer);
        Self {
            guard,
            #[cfg(test)]
            activity,
            turns,
            room: 8192,
        }
    }

    /// A piece is on its way.
    pub(in crate::server) fn send(&mut self, piece: impl AsRef<[u8]>) {
        let piece = piece.as_ref();
        if !piece.is_empty() {
            self.guard.stream.0.push_back(piece.to_vec());
        }
    }

    /// Answers a request to change the protocol, if the guard waits for that.
    pub(in crate::server) fn answers_upgrade(&mut self, granted: bool) -> bool {
        let is_asked = matches!(self.guard.next, Next::Undecided);
        if is_asked {
            self.turns.answer_upgrade(granted);
        }
        is_asked
    }

    /// One piece comes; this is what the library reads of it until it must wait
    /// for the client.
    #[cfg(test)]
    pub(super) fn receive(&mut self, piece: impl AsRef<[u8]>) -> Vec<u8> {
        self.send(piece);
        self.read().expect("nothing is wrong with the body")
    }

    pub(in crate::server) fn read(&mut self) -> Result<Vec<u8>, (Vec<u8>, Malformed)> {
        let mut seen = Vec::new();
        while self.take_turn(&mut seen).map_err(|malformed| (seen.clone(), malformed))? {}
        Ok(seen)
    }

    /// Reads until others have their turn, and says whether there is more to read.
    pub(super) fn take_turn(&mut self, seen: &mut Vec<u8>) -> Result<bool, Malformed> {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            let mut room = vec![0; self.room];
            let mut buf = ReadBuf::new(&mut room);
            let mut cx = Context::from_waker(&waker);
            match Pin::new(&mut self.guard).poll_read(&mut cx, &mut buf) {
                Poll::Pending => return Ok(woken.0.load(Ordering::Relaxed)),
                Poll::Ready(Ok(())) => {
                    assert!(!buf.filled().is_empty(), "to read nothing is the end");
                    seen.extend_from_slice(buf.filled());
                }
                Poll::Ready(Err(error)) => {
                    let source = error.into_inner().expect("it says what is wrong");
                    return Err(*source.downcast().expect("with the body"));
                }
            }
        }
    }

    /// Bytes that are kept and have not been read.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.guard.held.rest().len()
    }
}
