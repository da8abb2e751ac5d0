//! The signature base: the bytes that are signed (RFC 9421, section 2.5).

use http::HeaderName;
use sfv::{Dictionary, FieldType as _, InnerList, Item, ListEntry, Parser};

use super::bounds::{MAX_BASE_BYTES, MAX_COMPONENTS};
use super::fault::AgentFault;
use super::message::Message;

/// Whether a signature covers a component that has no parameters.
pub(super) fn covers(covered: &InnerList, name: &str) -> bool {
    covered.items.iter().any(|item| {
        item.params.is_empty() && item.bare_item.as_string().is_some_and(|it| it.as_str() == name)
    })
}

/// The bytes that are signed: a line for each component, and the parameters of the signature.
pub(super) fn signature_base(
    covered: &InnerList,
    message: &Message<'_>,
) -> Result<Vec<u8>, AgentFault> {
    if covered.items.len() > MAX_COMPONENTS {
        return Err(AgentFault::TooLarge);
    }
    let mut base = Vec::new();
    for (index, item) in covered.items.iter().enumerate() {
        if covered.items[..index].contains(item) {
            return Err(AgentFault::Malformed);
        }
        base.extend_from_slice(item.serialize().as_bytes());
        base.extend_from_slice(b": ");
        base.extend_from_slice(&component(item, message)?);
        base.push(b'\n');
        if base.len() > MAX_BASE_BYTES {
            return Err(AgentFault::TooLarge);
        }
    }
    base.extend_from_slice(b"\"@signature-params\": ");
    let params = vec![ListEntry::InnerList(covered.clone())];
    base.extend_from_slice(params.serialize().unwrap_or_default().as_bytes());
    Ok(base)
}

/// The value of a component.
fn component(item: &Item, message: &Message<'_>) -> Result<Vec<u8>, AgentFault> {
    let name = item.bare_item.as_string().ok_or(AgentFault::Malformed)?.as_str();
    if let Some(key) = item.params.get("key") {
        let key = key.as_string().ok_or(AgentFault::Malformed)?.as_str();
        return if item.params.len() == 1 {
            member(name, key, message)
        } else {
            Err(AgentFault::Unsupported)
        };
    }
    if !item.params.is_empty() {
        return Err(AgentFault::Unsupported);
    }
    let text = |text: &str| Ok(text.as_bytes().to_vec());
    match name {
        "@authority" => text(&message.authority),
        "@method" => text(message.method.as_str()),
        "@path" => text(message.path),
        "@query" => text(&format!("?{}", message.query.unwrap_or_default())),
        name if name.starts_with('@') => Err(AgentFault::Unsupported),
        name => field(name, message),
    }
}

/// The value of a field.
fn field(name: &str, message: &Message<'_>) -> Result<Vec<u8>, AgentFault> {
    let name = HeaderName::from_lowercase(name.as_bytes()).map_err(|_| AgentFault::Malformed)?;
    message.joined(&name, MAX_BASE_BYTES)?.ok_or(AgentFault::Malformed)
}

/// A member of a field that is a dictionary (RFC 9421, section 2.1.2).
fn member(name: &str, key: &str, message: &Message<'_>) -> Result<Vec<u8>, AgentFault> {
    let field = field(name, message)?;
    let members: Dictionary = Parser::new(&field).parse().map_err(|_| AgentFault::Malformed)?;
    match members.get(key).ok_or(AgentFault::Malformed)? {
        ListEntry::Item(item) => Ok(item.serialize().into_bytes()),
        list @ ListEntry::InnerList(_) => {
            Ok(vec![list.clone()].serialize().unwrap_or_default().into_bytes())
        }
    }
}
