//! `refusals` of a route: the form of the responses that the gateway itself makes.

use tollgate_core::refusal::ApiForm;

use crate::config::words::words;

words! {
    /// The form of the responses that the gateway itself makes.
    Option<ApiForm> as "refusals" {
        /// Problem details (RFC 9457), text or a page, as the client accepts.
        "problem" => None,
        /// Errors as of the API of OpenAI and of servers that are compatible with it.
        "openai" => Some(ApiForm::OpenAi),
        /// Errors as of the API of Anthropic.
        "anthropic" => Some(ApiForm::Anthropic),
        /// Errors as of the API of Gemini, and of other APIs of Google.
        "gemini" => Some(ApiForm::Gemini),
    }
}
