//! Reads what nothing needs any more.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Reads to the end of the stream, after its last byte was written. If the stream were closed before,
/// the system would answer what the client still sends with a reset, and what was written could be
/// lost on its way.
pub async fn discard(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    poll_fn(|cx| poll_discard(Pin::new(&mut *stream), cx)).await
}

/// The bytes are on the stack, because they are not kept.
fn poll_discard(
    mut stream: Pin<&mut impl AsyncRead>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let mut room = [MaybeUninit::uninit(); 4 * 1024];
    let mut buf = ReadBuf::uninit(&mut room);
    loop {
        ready!(stream.as_mut().poll_read(cx, &mut buf))?;
        if buf.filled().is_empty() {
            return Poll::Ready(Ok(()));
        }
        buf.clear();
    }
}
