//! Classes of clients: a name for what clients have in common, such as a text in `User-Agent` or a
//! network. This module is pure.
//!
//! The classes are a list, and the first one that matches is that of the client. A class matches if
//! all of its conditions are met; of each condition one value suffices. All texts of all classes are
//! searched for in one pass over the value, and only its first [`MAX_SEARCHED`] bytes are searched,
//! so that a lookup takes a bounded time.

mod bounds;
#[cfg(not(feature = "classes"))]
mod no_texts;
mod set;
#[cfg(feature = "classes")]
mod texts;

use std::sync::Arc;

use ipnet::IpNet;

pub use self::bounds::{MAX_CLASSES, MAX_NAME_BYTES, MAX_SEARCHED, MAX_TEXT_BYTES, MAX_TEXTS};
#[cfg(not(feature = "classes"))]
use self::no_texts::Texts;
use self::set::ClassSet;
#[cfg(feature = "classes")]
use self::texts::Texts;
use super::GeoCode;
use super::cidr::CidrSet;
use super::fields::Lack;

/// One class, as it is written. A list without values is no condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientClass {
    /// Its name. Several entries may have the same name.
    pub name: Arc<str>,
    /// Texts of which `User-Agent` contains one, in whatever case.
    pub user_agent: Vec<String>,
    /// Networks of addresses.
    pub ips: Vec<IpNet>,
    /// Networks by their numbers.
    pub asns: Vec<GeoCode>,
    /// Agents that sign their requests.
    pub agents: Vec<Box<str>>,
}

/// All classes, in a form that is searched fast.
#[derive(Debug, Default)]
pub struct ClassTable {
    entries: Vec<Entry>,
    texts: Texts,
}

#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    has_texts: bool,
    networks: Option<CidrSet>,
    asns: Vec<GeoCode>,
    agents: Vec<Box<str>>,
}

impl ClassTable {
    /// The table of these classes, of which the first [`MAX_CLASSES`] are used.
    pub fn new(classes: &[ClientClass]) -> Self {
        let classes = &classes[..classes.len().min(MAX_CLASSES)];
        let entry = |class: &ClientClass| Entry {
            name: Arc::clone(&class.name),
            has_texts: !class.user_agent.is_empty(),
            networks: (!class.ips.is_empty()).then(|| CidrSet::new(&class.ips)),
            asns: class.asns.clone(),
            agents: class.agents.clone(),
        };
        let texts = classes.iter().enumerate().flat_map(|(index, class)| {
            class.user_agent.iter().map(move |text| (text.as_str(), index))
        });
        Self { entries: classes.iter().map(entry).collect(), texts: Texts::new(texts) }
    }

    /// The names of the classes, in the order of the list.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.entries.iter().map(|entry| &*entry.name)
    }

    /// Whether a class needs the value of `User-Agent`.
    pub fn has_texts(&self) -> bool {
        self.entries.iter().any(|entry| entry.has_texts)
    }

    /// Whether a class needs the network of an address.
    pub fn has_asns(&self) -> bool {
        self.entries.iter().any(|entry| !entry.asns.is_empty())
    }

    /// The agents that classes name.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().flat_map(|entry| &entry.agents).map(|name| &**name)
    }

    /// The class of a client, or why it has none. `is_at` says whether its address is in these
    /// networks, and `is_signed` whether one of these agents has signed its request; `agent` is its
    /// `User-Agent`, and is asked at most once.
    ///
    /// If backends may read different values of the field, only an entry that depends on it is in
    /// doubt.
    pub(super) fn class_of<'a>(
        &self,
        is_at: impl Fn(&CidrSet) -> bool,
        is_in: impl Fn(&[GeoCode]) -> bool,
        is_signed: impl Fn(&[Box<str>]) -> bool,
        agent: impl Fn() -> Result<&'a [u8], Lack>,
    ) -> Result<&str, Lack> {
        let search =
            || agent().map(|value| self.texts.found_in(&value[..value.len().min(MAX_SEARCHED)]));
        let mut found: Option<Result<ClassSet, Lack>> = None;
        for (index, entry) in self.entries.iter().enumerate() {
            let is_near = entry.networks.as_ref().is_none_or(&is_at)
                && (entry.asns.is_empty() || is_in(&entry.asns))
                && (entry.agents.is_empty() || is_signed(&entry.agents));
            if !is_near {
                continue;
            }
            if !entry.has_texts {
                return Ok(&entry.name);
            }
            match found.get_or_insert_with(search) {
                Ok(found) if found.has(index) => return Ok(&entry.name),
                Ok(_) | Err(Lack::Absent) => {}
                Err(lack) => return Err(*lack),
            }
        }
        Err(Lack::Absent)
    }

    /// Whether a client can put itself into this class, because an entry of the class has no other
    /// condition than the value of `User-Agent`.
    pub fn can_be_chosen(&self, name: &str) -> bool {
        let is_open = |entry: &Entry| {
            entry.networks.is_none() && entry.asns.is_empty() && entry.agents.is_empty()
        };
        self.entries.iter().any(|entry| &*entry.name == name && is_open(entry))
    }
}
