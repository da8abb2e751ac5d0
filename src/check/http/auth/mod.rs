//! Forward-auth: another proxy asks whether it may forward a request of its client.

mod family;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::rc::Rc;

use http::{Request, Response, StatusCode};
use hyper::body::Body as _;

use self::family::Family;
use crate::check::settings::{HttpSettings, Statuses};
use crate::gateway::{Answers, Gateway, Question, QuestionForm, ResponseBody};
use crate::server::{ClientBody, Peer};

/// Answers the question of another proxy. Returns the request if its path is none for questions.
///
/// The body of a question has no meaning. The server reads the rest of a short one, so that the
/// connection stays open.
pub(super) async fn answer(
    gateway: &Rc<Gateway>,
    settings: &HttpSettings,
    peer: &Peer,
    request: Request<ClientBody>,
) -> Result<Response<ResponseBody>, Request<ClientBody>> {
    let Some(family) = Family::of(request.uri().path()) else { return Err(request) };
    let has_content = !request.body().is_end_stream();
    let (mut head, _) = request.into_parts();
    let fault = family.restore(&mut head).err();
    let (parts, asker) = (family.parts(), peer.address.ip());
    let (client, answer_by) = (None, None);
    let question = Question { head, fault, parts, has_content, asker, client, answer_by };
    Ok(gateway.authorize(question, &family.answers(settings.statuses)).await)
}

impl Family {
    /// The answers that the proxies understand which describe requests in this way.
    const fn answers(self, statuses: Statuses) -> Answers {
        let Statuses { admitted, refused, unavailable } = statuses;
        let answers =
            Answers { admitted, refused, unavailable, form: QuestionForm::Any, may_hold: true };
        match self {
            Self::Forwarded => answers,
            Self::Original => Answers { form: QuestionForm::OnlyForbidden, ..answers },
            // Envoy takes every other status for a refusal.
            Self::Prefixed => Answers { admitted: StatusCode::OK, ..answers },
        }
    }
}
