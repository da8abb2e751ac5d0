//! Forward-auth: another proxy asks whether it may forward a request of its client.

mod family;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;

use std::rc::Rc;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Body as _;
use tollgate_core::request::{Malformed, is_disguised};

use self::family::Family;
use crate::check::settings::{HttpSettings, Statuses};
use crate::gateway::{Answers, Gateway, Question, QuestionForm, ResponseBody};
use crate::server::{ClientBody, ListenerSettings, Peer};

/// Whether a path is one for questions.
pub fn is_served(path: &str) -> bool {
    Family::of(path).is_some()
}

/// Answers the question of another proxy. Returns the request if its path is none for questions.
///
/// The body of a question has no meaning. The server reads the rest of a short one, so that the
/// connection stays open.
pub async fn answer(
    gateway: &Rc<Gateway>,
    settings: &HttpSettings,
    peer: &Peer,
    request: Request<ClientBody>,
) -> Result<Response<ResponseBody>, Request<ClientBody>> {
    let Some(family) = Family::of(request.uri().path()) else { return Err(request) };
    let has_content = !request.body().is_end_stream();
    let (mut head, _) = request.into_parts();
    let fault = family.restore(&mut head).err();
    if let (None, Err(malformed)) = (fault, check_bounds(&head)) {
        head.extensions.insert(malformed);
    }
    let parts = family.parts();
    let asker = peer.address.ip();
    let client = None;
    let answer_by = None;
    let question = Question { head, fault, parts, has_content, asker, client, answer_by };
    Ok(gateway.authorize(question, &family.answers(settings.statuses)).await)
}

/// Checks a request that a question describes by the bounds that a listener usually has.
///
/// # Errors
/// If such a listener would refuse the request. What it refuses besides is checked with the
/// question, or later with every request.
fn check_bounds(head: &Parts) -> Result<(), Malformed> {
    let fields = &head.headers;
    if fields.len() > ListenerSettings::FIELDS {
        return Err(Malformed::TooManyFields);
    }
    if fields.keys().any(|name| is_disguised(name.as_str().as_bytes())) {
        return Err(Malformed::DisguisedName);
    }
    let line = |name: &str, value: &[u8]| name.len() + ": ".len() + value.len() + "\r\n".len();
    let lines = fields.iter().map(|(name, value)| line(name.as_str(), value.as_bytes()));
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    let request_line = head.method.as_str().len() + target + "  HTTP/1.1\r\n\r\n".len();
    if request_line + lines.sum::<usize>() > ListenerSettings::HEAD_BYTES {
        return Err(Malformed::HeadTooLarge);
    }
    Ok(())
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
