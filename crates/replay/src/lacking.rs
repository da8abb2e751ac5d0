//! The parts of keys that a log lacks.

use http::header::{COOKIE, USER_AGENT};
use tollgate_core::policy::{AccessList, ClientSettings, KeyExpr, UserSource};

use super::facts::Facts;

/// What an access list compares and the log lacks.
pub(super) fn lacking_of_list(
    facts: &Facts,
    client: &ClientSettings,
    list: &AccessList,
) -> Vec<String> {
    let keys = list.keys().flat_map(|key| {
        let lacking = lacking(facts, client, key);
        lacking.into_iter().chain(masked(facts, key))
    });
    let fields = list.header_names().filter(|name| !facts.has(name));
    let mut lacking: Vec<String> =
        keys.chain(fields.map(|name| format!("header:{name}"))).collect();
    lacking.sort();
    lacking.dedup();
    lacking
}

/// The parts of a key whose values a log of this gateway masks.
pub(super) fn masked(facts: &Facts, key: &KeyExpr) -> Vec<String> {
    let mut masked = Vec::new();
    key.visit(&mut |key| match key {
        KeyExpr::Param(name) if facts.with_parameter > 0 => masked.push(format!("param:{name}")),
        KeyExpr::Path if facts.with_parameter > 0 => masked.push("path".to_owned()),
        _ => {}
    });
    masked
}

/// The parts of a key that no request of the log has.
pub(super) fn lacking(facts: &Facts, client: &ClientSettings, key: &KeyExpr) -> Vec<String> {
    let mut lacking = Vec::new();
    key.visit(&mut |key| {
        let what = match key {
            KeyExpr::ApiKey => {
                let api_key = &client.api_key;
                let in_fields = api_key.headers.iter().any(|name| facts.has(name));
                let in_token = api_key.bearer && facts.has_tokens();
                let in_query = api_key.query.is_some() && facts.with_query > 0;
                (!in_fields && !in_token && !in_query).then(|| "api_key".to_owned())
            }
            KeyExpr::ApiKeyPart(name) => Some(format!("api_key:{name}")),
            KeyExpr::User => match &client.user {
                Some(UserSource::Jwt(_)) => (!facts.has_tokens()).then(|| "user".to_owned()),
                Some(UserSource::Header(name)) => (!facts.has(name)).then(|| "user".to_owned()),
                Some(UserSource::Basic(_)) => Some("user".to_owned()),
                None => None,
            },
            KeyExpr::Jwt(claim) => (!facts.has_tokens()).then(|| format!("jwt:{claim}")),
            KeyExpr::Class => {
                let needs_field = client.classes.as_ref().is_some_and(|it| it.has_texts());
                (needs_field && !facts.has(&USER_AGENT)).then(|| "class".to_owned())
            }
            KeyExpr::Agent => Some("agent".to_owned()),
            KeyExpr::Cookie(name) => (!facts.has(&COOKIE)).then(|| format!("cookie:{name}")),
            KeyExpr::Header(name) => (!facts.has(name)).then(|| format!("header:{name}")),
            KeyExpr::Query(name) => (facts.with_query == 0).then(|| format!("query:{name}")),
            KeyExpr::TlsSubject => Some("tls:subject".to_owned()),
            KeyExpr::Body(word) => Some(word.to_string()),
            KeyExpr::Authorizer(name) => Some(format!("authorizer:{name}")),
            KeyExpr::Host => (facts.with_host == 0).then(|| "host".to_owned()),
            _ => None,
        };
        lacking.extend(what);
    });
    lacking
}
