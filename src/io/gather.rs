//! Vectored writes of small messages as plain writes.
//!
//! The HTTP library passes the head and the body of a message as separate buffers. To a
//! socket, a vectored write costs the kernel more than a plain write of the same bytes. For a
//! small message the difference is larger than the cost of copying its parts together; see
//! bench/NOTEBOOK.md.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// The most bytes that are copied together.
const SMALL_BYTES: usize = 4 * 1024;

thread_local! {
    /// Where the parts of a message are copied together.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes `bufs` to `stream`, by a plain write if they are few bytes or one buffer. Like any
/// vectored write, it may write a part of the bytes only.
pub fn poll_write_gathered<T>(
    stream: &mut T,
    cx: &mut Context<'_>,
    bufs: &[IoSlice<'_>],
) -> Poll<io::Result<usize>>
where
    T: AsyncWrite + Unpin,
{
    let stream = Pin::new(stream);
    if let [buf] = bufs {
        return stream.poll_write(cx, buf);
    }
    if bufs.iter().map(|buf| buf.len()).sum::<usize>() > SMALL_BYTES {
        return stream.poll_write_vectored(cx, bufs);
    }
    GATHERED.with_borrow_mut(|gathered| {
        gathered.clear();
        bufs.iter().for_each(|buf| gathered.extend_from_slice(buf));
        stream.poll_write(cx, gathered)
    })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use proptest::prelude::*;

    use super::*;

    /// Takes at most so many bytes at once, and counts vectored writes.
    #[derive(Debug)]
    struct Taker {
        most: usize,
        taken: Vec<u8>,
        vectored: usize,
    }

    impl AsyncWrite for Taker {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = buf.len().min(self.most);
            self.taken.extend_from_slice(&buf[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.vectored += 1;
            let whole: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
            self.poll_write(cx, &whole)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Writes these parts with one call, to a stream that takes `most` bytes at once.
    fn write(parts: &[Vec<u8>], most: usize) -> (usize, Taker) {
        let mut taker = Taker { most, taken: Vec::new(), vectored: 0 };
        let bufs: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let written = poll_fn(|cx| poll_write_gathered(&mut taker, cx, &bufs));
        let written = futures_util::FutureExt::now_or_never(written);
        (written.expect("it does not wait").expect("it does not fail"), taker)
    }

    proptest! {
        #[test]
        fn the_bytes_are_written_in_their_order_up_to_the_count_that_is_reported(
            lengths in prop::collection::vec(0..3000_usize, 1..6),
            most in 1..9000_usize,
        ) {
            let part = |(index, &length): (usize, &usize)| vec![u8::try_from(index).unwrap(); length];
            let parts: Vec<Vec<u8>> = lengths.iter().enumerate().map(part).collect();
            let (count, taker) = write(&parts, most);
            let whole = parts.concat();
            prop_assert_eq!(count, whole.len().min(most));
            prop_assert_eq!(&taker.taken[..], &whole[..count]);
        }
    }

    #[test]
    fn only_several_large_buffers_are_written_by_a_vectored_write() {
        let vectored = |lengths: &[usize]| {
            let parts: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![7; length]).collect();
            write(&parts, usize::MAX).1.vectored
        };
        assert_eq!(vectored(&[10 * SMALL_BYTES]), 0);
        assert_eq!(vectored(&[1, SMALL_BYTES - 1]), 0);
        assert_eq!(vectored(&[1, SMALL_BYTES]), 1);
    }
}
