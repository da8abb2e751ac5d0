//! `auth` of a route and of `defaults`: the credentials that clients need.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::AuthMethod;

use crate::config::field::{Either, Field, Spanned};
use crate::config::sections::client::RawClient;
use crate::config::sections::context::Context;
use crate::config::words::{Word, words};

/// One word, or a list of them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "auth")]
pub struct RawAuth(Either<Word<Demand>, Vec<Field<Word<AuthMethod>>>>);

/// A single word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Demand(Option<AuthMethod>);

words! {
    /// A credential that a client needs.
    Demand as "credential" {
        /// None.
        "none" => Demand(None),
        /// A known API key.
        "api_key" => Demand(Some(AuthMethod::ApiKey)),
        /// A user: a verified token, or the header of a trusted proxy.
        "user" => Demand(Some(AuthMethod::User)),
        /// A certificate that the listener has verified.
        "tls" => Demand(Some(AuthMethod::Tls)),
    }
}

words! {
    /// One of the credentials of which a client needs one.
    AuthMethod as "credential of a list" {
        /// A known API key.
        "api_key" => AuthMethod::ApiKey,
        /// A user: a verified token, or the header of a trusted proxy.
        "user" => AuthMethod::User,
        /// A certificate that the listener has verified.
        "tls" => AuthMethod::Tls,
    }
}

impl RawAuth {
    /// The methods for what `owner` stands for. There are errors for those that no client of the
    /// gateway can use.
    pub fn compile(
        raw: &Field<Self>,
        owner: &str,
        client: &RawClient,
        cx: &Context<'_>,
    ) -> Box<[AuthMethod]> {
        let Some(given) = raw.given() else { return Box::default() };
        let words: Vec<Spanned<AuthMethod>> = match &given.value.0 {
            Either::Short(Word(Demand(method))) => {
                method.map(|method| given.with(method)).into_iter().collect()
            }
            Either::Long(list) => {
                if list.is_empty() {
                    let message = format!("{owner} asks for one of no credentials");
                    cx.error(given.span, &message, "write auth: none, or name some");
                }
                let words = list.iter().filter_map(Field::given);
                words.map(|word| word.with(word.value.0)).collect()
            }
        };
        let mut methods: Vec<AuthMethod> = Vec::new();
        for word in &words {
            if methods.contains(&word.value) {
                let message = format!("{owner} names \"{}\" twice", word.value.word());
                cx.error(word.span, &message, "remove one of them");
                continue;
            }
            methods.push(word.value);
            let facts = client.facts();
            let lacking = match word.value {
                AuthMethod::ApiKey if !facts.keys => Some((
                    "an API key, and \"client\" has no \"keys\"",
                    "add client: { keys: { file: keys.yaml } }",
                )),
                AuthMethod::User if !facts.user => Some((
                    "a user, and \"client\" has no \"user\"",
                    "add client: { user: { jwt: ... } }",
                )),
                _ => None,
            };
            if let Some((lacking, advice)) = lacking {
                cx.error(word.span, &format!("{owner} asks for {lacking}"), advice);
            }
        }
        methods.into()
    }
}
