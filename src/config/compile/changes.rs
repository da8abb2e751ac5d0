//! What a route changes in messages: targets and fields.

use std::collections::HashSet;

use http::HeaderName;
use http::header::RETRY_AFTER;

use super::Compiler;
use crate::config::field::{Field, Spanned};
use crate::config::node::Span;
use crate::config::raw::{RawFieldEdits, RawRewrite, RawRoute};
use crate::config::scalar::{FieldName, PathText, PrefixText};
use crate::message::{FieldEdits, Prefix, Rewrite, X_REQUEST_ID};
use crate::snapshot::{Action, Changes};

impl Compiler<'_> {
    /// What the route changes; nothing if it says nothing of that.
    pub(super) fn changes(
        &self,
        raw: &Spanned<RawRoute>,
        shown: &str,
        action: Option<&Action>,
    ) -> Option<Box<Changes>> {
        let route = &raw.value;
        if matches!(action, Some(Action::Respond(_) | Action::Redirect(_))) {
            self.warn_unseen(&route.rewrite, "rewrite", shown);
            self.warn_unseen(&route.request_headers, "request_headers", shown);
        }
        let rewrite = route.rewrite.value();
        let request = route.request_headers.value();
        let response = route.response_headers.value();
        let changes = Changes {
            rewrite: rewrite
                .map_or_else(Rewrite::default, |raw| self.rewrite(raw, shown, route.path.value())),
            request: request.map_or_else(FieldEdits::default, |raw| self.edits(raw)),
            response: response.map_or_else(FieldEdits::default, |raw| {
                self.check_not_own(raw);
                self.edits(raw)
            }),
        };
        let is_empty =
            changes.rewrite.is_empty() && changes.request.is_empty() && changes.response.is_empty();
        (!is_empty).then(|| Box::new(changes))
    }

    fn warn_unseen<T>(&self, field: &Field<T>, name: &str, shown: &str) {
        if let Some(given) = field.given() {
            let message = format!("\"{name}\" has no effect: {shown} goes to no upstream");
            self.problems.warning(given.span, &message, "leave it out");
        }
    }

    fn rewrite(&self, raw: &RawRewrite, shown: &str, path: Option<&PathText>) -> Rewrite {
        if let (Some(prefix), Some(path)) = (raw.strip_prefix.given(), path) {
            self.check_prefix(prefix, shown, path);
        }
        let strip = raw.strip_prefix.value().and_then(|prefix| {
            let text = prefix.text().parse().ok()?;
            Some(Prefix { segments: prefix.0.segments.len(), text })
        });
        Rewrite {
            strip,
            add: raw.add_prefix.value().map(|prefix| prefix.text().into()),
            host: raw.host.value().map(|host| host.0.clone()),
        }
    }

    /// Every path of the route must have what is taken away: so segments need
    /// only be counted, however the path was written.
    fn check_prefix(&self, prefix: &Spanned<PrefixText>, shown: &str, path: &PathText) {
        if !path.0.segments.starts_with(&prefix.value.0.segments) {
            let text = prefix.value.text();
            let message = match &prefix.written {
                Some(_) => format!("the path of {shown} does not begin with this prefix"),
                None => format!("the path of {shown} does not begin with {text}"),
            };
            let advice = "begin the route's path with it, as in path: /v1/*";
            self.problems.error(prefix.span, &message, advice);
        }
    }

    fn edits(&self, raw: &RawFieldEdits) -> FieldEdits {
        let mut seen = HashSet::new();
        for (name, span) in names_set(raw).chain(names_removed(raw)) {
            if FieldEdits::is_reserved(&name) {
                let advice = match name.as_str() {
                    "host" => "write rewrite: { host: ... }",
                    _ => "it belongs to the connection or frames the message: leave it out",
                };
                let message = format!("the field \"{name}\" cannot be edited");
                self.problems.error(span, &message, advice);
            }
            if !seen.insert(name.clone()) {
                let message = format!("the field \"{name}\" is edited twice");
                self.problems.error(span, &message, "set it or remove it, once");
            }
        }
        FieldEdits {
            set: self.header_values(&raw.set),
            remove: raw.remove.items().map(|name| name.value.0.clone()).collect(),
        }
    }

    /// What the gateway itself says in responses is not to be made up. What a
    /// backend says of its own limits may be removed.
    fn check_not_own(&self, raw: &RawFieldEdits) {
        let own = names_set(raw).filter(|(name, _)| is_own(name));
        let own = own.chain(names_removed(raw).filter(|(name, _)| *name == X_REQUEST_ID));
        for (name, span) in own {
            let message = format!("the field \"{name}\" is the gateway's own");
            let advice = "leave it out; what clients are told is chosen under \"headers\"";
            self.problems.error(span, &message, advice);
        }
    }
}

fn is_own(name: &HeaderName) -> bool {
    let text = name.as_str();
    *name == X_REQUEST_ID
        || *name == RETRY_AFTER
        || text.starts_with("x-ratelimit-")
        || text.starts_with("ratelimit")
}

/// The names that get a value, where they are names at all.
fn names_set(raw: &RawFieldEdits) -> impl Iterator<Item = (HeaderName, Span)> {
    let set = raw.set.value().map_or(&[][..], |entries| &entries.0);
    set.iter().filter_map(|(name, _)| {
        let FieldName(parsed) = name.value.parse().ok()?;
        Some((parsed, name.span))
    })
}

fn names_removed(raw: &RawFieldEdits) -> impl Iterator<Item = (HeaderName, Span)> {
    raw.remove.items().map(|name| (name.value.0.clone(), name.span))
}
