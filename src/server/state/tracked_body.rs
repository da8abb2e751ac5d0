//! The body of a response, with which its request ends.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Pieces of so many bytes are never divided.
pub const SMALL_PIECE: usize = 4 * 1024;

/// A request of a connection, active until the value is dropped.
pub trait ActiveRequest: Unpin {
    /// Whether large pieces of its response are divided.
    const DIVIDES: bool = false;

    /// The service has given the whole response. Only the client is waited for: one that reads
    /// nothing cannot keep its place in this way.
    fn is_answered(&mut self);

    /// HTTP/2: the client has room for another piece of the response. `given`: the bytes of that
    /// piece, which the client is now to read; None if the service has none yet.
    fn polled(&self, given: Option<usize>);

    /// The most bytes of the next piece, if large pieces are divided.
    fn most_bytes(&self) -> usize {
        usize::MAX
    }
}

/// The body of a response. Its request is active until the body is dropped.
#[derive(Debug)]
pub struct TrackedBody<B, A>(Option<Tracked<B, A>>);

#[derive(Debug)]
struct Tracked<B, A> {
    body: B,
    active: A,
    /// The rest of a piece that is divided.
    rest: Bytes,
}

impl<B: Body, A: ActiveRequest> TrackedBody<B, A> {
    pub fn new(body: B, mut active: A) -> Self {
        if body.size_hint().exact().is_some() {
            active.is_answered();
        }
        // The first poll comes when the client has room.
        active.polled(Some(0));
        Self(Some(Tracked { body, active, rest: Bytes::new() }))
    }
}

impl<B, A> TrackedBody<B, A> {
    /// Takes the body and its request, and leaves a body that is empty.
    pub fn take(&mut self) -> Self {
        Self(self.0.take())
    }
}

impl<B: Body<Data = Bytes> + Unpin, A: ActiveRequest> Tracked<B, A> {
    /// The next piece of the body. The library asks for one when the client has room, and sends the
    /// whole of it, however little room there is. A client that reads slowly would then seem to
    /// pause, so it gets smaller pieces.
    fn poll_divided(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut piece = match self.rest.is_empty() {
            false => std::mem::take(&mut self.rest),
            true => match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return other,
            },
        };
        if piece.len() > SMALL_PIECE {
            let most = self.active.most_bytes();
            self.rest = piece.split_off(most.min(piece.len()));
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl<B: Body<Data = Bytes> + Unpin, A: ActiveRequest> Body for TrackedBody<B, A> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(tracked) = &mut self.0 else { return Poll::Ready(None) };
        let polled = match A::DIVIDES {
            true => tracked.poll_divided(cx),
            false => Pin::new(&mut tracked.body).poll_frame(cx),
        };
        let given = match &polled {
            Poll::Ready(Some(Ok(frame))) => Some(frame.data_ref().map_or(0, Bytes::len)),
            Poll::Ready(_) => Some(0),
            Poll::Pending => None,
        };
        tracked.active.polled(given);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|it| it.rest.is_empty() && it.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let Some(Tracked { body, rest, .. }) = &self.0 else { return SizeHint::with_exact(0) };
        let mut hint = body.size_hint();
        let rest = u64::try_from(rest.len()).unwrap_or(u64::MAX);
        if let (Some(upper), 1..) = (hint.upper(), rest) {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use http_body_util::{BodyExt as _, Full};

    use super::*;

    /// A request whose pieces have these sizes at most, and the sizes that were given.
    struct Recorded<'t> {
        most: &'t Cell<usize>,
        given: &'t RefCell<Vec<usize>>,
    }

    impl ActiveRequest for Recorded<'_> {
        const DIVIDES: bool = true;

        fn is_answered(&mut self) {}

        fn polled(&self, given: Option<usize>) {
            self.given.borrow_mut().extend(given);
        }

        fn most_bytes(&self) -> usize {
            self.most.get()
        }
    }

    #[tokio::test]
    async fn a_large_piece_is_divided_and_a_small_one_is_not() {
        let whole: Bytes = (0..=255).cycle().take(2 * SMALL_PIECE + 5).collect::<Vec<u8>>().into();
        let most = Cell::new(SMALL_PIECE + 1);
        let given = RefCell::default();
        let active = Recorded { most: &most, given: &given };
        let mut body = TrackedBody::new(Full::new(whole.clone()), active);
        let mut read = Vec::new();
        while let Some(frame) = body.frame().await {
            let left = u64::try_from(whole.len() - read.len()).unwrap();
            let data = frame.unwrap().into_data().unwrap();
            read.extend_from_slice(&data);
            let left = left - u64::try_from(data.len()).unwrap();
            assert_eq!(body.size_hint().exact(), Some(left));
            assert_eq!(body.is_end_stream(), left == 0);
        }
        assert_eq!(read, whole);
        assert_eq!(*given.borrow(), [0, SMALL_PIECE + 1, SMALL_PIECE + 1, 3, 0]);
    }
}
