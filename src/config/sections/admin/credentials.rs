//! `tokens` and `clients` of the admin listener.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::admin::{ClientSettings, Role, TokenDigest, TokenSettings};
use crate::api_keys::Teams;
use crate::config::field::{Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::scalar::Date;
use crate::config::sections::context::Context;
use crate::config::words::{Word, words};

/// All tokens are compared with each call.
const MAX_TOKENS: usize = 64;
/// Shorter tokens can be found by trial.
const MIN_TOKEN_CHARS: usize = 16;
const MAX_TOKEN_CHARS: usize = 1024;
/// The name of the one in `token`, for the audit log.
const NAME_OF_SHORT_FORM: &str = "token";

/// A token.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "admin token", default)]
#[schemars(deny_unknown_fields, extend("required" = ["name", "role", "token"]))]
pub struct RawAdminToken {
    /// The name of the owner, for the audit log.
    #[schemars(example = &"prometheus")]
    name: Field<String>,
    /// What the token allows.
    role: Field<Word<Role>>,
    /// The token, of at least 16 characters.
    #[schemars(example = &"${TOLLGATE_SCRAPE_TOKEN}")]
    token: Field<String>,
    /// The teams whose API keys the token may see and change.
    #[schemars(extend("x-default" = "all"))]
    #[schemars(example = serde_json::json!(["acme"]))]
    teams: List<String>,
    /// The date from which on the token is not valid.
    #[schemars(extend("x-default" = "never"))]
    #[schemars(example = &"2027-01-31")]
    expires: Field<Date>,
}

/// A client that is recognised by its certificate.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "admin client", default)]
#[schemars(deny_unknown_fields, extend("required" = ["subject", "role"]))]
pub struct RawAdminClient {
    /// The subject of the certificate.
    #[schemars(example = &"CN=deployer")]
    subject: Field<String>,
    /// What the client may do.
    role: Field<Word<Role>>,
}

words! {
    /// What a credential allows.
    Role as "role" {
        /// To make and change API keys, and nothing else.
        "keys" => Role::Keys,
        /// To read the metrics.
        "metrics" => Role::Metrics,
        /// To read everything.
        "read" => Role::Read,
        /// To read everything, to check configurations, and to make changes.
        "operate" => Role::Operate,
    }
}

/// The tokens that are valid, each with a name of its own.
pub struct Tokens(pub Vec<TokenSettings>);

impl Tokens {
    /// The tokens of the short form and of the list.
    pub fn compile(short: &Field<String>, list: &List<RawAdminToken>, cx: &Context<'_>) -> Self {
        let advice = "add one, like { name: oncall, role: operate, token: \"${SECRET}\" }";
        cx.not_empty(list, "there are no tokens", advice);
        cx.at_most(list, "tokens", MAX_TOKENS);
        let mut tokens = Self(Vec::new());
        if let Some(token) = short.given() {
            let digest = digest(token, cx);
            let name = NAME_OF_SHORT_FORM.to_owned();
            let settings = digest.map(|digest| TokenSettings {
                name,
                role: Role::Operate,
                teams: Teams::All,
                digest,
                expires: None,
            });
            tokens.add(settings, token.span, cx);
        }
        for raw in list.items() {
            let settings = raw.value.compile(raw.span, cx);
            tokens.add(settings, raw.value.name.span().unwrap_or(raw.span), cx);
        }
        tokens
    }

    fn add(&mut self, token: Option<TokenSettings>, span: TextSpan, cx: &Context<'_>) {
        let Some(token) = token else { return };
        if self.0.iter().any(|other| other.name == token.name) {
            let message = format!("two tokens have the name \"{}\"", token.name);
            cx.error(span, &message, "the audit log tells them apart by their names");
        } else if self.0.iter().any(|other| other.digest == token.digest) {
            let advice = "give each owner another token";
            cx.error(span, "this token is the same as another one", advice);
        }
        self.0.push(token);
    }
}

/// The token of the list that allows most.
pub fn strongest(tokens: &List<RawAdminToken>) -> Option<String> {
    let tokens = tokens.items().map(|it| &it.value);
    let tokens = tokens.filter_map(|it| Some((it.role.word()?, it.token.value()?)));
    tokens.max_by_key(|(role, _)| *role).map(|(_, token)| token.clone())
}

impl RawAdminToken {
    fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<TokenSettings> {
        let lack = |name| format!("the token has no \"{name}\"");
        cx.required(&self.name, span, &lack("name"), "name its owner, like name: oncall");
        cx.required(&self.role, span, &lack("role"), "write metrics, read, operate or keys");
        cx.required(&self.token, span, &lack("token"), "like token: \"${SECRET}\"");
        if let Some(name) = self.name.given() {
            cx.check_name(name, "token");
        }
        let digest = self.token.given().and_then(|token| digest(token, cx));
        Some(TokenSettings {
            name: self.name.given()?.shown().to_owned(),
            role: self.role.word()?,
            teams: self.teams(cx),
            digest: digest?,
            expires: self.expires.copied().map(|Date(time)| time),
        })
    }
}

impl RawAdminToken {
    /// The teams to which the token is bound.
    fn teams(&self, cx: &Context<'_>) -> Teams {
        cx.not_empty(&self.teams, "there are no teams", "leave the field out, or name one");
        match self.teams.is_absent() {
            true => Teams::All,
            false => Teams::Only(self.teams.items().map(|team| team.value.clone()).collect()),
        }
    }
}

impl RawAdminClient {
    /// The settings of the client that is written at `span`.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Option<ClientSettings> {
        let lack = |name| format!("the client has no \"{name}\"");
        cx.required(&self.subject, span, &lack("subject"), "like subject: CN=deployer");
        cx.required(&self.role, span, &lack("role"), "write metrics, read, operate or keys");
        let subject = self.subject.given()?;
        if subject.value.is_empty() {
            cx.error(subject.span, "the \"subject\" is empty", "like subject: CN=deployer");
        }
        Some(ClientSettings { subject: subject.value.clone(), role: self.role.word()? })
    }
}

/// The digest of a token that is long enough. No message contains the token.
pub fn digest(token: &Spanned<String>, cx: &Context<'_>) -> Option<TokenDigest> {
    let length = token.value.len();
    if !token.value.chars().all(|c| c.is_ascii_graphic()) {
        let message = "the token contains characters that a header field cannot have";
        cx.error(token.span, message, "use letters, digits and - . _ ~ + / =");
        return None;
    }
    if length < MIN_TOKEN_CHARS {
        let message = format!("the token has fewer than {MIN_TOKEN_CHARS} characters");
        cx.error(token.span, &message, "make one: openssl rand -hex 32");
        return None;
    }
    if length > MAX_TOKEN_CHARS {
        let message = format!("the token has more than {MAX_TOKEN_CHARS} characters");
        cx.error(token.span, &message, "make one: openssl rand -hex 32");
        return None;
    }
    Some(TokenDigest::of(token.value.as_bytes()))
}
