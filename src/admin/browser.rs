//! Protection from foreign web pages: a browser on a machine that can reach the admin listener
//! must not be made to call it by a page of another origin, not even with a name that resolves to
//! the address of the listener (DNS rebinding).
//!
//! Requests that no browser sends have no `Origin` and no `Sec-Fetch-Site`, and pass.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Uri};

/// The name of a field that browsers alone can set (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is refused: what a foreign web page could have sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    #[error("the request has no Host, or more than one")]
    NoHost,
    #[error("this Host is not allowed; add it to admin.hosts")]
    Host,
    #[error("the request comes from a page of another origin")]
    Origin,
    #[error("the request comes from a page of another site")]
    Site,
}

/// What requests may be addressed to.
#[derive(Clone, Copy, Debug)]
pub struct Own<'s> {
    /// The names that the configuration allows, in lower case.
    pub hosts: &'s [String],
    /// The address at which the client reached the listener.
    pub local: IpAddr,
    /// Whether the client uses TLS.
    pub is_encrypted: bool,
}

impl Own<'_> {
    /// Refuses a Host that is not allowed, and returns one that is.
    pub fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<Authority, Foreign> {
        let host = authority(uri, headers).ok_or(Foreign::NoHost)?;
        if self.allows(host.host()) { Ok(host) } else { Err(Foreign::Host) }
    }

    /// Refuses what a foreign web page could have sent.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Foreign> {
        let host = self.check_host(uri, headers)?;
        for origin in headers.get_all(ORIGIN) {
            let scheme = if self.is_encrypted { "https://" } else { "http://" };
            let origin = origin.to_str().ok().and_then(|it| it.strip_prefix(scheme));
            let is_own = origin.is_some_and(|it| it.eq_ignore_ascii_case(host.as_str()));
            if !is_own {
                return Err(Foreign::Origin);
            }
        }
        let is_own = |site: &[u8]| site == b"same-origin" || site == b"none";
        match headers.get_all(SEC_FETCH_SITE).iter().all(|site| is_own(site.as_bytes())) {
            true => Ok(()),
            false => Err(Foreign::Site),
        }
    }

    fn allows(&self, host: &str) -> bool {
        let name = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if name == "localhost" || self.hosts.contains(&name) {
            return true;
        }
        // Rebinding needs a name, so the listener's own address is safe.
        name.parse::<IpAddr>().is_ok_and(|address| {
            address.to_canonical().is_loopback()
                || address.to_canonical() == self.local.to_canonical()
        })
    }
}

/// The host that a request is addressed to: that of its target, or its one `Host`.
fn authority(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    if let Some(authority) = uri.authority() {
        return Some(authority.clone());
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next()?.to_str().ok()?.parse::<Authority>().ok()?;
    (hosts.next().is_none() && !host.as_str().contains('@')).then_some(host)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(target: &str, fields: &[(&'static str, &'static str)]) -> Result<(), Foreign> {
        let hosts = ["gateway.example".to_owned(), "10.0.0.9".to_owned()];
        let own = Own { hosts: &hosts, local: "10.0.0.1".parse().unwrap(), is_encrypted: false };
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        own.check(&target.parse().unwrap(), &headers)
    }

    #[test]
    fn only_own_hosts_are_allowed() {
        for host in [
            "localhost",
            "LOCALHOST:9901",
            "127.0.0.1:9901",
            "127.9.9.9",
            "[::1]:9901",
            "10.0.0.1",
            "10.0.0.1:1",
            "gateway.example:9901",
            "Gateway.Example",
            "10.0.0.9",
        ] {
            assert_eq!(check("/v1/status", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.2",
            "127.0.0.1.evil.example",
            "gateway.example.evil.example",
            "[::2]",
            "0.0.0.0:9901",
        ] {
            assert_eq!(check("/v1/status", &[("host", host)]), Err(Foreign::Host), "{host}");
        }
        assert_eq!(check("/", &[]), Err(Foreign::NoHost));
        assert_eq!(check("/", &[("host", "")]), Err(Foreign::NoHost));
        assert_eq!(
            check("/", &[("host", "localhost"), ("host", "localhost")]),
            Err(Foreign::NoHost)
        );
        assert_eq!(check("/", &[("host", "evil.example@localhost")]), Err(Foreign::NoHost));
        assert_eq!(check("http://evil.example/", &[("host", "localhost")]), Err(Foreign::Host));
        assert_eq!(check("http://localhost:9901/", &[]), Ok(()));
    }

    #[test]
    fn a_foreign_origin_or_site_is_refused() {
        let with = |name, value| check("/", &[("host", "localhost:9901"), (name, value)]);
        assert_eq!(with("origin", "http://localhost:9901"), Ok(()));
        for origin in [
            "null",
            "",
            "https://localhost:9901",
            "http://localhost",
            "http://localhost:9902",
            "http://evil.example",
            "http://localhost:9901.evil.example",
        ] {
            assert_eq!(with("origin", origin), Err(Foreign::Origin), "{origin}");
        }
        for site in ["same-origin", "none"] {
            assert_eq!(with("sec-fetch-site", site), Ok(()));
        }
        for site in ["cross-site", "same-site", "", "Same-Origin"] {
            assert_eq!(with("sec-fetch-site", site), Err(Foreign::Site), "{site}");
        }
        // Programs such as Node's fetch send this.
        assert_eq!(with("sec-fetch-mode", "cors"), Ok(()));
        let both = [("origin", "http://localhost"), ("origin", "http://evil.example")];
        assert_eq!(
            check("/", &[&[("host", "localhost")], &both[..]].concat()),
            Err(Foreign::Origin)
        );
    }
}
