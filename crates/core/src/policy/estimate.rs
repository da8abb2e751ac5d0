//! The estimate of one request, see [`Reservation`].

use std::sync::Arc;

use http::Method;

use super::fields::Lack;
use super::model_path::ModelPath;
use super::{Estimate, Policy, Reservation, Subject};
use crate::meter::Usage;
use crate::request::{Content, ContentFault, ContentSize};

impl Subject<'_, '_> {
    /// What the request is expected to use, if `policy` estimates that. If the body has several
    /// readings, its size counts as unknown: the policy refuses the request in any case.
    pub fn estimate(&self, policy: &Policy) -> Option<Estimate> {
        let reservation = policy.cost.reservation()?;
        let usage = self.estimated_usage(reservation).unwrap_or_default();
        let model = self.model(reservation).ok().flatten();
        let entry = policy.cost.entry(model.as_deref());
        Some(Estimate { usage, model, entry })
    }

    /// The model that the request names, if one of `policies` estimates what requests use.
    pub fn requested_model(&self, policies: &[Arc<Policy>]) -> Option<Box<str>> {
        let mut reservations = policies.iter().filter_map(|policy| policy.cost.reservation());
        self.model(reservations.next()?).ok().flatten()
    }

    /// Whether backends may read another model or another maximum in the body.
    pub(super) fn is_estimate_ambiguous(&self, policy: &Policy) -> bool {
        policy.cost.reservation().is_some_and(|reservation| {
            self.estimated_usage(reservation).is_err()
                || matches!(self.model(reservation), Err(Lack::Ambiguous))
        })
    }

    /// The tokens, if the size of the body is known.
    fn estimated_usage(&self, reservation: &Reservation) -> Result<Option<Usage>, ContentFault> {
        let path = &ModelPath::new(self.request.path());
        let of_bytes = |bytes| {
            let size = ContentSize { bytes, ..ContentSize::default() };
            reservation.usage(path, &size, None).map(Some)
        };
        match self.request.values() {
            Content::Empty => Ok(Some(Usage::default())),
            Content::Read(values) => {
                let size = values.size().unwrap_or_default();
                let read = reservation.usage(path, &size, Some(values))?;
                match (values.size(), self.content_length()) {
                    (Some(_), _) => Ok(Some(read)),
                    // The body is no JSON, or too large to be read.
                    (None, Some(bytes)) => of_bytes(bytes),
                    (None, None) => Ok(None),
                }
            }
            Content::Unknown | Content::Unread => match self.content_length() {
                Some(bytes) => of_bytes(bytes),
                None if self.has_no_body() => Ok(Some(Usage::default())),
                None => Ok(None),
            },
        }
    }

    /// Whether requests with this method have no body, as far as their description says.
    fn has_no_body(&self) -> bool {
        let bodyless = [Method::GET, Method::HEAD, Method::OPTIONS, Method::DELETE];
        !self.request.has_content() && bodyless.contains(self.request.method())
    }

    /// The model that the request names.
    fn model(&self, reservation: &Reservation) -> Result<Option<Box<str>>, Lack> {
        let Some(key) = reservation.model() else {
            let path = ModelPath::new(self.request.path());
            return Ok(reservation.model_in_path(&path).map(Box::from));
        };
        match self.single(key) {
            Ok(single) => Ok(Some(String::from_utf8_lossy(&single.value).into())),
            Err(Lack::Ambiguous) => Err(Lack::Ambiguous),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
