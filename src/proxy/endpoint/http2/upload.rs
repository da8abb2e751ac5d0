//! The task that sends the body of a request to an endpoint. The HTTP library makes
//! that task, which continues after the endpoint has responded. This module finds the
//! task, so that it can be stopped.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Request};
use http_body::{Body, Frame, SizeHint};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use crate::io::Coalesced;
use crate::message::Failure;
use crate::proxy::body::RequestBody;

/// The task that sends a body; none if there is no body, or if the library has sent it
/// without a task.
#[derive(Clone, Debug, Default)]
pub struct UploadTask(Option<Rc<OnceCell<AbortHandle>>>);

impl UploadTask {
    /// Stops it. Returns whether it was still running.
    pub fn stop(&self) -> bool {
        let task = self.0.as_ref().and_then(|task| task.get());
        task.is_some_and(|task| {
            let was_running = !task.is_finished();
            task.abort();
            was_running
        })
    }

    fn is(&self, other: &Self) -> bool {
        matches!((&self.0, &other.0), (Some(one), Some(other)) if Rc::ptr_eq(one, other))
    }
}

/// Runs the tasks of a connection on its worker, and finds out which of them are
/// uploads: the library polls a body for its first frame, and immediately afterwards
/// makes a task of it if there is more to send.
#[derive(Clone, Debug)]
pub struct LocalExecutor(Rc<Tasks>);

struct Tasks {
    /// The upload whose body was polled last and that has no task yet.
    polled: RefCell<UploadTask>,
    /// For the task that reads and writes the connection, which is the first. The stream is closed
    /// with that task.
    end_poll: Cell<Option<EndPoll>>,
    activity: Notify,
}

/// Writes what a task has left to be written, after each of its polls.
type EndPoll = Box<dyn Fn(&mut Context<'_>)>;

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("polled", &self.polled).finish_non_exhaustive()
    }
}

impl LocalExecutor {
    /// For the connection over `stream`.
    pub fn of<T: AsyncWrite + Unpin + 'static>(stream: Coalesced<T>) -> Self {
        Self(Rc::new(Tasks {
            polled: RefCell::default(),
            end_poll: Cell::new(Some(Box::new(move |cx| stream.end_poll(cx)))),
            activity: Notify::new(),
        }))
    }

    /// Returns when something may have arrived on the connection, or when it has ended.
    pub async fn activity(&self) {
        self.0.activity.notified().await;
    }

    /// Runs a task that drives the connection.
    pub fn run(&self, connection: impl Future + 'static) {
        let tasks = Rc::clone(&self.0);
        let mut connection = Box::pin(connection);
        spawn_local(poll_fn(move |cx| {
            let polled = connection.as_mut().poll(cx);
            tasks.activity.notify_one();
            polled
        }));
    }
}

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        if let Some(end_poll) = self.0.end_poll.take() {
            let mut future = Box::pin(future);
            return self.run(poll_fn(move |cx| {
                let polled = future.as_mut().poll(cx);
                end_poll(cx);
                polled
            }));
        }
        let task = spawn_local(future).abort_handle();
        if let Some(upload) = self.0.polled.take().0 {
            // It cannot be set yet: a body has one task.
            let _ = upload.set(task);
        }
    }
}

/// The body that is given to the HTTP library. It wraps the request's body because the
/// executor must learn which task sends it.
#[derive(Debug)]
pub struct StreamedBody {
    body: RequestBody,
    upload: UploadTask,
    executor: LocalExecutor,
}

impl StreamedBody {
    /// The request with its body for the connection with this executor.
    pub fn of(
        request: Request<RequestBody>,
        executor: &LocalExecutor,
    ) -> (UploadTask, Request<Self>) {
        let upload = UploadTask(request.body().progress().map(|_| Rc::default()));
        let of_body = upload.clone();
        let executor = executor.clone();
        (upload, request.map(|body| Self { body, upload: of_body, executor }))
    }

    pub fn into_inner(mut self) -> RequestBody {
        std::mem::replace(&mut self.body, RequestBody::EMPTY)
    }

    /// Tells the executor that the next task may be the one of this body.
    fn announce(&self) {
        let has_task = self.upload.0.as_ref().is_none_or(|task| task.get().is_some());
        if !has_task {
            self.executor.0.polled.replace(self.upload.clone());
        }
    }
}

impl Drop for StreamedBody {
    fn drop(&mut self) {
        if self.executor.0.polled.borrow().is(&self.upload) {
            self.executor.0.polled.take();
        }
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        self.announce();
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let trailers = match &polled {
            Poll::Ready(Some(Ok(frame))) => frame.trailers_ref(),
            _ => None,
        };
        if trailers.is_some_and(|trailers| !is_sendable(trailers)) {
            // The library would drop the stream, and the endpoint would wait for its end.
            self.body.fail(Failure::Unsendable);
            return Poll::Ready(Some(Err(Failure::Unsendable)));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether the HTTP/2 library sends these fields (RFC 9113, section 8.2.2).
fn is_sendable(fields: &HeaderMap) -> bool {
    let of_connection = [CONNECTION.as_str(), TRANSFER_ENCODING.as_str(), UPGRADE.as_str()];
    let mut unsendable = of_connection.into_iter().chain(["keep-alive", "proxy-connection"]);
    !unsendable.any(|name| fields.contains_key(name))
        && fields.get(TE).is_none_or(|value| value == "trailers")
}

#[cfg(test)]
mod tests {
    use std::io;

    use http::HeaderValue;
    use http::header::HeaderName;
    use hyper::rt::Executor;
    use tokio::io::AsyncWriteExt;
    use tokio::task::{LocalSet, yield_now};

    use super::*;

    /// The size of each write.
    #[derive(Clone, Debug, Default)]
    struct Writes(Rc<RefCell<Vec<usize>>>);

    impl AsyncWrite for Writes {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.borrow_mut().push(buf.len());
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// A second task that wrote would be woken instead of the first.
    #[tokio::test]
    async fn the_first_task_alone_writes_and_once_for_each_poll() {
        let writes = Writes::default();
        let stream = Coalesced::new(writes.clone());
        let executor = LocalExecutor::of(stream.clone());
        let task = |frames: &'static [&'static [u8]]| {
            let mut stream = stream.clone();
            async move {
                for frame in frames {
                    stream.write_all(frame).await.unwrap();
                    stream.flush().await.unwrap();
                }
            }
        };
        let tasks = async {
            executor.execute(task(&[b"head", b"body", b"head"]));
            yield_now().await;
            assert_eq!(*writes.0.borrow(), [12]);
            executor.execute(task(&[b"body"]));
            yield_now().await;
            assert_eq!(*writes.0.borrow(), [12]);
        };
        LocalSet::new().run_until(tasks).await;
        drop(stream);
        assert_eq!(Rc::strong_count(&writes.0), 1, "the stream stays open without its task");
        drop(executor);
    }

    #[test]
    fn fields_of_a_connection_are_not_sent() {
        for (name, value, sendable) in [
            ("connection", "x", false),
            ("transfer-encoding", "chunked", false),
            ("upgrade", "x", false),
            ("keep-alive", "5", false),
            ("proxy-connection", "x", false),
            ("te", "gzip", false),
            ("te", "trailers", true),
            ("x-sum", "42", true),
        ] {
            let field = (HeaderName::from_static(name), HeaderValue::from_static(value));
            assert_eq!(is_sendable(&HeaderMap::from_iter([field])), sendable, "{name}: {value}");
        }
    }
}
