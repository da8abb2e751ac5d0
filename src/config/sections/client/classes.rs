//! `client.classes`: names for clients that have something in common.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{Agents, KeyExpr};

use super::keys::tell;
use crate::config::api_keys::Unusable;
use crate::config::classes::ClassFile;
use crate::config::field::{Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::sections::context::Context;

/// Names for clients that have something in common, such as a text in `User-Agent`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "classes", default)]
#[schemars(deny_unknown_fields, extend("required" = ["file"]))]
pub struct RawClasses {
    /// The file with the classes. The gateway reads it again when it changes.
    #[schemars(example = &"classes.yaml")]
    file: Field<String>,
}

impl RawClasses {
    /// The classes. The section is written at `span`; `knows_places` says whether there is `geo`, and
    /// `agents` are those that are listed.
    pub fn compile(
        &self,
        span: TextSpan,
        knows_places: bool,
        agents: Option<&Agents>,
        cx: &Context<'_>,
    ) -> Option<ClassFile> {
        let advice = "like classes: { file: classes.yaml }";
        cx.required(&self.file, span, "\"classes\" has no \"file\"", advice);
        let path = self.file.given()?;
        let file = read(path, cx)?;
        if file.table.has_asns() && !knows_places {
            let remark = KeyExpr::Asn.without_places();
            let message =
                format!("a class in {:?} has \"asns\", but {}", path.shown(), remark.message);
            cx.error(path.span, &message, &remark.advice);
        }
        let is_known =
            |name: &str| agents.is_some_and(|it| it.iter().any(|agent| *agent.name == *name));
        if let Some(name) = file.table.agents().find(|name| !is_known(name)) {
            let message = format!(
                "a class in {:?} has the agent {name:?}, which is not listed",
                path.shown()
            );
            cx.error(path.span, &message, "add it to client: { agents: { allow: [...] } }");
        }
        Some(file)
    }
}

/// The classes in the file at `path`. If it cannot be used at a reload, the classes that were read
/// from this path before stay in use.
fn read(path: &Spanned<String>, cx: &Context<'_>) -> Option<ClassFile> {
    let unusable = match cx.around.classes(&path.value, path.shown()) {
        Ok(file) => return Some(file),
        Err(unusable) => unusable,
    };
    let before = cx.around.classes_before(&path.value);
    let stays = before.is_some();
    match unusable {
        Unusable::Unreadable(why) => {
            let message = format!("the file {:?} gives no classes: {why}", path.shown());
            if stays {
                cx.warning(path.span, &message, "");
            } else {
                cx.error(path.span, &message, "write a list of classes: docs/classes.md");
            }
        }
        Unusable::Mistakes(report) => tell(path, &report, stays, cx),
    }
    if stays {
        let message = format!(
            "the classes that were read from {:?} before stay in force, because the file has mistakes",
            path.shown()
        );
        cx.warning(path.span, &message, "");
    }
    before.map(ClassFile::outdated)
}
