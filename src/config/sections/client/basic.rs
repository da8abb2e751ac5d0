//! `client.user.basic`: users by name and password.

use http::HeaderValue;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::PasswordSettings;

use crate::config::field::{Field, Spanned};
use crate::config::node::TextSpan;
use crate::config::password_file::{PasswordFile, UnusablePasswords};
use crate::config::sections::context::Context;

/// The default of `realm`.
const REALM: &str = "tollgate";
/// The longest realm in bytes.
const MAX_REALM: usize = 128;

/// Users by name and password: HTTP Basic authentication (RFC 7617).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "basic", default)]
#[schemars(deny_unknown_fields)]
pub struct RawBasic {
    /// The file with the users, as `htpasswd -B` writes it. Hashes are of bcrypt with a cost from 5
    /// to 14.
    #[schemars(extend("x-default" = "required"))]
    #[schemars(example = &"htpasswd")]
    file: Field<String>,
    /// What browsers show when they ask for the password.
    #[schemars(extend("default" = "tollgate"))]
    #[schemars(example = &"staff")]
    realm: Field<String>,
}

/// What is compiled of the section.
pub struct Basic {
    pub settings: PasswordSettings,
    pub file: Option<PasswordFile>,
}

impl RawBasic {
    /// The users. The section is written at `span`.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Basic {
        let advice = "like file: htpasswd";
        cx.required(&self.file, span, "\"basic\" has no \"file\" with users", advice);
        let file = self.file.given().and_then(|path| read(path, cx));
        let table = file.as_ref().map(|file| file.table.clone()).unwrap_or_default();
        Basic { settings: PasswordSettings { table, challenge: self.challenge(cx) }, file }
    }

    /// The challenge (RFC 7617, sections 2 and 2.1).
    fn challenge(&self, cx: &Context<'_>) -> HeaderValue {
        let is_plain = |realm: &str| {
            let is_plain = |byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
            (1..=MAX_REALM).contains(&realm.len()) && realm.bytes().all(is_plain)
        };
        let given = self.realm.given();
        if let Some(realm) = given.filter(|realm| !is_plain(&realm.value)) {
            let message = "\"realm\" has 1 to 128 characters of ASCII, without quotes and \
                           backslashes";
            cx.error(realm.span, message, "like realm: staff");
        }
        let realm = given.map(|realm| &*realm.value).filter(|realm| is_plain(realm));
        let realm = realm.unwrap_or(REALM);
        HeaderValue::try_from(format!("Basic realm=\"{realm}\", charset=\"UTF-8\""))
            .expect("a realm that was checked")
    }
}

/// The users in the file at `path`. If it cannot be used at a reload, the users that were read from
/// this path before stay in use.
fn read(path: &Spanned<String>, cx: &Context<'_>) -> Option<PasswordFile> {
    let unusable = match cx.around.passwords(&path.value, path.shown()) {
        Ok(file) => {
            if file.table.is_empty() {
                let message = format!("the file {:?} has no users", path.shown());
                cx.warning(path.span, &message, "htpasswd -B -C 10 FILE NAME adds one");
            }
            return Some(file);
        }
        Err(unusable) => unusable,
    };
    let before = cx.around.passwords_before(&path.value);
    let tell = |message: &str, advice: &str| match before {
        Some(_) => cx.warning(path.span, message, advice),
        None => cx.error(path.span, message, advice),
    };
    match unusable {
        UnusablePasswords::Unreadable(why) => {
            let message = format!("the file {:?} gives no users: {why}", path.shown());
            tell(&message, "htpasswd -B -C 10 -c FILE NAME writes such a file");
        }
        UnusablePasswords::Mistakes(faults) => {
            for fault in faults {
                let message = format!("{}:{}: {}", path.shown(), fault.line, fault.message);
                tell(&message, fault.advice);
            }
        }
    }
    if before.is_some() {
        let message = format!(
            "the users that were read from {:?} before stay in force, because the file cannot be \
             used",
            path.shown()
        );
        cx.warning(path.span, &message, "");
    }
    before.map(PasswordFile::outdated)
}
