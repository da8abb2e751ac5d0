//! Sends a request: its head, and its body as it comes.

use std::future::poll_fn;
use std::io::Write as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use tokio::io::AsyncWrite as _;
use tokio::task::{JoinHandle, spawn_local};

use super::request::Framing;
use super::wire::{Output, Wire};
use crate::message::{Failure, write_field};

/// Pieces of a body up to this size are copied behind each other, and written together.
const SMALL_BYTES: usize = 4 * 1024;
/// The body is not read further while so many bytes wait to be written.
const MAX_WAITING_BYTES: usize = 16 * 1024;

/// Sends one request.
#[derive(Debug)]
pub struct Upload<B> {
    wire: Rc<Wire>,
    body: B,
    framing: Framing,
    progress: Progress,
    /// Whether its beginning waits for the end of the turn, or was written then.
    is_scheduled: bool,
}

/// A task that sends the rest of a request, while its response is read. The two do not wait for
/// each other: a client may read nothing before it has sent everything. Dropping this value ends
/// the task.
#[derive(Debug)]
pub struct RestTask(JoinHandle<bool>);

impl RestTask {
    pub fn new<B>(mut upload: Upload<B>) -> Self
    where
        B: Body<Data = Bytes, Error = Failure> + Unpin + 'static,
    {
        Self(spawn_local(async move {
            let sent = poll_fn(|cx| upload.poll(cx)).await;
            if sent.is_err() {
                // The endpoint need not wait for the rest.
                let stream = &upload.wire.stream;
                let _ = poll_fn(|cx| Pin::new(&mut *stream.borrow_mut()).poll_shutdown(cx)).await;
            }
            sent.is_ok() && upload.progress == Progress::Complete
        }))
    }

    /// Whether it has sent everything.
    pub fn is_complete(&mut self) -> bool {
        let cx = &mut Context::from_waker(Waker::noop());
        matches!(Pin::new(&mut self.0).poll(cx), Poll::Ready(Ok(true)))
    }
}

impl Drop for RestTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How far a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No byte was written, and the body is untouched.
    Unsent,
    /// A part was sent.
    Begun,
    /// All was sent.
    Complete,
    /// The rest cannot be written.
    Broken,
}

impl<B> Upload<B>
where
    B: Body<Data = Bytes, Error = Failure> + Unpin + 'static,
{
    /// Sends `head`, and then `body`.
    pub fn new(wire: &Rc<Wire>, framing: Framing, body: B) -> Self {
        let output = &mut *wire.output.borrow_mut();
        (output.is_begun, output.is_last) = (false, framing == Framing::Length(0));
        let wire = Rc::clone(wire);
        Self { wire, framing, body, progress: Progress::Unsent, is_scheduled: false }
    }

    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// The body. Perhaps nothing has been read from it.
    pub fn into_body(self) -> B {
        self.body
    }

    /// Sends what can be sent. Ready when all was sent, or when the rest cannot be written. The
    /// task is not woken if the whole request was written at the end of the turn: it has only to
    /// wait for the response then.
    ///
    /// # Errors
    /// If the body broke off.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        while matches!(self.progress, Progress::Unsent | Progress::Begun) {
            let is_paused = self.poll_body(cx)?.is_pending();
            if !std::mem::replace(&mut self.is_scheduled, true) {
                self.wire.write_later(cx.waker());
            }
            let written = ready!(self.wire.poll_write(cx));
            let output = self.wire.output.borrow();
            if output.is_begun {
                self.progress = Progress::Begun;
            }
            if written.is_err() {
                if self.progress == Progress::Begun {
                    self.progress = Progress::Broken;
                }
                return Poll::Ready(Ok(()));
            }
            if output.is_last {
                self.progress = Progress::Complete;
            } else if is_paused {
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads the body up to the bound. Pending if it pauses.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            let output = self.wire.output.borrow();
            let is_full = !output.piece.is_empty() || output.text.len() >= MAX_WAITING_BYTES;
            if output.is_last || is_full {
                return Poll::Ready(Ok(()));
            }
            drop(output);
            self.progress = Progress::Begun;
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()?;
            let output = &mut *self.wire.output.borrow_mut();
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => self.framing.add(data, output)?,
                Some(Err(last)) => {
                    self.framing.finish(&last.into_trailers().unwrap_or_default(), output)?;
                }
                None => self.framing.finish(&HeaderMap::new(), output)?,
            }
        }
    }
}

impl Framing {
    /// Adds a piece of the body to `output`.
    fn add(&mut self, data: Bytes, output: &mut Output) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
        let end: &[u8] = match self {
            Self::Length(left) => {
                // A longer body would be the beginning of another request.
                *left = left.checked_sub(bytes).ok_or(Failure::BodyBroken)?;
                output.is_last = *left == 0;
                b""
            }
            Self::Chunked(_) => {
                write!(output.text, "{bytes:x}\r\n").expect("memory can be written to");
                b"\r\n"
            }
        };
        if data.len() <= SMALL_BYTES {
            output.text.extend_from_slice(&data);
            output.text.extend_from_slice(end);
        } else {
            (output.piece, output.end) = (data, end);
        }
        Ok(())
    }

    /// Adds the end of the body to `output`.
    fn finish(&self, trailers: &HeaderMap, output: &mut Output) -> Result<(), Failure> {
        output.is_last = true;
        match self {
            Self::Length(0) => {}
            Self::Length(_) => return Err(Failure::BodyBroken),
            Self::Chunked(announced) => {
                output.text.extend_from_slice(b"0\r\n");
                for (name, value) in trailers {
                    if announced.contains(name) {
                        write_field(name.as_str(), value.as_bytes(), &mut output.text);
                    }
                }
                output.text.extend_from_slice(b"\r\n");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http::HeaderValue;
    use http::header::HeaderName;
    use http_body_util::StreamBody;
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt as _, duplex};
    use tokio::runtime::Builder;
    use tokio::task::{LocalSet, yield_now};

    use super::*;

    /// What is sent of a body, over a stream that takes `most` bytes at once.
    fn send(
        frames: Vec<Frame<Bytes>>,
        framing: Framing,
        most: usize,
    ) -> (Result<Progress, Failure>, Vec<u8>) {
        let runtime = Builder::new_current_thread().build().unwrap();
        let sent = async {
            let (near, mut far) = duplex(most);
            let wire = Wire::new(Box::new(near));
            wire.output.borrow_mut().text.extend_from_slice(b"head;");
            let body = StreamBody::new(stream::iter(frames.into_iter().map(Ok::<_, Failure>)));
            let mut upload = Upload::new(&wire, framing, body);
            drop(wire);
            let reading = spawn_local(async move {
                let mut text = Vec::new();
                far.read_to_end(&mut text).await.unwrap();
                text
            });
            let sent = finish(&mut upload).await.map(|()| upload.progress());
            drop(upload);
            (sent, reading.await.unwrap())
        };
        LocalSet::new().block_on(&runtime, sent)
    }

    async fn finish<B>(upload: &mut Upload<B>) -> Result<(), Failure>
    where
        B: Body<Data = Bytes, Error = Failure> + Unpin + 'static,
    {
        loop {
            let polled = futures_util::poll!(poll_fn(|cx| upload.poll(cx)));
            match polled {
                Poll::Ready(sent) => return sent,
                Poll::Pending => yield_now().await,
            }
        }
    }

    fn data(lengths: &[usize]) -> (Vec<Frame<Bytes>>, Vec<u8>) {
        let pieces: Vec<Bytes> = lengths.iter().map(|&length| vec![b'x'; length].into()).collect();
        let content = pieces.concat();
        (pieces.into_iter().map(Frame::data).collect(), content)
    }

    proptest! {
        #[test]
        fn a_body_with_a_length_is_sent_as_it_comes(
            lengths in prop::collection::vec(0..9000_usize, 1..5),
            most in 1..9000_usize,
        ) {
            let (frames, content) = data(&lengths);
            let (sent, text) = send(frames, Framing::Length(content.len() as u64), most);
            prop_assert_eq!(sent, Ok(Progress::Complete));
            prop_assert_eq!(text.strip_prefix(b"head;"), Some(&content[..]));
        }

        #[test]
        fn each_piece_of_another_body_is_a_chunk(
            lengths in prop::collection::vec(0..9000_usize, 0..5),
            most in 1..9000_usize,
        ) {
            let (frames, _) = data(&lengths);
            let chunk = |&length: &usize| match length {
                0 => String::new(),
                _ => format!("{length:x}\r\n{}\r\n", "x".repeat(length)),
            };
            let chunks: String = lengths.iter().map(chunk).collect();
            let (sent, text) = send(frames, Framing::Chunked(Vec::new()), most);
            prop_assert_eq!(sent, Ok(Progress::Complete));
            prop_assert_eq!(String::from_utf8(text).unwrap(), format!("head;{chunks}0\r\n\r\n"));
        }

        /// The endpoint would take the rest of a longer body for another request, and would wait
        /// for the rest of a shorter one.
        #[test]
        fn no_byte_beyond_the_length_is_sent(stated in 1..99_u64, length in 0..99_usize) {
            let (frames, content) = data(&[length]);
            let (sent, text) = send(frames, Framing::Length(stated), 9);
            let expected = match length as u64 == stated {
                true => Ok(Progress::Complete),
                false => Err(Failure::BodyBroken),
            };
            prop_assert_eq!(sent, expected);
            prop_assert!(text.len() <= content.len().min(usize::try_from(stated).unwrap()) + 5);
        }
    }

    #[test]
    fn only_announced_trailers_are_sent() {
        let mut trailers = HeaderMap::new();
        for name in ["sum", "other"] {
            trailers.insert(HeaderName::from_static(name), HeaderValue::from_static("7"));
        }
        let announced = Framing::Chunked(vec![HeaderName::from_static("sum")]);
        let (sent, text) = send(vec![Frame::trailers(trailers)], announced, 99);
        assert_eq!(sent, Ok(Progress::Complete));
        assert_eq!(text, b"head;0\r\nsum: 7\r\n\r\n");
    }

    #[test]
    fn a_request_of_which_nothing_could_be_written_is_unsent() {
        let runtime = Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (near, far) = duplex(9);
            drop(far);
            let wire = Wire::new(Box::new(near));
            wire.output.borrow_mut().text.extend_from_slice(b"head;");
            let body = StreamBody::new(stream::empty::<Result<Frame<Bytes>, Failure>>());
            let mut upload = Upload::new(&wire, Framing::Length(0), body);
            assert_eq!(finish(&mut upload).await, Ok(()));
            assert_eq!(upload.progress(), Progress::Unsent);
        });
    }

    #[test]
    fn an_endpoint_is_told_that_the_rest_of_a_broken_body_does_not_come() {
        let runtime = Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (near, mut far) = duplex(99);
            let wire = Wire::new(Box::new(near));
            wire.output.borrow_mut().text.extend_from_slice(b"head;");
            let broken = stream::iter([Err(Failure::BodyTooLarge)]);
            let upload = Upload::new(&wire, Framing::Chunked(Vec::new()), StreamBody::new(broken));
            let mut rest = RestTask::new(upload);
            let mut text = Vec::new();
            far.read_to_end(&mut text).await.expect("the end, although the response is awaited");
            assert!(!rest.is_complete());
        });
    }
}
