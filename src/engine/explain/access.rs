//! What the access lists of a route say of a request.

use std::sync::Arc;

use tollgate_core::policy::{
    AccessList, AccessMode, AccessStep, AccessVerdict, AccessVerdicts, DenialCause, Subject,
};

use super::document::ListVerdict;

/// The verdicts of the lists, up to the first one that denies. Lists that compare identities are
/// asked if the request has a right credential, or needs none and is no preflight.
pub fn asked(
    lists: &[Arc<AccessList>],
    subject: &Subject<'_, '_>,
    is_proved: bool,
) -> AccessVerdicts {
    let mut verdicts = AccessVerdicts::default();
    let steps = [AccessStep::BeforeAuth, AccessStep::AfterAuth];
    let mut steps = steps.into_iter().take(if is_proved { 2 } else { 1 });
    let _ = steps.find(|step| verdicts.ask(lists, *step, subject).is_some());
    verdicts
}

/// All lists of a route in its order, also those that were not asked.
pub fn shown(lists: &[Arc<AccessList>], verdicts: AccessVerdicts) -> Vec<ListVerdict> {
    let verdict = |list: &Arc<AccessList>| {
        let asked = verdicts.of(lists).find(|(it, _)| Arc::ptr_eq(it, list));
        match asked.map(|(_, verdict)| verdict) {
            Some(AccessVerdict::Allowed) => "allowed",
            Some(AccessVerdict::ShadowDenied) => "shadow_denied",
            Some(AccessVerdict::Denied(DenialCause::Rule(_))) => "denied",
            Some(AccessVerdict::Denied(DenialCause::Ambiguous)) => "ambiguous",
            Some(AccessVerdict::Denied(DenialCause::Unverifiable)) => "unverifiable",
            None if list.mode == AccessMode::Off => "off",
            None => "not_asked",
        }
    };
    let shown = |list: &Arc<AccessList>| ListVerdict {
        name: list.name.to_string(),
        step: match list.step() {
            AccessStep::BeforeAuth => "before_auth".to_owned(),
            AccessStep::AfterAuth => "after_auth".to_owned(),
        },
        verdict: verdict(list).to_owned(),
    };
    lists.iter().map(shown).collect()
}
