//! The stream of a connection, and the bytes that wait to be written to it.
//!
//! The requests that are sent in one turn of a worker are written together, after the other
//! tasks that are ready: that costs the kernel and the endpoint less than to write each at once;
//! see bench/NOTEBOOK.md.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use tokio::io::AsyncWrite as _;
use tokio::task::{JoinHandle, spawn_local};

use crate::io::poll_write_gathered;
use crate::proxy::endpoint::stream::Stream;

/// The most memory that is kept between requests.
const MAX_KEPT_BYTES: usize = 8 * 1024;

thread_local! {
    static DUE: RefCell<Due> =
        const { RefCell::new(Due { wires: Vec::new(), writer: None, waker: None }) };
}

/// What this thread writes at the end of the turn.
struct Due {
    /// The connections, and what to wake if more is to do then.
    wires: Vec<(Weak<Wire>, Waker)>,
    /// The task that writes. It ends with its runtime.
    writer: Option<JoinHandle<()>>,
    /// Wakes the task, if it waits.
    waker: Option<Waker>,
}

impl Due {
    /// Lets the task write after the tasks that are ready now.
    fn write_at_end(&mut self) {
        if self.writer.as_ref().is_none_or(JoinHandle::is_finished) {
            self.writer = Some(spawn_local(poll_fn(poll_due)));
        } else if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A stream, from which one side reads while another writes, both on one worker.
#[derive(Debug)]
pub struct Wire {
    pub stream: RefCell<Stream>,
    pub output: RefCell<Output>,
}

/// What is written next: `text`, then `piece`, then `end`.
#[derive(Debug, Default)]
pub struct Output {
    pub text: Vec<u8>,
    pub piece: Bytes,
    pub end: &'static [u8],
    /// How many bytes of the three were written.
    written: usize,
    /// Whether it is written at the end of this turn.
    is_due: bool,
    /// Whether any byte of the current request was written.
    pub is_begun: bool,
    /// Whether nothing of the current request comes after it.
    pub is_last: bool,
}

impl Output {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.piece.is_empty()
    }
}

impl Wire {
    pub fn new(stream: Stream) -> Rc<Self> {
        Rc::new(Self { stream: RefCell::new(stream), output: RefCell::default() })
    }

    /// Writes the output at the end of this turn. Wakes `waker` when more is to do then.
    pub fn write_later(self: &Rc<Self>, waker: &Waker) {
        self.output.borrow_mut().is_due = true;
        DUE.with_borrow_mut(|due| {
            due.write_at_end();
            due.wires.push((Rc::downgrade(self), waker.clone()));
        });
    }

    /// Ready when all of the output was written.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn poll_write(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let output = &mut *self.output.borrow_mut();
        if output.is_due {
            return Poll::Pending;
        }
        let stream = &mut *self.stream.borrow_mut();
        while !output.is_empty() {
            let mut skipped = output.written;
            let parts = [&output.text[..], &output.piece[..], output.end].map(|part| {
                let count = skipped.min(part.len());
                skipped -= count;
                IoSlice::new(&part[count..])
            });
            let count = match output.piece.is_empty() {
                true => ready!(Pin::new(&mut *stream).poll_write(cx, &parts[0]))?,
                false => ready!(poll_write_gathered(stream, cx, &parts))?,
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            output.is_begun = true;
            output.written += count;
            if output.written == output.text.len() + output.piece.len() + output.end.len() {
                output.text.clear();
                output.text.shrink_to(MAX_KEPT_BYTES);
                (output.piece, output.end, output.written) = (Bytes::new(), b"", 0);
            }
        }
        Pin::new(stream).poll_flush(cx)
    }
}

/// Writes all that is due, and waits for more. Never ready.
fn poll_due(cx: &mut Context<'_>) -> Poll<()> {
    let mut wires = DUE.with_borrow_mut(|due| {
        due.waker = Some(cx.waker().clone());
        std::mem::take(&mut due.wires)
    });
    wires.drain(..).for_each(|(wire, waker)| write_due(&wire, waker));
    DUE.with_borrow_mut(|due| {
        // The memory is kept, unless more has become due.
        if due.wires.is_empty() {
            due.wires = wires;
        }
    });
    Poll::Pending
}

/// Writes what is due for a connection. A request that was cancelled is not written.
fn write_due(wire: &Weak<Wire>, waker: Waker) {
    let Some(wire) = wire.upgrade() else { return };
    wire.output.borrow_mut().is_due = false;
    let is_done = match wire.poll_write(&mut Context::from_waker(&waker)) {
        Poll::Ready(written) => written.is_ok() && wire.output.borrow().is_last,
        // It is woken when the stream takes more.
        Poll::Pending => true,
    };
    if !is_done {
        waker.wake();
    }
}
