//! Envoy's service for external authorization: `envoy.service.auth.v3.Authorization`.

mod question;
mod response;

use std::rc::Rc;

use http::{Request, Response, StatusCode};
use tollgate_core::time::monotonic;

use super::body::AnswerBody;
use super::framing::{Failed, deadline, read, reply};
use crate::gateway::{Answers, Gateway, QuestionForm};
use crate::grpc::authorization::CheckRequest;
use crate::server::{ClientBody, Peer};

/// The path of its only method.
pub const PATH: &str = "/envoy.service.auth.v3.Authorization/Check";
/// The largest message. The body of the request has no meaning, so that none need be sent.
const MAX_BYTES: usize = 256 * 1024;

/// Envoy's client waits for a bounded time, which no policy knows. So no answer is held.
const ANSWERS: Answers = Answers {
    admitted: StatusCode::OK,
    refused: StatusCode::TOO_MANY_REQUESTS,
    unavailable: StatusCode::SERVICE_UNAVAILABLE,
    form: QuestionForm::Any,
    may_hold: false,
};

/// Answers one call.
pub async fn answer(
    gateway: &Rc<Gateway>,
    peer: &Peer,
    request: Request<ClientBody>,
) -> Result<Response<AnswerBody>, Failed> {
    let deadline = deadline(request.headers(), monotonic())?;
    let asked: CheckRequest = read(request, MAX_BYTES).await?;
    let mut question = question::question(asked, peer.address.ip())?;
    question.answer_by = deadline;
    let response = gateway.authorize(question, &ANSWERS).await;
    Ok(reply(&response::of(response).await))
}
