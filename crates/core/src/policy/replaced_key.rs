//! The API key of a request on its way to the upstream: it is removed, and fields say whose it was.

use http::header::{AUTHORIZATION, COOKIE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::fields;
use super::identified::KnownKey;
use super::pairs;
use super::{Clients, KeySettings};
use crate::request::Fields;

impl Clients {
    /// Whether only known keys are API keys.
    pub const fn knows_keys(&self) -> bool {
        self.settings.keys.is_some()
    }

    /// Removes the API key of a request and the fields that only the gateway may write, and writes
    /// these fields for `key`. The key stays in the fields that `is_kept` selects: they are for an
    /// authorizer, or from one. In the query it is removed in any case. Without [`KeySettings`],
    /// nothing changes.
    pub fn replace_key(
        &self,
        head: &mut Parts,
        key: Option<&KnownKey<'_>>,
        is_kept: impl Fn(&HeaderName) -> bool,
    ) {
        let Some(keys) = &self.settings.keys else { return };
        if !keys.forward {
            self.remove_key(head, keys, key.is_some(), is_kept);
        }
        for (part, name) in &keys.identity_headers {
            let value = key.and_then(|key| key.identity(*part));
            match value.and_then(|value| HeaderValue::from_str(value).ok()) {
                Some(value) => drop(head.headers.insert(name.clone(), value)),
                None => drop(head.headers.remove(name)),
            }
        }
    }

    fn remove_key(
        &self,
        head: &mut Parts,
        keys: &KeySettings,
        is_known: bool,
        is_kept: impl Fn(&HeaderName) -> bool,
    ) {
        let settings = &self.settings;
        let source = &settings.api_key;
        let removed = source.headers.iter().filter(|name| !is_kept(name));
        removed.for_each(|name| drop(head.headers.remove(name)));
        let is_key = |token: &[u8]| {
            let is_foreign = keys.foreign && is_known && !settings.reads_tokens();
            keys.form.begins(token) || is_foreign
        };
        if source.bearer
            && !is_kept(&AUTHORIZATION)
            && fields::bearer(Fields::of(&head.headers)).is_ok_and(is_key)
        {
            head.headers.remove(AUTHORIZATION);
        }
        if let Some(name) = &source.query {
            remove_parameter(&mut head.uri, name);
        }
        if let Some(name) = source.cookie.as_ref().filter(|_| !is_kept(&COOKIE)) {
            remove_cookie(&mut head.headers, name);
        }
    }
}

/// Removes the query parameter, in all spellings that some backend takes for it.
fn remove_parameter(uri: &mut Uri, name: &str) {
    let Some(query) = uri.query() else { return };
    let kept: Vec<&str> =
        query.split('&').filter(|pair| !pairs::is_parameter(pair, name)).collect();
    if kept.len() == query.split('&').count() {
        return;
    }
    let path = uri.path();
    let query = kept.join("&");
    let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    // A part of a valid target is valid.
    let Ok(target) = PathAndQuery::try_from(target) else { return };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target);
    if let Ok(changed) = Uri::from_parts(parts) {
        *uri = changed;
    }
}

/// Removes the cookie, in all spellings that some backend takes for it.
fn remove_cookie(headers: &mut HeaderMap, name: &str) {
    let is_it = |pair: &&[u8]| pairs::is_cookie(pair, name);
    let has_it = |line: &HeaderValue| line.as_bytes().split(|it| *it == b';').any(|it| is_it(&it));
    if !headers.get_all(COOKIE).iter().any(has_it) {
        return;
    }
    let lines: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    headers.remove(COOKIE);
    for line in lines {
        let pairs = line.as_bytes().split(|it| *it == b';');
        let kept: Vec<&[u8]> = pairs.filter(|pair| !is_it(pair)).map(<[u8]>::trim_ascii).collect();
        let kept = kept.join(&b"; "[..]);
        if let Some(line) = HeaderValue::from_bytes(&kept).ok().filter(|line| !line.is_empty()) {
            headers.append(COOKIE, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_removed_in_all_its_spellings() {
        let removed = |target: &str| {
            let mut uri: Uri = target.parse().unwrap();
            remove_parameter(&mut uri, "api_key");
            uri.to_string()
        };
        for (before, after) in [
            ("/a?api_key=x", "/a"),
            ("/a?b=1&api_key=x&c", "/a?b=1&c"),
            ("/a?%61pi_key=x&API_KEY=y&api.key=z&b", "/a?b"),
            ("/a?api_keys=1&x=api_key", "/a?api_keys=1&x=api_key"),
            ("/a", "/a"),
            ("http://a.test/?api_key=x&b", "http://a.test/?b"),
        ] {
            assert_eq!(removed(before), after, "{before}");
        }
    }

    #[test]
    fn a_cookie_is_removed_and_the_others_stay() {
        let removed = |lines: &[&'static str]| {
            let value = |line: &&'static str| (COOKIE, HeaderValue::from_static(line));
            let mut headers: HeaderMap = lines.iter().map(value).collect();
            remove_cookie(&mut headers, "key");
            let left = headers.get_all(COOKIE).iter().map(|it| it.to_str().unwrap().to_owned());
            left.collect::<Vec<_>>()
        };
        assert_eq!(removed(&["a=1; key=x; b=2"]), ["a=1; b=2"]);
        assert_eq!(removed(&["key=x", "KEY=y; b=2"]), ["b=2"]);
        assert_eq!(removed(&["a=1;b=key"]), ["a=1;b=key"], "nothing changes");
    }
}
