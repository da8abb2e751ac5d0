//! `authorizer` of a route and of `defaults`, and the policies that need its answers.

use std::sync::Arc;

use crate::config::field::{Entries, Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::sections::context::Context;
use crate::config::sections::names::Names;
use crate::config::sections::policies::Named;
use crate::message::AuthorizerSettings;

use super::{Authorizer, NONE, RawAuthorizer};

/// The authorizers that routes can name.
pub struct Authorizers<'a> {
    names: Names<'a>,
    compiled: Vec<Arc<AuthorizerSettings>>,
    /// That of every route without one of its own.
    default: Option<usize>,
}

impl<'a> Authorizers<'a> {
    pub fn new(raw: &'a Field<Entries<RawAuthorizer>>, compiled: &[Authorizer]) -> Self {
        let names = Names::of("authorizer", "the authorizers are", raw);
        let compiled = compiled.iter().map(|it| Arc::clone(&it.settings)).collect();
        Self { names, compiled, default: None }
    }

    /// Sets the authorizer of `defaults`.
    pub fn set_default(&mut self, name: &Field<String>, cx: &Context<'_>) {
        self.default = name.given().and_then(|name| self.find(name, "\"defaults\"", cx));
    }

    /// The index of the authorizer of a route. `shown` names the route in messages.
    pub fn of_route(&self, own: &Field<String>, shown: &str, cx: &Context<'_>) -> Option<usize> {
        match own {
            Field::Absent => self.default,
            Field::Broken => None,
            Field::Given(name) if name.value == NONE => None,
            Field::Given(name) => self.find(name, shown, cx),
        }
    }

    fn find(&self, name: &Spanned<String>, owner: &str, cx: &Context<'_>) -> Option<usize> {
        self.names.find(name, owner, cx)?;
        // It is absent if it is broken, which is reported.
        self.compiled.iter().position(|it| *it.name == *name.value)
    }

    /// Reports policies of a route that need a field which its authorizer does not give. `shown`
    /// names the route in messages, and `span_of` tells where it names a policy.
    pub fn check_policies(
        &self,
        authorizer: Option<usize>,
        policies: &[&Named],
        shown: &str,
        span_of: impl Fn(&Named) -> TextSpan,
        cx: &Context<'_>,
    ) {
        let taken = authorizer.map(|index| &self.compiled[index]);
        for policy in policies {
            let keys = policy.compiled.iter().flat_map(|policy| policy.keys());
            let lacking = keys
                .flat_map(|key| key.authorizer_fields())
                .find(|field| taken.is_none_or(|authorizer| !authorizer.take.contains(field)));
            let Some(field) = lacking else { continue };
            let name = &policy.name;
            let message = match taken {
                None => format!(
                    "the policy \"{name}\" needs \"authorizer:{field}\", and {shown} has no \
                     \"authorizer\""
                ),
                Some(authorizer) => format!(
                    "the policy \"{name}\" needs \"authorizer:{field}\", which is not in \"take\" \
                     of \"{}\"",
                    authorizer.name
                ),
            };
            let advice = match taken {
                None => "write authorizer: NAME, or use another policy",
                Some(_) => "add it to \"take\", or use another policy",
            };
            cx.error(span_of(policy), &message, advice);
        }
    }
}
