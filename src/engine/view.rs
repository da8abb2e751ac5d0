//! What the gateway refuses before any rule, and the failures of requests without a decision.

use std::borrow::Borrow;
use std::net::IpAddr;
use std::sync::Arc;

use http::Method;
use http::request::Parts;
use tollgate_core::decision::{Outcome, Uncountable};
use tollgate_core::policy::{DenialCause, Policy};
use tollgate_core::request::{Ambiguity, Content, Malformed, RequestView};

use super::Undecidable;
use crate::message::{Failure, has_unknown_expectation};
use tollgate_core::policy::AuthFault;

/// What is known of the peer of a connection.
#[derive(Clone, Copy, Debug)]
pub struct PeerView<'a> {
    /// Its address.
    pub address: IpAddr,
    /// Whether it may name the addresses of its own clients, see
    /// [`RequestView::with_forwarding`].
    pub may_forward: bool,
    /// The subject of its certificate.
    pub identity: Option<&'a str>,
}

/// The view of a request by which rules are chosen.
///
/// # Errors
/// If the gateway serves no such requests.
pub fn view<'a>(
    head: &'a Parts,
    peer: PeerView<'a>,
    has_content: bool,
) -> Result<RequestView<'a>, Failure> {
    if let Some(malformed) = head.extensions.get::<Malformed>() {
        return Err((*malformed).into());
    }
    match head.method {
        Method::CONNECT => return Err(Failure::Tunnel),
        Method::TRACE => return Err(Failure::Trace),
        _ => {}
    }
    let view = RequestView::of(head, peer.address)?;
    if has_unknown_expectation(head.version, view.fields()) {
        return Err(Failure::Expectation);
    }
    Ok(view
        .with_content(has_content)
        .with_forwarding(peer.may_forward)
        .with_tls_subject(peer.identity))
}

impl From<Undecidable> for Failure {
    fn from(undecidable: Undecidable) -> Self {
        match undecidable {
            Undecidable::NoRoute => Self::NoRoute,
            Undecidable::Ambiguous(ambiguity) => ambiguity.into(),
            Undecidable::Malformed(malformed) => malformed.into(),
        }
    }
}

/// The failure of a request with this content that is neither admitted nor refused by a limit.
pub fn failure_in<P: Borrow<Arc<Policy>>>(
    outcome: &Outcome<P>,
    content: Content<'_>,
) -> Option<Failure> {
    let failure = failure_of(outcome)?;
    let fault = match (outcome, content) {
        (Outcome::Ambiguous(policy), Content::Read(values)) => {
            let policy: &Arc<Policy> = policy.borrow();
            policy.body_words().filter_map(|word| values.get(word).err()).next()
        }
        _ => None,
    };
    Some(fault.map_or(failure, Failure::BodyAmbiguous))
}

/// The failure of a request that is neither admitted nor refused by a limit.
pub fn failure_of<P>(outcome: &Outcome<P>) -> Option<Failure> {
    match outcome {
        Outcome::Admit | Outcome::Refuse(_) => None,
        Outcome::Unavailable(_) => Some(Failure::StoreAway),
        Outcome::Unverifiable(..) => Some(Failure::KeysAway),
        Outcome::Deny(_) => Some(Failure::KeyMissing),
        Outcome::Uncountable(_, Uncountable::Model) => Some(Failure::ModelUnpriced),
        Outcome::Uncountable(_, Uncountable::KeyLimit) => Some(Failure::KeyLimitUnfit),
        Outcome::Ambiguous(_) => Some(Ambiguity::ManyKeys.into()),
        Outcome::Unauthorized(_, fault) => Some((*fault).into()),
        Outcome::Denied(denial) => Some(match denial.cause {
            DenialCause::Rule(answer) => Failure::Denied(answer),
            DenialCause::Ambiguous => Ambiguity::ManyKeys.into(),
            DenialCause::Unverifiable => Failure::KeysAway,
        }),
        Outcome::Unauthenticated(refusal) => Some(match refusal.fault {
            AuthFault::Ambiguous => Ambiguity::ManyKeys.into(),
            AuthFault::TokensAway => Failure::KeysAway,
            _ => Failure::Unauthenticated(*refusal),
        }),
    }
}
