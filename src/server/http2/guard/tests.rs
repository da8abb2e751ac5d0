//! A client that floods its connection does not block other connections.

use std::io::Cursor;

use futures_util::task::noop_waker_ref;
use tokio::io::AsyncReadExt;

use super::*;
use crate::server::Http2Settings;
use crate::server::http2::frames::PREFACE;
use crate::server::settings::Demand;
use crate::server::state::activity::{Activity, Watched};

/// How many bytes are read of an endless stream before the task yields.
fn read_in_a_turn<T: AsyncRead + AsyncWrite + Unpin>(guard: &mut Guard<T>) -> usize {
    let mut cx = Context::from_waker(noop_waker_ref());
    let mut bytes = 0;
    for _ in 0..100 {
        let mut room = [0; 4096];
        let mut buf = ReadBuf::new(&mut room);
        match Pin::new(&mut *guard).poll_read(&mut cx, &mut buf) {
            Poll::Pending => break,
            Poll::Ready(read) => read.expect("nothing is wrong with the frame"),
        }
        bytes += buf.filled().len();
    }
    bytes
}

#[test]
fn an_endless_stream_of_http_2_yields() {
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let data = [0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1];
    let sent = Cursor::new([&PREFACE[..], &settings, &data].concat());
    let sent = tokio::io::join(AsyncReadExt::chain(sent, tokio::io::repeat(0)), tokio::io::sink());
    let activity = Activity::new(monotonic(), Demand::NONE, Watched::default());
    let streams = Rc::new(Streams::new(activity));
    let frames = Frames::new(Http2Settings::default(), monotonic());
    let mut guard = Guard::new(sent, &streams, frames);
    for _ in 0..3 {
        let read = read_in_a_turn(&mut guard);
        assert!((TURN_BYTES..TURN_BYTES + 4096).contains(&read), "{read}");
    }
}
