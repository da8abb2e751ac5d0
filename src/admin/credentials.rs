//! The identity of a caller, and its role. Pure.
//!
//! All tokens are compared, as digests and in constant time: the time of an answer tells nothing
//! about a token, and not even which one was meant.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tollgate_core::time::Timestamp;

use super::{AdminSettings, Role, TokenDigest};
use crate::api_keys::Teams;
use crate::server::is_allowed;

/// What a caller shows of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'c> {
    /// Over a Unix socket: the user of its process.
    pub uid: Option<u32>,
    /// The subject of its certificate.
    pub subject: Option<&'c str>,
    /// Its token.
    pub token: Token<'c>,
}

/// What `Authorization` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Token<'c> {
    /// Nothing.
    #[default]
    Absent,
    /// It has another form, or there are several.
    Unreadable,
    /// A token.
    Bearer(&'c [u8]),
}

impl<'c> Token<'c> {
    /// The token in these fields.
    pub fn of(headers: &'c HeaderMap) -> Self {
        let mut fields = headers.get_all(AUTHORIZATION).iter();
        let Some(first) = fields.next() else { return Self::Absent };
        let bytes = first.as_bytes();
        match bytes.split_at_checked(b"Bearer ".len()) {
            Some((scheme, token))
                if scheme.eq_ignore_ascii_case(b"Bearer ") && fields.next().is_none() =>
            {
                Self::Bearer(token.trim_ascii())
            }
            _ => Self::Unreadable,
        }
    }
}

/// A caller that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Its name in the audit log.
    pub name: String,
    pub role: Role,
    /// The teams whose API keys it may see and change.
    pub teams: Teams,
}

/// Why a caller is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("this call needs a token: Authorization: Bearer TOKEN")]
    Missing,
    #[error("Authorization is not one bearer token")]
    Unreadable,
    #[error("the token is not valid")]
    Wrong,
    #[error("the user {0} may not use this socket; add it to admin.uids")]
    User(u32),
}

/// The actor that a caller is at `wall`, the time of the wall clock. `own_uid` is the user of
/// this process.
pub fn authenticate(
    settings: &AdminSettings,
    own_uid: u32,
    shown: Shown<'_>,
    wall: Timestamp,
) -> Result<Actor, Denied> {
    if let Some(uid) = shown.uid {
        let may = is_allowed(uid, own_uid, &settings.uids);
        let actor = Actor { name: format!("uid {uid}"), role: Role::Operate, teams: Teams::All };
        return if may { Ok(actor) } else { Err(Denied::User(uid)) };
    }
    match shown.token {
        Token::Bearer(token) => {
            by_token(settings, &TokenDigest::of(token), wall).ok_or(Denied::Wrong)
        }
        Token::Unreadable => Err(Denied::Unreadable),
        Token::Absent => {
            let known = settings.clients.iter().find(|it| Some(&*it.subject) == shown.subject);
            let actor = known.map(|it| Actor {
                name: it.subject.clone(),
                role: it.role,
                teams: Teams::All,
            });
            actor.ok_or(Denied::Missing)
        }
    }
}

/// The credential of a caller that stays, without its token.
#[derive(Clone, Debug)]
pub struct Session {
    uid: Option<u32>,
    subject: Option<Arc<str>>,
    token: Option<TokenDigest>,
}

impl Session {
    /// Of a caller that has been authenticated by what it has `shown`.
    pub fn of(shown: Shown<'_>) -> Self {
        let token = match shown.token {
            Token::Bearer(token) => Some(TokenDigest::of(token)),
            Token::Absent | Token::Unreadable => None,
        };
        Self { uid: shown.uid, subject: shown.subject.map(Arc::from), token }
    }

    /// Its role at `wall`, the time of the wall clock. None: it is no longer known.
    pub fn role(&self, settings: &AdminSettings, own_uid: u32, wall: Timestamp) -> Option<Role> {
        if let (Some(digest), None) = (&self.token, self.uid) {
            return by_token(settings, digest, wall).map(|actor| actor.role);
        }
        let uid = self.uid;
        let subject = self.subject.as_deref();
        let shown = Shown { uid, subject, token: Token::Absent };
        authenticate(settings, own_uid, shown, wall).ok().map(|actor| actor.role)
    }
}

fn by_token(settings: &AdminSettings, digest: &TokenDigest, wall: Timestamp) -> Option<Actor> {
    let mut found = None;
    for known in &settings.tokens {
        let is_same = verify_slices_are_equal(known.digest.bytes(), digest.bytes()).is_ok();
        if is_same && known.expires.is_none_or(|expires| wall < expires) {
            found = Some(Actor {
                name: known.name.clone(),
                role: known.role,
                teams: known.teams.clone(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tollgate_core::time::Span;

    use super::*;
    use crate::admin::{ClientSettings, TokenSettings};
    use crate::server::{ListenAddress, ListenerSettings};

    const OWN_UID: u32 = 500;

    fn settings() -> AdminSettings {
        let token = |name: &str, role, expires_s: Option<u64>| TokenSettings {
            name: name.to_owned(),
            role,
            teams: Teams::All,
            digest: TokenDigest::of(name.as_bytes()),
            expires: expires_s.map(|it| Timestamp::default().plus(Span::from_secs(it))),
        };
        let address = "127.0.0.1:9901".parse().unwrap();
        AdminSettings {
            listener: ListenerSettings::new(ListenAddress::Tcp(address)),
            hosts: Vec::new(),
            tokens: vec![
                token("metrics", Role::Metrics, None),
                token("read", Role::Read, Some(200)),
                token("operate", Role::Operate, None),
                token("expired", Role::Operate, Some(100)),
            ],
            clients: vec![ClientSettings { subject: "CN=deployer".into(), role: Role::Read }],
            uids: vec![1000],
            probe: None,
            write_config: false,
            reveal_keys: false,
            is_probe_alone: false,
            is_temporary: false,
        }
    }

    fn role(shown: Shown<'_>) -> Result<Role, Denied> {
        let now = Timestamp::default().plus(Span::from_secs(100));
        authenticate(&settings(), OWN_UID, shown, now).map(|actor| actor.role)
    }

    fn token(token: &str) -> Shown<'_> {
        Shown { token: Token::Bearer(token.as_bytes()), ..Shown::default() }
    }

    #[test]
    fn each_credential_has_its_role() {
        for (shown, expected) in [
            (token("metrics"), Ok(Role::Metrics)),
            (token("read"), Ok(Role::Read)),
            (token("operate"), Ok(Role::Operate)),
            (token("expired"), Err(Denied::Wrong)),
            (token("Operate"), Err(Denied::Wrong)),
            (token(""), Err(Denied::Wrong)),
            (Shown::default(), Err(Denied::Missing)),
            (Shown { token: Token::Unreadable, ..Shown::default() }, Err(Denied::Unreadable)),
            (Shown { subject: Some("CN=deployer"), ..Shown::default() }, Ok(Role::Read)),
            (Shown { subject: Some("CN=other"), ..Shown::default() }, Err(Denied::Missing)),
            // A wrong token is not made good by a certificate.
            (Shown { subject: Some("CN=deployer"), ..token("x") }, Err(Denied::Wrong)),
            (Shown { uid: Some(0), ..Shown::default() }, Ok(Role::Operate)),
            (Shown { uid: Some(OWN_UID), ..Shown::default() }, Ok(Role::Operate)),
            (Shown { uid: Some(1000), ..Shown::default() }, Ok(Role::Operate)),
            (Shown { uid: Some(1001), ..Shown::default() }, Err(Denied::User(1001))),
            (Shown { uid: Some(1001), ..token("operate") }, Err(Denied::User(1001))),
        ] {
            assert_eq!(role(shown), expected, "{shown:?}");
            let now = Timestamp::default().plus(Span::from_secs(100));
            let later = Session::of(shown).role(&settings(), OWN_UID, now);
            assert_eq!(later, expected.ok(), "{shown:?}");
        }
    }

    #[test]
    fn a_caller_that_stays_loses_its_role_with_its_token() {
        let at = |s| Timestamp::default().plus(Span::from_secs(s));
        let session = Session::of(token("read"));
        assert_eq!(session.role(&settings(), OWN_UID, at(199)), Some(Role::Read));
        assert_eq!(session.role(&settings(), OWN_UID, at(200)), None);
        let removed = AdminSettings { tokens: Vec::new(), ..settings() };
        assert_eq!(session.role(&removed, OWN_UID, at(199)), None);
    }

    #[test]
    fn a_bearer_token_is_read_from_one_field() {
        let read = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            }
            match Token::of(&headers) {
                Token::Bearer(token) => Some(String::from_utf8(token.to_vec()).unwrap()),
                other => {
                    assert_eq!(other == Token::Absent, values.is_empty());
                    None
                }
            }
        };
        assert_eq!(read(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(read(&["bearer  abc "]).as_deref(), Some("abc"));
        for values in [&[][..], &["Basic abc"], &["abc"], &["Bearerabc"], &["Bearer a", "Bearer a"]]
        {
            assert_eq!(read(values), None, "{values:?}");
        }
    }
}
