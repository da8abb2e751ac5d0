//! `Signature-Agent`: the names that agents claim.

use sfv::{BareItem, Dictionary, InnerList, Item, ListEntry, Parser};

use super::base;
use super::fault::AgentFault;

/// The name of the field in signatures.
const NAME: &str = "signature-agent";
/// The parameter that names how the keys of an agent are found, and its only value here.
const TYPE: &str = "type";
const DIRECTORY: &str = "directory";

/// The names that agents claim.
pub(super) enum SignatureAgent {
    /// One name for each signature.
    Many(Dictionary),
    /// One name, as earlier drafts have it.
    One(Item),
}

impl SignatureAgent {
    /// Reads the field. Only the earlier form begins with a quote.
    pub(super) fn parse(field: &[u8]) -> Result<Self, AgentFault> {
        let parser = Parser::new(field);
        let parsed = if field.starts_with(b"\"") {
            parser.parse().map(Self::One)
        } else {
            parser.parse().map(Self::Many)
        };
        parsed.map_err(|_| AgentFault::Malformed)
    }

    /// The origin that a signature covers. In the form with many names, the signature covers one
    /// member: that with its own label if there is one, because proxies may change labels.
    pub(super) fn covered_by<'a>(
        &'a self,
        covered: &InnerList,
        label: &str,
    ) -> Result<&'a str, AgentFault> {
        let item = match self {
            Self::One(item) if base::covers(covered, NAME) => item,
            Self::One(_) => return Err(AgentFault::NotCovered),
            Self::Many(members) => {
                let mut keys: Vec<&str> = members_of(covered).collect();
                if keys.contains(&label) {
                    keys = vec![label];
                }
                let [key] = keys[..] else { return Err(AgentFault::NotCovered) };
                match members.get(key) {
                    Some(ListEntry::Item(item)) => item,
                    _ => return Err(AgentFault::Malformed),
                }
            }
        };
        origin(item)
    }
}

/// The members of the field that a signature covers.
fn members_of(covered: &InnerList) -> impl Iterator<Item = &str> {
    let named = |item: &&Item| item.bare_item.as_string().is_some_and(|it| it.as_str() == NAME);
    covered
        .items
        .iter()
        .filter(named)
        .filter_map(|item| Some(item.params.get("key")?.as_string()?.as_str()))
}

/// The origin in a member: its keys are in a directory there. An empty path may follow.
fn origin(item: &Item) -> Result<&str, AgentFault> {
    let is_directory = match item.params.get(TYPE) {
        None => true,
        Some(BareItem::Token(kind)) => kind.as_str() == DIRECTORY,
        Some(_) => false,
    };
    if !is_directory {
        return Err(AgentFault::Unsupported);
    }
    let text = item.bare_item.as_string().ok_or(AgentFault::Malformed)?.as_str();
    Ok(text.strip_suffix('/').unwrap_or(text))
}
