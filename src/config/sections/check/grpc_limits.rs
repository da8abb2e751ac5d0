//! `check.grpc.envoy_config`, `envoy` and `domains`: what the rate limit service knows.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::consistency::{Consistency, OnFailure, StoreMode};

use super::grpc_rules::RawNativeRule;
use crate::check::rls::{Dialect, NativeRule, RateLimits, Switches};
use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::ratelimit;
use crate::config::sections::context::Context;
use crate::config::sections::references::References;
use crate::config::words::{Word, words};

/// All rules of a domain are compared with each descriptor.
const MAX_RULES: usize = 1000;

/// How the limits of `envoy_config` and `xds` apply.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "envoy", default)]
#[schemars(deny_unknown_fields)]
pub struct RawEnvoy {
    /// Whether each descriptor of a request is counted alone, even if it is over its limit, or all
    /// of them together, and only if none is over its limit.
    #[schemars(extend("default" = "each"))]
    #[schemars(example = &"each")]
    counting: Field<Word<Counting>>,
    /// How hits are counted.
    #[schemars(extend("x-default" = "fixed_window, which is that of envoyproxy/ratelimit"))]
    #[schemars(example = &"fixed_window")]
    algorithm: Field<Word<Windows>>,
    /// How exact the counters are on several nodes.
    #[schemars(extend("default" = "exact"))]
    store_mode: Field<Word<StoreMode>>,
    /// What happens to requests while the store is not available.
    #[schemars(extend("default" = "local"))]
    on_store_failure: Field<Word<OnFailure>>,
    /// Whether several files or resources may be about one domain.
    #[schemars(extend("default" = false))]
    merge_domains: Field<bool>,
    /// Whether all requests are admitted, and only counted.
    #[schemars(extend("default" = false))]
    shadow: Field<bool>,
    /// Whether all limits are in quota mode.
    #[schemars(extend("default" = false))]
    quota: Field<bool>,
    /// Whether responses contain the descriptors and the `metadata` of their limits.
    #[schemars(extend("default" = false))]
    metadata: Field<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    Each,
    Together,
}

words! {
    /// How the descriptors of a request are counted.
    Counting as "counting" {
        /// Each one alone, even if it is over its limit.
        "each" => Counting::Each,
        /// All together, and only if none is over its limit.
        "together" => Counting::Together,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Windows {
    Fixed,
    Sliding,
}

words! {
    /// How hits are counted.
    Windows as "algorithm of descriptors" {
        /// In windows that begin at full units.
        "fixed_window" => Windows::Fixed,
        /// In windows that slide, so that no burst passes at the edge of two of them.
        "sliding_window" => Windows::Sliding,
    }
}

words! {
    /// A family of header fields that a response of the rate limit service adds.
    Dialect as "family of fields" {
        /// RateLimit-Policy and RateLimit.
        "ietf" => Dialect::Ietf,
        /// Retry-After.
        "retry_after" => Dialect::RetryAfter,
        /// RateLimit-Limit, -Remaining and -Reset, as envoyproxy/ratelimit writes them.
        "erl" => Dialect::Erl,
    }
}

/// What the section says of the rate limit service.
pub struct RawLimits<'f> {
    pub directory: &'f Field<String>,
    /// Whether another server gives the limits.
    pub has_server: bool,
    pub envoy: &'f Field<RawEnvoy>,
    pub domains: &'f Field<Entries<Vec<Field<RawNativeRule>>>>,
    pub headers: &'f List<Word<Dialect>>,
}

impl RawLimits<'_> {
    pub fn compile(&self, known: &References<'_>, cx: &Context<'_>) -> RateLimits {
        let absent = RawEnvoy::default();
        let envoy = self.envoy.value().unwrap_or(&absent);
        let switches = envoy.switches();
        let mut limits = RateLimits {
            switches,
            fields: self.fields(cx),
            native: self.native(known, cx),
            ..RateLimits::default()
        };
        match self.directory.given() {
            Some(path) => {
                let read = cx.around.directory(&path.value, switches.merge_domains);
                limits.domains = report(path, read, cx);
            }
            None => {
                let is_absent = self.directory.is_absent() && !self.has_server;
                if let (Some(span), true) = (self.envoy.span(), is_absent) {
                    let message = "\"envoy\" has no effect without \"envoy_config\" or \"xds\"";
                    cx.warning(span, message, "name the directory, like envoy_config: ratelimit/");
                }
            }
        }
        for (name, _) in self.domains.entries() {
            if limits.domains.contains(&name.value) {
                let message = format!("the domain \"{}\" is in envoy_config too", name.shown());
                cx.error(name.span, &message, "rename one of them");
            }
        }
        limits
    }

    fn fields(&self, cx: &Context<'_>) -> Vec<Dialect> {
        if self.headers.is_absent() {
            return vec![Dialect::Ietf, Dialect::RetryAfter];
        }
        let mut fields = Vec::new();
        for Spanned { value: Word(dialect), span, .. } in self.headers.items() {
            if fields.contains(dialect) {
                cx.error(*span, "the family appears a second time", "remove one of them");
            }
            fields.push(*dialect);
        }
        if fields.contains(&Dialect::Ietf) && fields.contains(&Dialect::Erl) {
            let span = self.headers.span().unwrap_or(TextSpan::FILE);
            let message = "the fields of \"erl\" and \"ietf\" contradict each other";
            cx.warning(span, message, "choose one of them");
        }
        fields
    }

    fn native(
        &self,
        known: &References<'_>,
        cx: &Context<'_>,
    ) -> HashMap<Box<str>, Vec<NativeRule>> {
        let mut native = HashMap::new();
        for (name, rules) in self.domains.entries() {
            if name.value.is_empty() {
                cx.error(name.span, "the name of the domain is empty", "");
            }
            let Some(Spanned { value: rules, span, .. }) = rules.given() else { continue };
            if rules.is_empty() || rules.len() > MAX_RULES {
                let message = format!("a domain has from 1 to {MAX_RULES} rules");
                cx.error(*span, &message, "");
            }
            let given = rules.iter().filter_map(Field::given);
            let compiled = given.filter_map(|rule| rule.value.compile(rule.span, known, cx));
            native.insert(name.value.as_str().into(), compiled.collect());
        }
        native
    }
}

/// The rules of the directory. Its mistakes are reported where the directory is named.
fn report(
    path: &Spanned<String>,
    read: Result<ratelimit::Directory, String>,
    cx: &Context<'_>,
) -> crate::check::rls::Domains {
    match read {
        Ok(directory) => {
            for (file, report) in &directory.reports {
                for it in report.problems() {
                    let message =
                        format!("{}:{}:{}: {}", file.display(), it.line, it.column, it.message);
                    match it.is_warning {
                        true => cx.warning(path.span, &message, it.advice),
                        false => cx.error(path.span, &message, it.advice),
                    }
                }
            }
            directory.domains
        }
        Err(message) => {
            cx.error(path.span, &message, "name a directory of envoyproxy/ratelimit");
            crate::check::rls::Domains::default()
        }
    }
}

impl RawEnvoy {
    fn switches(&self) -> Switches {
        let is_set = |field: &Field<bool>| field.copied().unwrap_or(false);
        Switches {
            shadow: is_set(&self.shadow),
            quota: is_set(&self.quota),
            merge_domains: is_set(&self.merge_domains),
            metadata: is_set(&self.metadata),
            sliding: self.algorithm.word() == Some(Windows::Sliding),
            together: self.counting.word() == Some(Counting::Together),
            consistency: Consistency {
                mode: self.store_mode.word().unwrap_or_default(),
                on_failure: self.on_store_failure.word().unwrap_or_default(),
            },
        }
    }
}
