//! The lines stand behind the status line, however the bytes are written.

use futures_util::task::noop_waker_ref;
use proptest::prelude::*;
use std::pin::Pin;
use tollgate_core::time::monotonic;

use super::*;
use crate::server::settings::Demand;
use crate::server::state::activity::{Activity, Watched};
use crate::server::state::exchange::Phase;

const STATUS_LINE: &str = "HTTP/1.1 200 OK\r\n";
const LINES: &str = "x-a: 1\r\nx-b: 2\r\n";

/// Takes so many bytes at each write, and none if the number is 0.
#[derive(Debug)]
struct Taker {
    most: Vec<usize>,
    writes: usize,
    taken: Vec<u8>,
}

impl AsyncWrite for Taker {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let most = self.most[self.writes % self.most.len()];
        self.writes += 1;
        if most == 0 {
            return Poll::Pending;
        }
        let whole: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let count = whole.len().min(most);
        self.taken.extend_from_slice(&whole[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn exchange() -> Rc<Exchange> {
    let activity = Activity::new(monotonic(), Demand::NONE, Watched::default());
    Rc::new(Exchange::new(activity, Phase::Opening))
}

/// Lines that wait for the response to a request.
fn waiting() -> HeadLines {
    let lines = HeadLines::new(exchange());
    lines.open().expect("nothing else waits").extend_from_slice(LINES.as_bytes());
    lines
}

/// Writes the pieces as the library does: what a write has not taken is written again.
fn write(lines: &HeadLines, pieces: &[&str], most: Vec<usize>) -> io::Result<String> {
    let mut taker = Taker { most, writes: 0, taken: Vec::new() };
    let mut cx = Context::from_waker(noop_waker_ref());
    let mut left: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    while left.iter().any(|piece| !piece.is_empty()) {
        let bufs: Vec<IoSlice<'_>> = left.iter().map(|piece| IoSlice::new(piece)).collect();
        let written = match lines.are_waiting() {
            true => lines.poll_write(&mut cx, &mut taker, &bufs),
            false => Pin::new(&mut taker).poll_write_vectored(&mut cx, &bufs),
        };
        let Poll::Ready(count) = written else { continue };
        let mut count = count?;
        assert!(count > 0, "the stream takes bytes");
        for piece in &mut left {
            let taken = count.min(piece.len());
            (*piece, count) = (&piece[taken..], count - taken);
        }
        assert_eq!(count, 0, "no more than there was");
    }
    Ok(String::from_utf8(taker.taken).expect("text"))
}

proptest! {
    #[test]
    fn they_stand_behind_the_status_line(
        continues in any::<bool>(),
        rest in prop::collection::vec("[a-z\r\n]{0,20}", 0..5),
        most in prop::collection::vec(0..40_usize, 1..6),
    ) {
        prop_assume!(most.iter().any(|&count| count > 0));
        let lines = waiting();
        let first = if continues { "HTTP/1.1 100 Continue\r\n\r\n" } else { "" };
        let head = format!("{first}{STATUS_LINE}a: b\r\n\r\n");
        let pieces: Vec<&str> = [&*head].into_iter().chain(rest.iter().map(|it| &**it)).collect();
        let expected = format!("{first}{STATUS_LINE}{LINES}a: b\r\n\r\n{}", rest.concat());
        prop_assert_eq!(write(&lines, &pieces, most).unwrap(), expected);
        prop_assert!(!lines.are_waiting());
    }
}

#[test]
fn a_head_without_a_status_line_is_an_error() {
    let written = write(&waiting(), &["HTTP/1.1 200"], vec![100]);
    assert_eq!(written.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn they_are_not_added_while_an_earlier_response_may_not_be_written() {
    let exchange = exchange();
    let lines = HeadLines::new(Rc::clone(&exchange));
    let can_be_added = || lines.open().is_some();
    assert!(can_be_added(), "nothing was written");
    exchange.respond(false);
    assert!(!can_be_added(), "the library has a response");
    exchange.on_write();
    assert!(!can_be_added(), "a part of it may wait");
    exchange.on_flush();
    assert!(can_be_added());
    exchange.on_write();
    assert!(!can_be_added(), "as after a part of a 100");
    exchange.on_flush();
    lines.open().expect("all was written").push(b'x');
    assert!(!can_be_added(), "they are those of another response");
}
