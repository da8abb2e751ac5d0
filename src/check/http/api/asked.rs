//! The request of a question, as policies see it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::HeaderValue;
use tollgate_core::policy::{ClientSettings, KeyExpr, MissingKey, Policy};
use tollgate_core::request::{Ambiguity, RequestView, target_of};

use super::problem::Problem;
use super::question::AskedRequest;
use crate::engine::{self, Asked, Description, DescriptionError, Fields, PeerView};

const WRITE_IP: &str = "write the \"ip\" of the client";
const WRITE_REQUEST: &str = "write a \"request\"";

impl AskedRequest {
    /// The request that is described.
    ///
    /// # Errors
    /// If there is no such request.
    pub fn asked(&self) -> Result<Asked, Problem> {
        if !self.path.starts_with('/') {
            return Err(Problem::bad_request("a path begins with /").at("/request/path"));
        }
        // A URL may have a fragment, and the target of a request has none.
        target_of(self.path.as_bytes())
            .map_err(|fault| Problem::bad_request(fault.to_string()).at("/request/path"))?;
        if HeaderValue::from_str(&self.host).is_err() {
            return Err(Problem::bad_request(Ambiguity::BadHost.to_string()).at("/request/host"));
        }
        asked(Description {
            method: self.method.clone(),
            url: self.path.clone(),
            headers: self.with_host(),
            peer: Some(self.ip),
            tls_subject: None,
            body: self.body.clone(),
        })
    }

    fn with_host(&self) -> Fields {
        let mut fields: Vec<(String, String)> = match &self.headers {
            Fields::List(list) => list.clone(),
            Fields::Map(map) => {
                map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
            }
        };
        fields.push(("host".to_owned(), self.host.clone()));
        Fields::List(fields)
    }
}

/// A request of which only the address is known.
///
/// # Errors
/// As for a request that is described.
pub fn only_address(ip: Option<IpAddr>) -> Result<Asked, Problem> {
    asked(Description {
        method: "GET".to_owned(),
        url: "/".to_owned(),
        headers: Fields::List(vec![("host".to_owned(), "localhost".to_owned())]),
        peer: Some(ip.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
        tls_subject: None,
        body: None,
    })
}

fn asked(description: Description) -> Result<Asked, Problem> {
    description.into_asked().map_err(|error| {
        let pointer = match error {
            DescriptionError::Method(_) => "/request/method",
            DescriptionError::Url(_) => "/request/path",
            DescriptionError::Field(_) | DescriptionError::Disguised(_) => "/request/headers",
            DescriptionError::TooLarge => "/request",
        };
        Problem::bad_request(error.to_string()).at(pointer)
    })
}

/// The view of a request. The address is the client's own: what the fields say of it does not
/// count.
///
/// # Errors
/// If the request has no meaning, or more than one.
pub fn view(asked: &Asked) -> Result<RequestView<'_>, Problem> {
    let peer = PeerView { address: asked.peer(), may_forward: false, identity: None };
    engine::view(asked.head(), peer, false)
        .map_err(|error| Problem::bad_request(error.to_string()).at("/request"))
}

/// Reports a policy whose counter or plan depends on more than a question without a request has.
///
/// # Errors
/// If there is one.
pub fn check_words(
    policies: &[&Arc<Policy>],
    client: &ClientSettings,
    ip: Option<IpAddr>,
) -> Result<(), Problem> {
    for policy in policies {
        let mut lacking = None;
        if ip.is_none() && may_count_by_address(policy, client) {
            lacking = Some(WRITE_IP);
        }
        for key in policy.keys() {
            key.visit(&mut |word| match word {
                KeyExpr::Path | KeyExpr::Method | KeyExpr::Host => lacking = Some(WRITE_REQUEST),
                KeyExpr::Ip | KeyExpr::Class if ip.is_none() => {
                    lacking.get_or_insert(WRITE_IP);
                }
                word if word.is_place() && ip.is_none() => {
                    lacking.get_or_insert(WRITE_IP);
                }
                _ => {}
            });
        }
        if let Some(advice) = lacking {
            let name = &policy.name;
            let detail = format!("the policy {name:?} counts by more than the API key: {advice}");
            return Err(Problem::bad_request(detail).at("/api_key"));
        }
    }
    Ok(())
}

/// Whether an API key may have no key of the policy, which then counts by the client's address. All
/// clients without an address would share one counter.
fn may_count_by_address(policy: &Policy, client: &ClientSettings) -> bool {
    // In shadow mode, a client whose key is not accepted passes without a key.
    let is_shadow = client.keys.as_ref().is_some_and(|keys| keys.is_shadow);
    let words: &[KeyExpr] = if is_shadow { &[] } else { &[KeyExpr::ApiKey] };
    policy.missing_key == MissingKey::Ip && !policy.key.can_consist_of(words)
}
