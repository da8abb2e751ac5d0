//! Names that one part of the file gives and another refers to.

use std::collections::HashMap;

use super::Compiler;
use crate::config::field::{Entries, Field, Spanned};
use crate::config::raw::{RawPolicy, RawUpstream};
use crate::config::suggest;

/// The names of one kind of thing, and where each stands in the file.
pub(super) struct Names<'a> {
    kind: &'static str,
    /// How a list of them begins.
    listed: &'static str,
    known: Vec<&'a str>,
    index: HashMap<&'a str, usize>,
    /// The section itself is broken, so nobody knows what its names are.
    unreadable: bool,
}

impl<'a> Names<'a> {
    /// The names under `policies`.
    pub(super) fn of_policies(section: &'a Field<Entries<RawPolicy>>) -> Self {
        Self::of("policy", "the policies are", section)
    }

    /// The names under `upstreams`.
    pub(super) fn of_upstreams(section: &'a Field<Entries<RawUpstream>>) -> Self {
        Self::of("upstream", "the upstreams are", section)
    }

    fn of<T>(kind: &'static str, listed: &'static str, section: &'a Field<Entries<T>>) -> Self {
        let entries = section.value().map_or(&[][..], |entries| &entries.0);
        let known: Vec<&str> = entries.iter().map(|(name, _)| name.value.as_str()).collect();
        let index = known.iter().enumerate().map(|(index, name)| (*name, index)).collect();
        Self { kind, listed, known, index, unreadable: section.is_broken() }
    }
}

impl Compiler<'_> {
    /// Where in the file that stands which `owner` calls by `name`.
    pub(super) fn find(
        &self,
        name: &Spanned<String>,
        owner: &str,
        names: &Names<'_>,
    ) -> Option<usize> {
        let index = names.index.get(name.value.as_str());
        if index.is_none() && !names.unreadable {
            let (kind, shown) = (names.kind, name.shown());
            let message = format!("{owner} names the {kind} \"{shown}\", which does not exist");
            let known = names.known.iter().copied();
            let advice = suggest::advice(shown, known, names.listed, self.problems);
            self.problems.error(name.span, &message, &advice);
        }
        index.copied()
    }
}
