//! The API key of a question: whether it is accepted.

use super::asked::{only_address, view};
use super::key::KeyText;
use super::prepare::Asking;
use super::problem::Problem;
use super::question::Question;
use crate::engine::NamedKey;

/// The longest text of a key, in bytes.
const MAX_TEXT: usize = 4096;

/// What the API key of a question has proved. None: the question names none.
///
/// A wrong key counts against the address that the question names, also if another question of the
/// call has a mistake. A question that counts nothing does not count it.
///
/// # Errors
/// If the question has a mistake.
pub async fn named_key<'r>(
    asking: Asking<'r>,
    question: &'r Question,
) -> Result<Option<NamedKey<'r>>, Problem> {
    let Some(KeyText(text)) = &question.api_key else {
        return match question.ip {
            Some(_) => Err(Problem::bad_request("an \"ip\" needs an \"api_key\"").at("/ip")),
            None => Ok(None),
        };
    };
    if question.key.is_some() {
        let detail = "write a \"key\" or an \"api_key\", not both";
        return Err(Problem::bad_request(detail).at("/key"));
    }
    if question.ip.is_some() && question.request.is_some() {
        let detail = "the \"request\" has the \"ip\" of the client";
        return Err(Problem::bad_request(detail).at("/ip"));
    }
    if question.limit.is_some() {
        let detail = "a limit that the question states has a text as its key";
        return Err(Problem::bad_request(detail).at("/api_key"));
    }
    if text.len() > MAX_TEXT {
        let detail = format!("an API key has at most {MAX_TEXT} bytes");
        return Err(Problem::bad_request(detail).at("/api_key"));
    }
    let asked = match &question.request {
        Some(request) => request.asked()?,
        None => only_address(question.ip)?,
    };
    let view = view(&asked)?;
    let has_address = question.ip.is_some() || question.request.is_some();
    let counts = has_address && !question.counts_nothing();
    let clients = asking.gateway.snapshot().rules.clients();
    Ok(Some(asking.gateway.engine().prove_key(clients, text.as_bytes(), &view, counts).await))
}
