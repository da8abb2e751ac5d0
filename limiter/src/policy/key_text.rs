//! Keys as text that a person writes: `10.0.0.1`, or `user=ann&path=/x` if a key has
//! several parts.
//!
//! The text leads to the same principal as a request that has this key. The text of a
//! single word is its value. The text of several words has the form of a query: each word
//! of the configuration with its value, separated by `&`. A value contains `%26` for `&`
//! and `%25` for `%`.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use http::uri::PathAndQuery;
use http::{HeaderValue, Method};
use percent_encoding::percent_decode_str;
use thiserror::Error;

use super::fields::credential;
use super::pairs::normal_cookie;
use super::partition::{with_network, with_single, with_value};
use super::value::{Single, Tag, key_path};
use super::{ClientSettings, GeoCode, KeyExpr};
use crate::digest::{Digest, Principal, Secret};
use crate::request::{normal_host, normal_path};

/// Parses keys according to a configuration.
#[derive(Clone, Copy)]
pub struct KeyTexts<'a> {
    /// The settings that identify clients.
    pub client: &'a ClientSettings,
    /// The secret under which principals are digested.
    pub secret: Secret,
    /// Whether a route of this name exists.
    pub is_route: &'a dyn Fn(&str) -> bool,
}

/// The errors of a text that is not such a key. They quote the text, because its author
/// reads them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyTextError {
    /// No request has an empty value.
    #[error("the key's {0} is empty, and no request has such a key")]
    Empty(String),
    /// No request can have this value.
    #[error("\"{value}\" cannot be the key's {key}: {why}")]
    Impossible {
        /// The word in the configuration.
        key: String,
        /// The written value.
        value: String,
        /// The expected form.
        why: &'static str,
    },
    /// The key has several parts, and the text lacks a required one.
    #[error("the policy's key is made of several words; write it as {0}")]
    Composed(String),
    /// The text has a part that the key does not have.
    #[error("the policy's key has no \"{word}\"; write it as {form}")]
    Unknown {
        /// The written part.
        word: String,
        /// The expected form.
        form: String,
    },
}

impl KeyTexts<'_> {
    /// The principal of `text` for policies with the key `key`.
    ///
    /// # Errors
    /// If no request can have this key, or the text does not have the expected form.
    pub fn principal(&self, key: &KeyExpr, text: &str) -> Result<Principal, KeyTextError> {
        let empty = self.secret.digest();
        let digest = match key {
            KeyExpr::First(_) | KeyExpr::All(_) => self.composed(key, text, empty)?,
            single => self.with(single, text, empty)?,
        };
        Ok(Principal::from_bits(digest.finish()))
    }

    fn composed(&self, key: &KeyExpr, text: &str, empty: Digest) -> Result<Digest, KeyTextError> {
        let mut pairs = Pairs::read(text);
        let found = self.with_any(key, &mut pairs, empty)?;
        let form = || Form(key).to_string();
        if let Some(word) = pairs.unused() {
            return Err(KeyTextError::Unknown { word: word.into(), form: form() });
        }
        found.ok_or_else(|| KeyTextError::Composed(form()))
    }

    /// `digest` with the values of `key` in the pairs, if the pairs contain all of them.
    fn with_any(
        &self,
        key: &KeyExpr,
        pairs: &mut Pairs<'_>,
        digest: Digest,
    ) -> Result<Option<Digest>, KeyTextError> {
        match key {
            KeyExpr::First(keys) => {
                for key in keys {
                    let before = pairs.clone();
                    match self.with_any(key, pairs, digest)? {
                        None => *pairs = before,
                        found => return Ok(found),
                    }
                }
                Ok(None)
            }
            KeyExpr::All(keys) => {
                let mut digest = with_value(digest, Tag::All, b"");
                for key in keys {
                    match self.with_any(key, pairs, digest)? {
                        Some(next) => digest = next,
                        None => return Ok(None),
                    }
                }
                Ok(Some(digest))
            }
            KeyExpr::Global => self.with(key, "global", digest).map(Some),
            single => match pairs.take(&Word(single).to_string()) {
                Some(value) => self.with(single, &value, digest).map(Some),
                None => Ok(None),
            },
        }
    }

    /// `digest` with the value `text` of a single word.
    fn with(&self, key: &KeyExpr, text: &str, digest: Digest) -> Result<Digest, KeyTextError> {
        if text.is_empty() {
            return Err(KeyTextError::Empty(Word(key).to_string()));
        }
        let impossible =
            |why| KeyTextError::Impossible { key: Word(key).to_string(), value: text.into(), why };
        if let KeyExpr::Ip = key {
            let address: IpAddr =
                text.parse().map_err(|_| impossible("write an address, like 192.0.2.7"))?;
            return Ok(with_network(digest, Tag::Ip, address.to_canonical(), self.client));
        }
        let single = self.single(key, text).map_err(impossible)?;
        Ok(with_single(digest, &single))
    }

    /// The value in the exact form that requests have it in, or advice about the form.
    pub(super) fn single<'t>(
        &self,
        key: &'t KeyExpr,
        text: &'t str,
    ) -> Result<Single<'t>, &'static str> {
        let plain = || text.as_bytes();
        let normal = |it: Cow<'t, str>| match it {
            Cow::Borrowed(same) => Cow::Borrowed(same.as_bytes()),
            Cow::Owned(changed) => Cow::Owned(changed.into_bytes()),
        };
        Ok(match key {
            KeyExpr::ApiKey => Single::new(Tag::ApiKey, api_key(text)?),
            KeyExpr::User => Single::new(Tag::User, plain()),
            KeyExpr::Cookie(name) => Single::named(Tag::Cookie, name, cookie(text)?),
            KeyExpr::Header(name) => Single::named(Tag::Header, name.as_str(), field(text)?),
            // The value is decoded. A space and a plus sign are the same character in a
            // key.
            KeyExpr::Query(name) => {
                Single::named(Tag::Query, name, text.replace(' ', "+").into_bytes())
            }
            KeyExpr::Jwt(claim) => Single::named(Tag::Jwt, claim, plain()),
            KeyExpr::TlsSubject => Single::new(Tag::TlsSubject, plain()),
            KeyExpr::Param(name) => Single::named(Tag::Param, name, segment(text)?),
            KeyExpr::Path => Single::new(Tag::Path, key_path(&path(text)?)),
            KeyExpr::Method => match Method::from_bytes(plain()) {
                Ok(_) => Single::new(Tag::Method, plain()),
                Err(_) => return Err("write a method, like GET"),
            },
            KeyExpr::Host => {
                let host = normal_host(text).map_err(|_| "write a host without a port")?;
                Single::new(Tag::Host, normal(host))
            }
            KeyExpr::Country => Single::new(
                Tag::Country,
                code(text, GeoCode::is_country)
                    .ok_or("write the two capitals of a country, like DE")?,
            ),
            KeyExpr::Region => Single::new(
                Tag::Region,
                code(text, GeoCode::is_region)
                    .ok_or("write a region with its country, like DE-BE")?,
            ),
            KeyExpr::Asn => Single::new(
                Tag::Asn,
                code(text, GeoCode::is_asn).ok_or("write the number of a network, like AS64500")?,
            ),
            KeyExpr::Route if (self.is_route)(text) => Single::new(Tag::Route, plain()),
            KeyExpr::Route => return Err("no route has this name"),
            KeyExpr::Global if text == "global" => Single::new(Tag::Global, &b""[..]),
            KeyExpr::Global => return Err("the policy has one counter for all; write global"),
            KeyExpr::Ip | KeyExpr::First(_) | KeyExpr::All(_) => {
                return Err("this key does not have a single value");
            }
        })
    }
}

/// The code, if it is of this kind.
fn code(text: &str, is_kind: fn(&GeoCode) -> bool) -> Option<&[u8]> {
    text.parse().ok().filter(is_kind).map(|_| text.as_bytes())
}

/// The value of a header field, without blanks around it (RFC 9110, section 5.5).
fn field(text: &str) -> Result<&[u8], &'static str> {
    match HeaderValue::from_str(text) {
        Ok(_) if text.trim_matches([' ', '\t']) == text => Ok(text.as_bytes()),
        _ => Err("no header field can have this value"),
    }
}

/// An API key. It contains no blank, comma or quote.
fn api_key(text: &str) -> Result<&[u8], &'static str> {
    credential(field(text)?).map_err(|_| "an API key has no blank, comma or quote in it")
}

/// The value of a cookie, without quotes around it.
fn cookie(text: &str) -> Result<Cow<'_, [u8]>, &'static str> {
    let advice = "write the value of a cookie, without quotes";
    if text.contains([';', ',', '"']) {
        return Err(advice);
    }
    normal_cookie(field(text)?).map_err(|_| advice)
}

fn path(text: &str) -> Result<Cow<'_, str>, &'static str> {
    let advice = "write a path as in a URL, like /v1/orders or /a%20b";
    let is_whole = |it: &PathAndQuery| it.path() == text && it.query().is_none();
    match text.parse().ok().filter(is_whole).is_some() && text.starts_with('/') {
        true => normal_path(text).map_err(|_| advice),
        false => Err(advice),
    }
}

/// One segment of a path, in the normal form of paths.
fn segment(text: &str) -> Result<Vec<u8>, &'static str> {
    let whole = format!("/{text}");
    match path(&whole) {
        Ok(normal) if !text.contains('/') => Ok(normal.as_bytes()[1..].to_vec()),
        _ => Err("write one segment of a path as in a URL, like acme or a%20b"),
    }
}

/// The text of a key of several words.
#[derive(Clone)]
struct Pairs<'t>(Vec<(Cow<'t, str>, Cow<'t, str>, bool)>);

impl<'t> Pairs<'t> {
    fn read(text: &'t str) -> Self {
        let decoded = |part: &'t str| percent_decode_str(part).decode_utf8_lossy();
        let pair = |pair: &'t str| {
            let (word, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(word), decoded(value), false)
        };
        Self(text.split('&').map(pair).collect())
    }

    fn take(&mut self, word: &str) -> Option<Cow<'t, str>> {
        let (_, value, used) = self.0.iter_mut().find(|(it, _, used)| it == word && !used)?;
        *used = true;
        Some(value.clone())
    }

    fn unused(&self) -> Option<&str> {
        self.0.iter().find(|(_, _, used)| !used).map(|(word, ..)| &**word)
    }
}

impl KeyExpr {
    /// The form in which a person writes keys: `ip` where the key is one word, whose value is
    /// written alone, and else `user=...&path=...`.
    pub fn form(&self) -> String {
        match self {
            Self::First(_) | Self::All(_) => Form(self).to_string(),
            single => Word(single).to_string(),
        }
    }
}

/// A single word as the configuration writes it.
struct Word<'k>(&'k KeyExpr);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            KeyExpr::Ip => f.write_str("ip"),
            KeyExpr::ApiKey => f.write_str("api_key"),
            KeyExpr::User => f.write_str("user"),
            KeyExpr::Cookie(name) => write!(f, "cookie:{name}"),
            KeyExpr::Header(name) => write!(f, "header:{name}"),
            KeyExpr::Query(name) => write!(f, "query:{name}"),
            KeyExpr::Jwt(claim) => write!(f, "jwt:{claim}"),
            KeyExpr::TlsSubject => f.write_str("tls:subject"),
            KeyExpr::Param(name) => write!(f, "param:{name}"),
            KeyExpr::Path => f.write_str("path"),
            KeyExpr::Method => f.write_str("method"),
            KeyExpr::Host => f.write_str("host"),
            KeyExpr::Route => f.write_str("route"),
            KeyExpr::Country => f.write_str("country"),
            KeyExpr::Region => f.write_str("region"),
            KeyExpr::Asn => f.write_str("asn"),
            KeyExpr::Global => f.write_str("global"),
            KeyExpr::First(_) => f.write_str("first"),
            KeyExpr::All(_) => f.write_str("all"),
        }
    }
}

/// The form in which a key is written: `user=...&path=...`, or `api_key=... or ip=...`.
struct Form<'k>(&'k KeyExpr);

impl fmt::Display for Form<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, between) = match self.0 {
            KeyExpr::First(keys) => (keys, " or "),
            KeyExpr::All(keys) => (keys, "&"),
            KeyExpr::Global => return Ok(()),
            single => return write!(f, "{}=...", Word(single)),
        };
        for (index, key) in keys.iter().filter(|key| **key != KeyExpr::Global).enumerate() {
            let before = if index > 0 { between } else { "" };
            match key {
                KeyExpr::First(_) | KeyExpr::All(_) => write!(f, "{before}({})", Form(key))?,
                _ => write!(f, "{before}{}", Form(key))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
