//! `client.keys`: API keys that are known.

use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::api_keys::KeyForm;
use tollgate_core::policy::{IdentityPart, KeySettings};
use tollgate_core::store::keys::OnFailure;
use tollgate_core::time::Span;

use crate::config::api_keys::{ApiKeyFile, Unusable};
use crate::config::field::{Field, Spanned};
use crate::config::model::KEYS_ON_FAILURE;
use crate::config::node::TextSpan;
use crate::config::problem::Report;
use crate::config::scalar::{FieldName, Period};
use crate::config::sections::context::Context;
use crate::config::words::{Word, words};

/// The API keys that are known. No other text is an API key then.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "keys", default)]
#[schemars(deny_unknown_fields)]
pub struct RawKeys {
    /// What keys begin with. A bearer token with this prefix is a key, and any other one is the token
    /// of a user.
    #[schemars(extend("default" = "tg"))]
    #[schemars(example = &"acme")]
    prefix: Field<String>,
    /// The file with the keys.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"keys.yaml")]
    file: Field<String>,
    /// Whether texts of other forms are looked up, too: keys that were made by another program.
    #[schemars(extend("default" = false))]
    foreign: Field<bool>,
    /// Whether the upstream gets the key.
    #[schemars(extend("default" = false))]
    forward: Field<bool>,
    /// Header fields that tell the upstream about the key.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "id": "x-key-id", "team": "x-team" }))]
    identity_headers: Field<RawIdentityHeaders>,
    /// Whether keys are also in the store: in Redis, or in the file of `store.keys`. Write false if all
    /// keys are in `file`, and Redis has counters only.
    #[schemars(extend("x-default" = "true if there is a store for keys"))]
    #[schemars(example = false)]
    store: Field<bool>,
    /// What is done with known keys of the store while it cannot be read.
    #[schemars(extend("default" = "local"))]
    on_store_failure: Field<Word<StoreFailure>>,
    /// How long a known key of the store is trusted while the store cannot be read: 1s to 1d.
    #[schemars(extend("default" = "10m"))]
    #[schemars(example = &"1h")]
    stale: Field<Period>,
    /// Whether a request without a right credential is refused.
    #[schemars(extend("default" = "enforce"))]
    mode: Field<Word<KeysMode>>,
}

/// Header fields that tell the upstream about the key. Fields of these names from clients are
/// removed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "identity_headers", default)]
#[schemars(deny_unknown_fields)]
struct RawIdentityHeaders {
    /// The id of the key.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"x-key-id")]
    id: Field<FieldName>,
    /// The team of the key.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"x-team")]
    team: Field<FieldName>,
    /// The plan of the key or its team.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = &"x-plan")]
    plan: Field<FieldName>,
}

/// Whether a request without a right credential is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeysMode {
    Enforce,
    Shadow,
}

/// What is done with known keys while the store cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreFailure {
    Local,
    Deny,
}

words! {
    /// What is done with known keys of the store while it cannot be read.
    StoreFailure as "on_store_failure of keys" {
        /// They are trusted for the time `stale`.
        "local" => StoreFailure::Local,
        /// They are not accepted: 503.
        "deny" => StoreFailure::Deny,
    }
}

words! {
    /// Whether a request without a right credential is refused.
    KeysMode as "mode of keys" {
        /// It is refused.
        "enforce" => KeysMode::Enforce,
        /// It passes, and the access log says `shadow_unauthorized`.
        "shadow" => KeysMode::Shadow,
    }
}

/// What is compiled of the section.
pub struct Keys {
    pub settings: KeySettings,
    pub file: Option<ApiKeyFile>,
}

impl RawKeys {
    /// The keys. The section is written at `span`.
    pub fn compile(&self, cx: &Context<'_>) -> Keys {
        let form = match self.prefix.given() {
            None => KeyForm::default(),
            Some(prefix) => KeyForm::new(&prefix.value).unwrap_or_else(|error| {
                cx.error(prefix.span, &error.to_string(), "like prefix: acme");
                KeyForm::default()
            }),
        };
        let file = self.file.given().and_then(|path| read(path, &form, cx));
        let headers = self.identity_headers.value();
        let settings = KeySettings {
            form,
            file: file.as_ref().map(|file| (&*file.name).into()),
            table: file.as_ref().map(|file| file.table.clone()).unwrap_or_default(),
            foreign: self.foreign.copied().unwrap_or_default(),
            forward: self.forward.copied().unwrap_or_default(),
            identity_headers: headers.map(|it| it.compile(cx)).unwrap_or_default(),
            is_shadow: self.mode.word() == Some(KeysMode::Shadow),
            in_store: self.store.copied().unwrap_or(true),
        };
        Keys { settings, file }
    }

    /// Reports that keys are nowhere. The section is written at `span`.
    pub fn check_place(&self, span: TextSpan, store_keeps_keys: bool, cx: &Context<'_>) {
        if let Some(store) = self.store.given()
            && store.value
            && !store_keeps_keys
        {
            let message = "there is no store for keys";
            let advice = "leave it out, or add store: { redis: redis://127.0.0.1 }";
            cx.error(store.span, message, advice);
        } else if store_keeps_keys && self.store.copied() == Some(false) {
            let message = "\"keys\" has no \"file\", and \"store\" is false";
            cx.required(&self.file, span, message, "like file: keys.yaml, or leave out \"store\"");
        } else if !store_keeps_keys {
            let message = "\"keys\" has no \"file\", and there is no store for keys";
            let advice =
                "like keys: { file: keys.yaml }, or add store: { redis: redis://127.0.0.1 }";
            cx.required(&self.file, span, message, advice);
        }
    }

    /// What is done with known keys while their store cannot be read.
    pub fn on_failure(&self, cx: &Context<'_>) -> OnFailure {
        let longest = OnFailure::Local(Span::DAY);
        let stale = self.stale.given().map(|stale| {
            let span = stale.value.span();
            if span > Span::DAY || span < Span::SECOND {
                cx.error(stale.span, "\"stale\" is 1s to 1d", "like stale: 10m");
                return longest;
            }
            OnFailure::Local(span)
        });
        match self.on_store_failure.word() {
            Some(StoreFailure::Deny) => OnFailure::Deny,
            _ => stale.unwrap_or(KEYS_ON_FAILURE),
        }
    }

    /// Where `file` is written.
    pub fn file_span(&self) -> Option<TextSpan> {
        self.file.span()
    }

    /// Where `foreign` is written.
    pub fn foreign_span(&self) -> Option<TextSpan> {
        self.foreign.given().filter(|foreign| foreign.value).map(|foreign| foreign.span)
    }
}

impl RawIdentityHeaders {
    fn compile(&self, cx: &Context<'_>) -> Vec<(IdentityPart, HeaderName)> {
        let mut headers: Vec<(IdentityPart, HeaderName)> = Vec::new();
        let fields = [
            (IdentityPart::Id, &self.id),
            (IdentityPart::Team, &self.team),
            (IdentityPart::Plan, &self.plan),
        ];
        for (part, field) in fields {
            let Some(name) = field.given() else { continue };
            cx.check_identifying_field(name);
            let FieldName(header) = &name.value;
            if headers.iter().any(|(_, known)| known == header) {
                let message = format!("two fields would have the name \"{header}\"");
                cx.error(name.span, &message, "choose another name");
            }
            headers.push((part, header.clone()));
        }
        headers
    }
}

/// The keys in the file at `path`. If it cannot be used at a reload, the keys that were read from
/// this path before stay in use.
fn read(path: &Spanned<String>, form: &KeyForm, cx: &Context<'_>) -> Option<ApiKeyFile> {
    let unusable = match cx.around.api_keys(&path.value, path.shown(), form) {
        Ok(reading) => {
            if let Some(warnings) = &reading.warnings {
                tell(path, warnings, true, cx);
            }
            return Some(reading.file);
        }
        Err(unusable) => unusable,
    };
    let before = cx.around.api_keys_before(&path.value, form);
    let stays = before.is_some();
    match unusable {
        Unusable::Unreadable(why) => {
            let message = format!("the file {:?} gives no keys: {why}", path.shown());
            if stays {
                cx.warning(path.span, &message, "");
            } else {
                cx.error(path.span, &message, "\"tollgate key create\" writes such a file");
            }
        }
        Unusable::Mistakes(report) => tell(path, &report, stays, cx),
    }
    if stays {
        let message = format!(
            "the keys that were read from {:?} before stay in force, because the file has mistakes",
            path.shown()
        );
        cx.warning(path.span, &message, "");
    }
    before.map(ApiKeyFile::outdated)
}

/// Reports what is wrong in the file where the file is named.
pub fn tell(path: &Spanned<String>, report: &Report, stays: bool, cx: &Context<'_>) {
    for it in report.problems() {
        let message = format!("{}:{}:{}: {}", path.shown(), it.line, it.column, it.message);
        if it.is_warning || stays {
            cx.warning(path.span, &message, it.advice);
        } else {
            cx.error(path.span, &message, it.advice);
        }
    }
}
