//! `client.geo`: where addresses are, and whether keys can be made of it.

use super::Compiler;
use crate::config::field::{Either, Field, Spanned};
use crate::config::geo::GeoFile;
use crate::config::model::Config;
use crate::config::node::Span;
use crate::config::raw::{List, RawClient, RawConfig, RawExempt};
use crate::config::scalar::PlaceCode;
use crate::policy::{GeoCode, KeyExpr, Policy};

/// Each database is asked for each request that has a place in its key.
const MAX_DATABASES: usize = 8;
/// What to write where a database is missing.
const ADVICE: &str = "add client: { geo: { database: geo.mmdb } }, or use another key";

impl Compiler<'_> {
    /// All databases, in the order of the file.
    pub(super) fn geo(&self, client: Option<&RawClient>) -> Vec<GeoFile> {
        let Some(geo) = client.and_then(|client| client.geo.given()) else { return Vec::new() };
        let database = &geo.value.database;
        let advice = "like geo: { database: geo.mmdb }";
        self.required(database, geo.span, "\"geo\" has no \"database\"", advice);
        let Some(given) = database.given() else { return Vec::new() };
        match &given.value {
            Either::Short(path) => {
                let path = Spanned {
                    value: path.clone(),
                    span: given.span,
                    written: given.written.clone(),
                };
                self.geo_file(&path).into_iter().collect()
            }
            Either::Long(list) => {
                if !(1..=MAX_DATABASES).contains(&list.len()) {
                    let message = format!("there may be from 1 to {MAX_DATABASES} databases");
                    self.problems.error(given.span, &message, "");
                    return Vec::new();
                }
                // Not short-circuited: every file is looked at.
                list.iter().filter_map(Field::given).filter_map(|it| self.geo_file(it)).collect()
            }
        }
    }

    /// The file at `path`. Where it cannot be used, and another was read from
    /// there before, that one stays.
    fn geo_file(&self, path: &Spanned<String>) -> Option<GeoFile> {
        let message = match self.around.database(&path.value) {
            Ok(file) => return Some(file),
            Err(why) => format!("the database {:?} cannot be used: {why}", path.shown()),
        };
        let before = self.around.database_before(&path.value);
        match before {
            Some(_) => {
                let message = format!("{message}; the one that was read before stays in force");
                self.problems.warning(path.span, &message, "");
            }
            None => self.problems.error(path.span, &message, "name a MaxMind DB file (.mmdb)"),
        }
        before
    }

    /// A key of where the client is needs a database.
    pub(super) fn check_place(&self, place: Span, key: &str, client: Option<&RawClient>) {
        if client.is_none_or(|client| client.geo.is_absent()) {
            let message = format!("no request has a {key}, since there is no \"client.geo\"");
            self.problems.error(place, &message, ADVICE);
        }
    }

    /// The places that a policy exempts.
    pub(super) fn exempt_places(
        &self,
        raw: &RawExempt,
        client: Option<&RawClient>,
    ) -> Vec<GeoCode> {
        let lists: [(&List<PlaceCode>, KeyExpr, &str); 3] = [
            (&raw.countries, KeyExpr::Country, "country"),
            (&raw.regions, KeyExpr::Region, "region"),
            (&raw.asns, KeyExpr::Asn, "network"),
        ];
        let mut places = Vec::new();
        for (list, key, name) in lists {
            if let Some(given) = list.given() {
                self.check_place(given.span, name, client);
            }
            for code in list.items() {
                if is_of(&code.value.0, &key) {
                    places.push(code.value.0);
                } else {
                    let message = format!("{} is no {name}", code.shown_as(code.value.0.as_str()));
                    self.problems.error(code.span, &message, form_of(&key));
                }
            }
        }
        places
    }

    /// A plan that is chosen by where the client is has the name of a place.
    pub(super) fn check_plan_place(&self, name: &Spanned<String>, from: &KeyExpr) {
        let is_place = || name.value.parse().is_ok_and(|code| is_of(&code, from));
        if from.is_place() && !is_place() {
            let message = format!("no client has the plan \"{}\"", name.shown());
            self.problems.error(name.span, &message, form_of(from));
        }
    }

    /// What is asked for must be in a database, and a database be asked for something.
    pub(super) fn warn_places(&self, raw: &RawConfig, config: &Config) {
        let Some(geo) = raw.client.value().and_then(|client| client.geo.given()) else { return };
        let entries = raw.policies.value().map_or(&[][..], |entries| &entries.0);
        for policy in &config.policies {
            let written = entries.iter().find(|(name, _)| *name.value == *policy.name);
            let place = written.map_or(Span::FILE, |(name, _)| name.span);
            let databases = &config.client.geo;
            let missing =
                keys(policy).find(|key| !databases.iter().any(|database| database.may_have(key)));
            if let Some(key) = missing {
                let kinds: Vec<&str> = databases.iter().map(|it| it.kind()).collect();
                let message = format!(
                    "the policy \"{}\" asks for the {}, which is not in a database of the kind {}",
                    policy.name,
                    name_of(key),
                    kinds.join(" or ")
                );
                let advice = "add one to client.geo: database: [city.mmdb, asn.mmdb]";
                self.problems.warning(place, &message, advice);
            }
        }
        let asks = |policy: &Policy| keys(policy).next().is_some();
        let affinities = config.routes.iter().filter_map(|route| route.rule.affinity.as_ref());
        let is_asked = config.policies.iter().any(|policy| asks(policy))
            || affinities.into_iter().any(|key| !key.places().is_empty());
        if !is_asked {
            let message = "no policy asks where a client is: these databases have no use";
            self.problems.warning(geo.span, message, "leave them out, or use the key country");
        }
    }
}

/// The keys that a policy needs databases for.
fn keys(policy: &Policy) -> impl Iterator<Item = &KeyExpr> {
    let plans = policy.plans.as_ref().map(|plans| plans.from.places());
    let exempt = policy.exempt.places.iter().map(|code| match code {
        code if code.is_country() => &KeyExpr::Country,
        code if code.is_region() => &KeyExpr::Region,
        _ => &KeyExpr::Asn,
    });
    policy.key.places().into_iter().chain(plans.into_iter().flatten()).chain(exempt)
}

/// Whether a value of this key can be this code.
fn is_of(code: &GeoCode, key: &KeyExpr) -> bool {
    match key {
        KeyExpr::Country => code.is_country(),
        KeyExpr::Region => code.is_region(),
        KeyExpr::Asn => code.is_asn(),
        _ => false,
    }
}

/// How a value of this key is written.
fn form_of(key: &KeyExpr) -> &'static str {
    match key {
        KeyExpr::Country => "write the two capitals of a country, like DE",
        KeyExpr::Region => "write a region with its country, like DE-BE",
        _ => "write the number of a network, like AS64500",
    }
}

fn name_of(key: &KeyExpr) -> &'static str {
    match key {
        KeyExpr::Country => "country",
        KeyExpr::Region => "region",
        _ => "network (asn)",
    }
}
