//! Calls with several messages in each direction: each message of the client has one answer, in
//! their order.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::stream::unfold;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use prost::Message;
use tokio::time::sleep;
use tollgate_core::drain::Drain;
use tollgate_core::refusal::grpc::Code as GrpcCode;

use super::body::AnswerBody;
use super::framing::{Failed, decode_message, incomplete, success};
use crate::grpc::{PREFIX_BYTES, frame, length_of};

/// The most messages of one call.
const MAX_MESSAGES: usize = 1000;
/// How long a call may last.
const MAX_TIME: Duration = Duration::from_secs(60);

/// A call that is in progress.
struct Call<B, F> {
    body: B,
    /// What has arrived of it and is not answered.
    arrived: BytesMut,
    most_bytes: usize,
    /// How many messages were answered.
    answered: usize,
    /// Returns why a call must end that has not ended itself.
    over: Pin<Box<dyn Future<Output = Failed>>>,
    answer: F,
}

/// Answers each message of a call, which takes at most `most_bytes`, until its client has no more,
/// or the drain begins.
pub fn answer_each<B, Q, A>(
    body: B,
    most_bytes: usize,
    drain: Drain,
    answer: impl Fn(Q) -> Result<A, Failed> + 'static,
) -> Response<AnswerBody>
where
    B: Body<Data = Bytes> + Unpin + 'static,
    Q: Message + Default,
    A: Message,
{
    let call = Call {
        body,
        arrived: BytesMut::new(),
        most_bytes,
        answered: 0,
        over: Box::pin(over(drain)),
        answer: move |message| Ok(frame(&answer(decode_message(message)?)?)),
    };
    let answers = unfold(Some(call), |call| async move {
        let mut call = call?;
        match call.next().await {
            Ok(answer) => answer.map(|answer| (Ok(answer), Some(call))),
            Err(failed) => Some((Err(failed.status()), None)),
        }
    });
    success(AnswerBody::stream(Bytes::new(), answers))
}

async fn over(mut drain: Drain) -> Failed {
    tokio::select! {
        () = sleep(MAX_TIME) => {
            let message = format!("a call lasts at most {} s", MAX_TIME.as_secs());
            Failed::new(GrpcCode::DeadlineExceeded, message)
        }
        () = drain.requested() => Failed::new(GrpcCode::Unavailable, "the gateway stops"),
    }
}

impl<B, F> Call<B, F>
where
    B: Body<Data = Bytes> + Unpin,
    F: Fn(Bytes) -> Result<Bytes, Failed>,
{
    /// The answer to the next message. None: there is no other message.
    async fn next(&mut self) -> Result<Option<Bytes>, Failed> {
        loop {
            if let Some(message) = self.take()? {
                if self.answered == MAX_MESSAGES {
                    let message = format!("a call has at most {MAX_MESSAGES} messages");
                    return Err(Failed::new(GrpcCode::ResourceExhausted, message));
                }
                self.answered += 1;
                return (self.answer)(message).map(Some);
            }
            let arrived = tokio::select! {
                // What has arrived is answered before a drain ends the call.
                biased;
                arrived = self.body.frame() => arrived,
                failed = &mut self.over => return Err(failed),
            };
            match arrived {
                None if self.arrived.is_empty() => return Ok(None),
                None | Some(Err(_)) => return Err(incomplete()),
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    self.arrived.extend_from_slice(&data);
                }
            }
        }
    }

    /// Takes a message that has arrived completely.
    fn take(&mut self) -> Result<Option<Bytes>, Failed> {
        let Some(prefix) = self.arrived.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = length_of(*prefix, self.most_bytes)?;
        if self.arrived.len() - PREFIX_BYTES < length {
            return Ok(None);
        }
        self.arrived.advance(PREFIX_BYTES);
        Ok(Some(self.arrived.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream::iter;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tollgate_core::drain;

    use super::*;

    /// The answers to what arrives in these pieces, and the status. An answer is twice the number,
    /// and 0 has none.
    async fn answers(pieces: &[&[u8]], stays_open: bool) -> (Vec<u64>, String) {
        let (_stop, drain) = drain::channel();
        answers_until(pieces, stays_open, drain).await
    }

    async fn answers_until(pieces: &[&[u8]], stays_open: bool, drain: Drain) -> (Vec<u64>, String) {
        use futures_util::StreamExt as _;

        let pieces: Vec<_> = pieces.iter().map(|it| Bytes::copy_from_slice(it)).collect();
        let pieces = iter(pieces).map(|it| Ok::<_, std::convert::Infallible>(Frame::data(it)));
        let open = iter(stays_open.then_some(())).then(|()| std::future::pending());
        let body = StreamBody::new(pieces.chain(open));
        let double = |number: u64| match number {
            0 => Err(Failed::invalid("nothing")),
            _ => Ok(2 * number),
        };
        let response = answer_each(body, 16, drain, double);
        let body = response.into_body().collect().await.expect("it cannot fail");
        let status = body.trailers().expect("there is a status")["grpc-status"].clone();
        let mut bytes = body.to_bytes();
        let mut numbers = Vec::new();
        while !bytes.is_empty() {
            let length = bytes.slice(1..5).get_u32();
            let message = bytes.split_to(5 + usize::try_from(length).unwrap()).slice(5..);
            numbers.push(decode_message(message).unwrap());
        }
        (numbers, status.to_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn each_message_is_answered_however_it_arrives() {
        let two = [frame(&5_u64), frame(&7_u64)].concat();
        let ok = || "0".to_owned();
        assert_eq!(answers(&[&two], false).await, (vec![10, 14], ok()));
        let bytes: Vec<&[u8]> = two.chunks(1).collect();
        assert_eq!(answers(&bytes, false).await, (vec![10, 14], ok()));
        assert_eq!(answers(&[], false).await, (vec![], ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_faulty_or_too_long_ends_with_its_status() {
        let seven = frame(&7_u64);
        let status = |code: &str| (vec![14], code.to_owned());
        assert_eq!(answers(&[&seven, &frame(&0_u64), &seven], false).await, status("3"));
        assert_eq!(answers(&[&seven, &seven[..3]], false).await, status("1"));
        assert_eq!(answers(&[&seven, &[0, 0, 0, 0, 17]], true).await, status("8"));
        assert_eq!(answers(&[&seven, &[1, 0, 0, 0, 1]], true).await, status("12"));
        // The client sends nothing more, and does not end the call.
        assert_eq!(answers(&[&seven], true).await, status("4"));
        let (numbers, code) = answers(&[&seven.repeat(1001)], true).await;
        assert_eq!((numbers.len(), &*code), (1000, "8"));
    }

    #[tokio::test]
    async fn a_drain_ends_calls() {
        let (stop, drain) = drain::channel();
        drop(stop);
        let ended = answers_until(&[&frame(&7_u64)], true, drain).await;
        assert_eq!(ended, (vec![14], "14".to_owned()));
    }
}
