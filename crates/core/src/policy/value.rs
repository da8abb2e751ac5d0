//! The value that a key expression finds in a request, and its kind.
//!
//! Keys are digests of such values. The name of a client's plan is such a value, too.

use std::borrow::Cow;

use http::Method;

use super::fields::{self, Lack};
use super::fold::fold;
use super::pairs;
use super::{GeoCode, KeyExpr, Subject, UserSource};
use crate::request::{Content, ContentWord, loose_path, slashed_path};

/// The kind of the value that follows the tag.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Tag {
    Ip = 1,
    ApiKey = 2,
    User = 3,
    Cookie = 4,
    Header = 5,
    Query = 6,
    Jwt = 7,
    Param = 8,
    Path = 9,
    Method = 10,
    Host = 11,
    Route = 12,
    Global = 13,
    All = 14,
    /// The client's address instead of a missing key. It is not [`Tag::Ip`]: a client
    /// whose key is its address shares no counter with a client that has no key.
    StandIn = 15,
    TlsSubject = 16,
    Country = 17,
    Region = 18,
    Asn = 19,
    Custom = 20,
    ApiKeyPart = 21,
    Authorizer = 24,
    Class = 25,
    Json = 26,
    Form = 27,
    McpMethod = 28,
    McpTool = 29,
    Agent = 30,
}

/// One value of a request.
pub(super) struct Single<'a> {
    pub(super) tag: Tag,
    /// The name of the value, if a request may have several values of the kind.
    pub(super) name: Option<&'a str>,
    pub(super) value: Cow<'a, [u8]>,
}

impl<'a> Single<'a> {
    pub(super) fn new(tag: Tag, value: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { tag, name: None, value: value.into() }
    }

    pub(super) fn named(tag: Tag, name: &'a str, value: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { tag, name: Some(name), value: value.into() }
    }

    /// Whether a configuration writes this value as `text`.
    pub(super) fn is(&self, text: &str) -> bool {
        let is_same = |(value, written): (&u8, u8)| {
            *value == written || written == b' ' && *value == b'+' && self.is_from_query()
        };
        self.value.len() == text.len() && self.value.iter().zip(text.bytes()).all(is_same)
    }

    /// The same in the form that all spellings of a name have.
    pub(super) fn folded(self) -> Self {
        // A plus sign may be a blank, which does not count around a name.
        let value = match self.is_from_query() && self.value.contains(&b'+') {
            true => {
                let blank = |byte: &u8| if *byte == b'+' { b' ' } else { *byte };
                self.value.iter().map(blank).collect()
            }
            false => self.value,
        };
        Self { value: fold(value), ..self }
    }

    const fn is_from_query(&self) -> bool {
        matches!(self.tag, Tag::Query | Tag::Form)
    }
}

impl Subject<'_, '_> {
    /// The single value of `key`. An address is in its usual form. Of several alternatives,
    /// the first that the request has counts. All of several keys have no single value.
    pub(super) fn single<'a>(&'a self, key: &'a KeyExpr) -> Result<Single<'a>, Lack> {
        let request = self.request;
        match key {
            KeyExpr::Ip => Ok(Single::new(Tag::Ip, self.client_ip().to_string().into_bytes())),
            KeyExpr::ApiKey if self.clients.settings.keys.is_some() => self.key_id(),
            KeyExpr::ApiKey => self.presented().map(|value| Single::new(Tag::ApiKey, value)),
            KeyExpr::ApiKeyPart(name) => self.key_part(name),
            KeyExpr::User => self.user().map(|value| Single::new(Tag::User, value)),
            KeyExpr::Cookie(name) => pairs::cookie(request.headers(), name)
                .map(|value| Single::named(Tag::Cookie, name, value)),
            KeyExpr::Header(name) => fields::header(request.fields(), name)
                .map(|value| Single::named(Tag::Header, name.as_str(), value)),
            KeyExpr::Query(name) => pairs::query(request.query(), name)
                .map(|value| Single::named(Tag::Query, name, value)),
            KeyExpr::Jwt(claim) => {
                self.claim(claim).map(|value| Single::named(Tag::Jwt, claim, value.as_bytes()))
            }
            KeyExpr::TlsSubject => {
                let subject = request.tls_subject().ok_or(Lack::Absent)?;
                Ok(Single::new(Tag::TlsSubject, subject.as_bytes()))
            }
            // Before the authorizer has answered, the field is what the client has written.
            KeyExpr::Authorizer(_) if !request.is_authorized() => Err(Lack::Absent),
            KeyExpr::Authorizer(name) => fields::header(request.fields(), name)
                .map(|value| Single::named(Tag::Authorizer, name.as_str(), value)),
            KeyExpr::Body(word) => self.in_body(word),
            KeyExpr::Fold(word) => {
                let Single { tag, name, value } = self.single(word)?.folded();
                Ok(Single { tag, name, value: fields::present(value)? })
            }
            KeyExpr::Param(name) => {
                self.param(name).map(|value| Single::named(Tag::Param, name, value.as_bytes()))
            }
            KeyExpr::Path => Ok(Single::new(Tag::Path, key_path(request.path()))),
            KeyExpr::Method => {
                self.method().map(|method| Single::new(Tag::Method, method.as_str().as_bytes()))
            }
            KeyExpr::Host if request.host().is_empty() => Err(Lack::Absent),
            KeyExpr::Host => Ok(Single::new(Tag::Host, request.host().as_bytes())),
            KeyExpr::Route => {
                let route = self.route.ok_or(Lack::Absent)?;
                Ok(Single::new(Tag::Route, route.name.as_bytes()))
            }
            KeyExpr::Country => code(Tag::Country, &self.place().country),
            KeyExpr::Region => code(Tag::Region, &self.place().region),
            KeyExpr::Asn => code(Tag::Asn, &self.place().asn),
            KeyExpr::Class => {
                self.class_or_lack().map(|name| Single::new(Tag::Class, name.as_bytes()))
            }
            KeyExpr::Agent => {
                self.agent_or_lack().map(|name| Single::new(Tag::Agent, name.as_bytes()))
            }
            KeyExpr::Global => Ok(Single::new(Tag::Global, &b""[..])),
            KeyExpr::First(keys) => self.first(keys, |key| self.single(key)),
            KeyExpr::Custom | KeyExpr::All(_) => Err(Lack::Absent),
        }
    }

    /// The result of `find` for the first of `keys` that the request has. A key that is
    /// present but cannot be used is not skipped. Otherwise a client could add any other
    /// key after it.
    pub(super) fn first<'k, T>(
        &self,
        keys: &'k [KeyExpr],
        find: impl Fn(&'k KeyExpr) -> Result<T, Lack>,
    ) -> Result<T, Lack> {
        let mut found = keys.iter().map(find);
        found.find(|found| !matches!(found, Err(Lack::Absent))).unwrap_or(Err(Lack::Absent))
    }

    /// A value in the body.
    fn in_body<'a>(&'a self, word: &'a ContentWord) -> Result<Single<'a>, Lack> {
        let Content::Read(values) = self.request.values() else { return Err(Lack::Absent) };
        match values.get(word) {
            Ok(Some(value)) => Ok(of_body(word, fields::present(value.into())?)),
            Ok(None) => Err(Lack::Absent),
            Err(_) => Err(Lack::Ambiguous),
        }
    }

    /// A parameter of the route's path. Backends that treat an escaped slash as a slash
    /// must find the same value.
    fn param(&self, name: &str) -> Result<&str, Lack> {
        let value = self.params().get(name).ok_or(Lack::Absent)?;
        if self.route.is_some_and(|route| route.path_match.exact_escaped_slash) {
            return Ok(value);
        }
        match slashed_path(self.request.path()) {
            Some(path) if self.params_of(&path).get(name) != Some(value) => Err(Lack::Ambiguous),
            _ => Ok(value),
        }
    }

    /// The method, if no field overrides it.
    pub(super) fn method(&self) -> Result<&Method, Lack> {
        let method = self.request.method();
        match self.request.overriding_method() {
            Ok(overriding) if overriding.as_ref().is_none_or(|other| other == method) => Ok(method),
            _ => Err(Lack::Ambiguous),
        }
    }

    pub(super) fn user(&self) -> Result<&[u8], Lack> {
        match &self.clients.settings.user {
            #[cfg(feature = "jwt")]
            Some(UserSource::Jwt(settings)) => self.claim(settings.claim()).map(str::as_bytes),
            Some(UserSource::Header(name)) if self.is_from_trusted_peer() => {
                fields::header(self.request.fields(), name)
            }
            Some(UserSource::Basic(_)) => self.user_by_password(),
            Some(UserSource::Header(_)) | None => Err(Lack::Absent),
        }
    }

    fn claim(&self, claim: &str) -> Result<&str, Lack> {
        self.claims()?.get(claim).ok_or(Lack::Absent)
    }
}

/// The value of a word in the body.
pub(super) fn of_body<'a>(word: &'a ContentWord, value: Cow<'a, [u8]>) -> Single<'a> {
    let tag = match word {
        // The last two are never a key.
        ContentWord::Json(_) | ContentWord::Calls | ContentWord::AskUsage => Tag::Json,
        ContentWord::Form(_) => Tag::Form,
        ContentWord::McpMethod => Tag::McpMethod,
        ContentWord::McpTool => Tag::McpTool,
    };
    Single { tag, name: word.name(), value }
}

fn code(tag: Tag, code: &Option<GeoCode>) -> Result<Single<'_>, Lack> {
    code.as_ref().map(|code| Single::new(tag, code.as_str().as_bytes())).ok_or(Lack::Absent)
}

/// A path in the normal form that keys use. All paths that some backend treats as the same
/// have the same form.
pub(super) fn key_path(normal: &str) -> Vec<u8> {
    let slashed = slashed_path(normal);
    let loose = loose_path(slashed.as_deref().unwrap_or(normal));
    // The root is not empty.
    if loose.is_empty() { b"/".to_vec() } else { loose.into_owned().into_bytes() }
}
