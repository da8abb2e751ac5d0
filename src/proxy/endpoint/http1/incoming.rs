//! The bytes that an endpoint sends on a connection.

use std::future::{Future as _, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::task::unconstrained;
use tokio_util::io::poll_read_buf;

use super::wire::Wire;
use crate::proxy::endpoint::stream::Stream;

/// The most bytes that are read at once, unless such reads have filled their memory.
const SMALL_BYTES: usize = 8 * 1024;
/// The most bytes that are read at once.
const LARGE_BYTES: usize = 128 * 1024;

/// What comes behind a response, before the next request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Nothing.
    Nothing,
    /// Bytes that belong to no response.
    Bytes,
    /// The connection has ended.
    End,
}

/// The bytes that an endpoint sends.
#[derive(Debug)]
pub struct Incoming {
    wire: Rc<Wire>,
    /// The bytes that were read and not used yet.
    unused: Bytes,
    /// The most bytes of a body that are read next. It follows the reads: the memory of a piece
    /// is held until the client has read it.
    room: usize,
}

impl Incoming {
    pub const fn new(wire: Rc<Wire>) -> Self {
        Self { wire, unused: Bytes::new(), room: SMALL_BYTES }
    }

    pub const fn wire(&self) -> &Rc<Wire> {
        &self.wire
    }

    /// The bytes that were read and not used yet.
    pub const fn unused(&mut self) -> &mut Bytes {
        &mut self.unused
    }

    /// Reads more bytes, behind those that are not used yet. Returns false at the end of the
    /// stream.
    pub fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        // Copied from the stack, because an idle connection and one that waits need no memory.
        let mut room = [MaybeUninit::uninit(); SMALL_BYTES];
        let mut piece = ReadBuf::uninit(&mut room);
        ready!(Pin::new(&mut *self.wire.stream.borrow_mut()).poll_read(cx, &mut piece))?;
        let piece = piece.filled();
        if piece.len() == SMALL_BYTES {
            self.room = 2 * SMALL_BYTES;
        }
        self.unused = match self.unused.is_empty() {
            true => Bytes::copy_from_slice(piece),
            false => [&self.unused[..], piece].concat().into(),
        };
        Poll::Ready(Ok(!piece.is_empty()))
    }

    /// Reads a piece of a body of which at most `left` bytes are to come. All bytes that were
    /// read before must have been used. Returns false at the end of the stream.
    pub fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        left: Option<u64>,
    ) -> Poll<io::Result<bool>> {
        let left = left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
        if left.min(self.room) <= SMALL_BYTES {
            return self.poll_more(cx);
        }
        let mut piece = BytesMut::with_capacity(left.min(self.room));
        let stream = &mut *self.wire.stream.borrow_mut();
        let count = ready!(poll_read_buf(Pin::new(stream), cx, &mut piece))?;
        if count == self.room {
            self.room = (2 * self.room).min(LARGE_BYTES);
        } else if count < self.room / 2 {
            self.room /= 2;
        }
        self.unused = piece.freeze();
        Poll::Ready(Ok(count > 0))
    }

    /// What has come behind the bytes that were used, as far as the runtime knows.
    pub fn behind(&mut self) -> Behind {
        if !self.unused.is_empty() {
            return Behind::Bytes;
        }
        let cx = &mut Context::from_waker(Waker::noop());
        let mut room = [MaybeUninit::uninit(); 1];
        let mut byte = ReadBuf::uninit(&mut room);
        let stream = &mut *self.wire.stream.borrow_mut();
        let read = poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut byte));
        // Otherwise a task that has used up its budget of the runtime would see nothing.
        let read = pin!(unconstrained(read)).poll(cx);
        match read {
            Poll::Pending => Behind::Nothing,
            Poll::Ready(Ok(())) if !byte.filled().is_empty() => Behind::Bytes,
            Poll::Ready(_) => Behind::End,
        }
    }

    /// Whether nothing has come to the socket, not even its end, that was not read. That is a call
    /// of the system. The runtime may know of it in its next turn only.
    pub fn is_socket_empty(&self) -> bool {
        let stream = self.wire.stream.borrow();
        let Some(socket) = stream.socket() else { return true };
        let mut byte = [MaybeUninit::uninit(); 1];
        let peeked = recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        peeked.err() == Some(Errno::AGAIN)
    }

    /// The stream, and the bytes that were not used. None if an upload still uses the stream.
    pub fn into_parts(self) -> Option<(Stream, Bytes)> {
        Some((Rc::into_inner(self.wire)?.stream.into_inner(), self.unused))
    }
}
