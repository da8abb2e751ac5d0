//! The API key of a request, if only known keys are API keys.
//!
//! A key is known by the table of a file, or by what a directory has answered before. Two secrets
//! of the same key are the same client. What a request says without a right secret is no more than
//! that it has a key which is not known.

#[cfg(all(test, feature = "keys", feature = "jwt"))]
mod tests;
#[cfg(feature = "keys")]
mod verified;

use std::borrow::Cow;

use tracing::warn;

use super::fields::{self, Lack};
use super::identified::{Identified, KnownKey};
use super::key_settings::{KeySettings, digest};
use super::pairs;
use super::value::{Single, Tag};
use super::{ApiKeySettings, LimitOwner, OverrideLimit, Policy, Subject, UnfitLimit};
use crate::api_keys::{Found, KeyDigest, KeyId, KeyLimit, KeyRefusal, Sought};

/// The limit of a request's API key or team under one policy.
#[derive(Debug)]
pub(crate) enum OwnLimit {
    /// There is none.
    Absent,
    /// The policy cannot count it, and its other limits hold.
    Ignored,
    /// There is no limit.
    Unlimited,
    /// This limit holds instead of the policy's.
    Limited(Box<OverrideLimit>),
    /// It is not in the units of the policy, so that requests cannot be judged.
    Uncountable,
}

impl<'q> Subject<'_, 'q> {
    /// The same client with this API key, whichever key the request has.
    pub const fn with_api_key(mut self, text: &'q [u8]) -> Self {
        self.named_key = Some(text);
        self
    }
}

impl<'r> Subject<'r, '_> {
    /// What the API key of the request says. Without [`KeySettings`], no key is known.
    pub fn identified(&self) -> &Identified<'r> {
        self.identified.get_or_init(|| {
            let Some(keys) = &self.clients.settings.keys else { return Identified::Absent };
            let text = match self.presented() {
                Ok(text) => text,
                Err(Lack::Absent) => return Identified::Absent,
                Err(_) => return Identified::Ambiguous,
            };
            self.identify(keys, &text)
        })
    }

    /// What this text says by the table.
    #[cfg(feature = "keys")]
    fn identify(&self, keys: &'r KeySettings, text: &[u8]) -> Identified<'r> {
        let mut seen = self.secret.digest();
        seen.tag(u8::from(keys.foreign));
        seen.value(keys.form.prefix().as_bytes());
        seen.value(text);
        let seen = seen.finish();
        let known = verified::get(seen);
        let unknown = Identified::Refused(KeyRefusal::Unknown, None);
        let sought = known.map(|(sought, _)| sought).or_else(|| keys.sought(text));
        let Some(sought) = sought else { return unknown };
        let Some(entry) = keys.table.find(&sought) else { return unknown };
        let digest = known.map_or_else(|| KeyDigest::of(text), |(_, digest)| digest);
        let identified = self.admitted(KnownKey::OfTable(entry), &digest);
        if known.is_none() && matches!(identified, Identified::Known(_)) {
            verified::insert(seen, sought, digest);
        }
        identified
    }

    #[cfg(not(feature = "keys"))]
    fn identify(&self, _: &'r KeySettings, _: &[u8]) -> Identified<'r> {
        Identified::Refused(KeyRefusal::Unknown, None)
    }

    /// The client has identified itself so before.
    pub fn identify_as(&self, identified: Identified<'r>) {
        // It fails only if the key was used before.
        let _ = self.identified.set(identified);
    }

    /// The key that the request has proved to have.
    pub fn known_key(&self) -> Option<&KnownKey<'r>> {
        match self.identified() {
            Identified::Known(key) => Some(key),
            _ => None,
        }
    }

    /// What a directory is to be asked for the key of the request. None: the request has no key, or
    /// the answer is known.
    pub fn sought_elsewhere(&self) -> Option<Sought> {
        let keys = self.clients.settings.keys.as_ref()?;
        let sought = keys.sought(&self.presented().ok()?)?;
        keys.table.find(&sought).is_none().then_some(sought)
    }

    /// A directory has answered what was [sought](Self::sought_elsewhere). It is ignored if the key
    /// has been used before.
    pub fn answer_key(&self, found: Found) {
        let Ok(text) = self.presented() else { return };
        let identified = match found {
            Found::Known(entry) => self.admitted(KnownKey::Found(entry), &digest(&text)),
            Found::Unknown => Identified::Refused(KeyRefusal::Unknown, None),
            Found::Away => Identified::Away,
        };
        // It fails only if the key was used before.
        let _ = self.identified.set(identified);
    }

    #[cfg(feature = "keys")]
    fn admitted(&self, key: KnownKey<'r>, digest: &KeyDigest) -> Identified<'r> {
        match key.key.admit(digest, self.now) {
            Ok(()) => Identified::Known(key),
            Err(KeyRefusal::Unknown) => Identified::Refused(KeyRefusal::Unknown, None),
            Err(refusal) => Identified::Refused(refusal, Some(key)),
        }
    }

    #[cfg(not(feature = "keys"))]
    fn admitted(&self, _: KnownKey<'r>, _: &KeyDigest) -> Identified<'r> {
        Identified::Refused(KeyRefusal::Unknown, None)
    }

    /// The id of the request's key, which its policies count by.
    pub(super) fn key_id(&self) -> Result<Single<'_>, Lack> {
        self.proved().map(|key| Single::new(Tag::ApiKey, key.key.id.as_bytes()))
    }

    /// What `api_key:NAME` means for the request.
    pub(super) fn key_part<'a>(&'a self, name: &'a str) -> Result<Single<'a>, Lack> {
        let value = self.proved()?.part(name).ok_or(Lack::Absent)?;
        Ok(Single::named(Tag::ApiKeyPart, name, value.as_bytes()))
    }

    /// A key that is not accepted counts as a token that is not valid: by the client's address.
    fn proved(&self) -> Result<&KnownKey<'r>, Lack> {
        match self.identified() {
            Identified::Known(key) => Ok(key),
            Identified::Absent => Err(Lack::Absent),
            Identified::Refused(..) => Err(Lack::Invalid),
            Identified::Ambiguous => Err(Lack::Ambiguous),
            Identified::Away => Err(Lack::Unverifiable),
        }
    }

    /// The limit for `policy` that belongs to the request's key or team.
    pub fn key_limit(&self, policy: &Policy) -> Option<(KeyLimit, LimitOwner)> {
        self.clients.settings.keys.as_ref()?;
        self.known_key()?.limit(&policy.name)
    }

    /// The limit of the request's key or team, as `policy` counts it. A limit that it cannot count is
    /// in the log.
    pub(crate) fn own_limit(&self, policy: &Policy) -> OwnLimit {
        let Some((limit, owner)) = self.key_limit(policy) else { return OwnLimit::Absent };
        match policy.key_limit(limit) {
            Ok(None) => OwnLimit::Unlimited,
            Ok(Some(made)) => OwnLimit::Limited(Box::new(OverrideLimit { owner, ..made })),
            Err(unfit) => self.unfit(policy, limit, &unfit),
        }
    }

    #[cold]
    fn unfit(&self, policy: &Policy, limit: KeyLimit, unfit: &UnfitLimit) -> OwnLimit {
        let misfits = &self.clients.misfits;
        let name = &policy.name;
        match unfit {
            UnfitLimit::Ignored(error) => {
                if misfits.is_new(name, None) {
                    warn!(policy = %name, %error, "the limit of an API key or a team does not fit \
                        its policy and is ignored: set it again, or unset it");
                }
                OwnLimit::Ignored
            }
            UnfitLimit::Refused(error) => {
                let id = self.known_key().map(|key| key.key.id);
                if misfits.is_new(name, id) {
                    let key = id.as_ref().map(KeyId::as_str);
                    let cause = &error.message;
                    let remedy = error.advice;
                    warn!(policy = %name, key, %limit, %cause, remedy, "the limit of an API key or \
                        its team cannot be counted, and requests with the key are refused");
                }
                OwnLimit::Uncountable
            }
        }
    }

    /// The text of the request's API key. The same key identifies the same client, whichever part
    /// of the request contains it. If a request has two different keys, the one that counts depends
    /// on the backend.
    pub(super) fn presented(&self) -> Result<Cow<'_, [u8]>, Lack> {
        if let Some(text) = self.named_key {
            return Ok(Cow::Borrowed(text));
        }
        let ApiKeySettings { headers, bearer, query, cookie } = &self.clients.settings.api_key;
        let fields = self.request.fields();
        let uri_query = self.request.query();
        let in_fields = headers.iter().map(|name| {
            fields::header(fields, name).and_then(fields::credential).map(Cow::Borrowed)
        });
        let in_token = bearer.then(|| self.key_in_token().map(Cow::Borrowed));
        let in_query = query.as_deref().map(|name| pairs::query(uri_query, name));
        let in_cookie = cookie.as_deref().map(|name| pairs::cookie(self.request.headers(), name));
        let mut key: Option<Cow<'_, [u8]>> = None;
        for found in in_fields.chain(in_token).chain(in_query).chain(in_cookie) {
            match found {
                Err(Lack::Absent) => {}
                Ok(value) if key.as_ref().is_none_or(|known| *known == value) => key = Some(value),
                Ok(_) => return Err(Lack::Ambiguous),
                Err(lack) => return Err(lack),
            }
        }
        key.ok_or(Lack::Absent)
    }

    /// The bearer token, if it can be a key. A token that names a user has no prefix of keys.
    fn key_in_token(&self) -> Result<&[u8], Lack> {
        let token = fields::bearer(self.request.fields())?;
        let is_key = self.is_key(token);
        if is_key { Ok(token) } else { Err(Lack::Absent) }
    }

    /// Whether a bearer token is certainly an API key beside tokens of users.
    pub(super) fn is_key_beside(&self, token: &[u8]) -> bool {
        let settings = &self.clients.settings;
        let begins = || settings.keys.as_ref().is_some_and(|keys| keys.form.begins(token));
        settings.api_key.bearer && begins()
    }

    /// Whether a bearer token that is not a signed one is an API key.
    pub(super) fn may_be_key(&self, token: &[u8]) -> bool {
        self.clients.settings.api_key.bearer && self.is_key(token)
    }

    /// Whether a bearer token is an API key, and not a token of a user.
    pub(super) fn is_key(&self, token: &[u8]) -> bool {
        let settings = &self.clients.settings;
        let Some(keys) = &settings.keys else { return true };
        keys.form.begins(token) || keys.foreign && !settings.reads_tokens()
    }
}
