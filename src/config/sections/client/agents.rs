//! `client.agents`: agents that sign their requests.

use std::sync::Arc;

use http::HeaderValue;
use jsonwebtoken::Algorithm;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{Agent, Agents, KeySet, MAX_AGENTS};

use super::jwks::RawJwks;
use crate::config::field::{Field, List, Spanned};
use crate::config::model::{KeySource, Signed};
use crate::config::node::TextSpan;
use crate::config::scalar::{DocumentUrl, Period};
use crate::config::sections::context::Context;

/// Where an agent publishes its keys.
const DIRECTORY: &str = "/.well-known/http-message-signatures-directory";
const MEDIA_TYPES: HeaderValue = HeaderValue::from_static(
    "application/http-message-signatures-directory+json, application/json;q=0.9, */*;q=0.1",
);

/// Agents that sign their requests (Web Bot Auth, RFC 9421). See docs/agents.md.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "agents", default)]
#[schemars(deny_unknown_fields, extend("required" = ["allow"]))]
pub struct RawAgents {
    /// The origins of the agents, as they write them in Signature-Agent. The gateway fetches the keys
    /// of each, and no others.
    #[schemars(example = ["https://bot.example"])]
    allow: List<String>,
    /// Whether responses to requests that exceed a limit ask clients to sign (Accept-Signature).
    #[schemars(extend("default" = false))]
    invite: Field<bool>,
    /// How often the keys are fetched again, from 1s to 1d. The gateway fetches them earlier if the
    /// agent says that they are valid for a shorter time, or if a signature names a key that is not
    /// among them.
    #[schemars(extend("default" = "10m"))]
    #[schemars(example = &"1h")]
    refresh: Field<Period>,
}

/// What is compiled of the section.
pub struct CompiledAgents {
    pub agents: Agents,
    /// Where the keys are, in the same order.
    pub sources: Vec<KeySource>,
}

impl RawAgents {
    /// The agents. The section is written at `span`.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> CompiledAgents {
        if self.allow.items().next().is_none() && !self.allow.is_broken() {
            let message = "\"agents\" allows no agent";
            cx.error(span, message, "like agents: { allow: [\"https://bot.example\"] }");
        }
        cx.at_most(&self.allow, "allow", MAX_AGENTS);
        let mut agents = Vec::<Agent>::new();
        let mut sources = Vec::new();
        for origin in self.allow.items() {
            let Some(source) = self.source(origin, cx) else { continue };
            let name: Arc<str> = origin.value.trim_end_matches('/').into();
            if agents.iter().any(|other| other.name == name) {
                cx.error(origin.span, "the agent is listed twice", "remove one of them");
                continue;
            }
            agents.push(Agent { name, keys: Arc::new(KeySet::new()) });
            sources.push(source);
        }
        let invites = self.invite.copied().unwrap_or(false);
        CompiledAgents { agents: Agents::new(agents, invites), sources }
    }

    /// Where the keys of an agent are.
    fn source(&self, origin: &Spanned<String>, cx: &Context<'_>) -> Option<KeySource> {
        let name = origin.value.trim_end_matches('/');
        let parsed = name.parse::<DocumentUrl>().ok();
        let is_origin = parsed.as_ref().is_some_and(|it| it.path.as_str() == "/")
            && !name.contains(['?', '@'])
            && !name.bytes().any(|byte| byte.is_ascii_uppercase());
        if !is_origin {
            let message = format!("{:?} is not the origin of an agent", origin.shown());
            let advice = "write the scheme and the host in small letters, like https://bot.example";
            cx.error(origin.span, &message, advice);
            return None;
        }
        if parsed.is_some_and(|it| it.is_exposed()) {
            let message =
                "over http, a machine between the gateway and the agent can replace the keys";
            cx.error(origin.span, message, "write https://");
            return None;
        }
        let url = origin.with(format!("{name}{DIRECTORY}"));
        let (mut document, refresh) = RawJwks::fetched_each(&self.refresh).document(&url, cx)?;
        document.accept = MEDIA_TYPES;
        let algorithms = vec![Algorithm::EdDSA];
        let shown = url.shown().to_owned();
        Some(KeySource { document, algorithms, refresh, shown, signed: Signed::Requests })
    }
}
