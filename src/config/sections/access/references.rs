//! The access lists that routes name.

use std::sync::Arc;

use tollgate_core::policy::{AccessList, AccessVerdicts};
use tollgate_core::request::PathPattern;

use super::{NamedList, RawAccessList};
use crate::config::field::{Either, Entries, Field, OneOrMore, Spanned};
use crate::config::scalar::ListName;
use crate::config::sections::context::Context;
use crate::config::sections::names::{Names, Referrer};

/// What a route writes to have no list.
pub const NONE: &str = "none";

/// The lists that routes can name.
pub struct ListReferences<'a> {
    names: Names<'a>,
    /// In the order of their names.
    lists: &'a [NamedList],
    /// The lists of every route without a field of its own, as indices.
    defaults: Vec<usize>,
}

impl<'a> ListReferences<'a> {
    pub fn new(section: &'a Field<Entries<RawAccessList>>, lists: &'a [NamedList]) -> Self {
        let names = Names::of("access list", "the access lists are", section);
        Self { names, lists, defaults: Vec::new() }
    }

    /// Sets the lists of `defaults`.
    pub fn set_defaults(&mut self, field: &OneOrMore<ListName>, cx: &Context<'_>) {
        self.defaults = self.indices(field, "\"defaults\"", cx);
    }

    /// The lists of a route. None if one is broken or unknown.
    pub fn of_route(
        &self,
        field: &OneOrMore<ListName>,
        route: &Referrer<'_>,
        path: Option<&PathPattern>,
        cx: &Context<'_>,
    ) -> Option<Vec<Arc<AccessList>>> {
        let indices = match field.is_absent() {
            true => self.defaults.clone(),
            false => self.indices(field, route.shown, cx),
        };
        let span = field.span().or(route.path_span).unwrap_or(route.span);
        let lists = indices.iter().map(|&index| &self.lists[index]);
        for (list, param) in lists.clone().flat_map(|it| it.params.iter().map(move |p| (it, p))) {
            if path.is_none_or(|path| param.is_in(path)) {
                continue;
            }
            let message = format!(
                "the access list \"{}\" compares \"{}\", which the path of {} does not have",
                list.name, param.shown, route.shown
            );
            cx.error(span, &message, "put the parameter into the path, or use another list");
        }
        lists.map(|list| list.compiled.clone()).collect()
    }

    fn indices(&self, field: &OneOrMore<ListName>, owner: &str, cx: &Context<'_>) -> Vec<usize> {
        let mut indices = Vec::new();
        for name in names(field).filter(|name| name.value != NONE) {
            match self.names.find(&name, owner, cx) {
                Some(index) if indices.contains(&index) => {
                    let message =
                        format!("{owner} names the access list \"{}\" twice", name.shown());
                    cx.error(name.span, &message, "remove one of them");
                }
                found => indices.extend(found),
            }
        }
        if let Some(span) = field.span().filter(|_| indices.len() > AccessVerdicts::MAX_LISTS) {
            let message =
                format!("{owner} has more than {} access lists", AccessVerdicts::MAX_LISTS);
            cx.error(span, &message, "join some of them");
        }
        indices
    }
}

fn text(name: &Spanned<ListName>) -> Spanned<String> {
    name.with(name.value.0.clone())
}

/// The names of a list, or the single one.
fn names(field: &OneOrMore<ListName>) -> impl Iterator<Item = Spanned<String>> {
    let given = field.given();
    let one = given.and_then(|it| match &it.value {
        Either::Short(ListName(name)) => Some(it.with(name.clone())),
        Either::Long(_) => None,
    });
    let more = given.into_iter().filter_map(|it| match &it.value {
        Either::Short(_) => None,
        Either::Long(names) => Some(names.iter().filter_map(Field::given).map(text)),
    });
    one.into_iter().chain(more.flatten())
}
