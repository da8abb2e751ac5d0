//! A guard between a simulated client and a simulated library, for tests and fuzz targets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use tollgate_core::time::monotonic;

use super::*;
use crate::server::settings::Demand;
use crate::server::state::ClientLink;
use crate::server::state::activity::{Activity, Watched};
use crate::server::state::exchange::Phase;

pub const BOUNDS: HeadBounds =
    HeadBounds { bytes: 8 * 1024, target_bytes: 1000, fields: 10, disguised_names: false };

/// The bytes of a client, in pieces. The stream never ends.
#[derive(Debug, Default)]
pub struct Pieces(pub VecDeque<Vec<u8>>);

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

/// A new connection.
pub fn exchange() -> Rc<Exchange> {
    let activity = Activity::new(monotonic(), Demand::NONE, Watched::default());
    Rc::new(Exchange::new(activity, Phase::Opening))
}

pub struct Guarded {
    pub guard: Guard<Pieces>,
    pub exchange: Rc<Exchange>,
    /// The size of the library's buffer.
    pub room: usize,
}

impl Guarded {
    pub fn new() -> Self {
        let exchange = exchange();
        let link = ClientLink::new(&exchange);
        let guard = Guard::new(Pieces::default(), Rc::clone(&exchange), BOUNDS, &link);
        Self { guard, exchange, room: 8192 }
    }

    /// Sends a piece.
    pub fn send(&mut self, piece: impl AsRef<[u8]>) {
        let piece = piece.as_ref();
        if !piece.is_empty() {
            self.guard.stream.0.push_back(piece.to_vec());
        }
    }

    /// Responds to a request to change the protocol, if the guard waits for that.
    pub fn answers_upgrade(&mut self, granted: bool) -> bool {
        let is_asked = matches!(self.guard.next, Next::Undecided);
        if is_asked {
            self.exchange.answer_upgrade(granted);
        }
        is_asked
    }

    /// Sends a piece, and returns what the library reads until it must wait for the client.
    #[cfg(test)]
    pub fn receive(&mut self, piece: impl AsRef<[u8]>) -> Vec<u8> {
        self.send(piece);
        self.read().expect("the body is valid")
    }

    pub fn read(&mut self) -> Result<Vec<u8>, (Vec<u8>, Malformed)> {
        let mut seen = Vec::new();
        while self.take_turn(&mut seen).map_err(|malformed| (seen.clone(), malformed))? {}
        Ok(seen)
    }

    /// Reads until the task yields. Returns whether there is more to read.
    pub fn take_turn(&mut self, seen: &mut Vec<u8>) -> Result<bool, Malformed> {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            let mut room = vec![0; self.room];
            let mut buf = ReadBuf::new(&mut room);
            let mut cx = Context::from_waker(&waker);
            match Pin::new(&mut self.guard).poll_read(&mut cx, &mut buf) {
                Poll::Pending => return Ok(woken.0.load(Ordering::Relaxed)),
                Poll::Ready(Ok(())) => {
                    assert!(!buf.filled().is_empty(), "an empty read means the end of the stream");
                    seen.extend_from_slice(buf.filled());
                }
                Poll::Ready(Err(error)) => {
                    let source = error.into_inner().expect("the error has a source");
                    return Err(*source.downcast().expect("the source is a malformed body"));
                }
            }
        }
    }

    /// The number of unchecked bytes.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.guard.held.rest().len()
    }
}
