//! Checks of keys: whether requests can have them, and whether their lists have a bound.

use super::fault::{Faults, Remark};
use super::{Facts, Field, KeyPlace, PolicySpec};
use crate::policy::{KeyExpr, MissingKey};

/// How deep `first` and `all` may be nested.
const MAX_DEPTH: usize = 8;
/// The most keys of one list. A request is searched for each of them.
const MAX_KEYS: usize = 16;

/// What requests can have.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientFacts {
    /// Whether they can have a user.
    pub user: bool,
    /// Whether tokens are verified.
    pub token: bool,
    /// Whether there are databases of places.
    pub place: bool,
    /// Whether API keys are known.
    pub keys: bool,
    /// Whether there are classes of clients.
    pub classes: bool,
    /// Whether agents are known.
    pub agents: bool,
    /// Whether there are proxies whose fields are believed.
    pub trusted_proxy: bool,
}

impl KeyExpr {
    /// What is wrong with the key, if requests can have what `has` says, and where.
    pub fn faults(&self, has: ClientFacts) -> Vec<(KeyPlace, Remark)> {
        let mut found = Vec::new();
        self.visit_paths(&mut Vec::new(), &mut |path, part| {
            if path.len() == MAX_DEPTH && part.is_list() {
                let message = "keys are nested more than 8 deep";
                let advice = "write nested lists of the same kind as one list";
                let place = KeyPlace { path: path.to_vec(), is_list: false };
                found.push((place, Remark::new(message, advice)));
            } else if let Some(remark) = part.fault(has) {
                found.push((KeyPlace { path: path.to_vec(), is_list: part.is_list() }, remark));
            }
            path.len() < MAX_DEPTH
        });
        found
    }

    const fn is_list(&self) -> bool {
        matches!(self, Self::First(_) | Self::All(_))
    }

    /// Calls `see` with this key and all its parts, each with the way to it. It does not enter a
    /// list for which `see` returns false.
    fn visit_paths(&self, path: &mut Vec<usize>, see: &mut impl FnMut(&[usize], &Self) -> bool) {
        let enters = see(path, self);
        if let (true, Self::First(keys) | Self::All(keys)) = (enters, self) {
            for (index, key) in keys.iter().enumerate() {
                path.push(index);
                key.visit_paths(path, see);
                path.pop();
            }
        }
    }

    /// What is wrong with this part.
    fn fault(&self, has: ClientFacts) -> Option<Remark> {
        let user = "add client: { user: { jwt: ... } } or another key";
        match self {
            Self::User if !has.user => {
                Some(Remark::new("no request has a user, since there is no \"client.user\"", user))
            }
            Self::Jwt(_) if !has.token => {
                let message = "no token is verified, since there is no \"client.user.jwt\"";
                Some(Remark::new(message, user))
            }
            Self::ApiKeyPart(_) if !has.keys => {
                let message = "no API key is known, since there is no \"client.keys\"";
                Some(Remark::new(message, "add client: { keys: { file: keys.yaml } }"))
            }
            Self::Class if !has.classes => Some(Self::without_classes()),
            Self::Agent if !has.agents => Some(Self::without_agents()),
            _ if self.is_place() && !has.place => Some(self.without_places()),
            Self::Fold(word) if !word.can_be_folded() => {
                let message = "only the text of one word can be folded";
                let advice = "fold a name that clients write, like { fold: \"form:username\" }";
                Some(Remark::new(message, advice))
            }
            Self::Fold(word) => word.fault(has),
            Self::First(keys) | Self::All(keys) if keys.contains(&Self::Custom) => {
                let message = "an own value cannot be combined with other keys";
                let advice = "write Key::Custom alone, and put the other parts into the value";
                Some(Remark::new(message, advice))
            }
            Self::First(keys) | Self::All(keys) if !(1..=MAX_KEYS).contains(&keys.len()) => {
                let message = format!("a list of keys must have from 1 to {MAX_KEYS} of them");
                Some(Remark::new(message, ""))
            }
            _ => None,
        }
    }

    /// Why no request has a class.
    pub fn without_classes() -> Remark {
        let message = "no client has a class, since there is no \"client.classes\"";
        Remark::new(message, "add client: { classes: { file: classes.yaml } }")
    }

    /// Why no request has an agent.
    pub fn without_agents() -> Remark {
        let message = "no client is an agent, since there is no \"client.agents\"";
        Remark::new(message, "add client: { agents: { allow: [\"https://bot.example\"] } }")
    }

    /// Whether the key is one word that has several spellings.
    const fn can_be_folded(&self) -> bool {
        matches!(
            self,
            Self::User
                | Self::Cookie(_)
                | Self::Header(_)
                | Self::Query(_)
                | Self::Jwt(_)
                | Self::TlsSubject
                | Self::Authorizer(_)
                | Self::Body(_)
                | Self::Param(_)
        )
    }

    /// Why no request has this place.
    pub fn without_places(&self) -> Remark {
        let noun = self.place_noun();
        let message = format!("no request has a {noun}, since there is no \"client.geo\"");
        let advice = "add client: { geo: { database: geo.mmdb } }, or use another key";
        Remark::new(message, advice)
    }

    /// What messages call a place.
    pub const fn place_noun(&self) -> &'static str {
        match self {
            Self::Country => "country",
            Self::Region => "region",
            _ => "network",
        }
    }

    /// How a place is written.
    pub const fn place_form(&self) -> &'static str {
        match self {
            Self::Country => "write the two capitals of a country, like DE",
            Self::Region => "write a region with its country, like DE-BE",
            _ => "write the number of a network, like AS64500",
        }
    }

    /// Whether `code` can be a value of this place.
    pub fn can_be(&self, code: &crate::policy::GeoCode) -> bool {
        match self {
            Self::Country => code.is_country(),
            Self::Region => code.is_region(),
            Self::Asn => code.is_asn(),
            _ => false,
        }
    }
}

impl PolicySpec {
    /// Reports a key that requests cannot have, and a challenge that cannot give them the key.
    pub(super) fn check_key(&self, facts: &Facts<'_>, faults: &Faults) {
        let message = format!("the policy \"{}\" has no \"key\"", self.name);
        let Some(key) = faults.required(&self.key, Field::Name, &message, "like key: ip") else {
            return;
        };
        for (place, remark) in key.faults(facts.has) {
            faults.add(Field::Key(place), remark);
        }
        let challenges = self.missing_key.copied() == Some(MissingKey::Unauthorized);
        if challenges && !facts.client.takes_token_for(key) {
            let message = "\"unauthorized\" asks clients for a bearer token, which would not give \
                           them this key";
            let advice =
                "write deny, or a key that is taken from a token: user, jwt:CLAIM, api_key";
            faults.error(Field::MissingKey, message, advice);
        }
    }
}

/// Reports a key that must not choose a plan. Behind a trusted proxy, a field of a request may
/// contain what the proxy has found out. Without one, it contains what the client wrote.
pub(super) fn check_plan_source(from: &KeyExpr, has: ClientFacts, faults: &Faults) {
    for (place, remark) in from.faults(has) {
        faults.add(Field::PlansFrom(place), remark);
    }
    from.visit_paths(&mut Vec::new(), &mut |path, part| {
        let place = KeyPlace { path: path.to_vec(), is_list: part.is_list() };
        let field = || Field::PlansFrom(place.clone());
        match part.unfolded() {
            KeyExpr::Body(_) => {
                let message = "clients can set this value themselves, and so choose their plan";
                faults.warning(field(), message, "use a verified value, like jwt:plan");
            }
            KeyExpr::Header(_) | KeyExpr::Cookie(_) | KeyExpr::Query(_) if !has.trusted_proxy => {
                let message = "clients can set this value themselves, and so choose their plan";
                let advice = "use a verified value, like jwt:plan; or name the proxies that set \
                              it in client.trusted_proxies";
                faults.warning(field(), message, advice);
            }
            KeyExpr::All(_) => {
                let message = "the name of a plan is one value, not several together";
                faults.error(field(), message, "write one key, or first: [...]");
            }
            _ => {}
        }
        path.len() < MAX_DEPTH && !matches!(part, KeyExpr::All(_))
    });
}
