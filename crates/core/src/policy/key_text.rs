//! Keys that are written down: as text that a person writes, or as words with their values.
//!
//! Both lead to the same principal as a request that has this key.
//!
//! The text of a single word is its value. The text of several words has the form of a query:
//! each word of the configuration with its value, separated by `&`, like `user=ann&path=/x`. A
//! value contains `%26` for `&` and `%25` for `%`. A program that has values hands over words and
//! values, and no text: a value that it does not escape could name another key.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use http::HeaderValue;
use http::uri::PathAndQuery;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use smallvec::SmallVec;
use thiserror::Error;

use super::fields::credential;
use super::pairs::normal_cookie;
use super::partition::{with_network, with_single, with_value};
use super::value::{Single, Tag, key_path, of_body};
use super::{ClientSettings, GeoCode, KeyExpr};
use crate::api_keys::KeyId;
use crate::digest::{Digest, Principal, Secret};
use crate::request::{ContentWord, method_of, normal_host, normal_path, without_port};

/// The most words of a text.
const MAX_WORDS: usize = 128;
/// The text of the key that all clients have.
const GLOBAL: &str = "global";
/// What is escaped in a word of a text.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%').add(b'&').add(b'=');

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
    /// An escape in the text is no part of a character.
    #[error("\"{0}\" has an escape that is not UTF-8, and no key is written like this")]
    Escape(String),
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
        match key {
            KeyExpr::First(_) | KeyExpr::All(_) => self.composed(key, text),
            single => self.digested(&[single], |_| Some(text)),
        }
    }

    /// The principal of a request for which `value` returns the values of words, for policies
    /// with the key `key`. As in a request, an empty value counts as absent, a path may have a
    /// query, and a host may have a port.
    ///
    /// # Errors
    /// If the request lacks the key, or no request can have one of the values.
    pub fn principal_of<'v>(
        &self,
        key: &KeyExpr,
        value: impl Fn(&KeyExpr) -> Option<&'v str>,
    ) -> Result<Principal, KeyTextError> {
        let value = |word: &KeyExpr| match (word, value(word.unfolded())?) {
            (_, "") => None,
            (KeyExpr::Path, target) => target.split('?').next(),
            (KeyExpr::Host, authority) => Some(without_port(authority)),
            (_, other) => Some(other),
        };
        let mut chosen = SmallVec::new();
        if !key.choose(&|word| value(word).is_some(), &mut chosen) {
            return Err(KeyTextError::Composed(key.form()));
        }
        self.digested(&chosen, value)
    }

    /// The id of the API key in the text of a key, if one of its words is `api_key`.
    pub fn api_key(&self, key: &KeyExpr, text: &str) -> Option<KeyId> {
        self.client.keys.as_ref()?;
        match key {
            KeyExpr::ApiKey => text.parse().ok(),
            KeyExpr::First(_) | KeyExpr::All(_) if key.has(&KeyExpr::ApiKey) => {
                let pairs = read(text).ok()?;
                let pair = pairs.iter().find(|pair| pair.word == Some(KeyExpr::ApiKey))?;
                pair.value.parse().ok()
            }
            _ => None,
        }
    }

    /// Whether some request can have this value of a word.
    ///
    /// # Errors
    /// If no request can have it.
    pub fn check(&self, word: &KeyExpr, value: &str) -> Result<(), KeyTextError> {
        self.principal_of(word, |_| Some(value)).map(drop)
    }

    fn composed(&self, key: &KeyExpr, text: &str) -> Result<Principal, KeyTextError> {
        let pairs = read(text)?;
        let find =
            |word: &KeyExpr| pairs.iter().find(|pair| pair.word.as_ref() == Some(word.unfolded()));
        let mut chosen = SmallVec::new();
        let is_whole = key.choose(&|word| find(word).is_some(), &mut chosen);
        let counts = |pair: &Pair<'_>| {
            let Some(word) = &pair.word else { return false };
            let is_chosen = || chosen.iter().any(|own| own.unfolded() == word);
            let is_part = if is_whole { is_chosen() } else { key.has(word) };
            is_part && find(word).is_some_and(|first| std::ptr::eq(first, pair))
        };
        match pairs.iter().position(|pair| !counts(pair)) {
            Some(index) => {
                let word = pairs[index].written.to_string();
                Err(KeyTextError::Unknown { word, form: key.form() })
            }
            None if !is_whole => Err(KeyTextError::Composed(key.form())),
            None => self.digested(&chosen, |word| find(word).map(|pair| &*pair.value)),
        }
    }

    /// The principal with the values of these words, in their order.
    fn digested<'v>(
        &self,
        words: &[&KeyExpr],
        value: impl Fn(&KeyExpr) -> Option<&'v str>,
    ) -> Result<Principal, KeyTextError> {
        let mut digest = self.secret.digest();
        for word in words {
            digest = match word {
                KeyExpr::All(_) => with_value(digest, Tag::All, b""),
                // It is left out in a text of several words.
                KeyExpr::Global => self.with(word, value(word).unwrap_or(GLOBAL), digest)?,
                word => self.with(word, value(word).unwrap_or_default(), digest)?,
            };
        }
        Ok(Principal::from_bits(digest.finish()))
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
            KeyExpr::ApiKey if self.client.keys.is_some() => {
                Single::new(Tag::ApiKey, key_id(text)?)
            }
            KeyExpr::ApiKey => Single::new(Tag::ApiKey, api_key(text)?),
            KeyExpr::ApiKeyPart(name) => Single::named(Tag::ApiKeyPart, name, plain()),
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
            KeyExpr::Authorizer(name) => {
                Single::named(Tag::Authorizer, name.as_str(), field(text)?)
            }
            KeyExpr::Body(word @ ContentWord::Form(_)) => {
                of_body(word, text.replace(' ', "+").into_bytes().into())
            }
            KeyExpr::Body(word) => of_body(word, plain().into()),
            KeyExpr::Fold(word) => self.single(word, text)?.folded(),
            KeyExpr::Custom => Single::new(Tag::Custom, plain()),
            KeyExpr::Param(name) => Single::named(Tag::Param, name, segment(text)?),
            KeyExpr::Path => Single::new(Tag::Path, key_path(&path(text)?)),
            KeyExpr::Method => match method_of(plain()) {
                Ok(_) => Single::new(Tag::Method, plain()),
                Err(_) => return Err("write a method in capitals, like GET"),
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
            KeyExpr::Class => Single::new(Tag::Class, plain()),
            KeyExpr::Agent => Single::new(Tag::Agent, plain()),
            KeyExpr::Asn => Single::new(
                Tag::Asn,
                code(text, GeoCode::is_asn).ok_or("write the number of a network, like AS64500")?,
            ),
            KeyExpr::Route if (self.is_route)(text) => Single::new(Tag::Route, plain()),
            KeyExpr::Route => return Err("no route has this name"),
            KeyExpr::Global if text == GLOBAL => Single::new(Tag::Global, &b""[..]),
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

/// The id of a known API key.
fn key_id(text: &str) -> Result<&[u8], &'static str> {
    let advice = "write the id of an API key: 12 characters, and not the key itself";
    text.parse::<KeyId>().map(|_| text.as_bytes()).map_err(|_| advice)
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
    let advice = "write a path as in a URL, like /v1/orders or /a%20b; with its name in \
                  front, write %25 for each %, like path=/a%2520b";
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

/// A word with its value in the text of a key of several words.
struct Pair<'t> {
    written: Cow<'t, str>,
    /// The word. None: it is the word of no key, or has no value to write.
    word: Option<KeyExpr>,
    value: Cow<'t, str>,
}

/// The words of a text, up to one more than a key has.
fn read(text: &str) -> Result<Vec<Pair<'_>>, KeyTextError> {
    let decoded = |part| {
        percent_decode_str(part).decode_utf8().map_err(|_| KeyTextError::Escape(part.to_owned()))
    };
    let pair = |(index, pair): (usize, _)| {
        let (written, value) = str::split_once(pair, '=').unwrap_or((pair, ""));
        let written = decoded(written)?;
        let value = decoded(value)?;
        let word = written.parse().ok();
        let word = word.filter(|word| index < MAX_WORDS && *word != KeyExpr::Global);
        Ok(Pair { written, word, value })
    };
    text.split('&').take(MAX_WORDS + 1).enumerate().map(pair).collect()
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
            KeyExpr::ApiKeyPart(name) => write!(f, "api_key:{name}"),
            KeyExpr::User => f.write_str("user"),
            KeyExpr::Cookie(name) => write!(f, "cookie:{name}"),
            KeyExpr::Header(name) => write!(f, "header:{name}"),
            KeyExpr::Query(name) => write!(f, "query:{name}"),
            KeyExpr::Jwt(claim) => write!(f, "jwt:{claim}"),
            KeyExpr::TlsSubject => f.write_str("tls:subject"),
            KeyExpr::Authorizer(name) => write!(f, "authorizer:{name}"),
            KeyExpr::Param(name) => write!(f, "param:{name}"),
            KeyExpr::Path => f.write_str("path"),
            KeyExpr::Method => f.write_str("method"),
            KeyExpr::Host => f.write_str("host"),
            KeyExpr::Route => f.write_str("route"),
            KeyExpr::Country => f.write_str("country"),
            KeyExpr::Region => f.write_str("region"),
            KeyExpr::Asn => f.write_str("asn"),
            KeyExpr::Class => f.write_str("class"),
            KeyExpr::Agent => f.write_str("agent"),
            KeyExpr::Global => f.write_str("global"),
            KeyExpr::Body(word) => write!(f, "{word}"),
            KeyExpr::Fold(word) => write!(f, "{}", Word(word)),
            KeyExpr::Custom => f.write_str("custom"),
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
            single => {
                let word = Word(single).to_string();
                return write!(f, "{}=...", utf8_percent_encode(&word, ESCAPED));
            }
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
