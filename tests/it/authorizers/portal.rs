//! A model of two authorizers, which answers as their documentation says: Authelia at
//! `/api/authz/forward-auth` (https://www.authelia.com/reference/guides/proxy-authorization/) and
//! oauth2-proxy at `/oauth2/auth` (https://oauth2-proxy.github.io/oauth2-proxy/features/endpoints/).
//!
//! Users sign in at `/login`, and then have a cookie. `/admin` is for the user `root`, and
//! `/public` for all, also without a session: Authelia then answers 200 without `Remote-User`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Origin, Received};

/// The model, and how often it was asked.
pub(super) struct Portal {
    origin: Origin,
    asked: Arc<AtomicUsize>,
}

impl Portal {
    pub(super) fn start() -> Self {
        Self::answering(|_, usual| usual)
    }

    /// The same, whose answers `change` replaces.
    pub(super) fn answering(
        change: impl Fn(&Received, String) -> String + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let origin = Origin::answering(move |request| {
            count.fetch_add(1, Ordering::SeqCst);
            change(request, answer(request))
        });
        Self { origin, asked }
    }

    /// The URL at which a gateway asks.
    pub(super) fn url(&self) -> String {
        format!("http://{}/api/authz/forward-auth", self.origin.address())
    }

    pub(super) fn address(&self) -> String {
        self.origin.address().to_string()
    }

    /// How many requests it has got.
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// The last request that it has got.
    pub(super) fn last(&self) -> Received {
        self.origin.received().pop().expect("it was asked")
    }
}

fn answer(request: &Received) -> String {
    let target = request.line().split(' ').nth(1).unwrap_or_default();
    match target.split('?').next().unwrap_or_default() {
        "/api/authz/forward-auth" => authelia(request),
        "/oauth2/auth" => oauth2_proxy(request),
        "/login" => {
            let user = String::from_utf8_lossy(&request.body).into_owned();
            respond("200 OK", &format!("Set-Cookie: session={user}; HttpOnly\r\n"))
        }
        _ => respond("404 Not Found", ""),
    }
}

fn authelia(request: &Received) -> String {
    let one = |name: &str| request.fields(name).first().map(|it| (*it).to_owned());
    let (Some(method), Some(proto), Some(host), Some(uri)) = (
        one("x-forwarded-method"),
        one("x-forwarded-proto"),
        one("x-forwarded-host"),
        one("x-forwarded-uri"),
    ) else {
        return respond("400 Bad Request", "");
    };
    let user = session(request);
    if uri.starts_with("/public") && user.is_none() {
        return respond("200 OK", "");
    }
    match user.as_deref() {
        Some(user) if uri.starts_with("/admin") && user != "root" => respond("403 Forbidden", ""),
        Some(user) => respond(
            "200 OK",
            &format!("Remote-User: {user}\r\nRemote-Groups: staff\r\nRemote-Name: {user}\r\n"),
        ),
        None => {
            let is_page = one("accept").is_some_and(|accept| accept.contains("text/html"));
            let there = format!("https://login.test/?rd={proto}://{host}{uri}&rm={method}");
            match is_page && method == "GET" {
                true => respond("302 Found", &format!("Location: {there}\r\n")),
                false => respond("401 Unauthorized", &format!("Location: {there}\r\n")),
            }
        }
    }
}

fn oauth2_proxy(request: &Received) -> String {
    match session(request) {
        Some(user) => respond("202 Accepted", &format!("X-Auth-Request-User: {user}\r\n")),
        None => respond("401 Unauthorized", ""),
    }
}

/// The user of the session.
fn session(request: &Received) -> Option<String> {
    let cookies = request.fields("cookie").join("; ");
    let mut pairs = cookies.split("; ");
    pairs.find_map(|pair| pair.strip_prefix("session=").map(str::to_owned))
}

/// An answer with these fields, and a body that names its status.
pub(super) fn respond(status: &str, fields: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{status}", status.len())
}
