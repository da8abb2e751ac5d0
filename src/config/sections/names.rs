//! The names that sections define, and the routes that refer to them.

use std::collections::HashMap;

use super::context::Context;
use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::suggest;

/// The names that a section defines, and the index of each in the section.
pub struct Names<'a> {
    kind: &'static str,
    /// The beginning of a list of all names, in messages.
    listed: &'static str,
    known: Vec<&'a str>,
    index: HashMap<&'a str, usize>,
    /// The section is broken, so its names are not known.
    is_broken: bool,
}

impl<'a> Names<'a> {
    /// The names under `policies`.
    pub fn of_policies<T>(section: &'a Field<Entries<T>>) -> Self {
        Self::of("policy", "the policies are", section)
    }

    /// The names under `upstreams`.
    pub fn of_upstreams<T>(section: &'a Field<Entries<T>>) -> Self {
        Self::of("upstream", "the upstreams are", section)
    }

    /// The names that a section defines.
    pub fn of<T>(kind: &'static str, listed: &'static str, section: &'a Field<Entries<T>>) -> Self {
        let known: Vec<&str> =
            section.entries().iter().map(|(name, _)| name.value.as_str()).collect();
        let index = known.iter().enumerate().map(|(index, name)| (*name, index)).collect();
        Self { kind, listed, known, index, is_broken: section.is_broken() }
    }

    /// The index of the entry that `owner` names. There is an error if it does not exist.
    pub fn find(&self, name: &Spanned<String>, owner: &str, cx: &Context<'_>) -> Option<usize> {
        let index = self.index.get(name.value.as_str());
        if index.is_none() && !self.is_broken {
            let kind = self.kind;
            let shown = name.shown();
            let message = format!("{owner} names the {kind} \"{shown}\", which does not exist");
            let known = self.known.iter().copied();
            let advice = suggest::advice(shown, known, self.listed, cx.problems);
            cx.error(name.span, &message, &advice);
        }
        index.copied()
    }
}

/// A route, as far as its references are checked.
pub struct Referrer<'a> {
    /// The name of the route in messages.
    pub shown: &'a str,
    pub span: TextSpan,
    pub path_span: Option<TextSpan>,
    pub policies: &'a List<String>,
}

impl Referrer<'_> {
    /// Where the route names a policy. The route does not name a default, so then it is the path.
    pub fn span_of(&self, policy: &str) -> TextSpan {
        let own = self.policies.items().find(|name| name.value == *policy);
        own.map(|name| name.span).or(self.path_span).unwrap_or(self.span)
    }
}
