//! One sentence on each policy.

use super::report::{AgainstReport, PolicyReport};
use super::words::{between, count, limit_in_words, number, percents};

/// What a policy counts by, in one word.
pub(super) const fn noun(tells_clients_apart: bool) -> &'static str {
    if tells_clients_apart { "client" } else { "key" }
}

/// What the limit of a policy would have done.
pub(super) fn conclusion(policy: &PolicyReport) -> String {
    let subject = format!("{} ({})", policy.name, limit_in_words(&policy.limit));
    let judged = count(policy.judged, "request");
    if policy.judged == 0 {
        return format!("{subject} has judged no request.");
    }
    let most = policy.refused_range.map_or(policy.refused, |[_, most]| most);
    if most == 0 {
        return format!("{subject} would refuse none of {judged}.");
    }
    let shadow = if policy.shadow { " if it were not in shadow mode" } else { "" };
    let refused = between(policy.refused, policy.refused_range);
    let share = percents(policy.refused, policy.refused_range, policy.judged);
    format!("{subject} would refuse {refused} of {judged} ({share}){shadow}{}.", whose(policy))
}

/// Whose requests are refused.
fn whose(policy: &PolicyReport) -> String {
    let lacking = match policy.lacking_key {
        0 => String::new(),
        lacking => format!("; {} of them lack the key", number(lacking)),
    };
    let about = if policy.keys_hit_is_estimate { "about " } else { "" };
    let keys = count(policy.keys_hit, noun(policy.tells_clients_apart));
    let whose = match &*policy.refused_clients {
        [] => String::new(),
        [only] if policy.keys_hit <= 1 => format!(", all of {}", only.client),
        [first, ..] if policy.refused_clients_are_least => {
            format!(", of {about}{keys}, at least {} of {}", number(first.refused), first.client)
        }
        [first, ..] => {
            format!(", of {about}{keys}, {} of {}", number(first.refused), first.client)
        }
    };
    whose + &lacking
}

/// What the change from one configuration to another would have done.
pub(super) fn comparison(against: &AgainstReport) -> String {
    let AgainstReport { newly_refused, newly_admitted, .. } = against;
    format!(
        "Compared with {}, {} of {} {} newly refused, and {} of {} {} newly admitted.",
        against.config,
        count(*newly_refused, "request"),
        count(against.clients_newly_refused, "client"),
        are(*newly_refused),
        count(*newly_admitted, "request"),
        count(against.clients_newly_admitted, "client"),
        are(*newly_admitted),
    )
}

const fn are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
