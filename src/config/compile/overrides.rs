//! `overrides`: limits of single keys, and where they are kept.

use std::path::PathBuf;

use super::Compiler;
use super::terms::shares_store;
use crate::config::field::{Field, Spanned};
use crate::config::raw::{RawConfig, RawOverrides, RawPolicy, RawStore};
use crate::policy::Overridable;

const ADVICE: &str = "like overrides: { path: overrides.redb }";

impl Compiler<'_> {
    /// The file in which they are kept where there is no Redis.
    pub(super) fn overrides_file(&self, raw: &RawStore) -> Option<PathBuf> {
        let Spanned { value: RawOverrides { path }, span, .. } = raw.overrides.given()?;
        if !raw.redis.is_absent() {
            let message = "this file has no effect: with Redis, overrides lie there";
            self.problems.error(*span, message, "leave it out");
        }
        let path = self.required(path, *span, "the overrides have no \"path\"", ADVICE)?;
        if path.is_empty() {
            self.problems.error(*span, "the \"path\" of the overrides is empty", ADVICE);
        }
        Some(self.around.directory.join(path))
    }

    /// Whether keys of the policy `name` may have limits of their own.
    pub(super) fn overridable(
        &self,
        name: &str,
        raw: &RawPolicy,
        config: &RawConfig,
    ) -> Option<Overridable> {
        let given = raw.overrides.given().filter(|given| given.value)?;
        let file = config.store.value().is_some_and(|store| !store.overrides.is_absent());
        if !file && !shares_store(config) {
            let message = "there is no place for overrides";
            let advice = "name a file, like store: { overrides: { path: overrides.redb } }, or \
                          count in Redis";
            self.problems.error(given.span, message, advice);
        }
        let soft = raw.soft.value().map_or(0, |soft| soft.0);
        Some(Overridable::new(name, soft))
    }

    /// A file that no policy reads is most likely meant for one.
    pub(super) fn warn_unread_overrides(&self, config: &RawConfig) {
        let Some(store) = config.store.value() else { return };
        let policies = config.policies.value().map_or(&[][..], |policies| &policies.0);
        let reads = |policy: &Field<RawPolicy>| {
            policy.value().is_some_and(|raw| raw.overrides.value() == Some(&true))
        };
        if let Some(file) = store.overrides.given()
            && !policies.iter().any(|(_, policy)| reads(policy))
        {
            let message = "no policy has overrides";
            self.problems.warning(file.span, message, "write overrides: true under one");
        }
    }
}
