//! `client.geo`: the databases that tell where an address is, and the keys that need them.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{GeoCode, KeyExpr};

use super::context::Context;
use crate::config::field::{Either, Field, OneOrMore, Spanned};
use crate::config::geo_file::GeoFile;
use crate::config::node::TextSpan;

/// For a request with such a key, every database is searched.
const MAX_DATABASES: usize = 8;

/// The databases that tell where an address is.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "geo", default)]
#[schemars(deny_unknown_fields, extend("required" = ["database"]))]
pub(super) struct RawGeo {
    /// A MaxMind DB file (.mmdb) of countries, cities or networks (ASN), or a list of such files.
    /// If several contain an address, the first of them counts.
    #[schemars(example = &"geo.mmdb")]
    database: OneOrMore<String>,
}

impl RawGeo {
    /// All databases, in the order of the file. The section is written at `span`.
    pub(super) fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Vec<GeoFile> {
        let advice = "like geo: { database: geo.mmdb }";
        cx.required(&self.database, span, "\"geo\" has no \"database\"", advice);
        let Some(given) = self.database.given() else { return Vec::new() };
        match &given.value {
            Either::Short(path) => geo_file(&given.with(path.clone()), cx).into_iter().collect(),
            Either::Long(list) => {
                if !(1..=MAX_DATABASES).contains(&list.len()) {
                    let message = format!("there may be from 1 to {MAX_DATABASES} databases");
                    cx.error(given.span, &message, "");
                    return Vec::new();
                }
                // This does not stop at the first broken file, so that all are reported.
                list.iter().filter_map(Field::given).filter_map(|it| geo_file(it, cx)).collect()
            }
        }
    }
}

/// The file at `path`. If it cannot be used at a reload, the database that was read from this
/// path before stays in use.
fn geo_file(path: &Spanned<String>, cx: &Context<'_>) -> Option<GeoFile> {
    let message = match cx.around.database(&path.value) {
        Ok(file) => return Some(file),
        Err(why) => format!("the database {:?} cannot be used: {why}", path.shown()),
    };
    let before = cx.around.database_before(&path.value);
    match before {
        Some(_) => {
            let message = format!("{message}; the one that was read before stays in force");
            cx.warning(path.span, &message, "");
        }
        None => cx.error(path.span, &message, "name a MaxMind DB file (.mmdb)"),
    }
    before
}

/// Reports a location `key`, written at `span`, for which there is no database.
pub(super) fn check_location(span: TextSpan, key: &KeyExpr, geo: &Field<RawGeo>, cx: &Context<'_>) {
    if geo.is_absent() {
        let message = format!("no request has a {}, since there is no \"client.geo\"", noun(key));
        let advice = "add client: { geo: { database: geo.mmdb } }, or use another key";
        cx.error(span, &message, advice);
    }
}

/// What messages call a value of this key.
pub(super) fn noun(key: &KeyExpr) -> &'static str {
    match key {
        KeyExpr::Country => "country",
        KeyExpr::Region => "region",
        _ => "network",
    }
}

/// Whether `code` can be a value of this key.
pub(super) fn is_of(code: &GeoCode, key: &KeyExpr) -> bool {
    match key {
        KeyExpr::Country => code.is_country(),
        KeyExpr::Region => code.is_region(),
        KeyExpr::Asn => code.is_asn(),
        _ => false,
    }
}

/// How a value of this key is written.
pub(super) fn form_of(key: &KeyExpr) -> &'static str {
    match key {
        KeyExpr::Country => "write the two capitals of a country, like DE",
        KeyExpr::Region => "write a region with its country, like DE-BE",
        _ => "write the number of a network, like AS64500",
    }
}
