//! The configuration in use, as the admin API shows it.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::rand;

use crate::admin::{ConfigProblem, EffectiveConfig, MaskedConfig, Origins, ShownConfig};
use crate::config::{Document, Effective, Report, Reported};

/// Makes entity tags. Without the random bytes, a tag says nothing of the text.
pub struct Tags([u8; 32]);

impl Tags {
    pub fn random() -> Self {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).expect("the system has random bytes");
        Self(bytes)
    }

    fn of(&self, text: &str) -> String {
        let mut context = Context::new(&SHA256);
        context.update(&self.0);
        context.update(text.as_bytes());
        let digest = context.finish();
        digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The configuration of this document without its secrets.
    pub fn masked(&self, document: &Document) -> MaskedConfig {
        MaskedConfig {
            written: Arc::clone(&document.written),
            identity: Arc::clone(&document.identity),
            keyed_digest: self.of(&document.identity.to_string()),
        }
    }

    /// The configuration of this document.
    pub fn shown(&self, document: Document) -> ShownConfig {
        ShownConfig {
            masked: self.masked(&document),
            tag: self.of(&document.text),
            effective: Arc::new(move |patches| effective(document.effective(patches))),
        }
    }
}

fn effective(effective: Effective) -> EffectiveConfig {
    let Effective { settings, by_default, patched, referred, masked } = effective;
    let origins =
        Origins { default: by_default, patch: patched, reference: referred, secret: masked };
    EffectiveConfig { effective: settings, origins }
}

/// The mistakes and warnings of a report.
pub fn problems(report: &Report) -> Vec<ConfigProblem> {
    let problem = |it: Reported<'_>| ConfigProblem {
        is_warning: it.is_warning,
        line: it.line,
        column: it.column,
        message: it.message.to_owned(),
        help: it.advice.to_owned(),
    };
    report.problems().map(problem).collect()
}
