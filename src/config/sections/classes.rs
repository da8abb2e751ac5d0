//! Warnings about classes of clients: names that no class has, and exceptions that a client can
//! claim, because it chooses its `User-Agent`.

use http::header::USER_AGENT;
use tollgate_core::policy::ClassTable;

use super::access::RawAccessList;
use super::context::Context;
use super::policies::RawPolicy;
use crate::config::field::{Entries, Field, Spanned};
use crate::config::suggest;

/// What makes a class one that a client cannot claim.
const ADVICE: &str = "give each entry of the class ips or asns, too";

/// Warns of what access lists and policies say of classes and of `User-Agent`.
pub fn warn(
    lists: &Field<Entries<RawAccessList>>,
    policies: &Field<Entries<RawPolicy>>,
    table: Option<&ClassTable>,
    cx: &Context<'_>,
) {
    for (name, list) in lists.entries() {
        for conditions in list.value().into_iter().flat_map(RawAccessList::conditions) {
            let classes = conditions.named_classes();
            classes.iter().for_each(|class| warn_unknown(class, table, cx));
        }
        for allowed in list.value().into_iter().flat_map(RawAccessList::allowed) {
            if allowed.has_proof() {
                continue;
            }
            let list = name.shown();
            for class in allowed.named_classes().into_iter().filter(|it| can_be_claimed(it, table))
            {
                let message = format!(
                    "the access list \"{list}\" allows the class \"{}\", and every client can claim it by \
                     its User-Agent",
                    class.shown()
                );
                cx.warning(class.span, &message, ADVICE);
            }
            for span in allowed.spans_of_field(&USER_AGENT) {
                let message = format!(
                    "the access list \"{list}\" allows requests by their User-Agent, which every client \
                     chooses"
                );
                cx.warning(
                    span,
                    &message,
                    "add ips, or another condition that a client cannot meet",
                );
            }
        }
    }
    for (name, policy) in policies.entries() {
        for class in policy.value().into_iter().flat_map(RawPolicy::exempt_classes) {
            warn_unknown(class, table, cx);
            if can_be_claimed(class, table) {
                let message = format!(
                    "the policy \"{}\" exempts the class \"{}\", and every client can claim it by its \
                     User-Agent",
                    name.shown(),
                    class.shown()
                );
                cx.warning(class.span, &message, ADVICE);
            }
        }
    }
}

fn can_be_claimed(class: &Spanned<String>, table: Option<&ClassTable>) -> bool {
    table.is_some_and(|table| table.can_be_chosen(&class.value))
}

fn warn_unknown(class: &Spanned<String>, table: Option<&ClassTable>, cx: &Context<'_>) {
    let Some(table) = table else { return };
    if table.names().all(|name| name != class.value) {
        let message = format!("no class has the name \"{}\"", class.shown());
        let advice = suggest::advice(class.shown(), table.names(), "the classes are", cx.problems);
        cx.warning(class.span, &message, &advice);
    }
}
