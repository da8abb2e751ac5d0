//! The task of an HTTP/1.1 connection, without the wake-ups that it does not need.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use parking_lot::Mutex;

/// Drives a connection, and passes its wake-ups on to the task unless they are held back.
#[derive(Debug)]
pub(super) struct Driver<C> {
    connection: C,
    wakes: Wakes,
    /// `wakes`, in the form that the connection needs.
    waker: Waker,
}

impl<C> Driver<C> {
    pub(super) fn new(connection: C, wakes: Wakes) -> Self {
        let waker = Waker::from(Arc::clone(&wakes.0));
        Self { connection, wakes, waker }
    }
}

impl<C: Future + Unpin> Future for Driver<C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let driver = &mut *self;
        driver.wakes.0.pass_to(cx.waker());
        Pin::new(&mut driver.connection).poll(&mut Context::from_waker(&driver.waker))
    }
}

/// The wake-ups of a connection's task.
#[derive(Clone, Debug, Default)]
pub(super) struct Wakes(Arc<State>);

#[derive(Debug)]
struct State {
    task: Mutex<Waker>,
    is_held: AtomicBool,
    /// Whether there was a wake-up since they are held back.
    is_due: AtomicBool,
}

impl Default for State {
    fn default() -> Self {
        let task = Mutex::new(Waker::noop().clone());
        Self { task, is_held: AtomicBool::new(false), is_due: AtomicBool::new(false) }
    }
}

impl State {
    fn pass_to(&self, task: &Waker) {
        let mut known = self.task.lock();
        if !known.will_wake(task) {
            known.clone_from(task);
        }
    }
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_held.load(Ordering::Relaxed) {
            self.is_due.store(true, Ordering::Relaxed);
        } else {
            self.task.lock().wake_by_ref();
        }
    }
}

impl Wakes {
    /// Reads the next frame of the response that the connection carries.
    ///
    /// The library wakes the task for each frame that is taken, so that it reads the next one.
    /// After the last byte of a body whose length is known there is none. The connection, the
    /// body and their timers have one thread, so no other wake-up comes meanwhile.
    pub(super) fn poll_frame(
        &self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let state = &self.0;
        state.is_held.store(true, Ordering::Relaxed);
        let polled = Pin::new(&mut *body).poll_frame(cx);
        state.is_held.store(false, Ordering::Relaxed);
        if state.is_due.swap(false, Ordering::Relaxed) && !body.is_end_stream() {
            state.task.lock().wake_by_ref();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;

    use http::{Request, Response};
    use hyper::client::conn::http1::{SendRequest, handshake};
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;
    use crate::proxy::body::RequestBody;

    /// A connection whose polls are counted.
    struct Counted {
        sender: SendRequest<RequestBody>,
        wakes: Wakes,
        polls: Rc<Cell<u32>>,
    }

    impl Counted {
        async fn over(stream: DuplexStream) -> Self {
            let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a stream");
            let (wakes, polls) = (Wakes::default(), Rc::new(Cell::new(0)));
            let mut driver = Driver::new(connection, wakes.clone());
            let count = Rc::clone(&polls);
            spawn_local(poll_fn(move |cx| {
                count.set(count.get() + 1);
                Pin::new(&mut driver).poll(cx)
            }));
            Self { sender, wakes, polls }
        }

        async fn send(&mut self) -> Response<Incoming> {
            self.sender.send_request(Request::new(RequestBody::EMPTY)).await.expect("a response")
        }

        /// The number of bytes of a body that is read to its end.
        async fn read(&self, body: &mut Incoming) -> usize {
            let mut bytes = 0;
            while !body.is_end_stream()
                && let Some(frame) = poll_fn(|cx| self.wakes.poll_frame(body, cx)).await
            {
                bytes += frame.expect("a whole body").into_data().expect("no trailers").len();
            }
            bytes
        }
    }

    /// Answers each request with `response`.
    async fn answer(mut stream: DuplexStream, response: Vec<u8>) {
        let mut request = Vec::new();
        while stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
            if request.ends_with(b"\r\n\r\n") {
                request.clear();
                stream.write_all(&response).await.expect("a reader");
            }
        }
    }

    async fn idle() {
        for _ in 0..20 {
            yield_now().await;
        }
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn the_last_frame_of_a_body_polls_the_connection_no_more() {
        run(async {
            let (stream, peer) = duplex(64 * 1024);
            spawn_local(answer(peer, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()));
            let mut connection = Counted::over(stream).await;
            for _ in 0..3 {
                let mut response = connection.send().await;
                idle().await;
                let polls = connection.polls.get();
                assert_eq!(connection.read(response.body_mut()).await, 2);
                drop(response);
                idle().await;
                assert_eq!(connection.polls.get(), polls);
                assert!(connection.sender.is_ready(), "it can carry another request");
            }
        });
    }

    #[test]
    fn a_body_of_many_frames_is_read_to_its_end() {
        let length = 300_000;
        let body = vec![b'x'; length];
        let known = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let chunked =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n");
        for (head, end) in [(&known, ""), (&chunked, "\r\n0\r\n\r\n")] {
            let response = [head.as_bytes(), &body, end.as_bytes()].concat();
            run(async {
                // So small that no frame has the whole body.
                let (stream, peer) = duplex(1000);
                spawn_local(answer(peer, response.clone()));
                let mut connection = Counted::over(stream).await;
                for _ in 0..3 {
                    let mut response = connection.send().await;
                    assert_eq!(connection.read(response.body_mut()).await, length, "{head}");
                    drop(response);
                    idle().await;
                    assert!(connection.sender.is_ready(), "{head}");
                }
            });
        }
    }
}
