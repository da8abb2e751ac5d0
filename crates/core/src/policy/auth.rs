//! What a route demands of its clients: a credential that is right.

use super::fields::{self, Lack};
use super::identified::Identified;
use super::{ClientSettings, KnownKey, Subject, TokenFault};
use crate::algorithm::Algorithm;
use crate::api_keys::KeyRefusal;
use crate::time::Span;

/// A kind of credential that a client can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthMethod {
    /// A known API key.
    ApiKey,
    /// A user: by a verified token, or by the field of a trusted proxy.
    User,
    /// A certificate that the listener has verified.
    Tls,
}

impl AuthMethod {
    /// The word in the configuration, the log and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ApiKey => "api_key",
            Self::User => "user",
            Self::Tls => "tls",
        }
    }
}

/// Why a request does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFault {
    /// It has no credential.
    #[error("this route asks for a credential, and the request has none")]
    Missing,
    /// Its API key is not accepted.
    #[error(transparent)]
    Key(KeyRefusal),
    /// Its bearer token is not valid.
    #[error(transparent)]
    Token(TokenFault),
    /// Its address has sent too many wrong credentials. It may try again after this time.
    #[error("too many wrong credentials came from the address of this request")]
    TooManyFailures(Span),
    /// Whether its API key is known cannot be found out at the moment.
    #[error("the API key of this request cannot be looked up at the moment")]
    KeysAway,
    /// The keys that verify its token have not been fetched yet.
    #[error("the bearer token of this request cannot be verified at the moment")]
    TokensAway,
    /// The user or the password is wrong.
    #[error("the user or the password of this request is wrong")]
    Password,
    /// Too many passwords wait for their check.
    #[error("the password of this request cannot be checked at the moment")]
    PasswordsBusy,
    /// Backends may read different credentials.
    #[error("the request has two credentials")]
    Ambiguous,
}

impl AuthFault {
    /// One word for logs and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Missing => "unauthorized",
            Self::Key(KeyRefusal::Unknown) => "key_unknown",
            Self::Key(KeyRefusal::Expired) => "key_expired",
            Self::Key(KeyRefusal::Disabled) => "key_disabled",
            Self::Key(KeyRefusal::Revoked) => "key_revoked",
            Self::Token(TokenFault::Missing) => "token_missing",
            Self::Token(TokenFault::Invalid) => "token_invalid",
            Self::Token(TokenFault::TooLong) => "token_too_long",
            Self::TooManyFailures(_) => "auth_failures",
            Self::KeysAway => "keys_away",
            Self::TokensAway => "unverifiable",
            Self::Password => "password_wrong",
            Self::PasswordsBusy => "passwords_busy",
            Self::Ambiguous => "ambiguous",
        }
    }

    /// Whether a credential came, and is wrong.
    pub const fn is_wrong(self) -> bool {
        matches!(self, Self::Key(_) | Self::Token(_) | Self::Password)
    }

    /// The method to which it belongs, if it is known.
    pub const fn method(self) -> Option<AuthMethod> {
        match self {
            Self::Key(_) | Self::KeysAway => Some(AuthMethod::ApiKey),
            Self::Token(_) | Self::TokensAway | Self::Password | Self::PasswordsBusy => {
                Some(AuthMethod::User)
            }
            Self::Missing | Self::TooManyFailures(_) | Self::Ambiguous => None,
        }
    }
}

/// A scheme of HTTP authentication that a 401 names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `Bearer` (RFC 6750).
    Bearer,
    /// `ApiKey`, for keys that come only in fields of their own. It is not registered, but a 401
    /// must have a challenge (RFC 9110, section 15.5.2), and no registered one fits.
    ApiKey,
    /// `Basic` (RFC 7617).
    Basic,
}

/// The schemes that a refused client is told, in the order of the route's methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Challenges([Option<Scheme>; 2]);

impl Challenges {
    /// The schemes.
    pub fn iter(self) -> impl Iterator<Item = Scheme> {
        self.0.into_iter().flatten()
    }

    /// Whether no scheme would help: the client needs a certificate.
    pub const fn is_empty(self) -> bool {
        self.0[0].is_none()
    }

    fn add(&mut self, scheme: Scheme) {
        let Self(schemes) = self;
        if schemes.contains(&Some(scheme)) {
            return;
        }
        if let Some(free) = schemes.iter_mut().find(|it| it.is_none()) {
            *free = Some(scheme);
        }
    }
}

/// A request that does not pass, and what its client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthRefusal {
    /// Why it does not pass.
    pub fault: AuthFault,
    /// The schemes by which it could.
    pub challenges: Challenges,
}

impl AuthRefusal {
    /// Whether the client could pass with a right credential: the status is 401.
    pub const fn is_unauthorized(&self) -> bool {
        let asks = match self.fault {
            AuthFault::Missing | AuthFault::Key(_) | AuthFault::Token(_) | AuthFault::Password => {
                true
            }
            AuthFault::TooManyFailures(_)
            | AuthFault::KeysAway
            | AuthFault::TokensAway
            | AuthFault::PasswordsBusy
            | AuthFault::Ambiguous => false,
        };
        asks && !self.challenges.is_empty()
    }
}

impl ClientSettings {
    /// The schemes by which a client could use one of these methods.
    pub fn challenges(&self, methods: &[AuthMethod]) -> Challenges {
        let mut challenges = Challenges::default();
        for method in methods {
            match method {
                AuthMethod::ApiKey if self.api_key.bearer => challenges.add(Scheme::Bearer),
                AuthMethod::ApiKey => challenges.add(Scheme::ApiKey),
                AuthMethod::User if self.reads_tokens() => challenges.add(Scheme::Bearer),
                AuthMethod::User if self.passwords().is_some() => challenges.add(Scheme::Basic),
                AuthMethod::User | AuthMethod::Tls => {}
            }
        }
        challenges
    }
}

impl<'r> Subject<'r, '_> {
    /// The first of these methods for which the request has a credential. A right
    /// credential is enough, but a wrong one beside it is a fault.
    ///
    /// # Errors
    /// If there is none, or a wrong one. Of several faults, the one counts that is most certain to
    /// come from an attack.
    pub fn authenticate(&self, methods: &[AuthMethod]) -> Result<AuthMethod, AuthFault> {
        let mut passed = None;
        let mut fault: Option<AuthFault> = None;
        for method in methods {
            match self.proves(*method) {
                Ok(true) => passed = passed.or(Some(*method)),
                Ok(false) => {}
                Err(other) if fault.is_none_or(|known| severity(other) > severity(known)) => {
                    fault = Some(other);
                }
                Err(_) => {}
            }
        }
        match (fault, passed) {
            (Some(fault), _) => Err(fault),
            (None, Some(method)) => Ok(method),
            (None, None) => Err(AuthFault::Missing),
        }
    }

    /// Whether the request has a right credential of this method. False: it has none.
    fn proves(&self, method: AuthMethod) -> Result<bool, AuthFault> {
        match method {
            AuthMethod::ApiKey => match self.identified() {
                Identified::Known(_) => Ok(true),
                Identified::Absent if self.has_other_token() => {
                    Err(AuthFault::Key(KeyRefusal::Unknown))
                }
                Identified::Absent => Ok(false),
                Identified::Refused(refusal, _) => Err(AuthFault::Key(*refusal)),
                Identified::Ambiguous => Err(AuthFault::Ambiguous),
                Identified::Away => Err(AuthFault::KeysAway),
            },
            AuthMethod::User => match self.user() {
                Ok(_) => Ok(true),
                Err(Lack::Absent) if self.has_token_of_user() => {
                    // A valid token without the claim that names the user.
                    Err(AuthFault::Token(TokenFault::Invalid))
                }
                Err(Lack::Absent) => Ok(false),
                Err(Lack::Invalid) if self.has_passwords() => Err(AuthFault::Password),
                Err(Lack::Invalid) => Err(AuthFault::Token(self.token_fault())),
                Err(Lack::Unverifiable) if self.has_passwords() => Err(AuthFault::PasswordsBusy),
                Err(Lack::Unverifiable) => Err(AuthFault::TokensAway),
                Err(Lack::Ambiguous) => Err(AuthFault::Ambiguous),
            },
            AuthMethod::Tls => Ok(self.request.tls_subject().is_some()),
        }
    }

    /// The schemes by which the client could use one of these methods.
    pub fn challenges(&self, methods: &[AuthMethod]) -> Challenges {
        self.clients.settings.challenges(methods)
    }

    /// How many wrong credentials the client's address may send.
    pub fn failures(&self) -> Option<&'r Algorithm> {
        self.clients.settings.failures.as_deref()
    }

    /// Whether a request without a right credential passes, and is only reported.
    pub fn is_shadow(&self) -> bool {
        self.clients.settings.keys.as_ref().is_some_and(|keys| keys.is_shadow)
    }

    /// Whether a bearer token is neither a key nor can be a token of a user.
    fn has_other_token(&self) -> bool {
        let settings = &self.clients.settings;
        let reads_keys = settings.api_key.bearer && !settings.reads_tokens();
        reads_keys && fields::bearer(self.request.fields()).is_ok()
    }

    /// Whether users are known by passwords.
    pub const fn has_passwords(&self) -> bool {
        self.clients.settings.passwords().is_some()
    }

    fn has_token_of_user(&self) -> bool {
        let reads = self.clients.settings.reads_tokens();
        reads && fields::bearer(self.request.fields()).is_ok_and(|token| !self.is_key_beside(token))
    }

    /// The key of the request, also if it is not accepted any more: its secret is right.
    pub fn right_key(&self) -> Option<&KnownKey<'r>> {
        match self.identified() {
            Identified::Known(key) | Identified::Refused(_, Some(key)) => Some(key),
            _ => None,
        }
    }
}

/// Of two faults, the larger one is told.
const fn severity(fault: AuthFault) -> u8 {
    match fault {
        AuthFault::Missing | AuthFault::TooManyFailures(_) => 0,
        AuthFault::KeysAway | AuthFault::TokensAway | AuthFault::PasswordsBusy => 1,
        AuthFault::Key(_) | AuthFault::Token(_) | AuthFault::Password => 2,
        AuthFault::Ambiguous => 3,
    }
}
