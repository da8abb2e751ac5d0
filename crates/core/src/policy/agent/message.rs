//! The parts of a message that signatures cover.

use std::borrow::Cow;

use http::{HeaderName, Method};

use super::bounds::MAX_FIELD_BYTES;
use super::fault::AgentFault;
use crate::request::{Fields, RequestView};

pub(super) const SIGNATURE: HeaderName = HeaderName::from_static("signature");
pub(super) const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");
pub(super) const SIGNATURE_AGENT: HeaderName = HeaderName::from_static("signature-agent");

/// The parts of a message that signatures cover.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Message<'a> {
    /// `@authority`: the host in lower case, with its port if that is not the usual one.
    pub(super) authority: Cow<'a, str>,
    /// `@method`
    pub(super) method: &'a Method,
    /// `@path`, in its normal form.
    pub(super) path: &'a str,
    /// The text after the `?` of the target.
    pub(super) query: Option<&'a str>,
    /// All fields.
    pub(super) fields: Fields<'a>,
}

impl<'a> Message<'a> {
    /// The message of a request.
    pub(in crate::policy) fn of(request: &'a RequestView<'a>) -> Self {
        Self {
            authority: normal_authority(request.authority()),
            method: request.method(),
            path: request.path(),
            query: request.query(),
            fields: request.fields(),
        }
    }

    /// The value of a field of a signature: its lines, joined.
    pub(super) fn field(&self, name: &HeaderName) -> Result<Vec<u8>, AgentFault> {
        self.joined(name, MAX_FIELD_BYTES)?.ok_or(AgentFault::Malformed)
    }

    /// The value of a field as signatures cover it (RFC 9421, section 2.1): its lines without blanks
    /// around them, joined. None: the message does not have it.
    pub(super) fn joined(
        &self,
        name: &HeaderName,
        max: usize,
    ) -> Result<Option<Vec<u8>>, AgentFault> {
        let mut value: Option<Vec<u8>> = None;
        for line in self.fields.get_all(name) {
            let line = line.as_bytes().trim_ascii();
            let joined = match &mut value {
                Some(before) => {
                    before.extend_from_slice(b", ");
                    before
                }
                None => value.insert(Vec::new()),
            };
            if joined.len() + line.len() > max {
                return Err(AgentFault::TooLarge);
            }
            joined.extend_from_slice(line);
        }
        Ok(value)
    }
}

/// An authority in the form that signatures cover (RFC 9421, section 2.2.3): in lower case, without
/// the usual port.
pub(in crate::policy) fn normal_authority(authority: &str) -> Cow<'_, str> {
    let usual = [":443", ":80"].iter().find_map(|port| authority.strip_suffix(port));
    let authority = usual.unwrap_or(authority);
    if authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(authority.to_ascii_lowercase());
    }
    Cow::Borrowed(authority)
}
