//! Warnings of credentials that scripts of other origins cannot send.

use http::HeaderName;
use http::header::AUTHORIZATION;
use tollgate_core::policy::{AuthMethod, ClientSettings};

use super::context::Context;
use super::routes::RawRoute;
use crate::config::field::List;
use crate::config::model::Config;
use crate::message::Cors;

/// Warns of routes with `auth` whose `cors` allows none of the fields of a credential: browsers
/// then refuse to send it.
pub fn warn(raw: &List<RawRoute>, config: &Config, cx: &Context<'_>) {
    for (index, (raw, route)) in raw.items().zip(&config.routes).enumerate() {
        let Some(cors) = &route.handling.cors else { continue };
        for method in &route.rule.auth {
            let fields = fields_of(*method, &config.client, cors);
            if fields.is_empty() || fields.iter().any(|name| cors.allows_field(name.as_str())) {
                continue;
            }
            let name = raw.value.shown_name(index);
            let names: Vec<&str> = fields.iter().map(HeaderName::as_str).collect();
            let message = format!(
                "scripts of other origins cannot send \"{}\" to route {name}: the \"headers\" of its \
                 \"cors\" lack {}",
                method.word(),
                names.join(" and ")
            );
            let advice = format!("add one, like headers: [{}]", names[0]);
            let span = raw.value.auth_span().unwrap_or_else(|| raw.value.path_span());
            cx.warning(span, &message, &advice);
        }
    }
}

/// The fields in which a script can set the credential. None: it needs no field, or cannot set it.
fn fields_of(method: AuthMethod, client: &ClientSettings, cors: &Cors) -> Vec<HeaderName> {
    match method {
        AuthMethod::ApiKey => {
            let source = &client.api_key;
            let by_cookie = source.cookie.is_some() && cors.allows_credentials();
            if source.query.is_some() || by_cookie {
                return Vec::new();
            }
            let bearer = source.bearer.then_some(AUTHORIZATION);
            source.headers.iter().cloned().chain(bearer).collect()
        }
        AuthMethod::User if client.reads_tokens() => vec![AUTHORIZATION],
        // With credentials, the browser itself sends the password that it has asked for.
        AuthMethod::User if client.passwords().is_some() && !cors.allows_credentials() => {
            vec![AUTHORIZATION]
        }
        AuthMethod::User | AuthMethod::Tls => Vec::new(),
    }
}
