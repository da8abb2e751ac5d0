//! Small writes are joined, and no byte is lost, repeated or late.

use futures_util::task::noop_waker_ref;
use proptest::prelude::*;

use super::*;

/// A client, with what it takes.
#[derive(Debug, Default)]
struct Client {
    received: Vec<u8>,
    writes: usize,
    flushed: usize,
    /// How many bytes each of the next writes takes; none if there is no room. Without an entry,
    /// all.
    room: Vec<usize>,
    is_gone: bool,
    is_shut: bool,
}

impl AsyncRead for Client {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_gone {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = self.room.pop().map_or(buf.len(), |room| room.min(buf.len()));
        if count == 0 && !buf.is_empty() {
            return Poll::Pending;
        }
        self.writes += 1;
        self.received.extend_from_slice(&buf[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushed = self.received.len();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_shut = true;
        Poll::Ready(Ok(()))
    }
}

fn context() -> Context<'static> {
    Context::from_waker(noop_waker_ref())
}

fn write(stream: &mut Coalesced<Client>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    Pin::new(stream).poll_write(&mut context(), bytes)
}

fn flush(stream: &mut Coalesced<Client>) -> Poll<io::Result<()>> {
    Pin::new(stream).poll_flush(&mut context())
}

fn is_ready<T>(result: Poll<io::Result<T>>) -> bool {
    matches!(result, Poll::Ready(Ok(_)))
}

#[test]
fn the_responses_of_one_poll_are_one_write() {
    let mut stream = Coalesced::new(Client::default());
    for response in ["one ", "two ", "three"] {
        assert!(is_ready(write(&mut stream, response.as_bytes())));
        assert!(is_ready(flush(&mut stream)));
    }
    assert_eq!(stream.0.borrow().stream.writes, 0);
    stream.end_poll(&mut context());
    let held = stream.0.borrow();
    assert_eq!(held.stream.received, b"one two three");
    assert_eq!((held.stream.writes, held.stream.flushed), (1, 13));
    assert_eq!(held.bytes.capacity(), 0, "an idle connection keeps memory");
}

#[test]
fn an_unfinished_frame_is_written_and_not_flushed() {
    let mut stream = Coalesced::new(Client::default());
    assert!(is_ready(write(&mut stream, b"whole")));
    assert!(is_ready(flush(&mut stream)));
    assert!(is_ready(write(&mut stream, b" part")));
    stream.end_poll(&mut context());
    let held = stream.0.borrow();
    assert_eq!(held.stream.received, b"whole part");
    assert_eq!(held.stream.flushed, 0, "a fault would be told in the middle of a frame");
}

#[test]
fn whole_frames_are_written_before_the_next_is_read() {
    let mut stream = Coalesced::new(Client::default());
    let read = |stream: &mut Coalesced<Client>| {
        assert!(
            Pin::new(stream).poll_read(&mut context(), &mut ReadBuf::new(&mut [0; 9])).is_pending()
        );
    };
    assert!(is_ready(write(&mut stream, b"settings")));
    read(&mut stream);
    assert_eq!(stream.0.borrow().stream.received, b"");
    assert!(is_ready(flush(&mut stream)));
    read(&mut stream);
    assert_eq!(stream.0.borrow().stream.flushed, 8);
}

#[test]
fn a_shutdown_writes_what_is_held() {
    let mut stream = Coalesced::new(Client { room: vec![0], ..Client::default() });
    assert!(is_ready(write(&mut stream, b"goaway")));
    assert!(Pin::new(&mut stream).poll_shutdown(&mut context()).is_pending());
    assert!(!stream.0.borrow().stream.is_shut);
    assert!(is_ready(Pin::new(&mut stream).poll_shutdown(&mut context())));
    assert_eq!(stream.0.borrow().stream.received, b"goaway");
    assert!(stream.0.borrow().stream.is_shut);
}

#[test]
fn the_library_learns_once_that_the_client_has_gone() {
    let mut stream = Coalesced::new(Client { is_gone: true, ..Client::default() });
    assert!(is_ready(write(&mut stream, b"response")));
    assert!(is_ready(flush(&mut stream)));
    stream.end_poll(&mut context());
    assert!(matches!(flush(&mut stream), Poll::Ready(Err(_))));
    stream.end_poll(&mut context());
    assert!(is_ready(flush(&mut stream)), "an error is told twice");
}

/// What a library does in one poll: writes, each with a flush or without.
fn polls() -> impl Strategy<Value = Vec<Vec<(usize, bool)>>> {
    let size = prop_oneof![1..2_000_usize, 10_000..40_000_usize];
    prop::collection::vec(prop::collection::vec((size, any::<bool>()), 0..6), 1..10)
}

proptest! {
    #[test]
    fn no_byte_is_lost_or_repeated(
        polls in polls(),
        room in prop::collection::vec(prop_oneof![Just(0), 1..20_000_usize], 0..40),
    ) {
        let mut stream = Coalesced::new(Client { room, ..Client::default() });
        let mut sent = Vec::new();
        let mut next = (0..251_u8).cycle();
        for poll in polls {
            for (count, flushes) in poll {
                let mut rest: Vec<u8> = next.by_ref().take(count).collect();
                sent.extend_from_slice(&rest);
                // The end of a poll makes room, as does the client.
                while !rest.is_empty() {
                    match write(&mut stream, &rest) {
                        Poll::Ready(written) => drop(rest.drain(..written.unwrap())),
                        Poll::Pending => stream.end_poll(&mut context()),
                    }
                    prop_assert!(stream.0.borrow().bytes.len() <= MAX_HELD_BYTES);
                }
                if flushes {
                    prop_assert!(is_ready(flush(&mut stream)));
                }
            }
            stream.end_poll(&mut context());
        }
        while !stream.0.borrow().bytes.is_empty() {
            stream.end_poll(&mut context());
        }
        prop_assert_eq!(&stream.0.borrow().stream.received, &sent);
    }
}
