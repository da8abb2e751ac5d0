//! The text of a configuration that was compiled, in the forms in which it is shown.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::effective::Effective;
use super::excerpt::Excerpts;
use super::kind;
use super::node::Node;
use super::problem::{Problems, Report};
use super::secret_places;
use super::short_forms;
use super::shown;
use super::yaml;
use crate::patches::Resolved;

/// The text of a configuration, and what of it may be shown.
#[derive(Clone)]
pub struct Document {
    /// The text itself, with its secrets.
    pub text: Arc<str>,
    /// As JSON: with `${...}` as they are written, and without secrets.
    pub written: Arc<Value>,
    /// The same with keyed digests in the places of secrets. It differs if only a secret differs, and
    /// says nothing of the secret.
    pub identity: Arc<Value>,
    /// The same with the values of `${...}`. It is not to be shown as it is.
    pub expanded: Arc<Value>,
}

impl Document {
    /// The document of a tree in which `${...}` were replaced. `written`: the tree as JSON before.
    pub fn new(text: &str, written: Value, tree: &Node) -> Self {
        // Most files have neither secrets nor references. Then all forms are one.
        let written = Arc::new(written);
        let has_secrets = shown::has_secrets(tree);
        let has_replaced = shown::has_replaced(tree);
        let form = |differs, form: fn(&Node) -> Value| match differs {
            true => Arc::new(form(tree)),
            false => Arc::clone(&written),
        };
        let identity = form(has_secrets || has_replaced, shown::identity);
        let expanded = form(has_replaced, shown::shown_expanded);
        Self { text: text.into(), written, identity, expanded }
    }

    /// What is true of the configuration while these patches are in force.
    pub fn effective(&self, patches: &Resolved) -> Effective {
        Effective::new(&self.written, &self.expanded, patches)
    }
}

/// Without the text, which may have secrets.
impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

/// The report on texts that were masked when the configuration was shown, so that no secret is
/// replaced by its mask. None: there are none.
pub fn masked(text: &str, name: &str) -> Option<Report> {
    let problems = Problems::default();
    let mut tree = yaml::parse(text, &Problems::default())?;
    short_forms::expand(&mut tree, &Problems::default());
    secret_places::mark(&mut tree);
    let masks = shown::masks(&tree);
    for span in &masks {
        let advice = "write the secret itself, or better ${VARIABLE} or ${file:/path}";
        problems.error(*span, "this is the mask of a secret that is not shown", advice);
    }
    (!masks.is_empty())
        .then(|| problems.report(name, text, &Excerpts::of_names(&kind::NAMES).with_values(&tree)))
}
