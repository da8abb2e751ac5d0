//! The client of a request, by its API key.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, Request, request};
use tollgate_core::api_keys::KeyRefusal;
use tollgate_core::policy::{Identified, KnownKey};
use tollgate_core::request::RequestView;

use super::Limiter;
use super::lookup::{ComingKey, LookedUp, Lookup};

/// The API key of a request does not depend on its peer.
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The client of a request, by its API key.
///
/// ```
/// use tollgate_limiter::Identity;
///
/// fn status(identity: &Identity) -> u16 {
///     match identity {
///         Identity::Known(_) => 200,
///         _ => 401,
///     }
/// }
/// assert_eq!(status(&Identity::Absent), 401);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Identity {
    /// The request has no API key.
    Absent,
    /// The request has this key.
    Known(KnownApiKey),
    /// The request has a key that is not accepted.
    Refused(KeyFault),
    /// The request has two different keys, or one that can be read in two ways.
    Ambiguous,
    /// Whether the key is known cannot be found out, because Redis is away. The request may be sent
    /// again later: a service answers 503.
    Away,
}

/// Why an API key is not accepted. Only a right secret learns more than [`Unknown`](Self::Unknown).
///
/// ```
/// assert_eq!(tollgate_limiter::KeyFault::Expired.to_string(), "the API key is expired");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFault {
    /// There is no such key, or this is not its secret.
    #[error("the API key is not known")]
    Unknown,
    /// The time of the key is over.
    #[error("the API key is expired")]
    Expired,
    /// The key is switched off.
    #[error("the API key is disabled")]
    Disabled,
    /// The key is withdrawn.
    #[error("the API key is revoked")]
    Revoked,
}

/// The API key that a request has proved to have.
///
/// ```
/// fn shown(key: &tollgate_limiter::KnownApiKey) -> String {
///     format!("{} of {}", key.id(), key.team().unwrap_or("no team"))
/// }
/// ```
#[derive(Clone)]
pub struct KnownApiKey(KnownKey<'static>);

impl KnownApiKey {
    /// Its id, which is no secret.
    ///
    /// ```
    /// # let id = |key: tollgate_limiter::KnownApiKey| key.id().to_owned();
    /// ```
    pub fn id(&self) -> &str {
        self.0.key.id.as_str()
    }

    /// Its team.
    ///
    /// ```
    /// # let team = |key: tollgate_limiter::KnownApiKey| key.team().map(str::to_owned);
    /// ```
    pub fn team(&self) -> Option<&str> {
        self.part("team")
    }

    /// Its plan, or that of its team.
    ///
    /// ```
    /// # let plan = |key: tollgate_limiter::KnownApiKey| key.plan().map(str::to_owned);
    /// ```
    pub fn plan(&self) -> Option<&str> {
        self.part("plan")
    }

    /// The value of `api_key:NAME`: the team, the plan, or a label of the key or its team.
    ///
    /// ```
    /// # let label = |key: tollgate_limiter::KnownApiKey| key.part("env").map(str::to_owned);
    /// ```
    pub fn part(&self, name: &str) -> Option<&str> {
        self.0.part(name)
    }
}

/// Prints the id.
impl fmt::Debug for KnownApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KnownApiKey").field(&self.id()).finish()
    }
}

impl Limiter {
    /// The client of a request with these fields, by the [keys](crate::Client::keys) of the limiter.
    /// Nothing is counted. Without keys, no request has one.
    ///
    /// A limiter that is made from a gateway's file knows keys in a cookie too, if the file names
    /// one. A key in the query of a URL is not in a field, so it is not found here.
    ///
    /// Wrong keys are not bounded here, as they are in a gateway: count them by a policy.
    ///
    /// ```
    /// use http::{HeaderMap, HeaderValue};
    /// use tollgate_limiter::{ApiKey, Client, Identity, Keys, Limiter};
    ///
    /// let hash = "0de67670f76be437806c94f133c9f16fd4522981188c2bc0858ea3f9a29af3ee";
    /// let keys = Keys::new([ApiKey::new("03d4jt3198h8", hash)?.team("acme")]);
    /// let limiter = Limiter::builder().client(Client::new().keys(keys)).build()?;
    /// let text = "tg_03d4jt3198h8_c7ZBC6RuaYGLECHZFnMe7yS7RcJbvK8jryikuviOomj0JolhF";
    /// let fields = HeaderMap::from_iter([("x-api-key".parse()?, HeaderValue::from_static(text))]);
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let Identity::Known(key) = limiter.authenticate(&fields).await else { panic!("known") };
    /// assert_eq!((key.id(), key.team()), ("03d4jt3198h8", Some("acme")));
    /// # });
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn authenticate(&self, fields: &HeaderMap) -> Authentication {
        let (mut head, ()) = Request::new(()).into_parts();
        let keys = &self.0.clients.settings().api_key;
        let cookies = keys.cookie.as_ref().map(|_| &COOKIE);
        for name in keys.headers.iter().chain([&AUTHORIZATION]).chain(cookies) {
            for value in fields.get_all(name) {
                head.headers.append(name.clone(), value.clone());
            }
        }
        match self.look_up_of(&head, PEER) {
            Lookup::Now(key) => Authentication(State::Known(self.identity(&head, key))),
            Lookup::Later(key) => {
                Authentication(State::LookingUp(key, self.clone(), Box::new(head)))
            }
        }
    }

    /// What the looked up key says of a request.
    fn identity(&self, head: &request::Parts, key: LookedUp) -> Identity {
        let Ok(view) = RequestView::of_service(head, PEER) else { return Identity::Ambiguous };
        let subject = self.0.clients.subject(&view, None, self.clock().wall());
        self.answer_key(&subject, key);
        match subject.identified() {
            Identified::Known(key) => Identity::Known(KnownApiKey(key.clone().into_owned())),
            Identified::Refused(refusal, _) => Identity::Refused((*refusal).into()),
            Identified::Ambiguous => Identity::Ambiguous,
            Identified::Absent => Identity::Absent,
            Identified::Away => Identity::Away,
        }
    }
}

/// Whose key a request has: a future that borrows nothing. It is ready when it is first polled,
/// unless the keys are in Redis and the key was not looked up before.
///
/// ```
/// # use tollgate_limiter::{Client, Identity, Keys, Limiter};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limiter = Limiter::builder().client(Client::new().keys(Keys::new([]))).build()?;
/// let identity = limiter.authenticate(&http::HeaderMap::new()).await;
/// assert!(matches!(identity, Identity::Absent));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the client may be refused"]
pub struct Authentication(State);

#[derive(Debug)]
enum State {
    Known(Identity),
    LookingUp(ComingKey, Limiter, Box<request::Parts>),
}

impl Authentication {
    /// The result, if nothing has to be waited for: with keys that are not in Redis it is always
    /// there.
    ///
    /// ```
    /// # use tollgate_limiter::{Client, Identity, Keys, Limiter};
    /// let limiter = Limiter::builder().client(Client::new().keys(Keys::new([]))).build()?;
    /// let identity = limiter.authenticate(&http::HeaderMap::new()).now();
    /// assert!(matches!(identity, Some(Identity::Absent)));
    /// # Ok::<_, tollgate_limiter::BuildError>(())
    /// ```
    pub fn now(self) -> Option<Identity> {
        match self.0 {
            State::Known(identity) => Some(identity),
            State::LookingUp(..) => None,
        }
    }
}

impl Future for Authentication {
    type Output = Identity;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Identity> {
        match &mut self.0 {
            State::Known(identity) => Poll::Ready(identity.clone()),
            State::LookingUp(key, limiter, head) => {
                let key = ready!(Pin::new(key).poll(cx));
                Poll::Ready(limiter.identity(head, key))
            }
        }
    }
}

impl From<KeyRefusal> for KeyFault {
    fn from(refusal: KeyRefusal) -> Self {
        match refusal {
            KeyRefusal::Unknown => Self::Unknown,
            KeyRefusal::Expired => Self::Expired,
            KeyRefusal::Disabled => Self::Disabled,
            KeyRefusal::Revoked => Self::Revoked,
        }
    }
}
