//! `exempt` of a policy: requests that it does not count.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::policy::{Exempt, GeoCode, KeyExpr};

use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::scalar::{Cidr, FieldValue, MethodName, PlaceCode};
use crate::config::sections::client::RawClient;
use crate::config::sections::context::Context;

/// Requests that a policy neither counts nor refuses. One matching condition is enough.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "exempt", default)]
#[schemars(deny_unknown_fields)]
pub struct RawExempt {
    /// Clients with these addresses.
    #[schemars(extend("x-default" = "none"))]
    ips: List<Cidr>,
    /// Clients in these countries, such as DE (ISO 3166-1).
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["DE"])]
    countries: List<PlaceCode>,
    /// Clients in these regions, such as DE-BE (ISO 3166-2).
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["DE-BE"])]
    regions: List<PlaceCode>,
    /// Clients in these networks (autonomous systems), such as AS64500.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["AS64500"])]
    asns: List<PlaceCode>,
    /// Clients of these classes, see `client.classes`.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["monitoring"])]
    classes: List<String>,
    /// Requests with these methods.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = ["OPTIONS"])]
    methods: List<MethodName>,
    /// Requests with one of these header fields and exactly its value.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = serde_json::json!({ "x-internal": "1" }))]
    headers: Field<Entries<FieldValue>>,
}

impl RawExempt {
    pub fn compile(&self, client: &RawClient, cx: &Context<'_>) -> Exempt {
        Exempt {
            ips: self.ips.items().map(|block| block.value.0).collect(),
            places: self.places(client, cx),
            classes: class_names(&self.classes, client, cx),
            methods: self.methods.items().map(|method| method.value.0.clone()).collect(),
            headers: cx.header_values(&self.headers),
        }
    }

    /// The classes that it names.
    pub fn classes(&self) -> impl Iterator<Item = &Spanned<String>> {
        self.classes.items()
    }

    fn places(&self, client: &RawClient, cx: &Context<'_>) -> Vec<GeoCode> {
        let lists = [
            (&self.countries, KeyExpr::Country),
            (&self.regions, KeyExpr::Region),
            (&self.asns, KeyExpr::Asn),
        ];
        lists.iter().flat_map(|(list, key)| place_codes(list, key, client, cx)).collect()
    }
}

/// The codes of a list of places, which are of the kind `key`.
pub fn place_codes(
    list: &List<PlaceCode>,
    key: &KeyExpr,
    client: &RawClient,
    cx: &Context<'_>,
) -> Vec<GeoCode> {
    if let Some(given) = list.given().filter(|_| !client.facts().place) {
        let remark = key.without_places();
        cx.error(given.span, &remark.message, &remark.advice);
    }
    let mut places = Vec::new();
    for code in list.items() {
        if key.can_be(&code.value.0) {
            places.push(code.value.0);
        } else {
            let shown = code.shown_as(code.value.0.as_str());
            let message = format!("{shown} is not a {}", key.place_noun());
            cx.error(code.span, &message, key.place_form());
        }
    }
    places
}

/// The names of a list, which needs `client.classes`.
pub fn class_names(list: &List<String>, client: &RawClient, cx: &Context<'_>) -> Vec<Box<str>> {
    if let Some(given) = list.given().filter(|_| !client.facts().classes) {
        let remark = KeyExpr::without_classes();
        cx.error(given.span, &remark.message, &remark.advice);
    }
    list.items().map(|name| name.value.as_str().into()).collect()
}
