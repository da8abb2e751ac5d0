//! `client.geo`: the databases that tell where an address is.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::field::{Either, Field, OneOrMore, Spanned};
use crate::config::geo_file::GeoFile;
use crate::config::node::TextSpan;
use crate::config::sections::context::Context;

/// For a request with such a key, every database is searched.
const MAX_DATABASES: usize = 8;

/// The databases that tell where an address is.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "geo", default)]
#[schemars(deny_unknown_fields, extend("required" = ["database"]))]
pub struct RawGeo {
    /// A MaxMind DB file (.mmdb) of countries, cities or networks (ASN), or a list of such files.
    /// If several contain an address, the first of them counts.
    #[schemars(example = &"geo.mmdb")]
    database: OneOrMore<String>,
}

impl RawGeo {
    /// All databases, in the order of the file. The section is written at `span`.
    pub fn compile(&self, span: TextSpan, cx: &Context<'_>) -> Vec<GeoFile> {
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
