//! From questions to claims. Nothing is counted here, so a mistake in one question of a call is
//! a mistake of the whole call.

use std::sync::Arc;

use http::StatusCode;
use tollgate_core::algorithm::{Algorithm, Quota};
use tollgate_core::decision::{Claims, Headroom, KnownClaim, Outcome, Report};
use tollgate_core::digest::{Counter, Key, Principal, PrincipalId};
use tollgate_core::policy::{KeyExpr, LimitChoice, Policy};
use tollgate_core::request::Content;
use tollgate_core::time::{Span, Timestamp};
use tollgate_limiter::Limit;

use super::asked::{check_words, only_address, view};
use super::caller::Caller;
use super::key::AskedKey;
use super::problem::Problem;
use super::question::{MAX_TOGETHER, Question, ttl};
use crate::check::lease::{Dynamic, MAX_NAME};
use crate::check::settings::LeaseSettings;
use crate::engine::{self, Asked, Described, Judges, NamedKey, Undecidable};
use crate::gateway::Gateway;
use crate::message::json::First;

/// What metrics and lists call limits that questions state: their names have no bound.
const DYNAMIC: &str = "dynamic";

/// What all questions of a call have in common.
#[derive(Clone, Copy)]
pub struct Asking<'r> {
    pub gateway: &'r Gateway,
    pub caller: &'r Caller<'r>,
    pub leases: &'r LeaseSettings,
    pub wall: Timestamp,
}

/// A question that can be decided.
#[derive(Debug)]
pub struct Prepared<'r> {
    /// What is charged, or the outcome if the request lacks a key.
    pub claims: Result<Claims<&'r Arc<Policy>>, Outcome<&'r Arc<Policy>>>,
    pub headroom: Headroom,
    pub is_peek: bool,
    /// How long its lease lasts, if it asks for one.
    pub lease: Option<Span>,
    /// The limit that it states.
    pub dynamic: Option<Dynamic>,
    /// The id of the API key that it names, if the key is accepted.
    pub key_id: Option<String>,
    shown: Shown<'r>,
}

/// The text of a client for operators.
#[derive(Debug)]
enum Shown<'r> {
    /// The key of the question.
    Key(&'r AskedKey),
    /// Those of a request.
    Keys(Vec<(Key, String)>),
}

impl Prepared<'_> {
    /// Whether one of its policies admits more while its upstream has room.
    pub fn is_elastic(&self) -> bool {
        self.claims.iter().flat_map(Claims::policies).any(|policy| policy.elastic.is_some())
    }

    /// Whether it takes units in flight.
    pub fn holds_units(&self) -> bool {
        let mut policies = self.claims.iter().flat_map(Claims::policies);
        policies.any(|policy| matches!(policy.algorithm, Algorithm::Concurrency(_)))
    }

    /// The text of the client of a report, for operators.
    pub fn shown(&self, asking: Asking<'_>, report: &Report<&Arc<Policy>>) -> String {
        let found = match &self.shown {
            Shown::Key(_) if self.dynamic.is_some() => None,
            Shown::Key(key) => key.shown(&asking.gateway.snapshot().rules, &report.policy.key),
            Shown::Keys(keys) => {
                let key = Key { principal: report.client, counter: report.policy.counter };
                keys.iter().find(|(known, _)| *known == key).map(|(_, text)| text.clone())
            }
        };
        found.unwrap_or_else(|| format!("id {}", PrincipalId::from(report.client)))
    }
}

/// The limit that a question states, as a policy.
///
/// # Errors
/// If the limit is not valid, or the caller may not state one.
pub fn dynamic(
    caller: &Caller<'_>,
    question: &Question,
) -> Result<Option<(Dynamic, Arc<Policy>)>, Problem> {
    let (name, limit) = match (&question.name, &question.limit) {
        (None, None) => return Ok(None),
        (Some(name), Some(limit)) => (name, limit),
        (Some(_), None) => {
            return Err(Problem::bad_request("a \"name\" needs a \"limit\"").at("/name"));
        }
        (None, Some(_)) => {
            return Err(Problem::bad_request("a \"limit\" needs a \"name\"").at("/limit"));
        }
    };
    caller.may_state_limits().map_err(|problem| problem.at("/limit"))?;
    caller.may_name(name).map_err(|problem| problem.at("/name"))?;
    if name.is_empty() || name.len() > MAX_NAME {
        let detail = format!("a name has 1 to {MAX_NAME} bytes");
        return Err(Problem::bad_request(detail).at("/name"));
    }
    let wrong = |detail: String| Problem::bad_request(detail).at("/limit");
    let parsed: Limit = limit.parse().map_err(|error| wrong(format!("{error}")))?;
    let window = parsed.window().ok_or_else(|| {
        wrong(format!("{limit:?} has no time: write a count per time, like 100/minute"))
    })?;
    let stated = Dynamic { name: name.clone(), units: parsed.units(), window: window.into() };
    let policy = stated.policy().ok_or_else(|| wrong(format!("{limit:?} cannot be counted")))?;
    Ok(Some((stated, policy)))
}

impl Dynamic {
    /// The policy with this limit. Its counters depend on the name and the window, and not on the
    /// limit, like those of other policies.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        let quota = Quota::new(self.units, self.window).ok()?;
        let algorithm = Algorithm::usual(quota);
        let counter = Counter::of(|digest| {
            digest.value(b"stated in the question");
            digest.value(self.name.as_bytes());
            digest.value(&self.window.as_micros().to_be_bytes());
        });
        Some(Arc::new(Policy { counter, ..Policy::new(DYNAMIC, KeyExpr::User, algorithm) }))
    }

    /// The client that a question means with this key. It has no other counters.
    ///
    /// # Errors
    /// If the key has words: no policy says which.
    fn principal(&self, gateway: &Gateway, key: &AskedKey) -> Result<Principal, Problem> {
        let AskedKey::Text(key) = key else {
            let detail = "a limit that the question states has a text as its key";
            return Err(Problem::bad_request(detail).at("/key"));
        };
        let mut digest = gateway.snapshot().rules.clients().secret().digest();
        digest.value(b"stated in the question");
        digest.value(self.name.as_bytes());
        digest.value(key.as_bytes());
        Ok(Principal::from_bits(digest.finish()))
    }
}

/// Prepares a question. `dynamic` is the limit that it states, and `named` the API key that it names.
///
/// # Errors
/// If it has a mistake, or the caller may not ask it.
pub fn prepare<'r>(
    asking: Asking<'r>,
    question: &'r Question,
    dynamic: Option<&'r (Dynamic, Arc<Policy>)>,
    named: Option<&NamedKey<'r>>,
) -> Result<Prepared<'r>, Problem> {
    let judges = Chosen::of(asking, question, dynamic)?;
    let (claims, shown, headroom) = match (&question.key, &question.request) {
        (None, None) if named.is_some() => {
            let Chosen::Policies(policies) = &judges else {
                let detail = "the policies of a route are asked with a \"request\"";
                return Err(Problem::bad_request(detail).at("/api_key"));
            };
            let client = asking.gateway.snapshot().rules.clients().settings();
            check_words(policies, client, question.ip)?;
            let described = describe(asking, &judges, &only_address(question.ip)?, named)?;
            (described.claims, Shown::Keys(described.shown), Headroom::default())
        }
        (Some(key), None) => {
            let claims = by_key(asking, &judges, key, dynamic)?;
            (Ok(claims), Shown::Key(key), Headroom::default())
        }
        (None, Some(request)) => {
            let described = describe(asking, &judges, &request.asked()?, named)?;
            let headroom = described.destination.map(|it| asking.gateway.headroom(it));
            (described.claims, Shown::Keys(described.shown), headroom.unwrap_or_default())
        }
        (None, None) => {
            return Err(Problem::bad_request(
                "write a \"key\", an \"api_key\" or a \"request\" that names the client",
            ));
        }
        (Some(_), Some(_)) => {
            return Err(
                Problem::bad_request("write a \"key\" or a \"request\", not both").at("/key")
            );
        }
    };
    let is_peek = question.counts_nothing();
    let lease = lease_of(asking, question, is_peek)?;
    let claims = claims.map(|claims| {
        let claims = match question.cost {
            Some(units) => claims.costing(units),
            None => claims,
        };
        let claims = if question.estimate { claims.as_estimates() } else { claims };
        if is_peek { claims.not_free() } else { claims }
    });
    if let (Ok(claims), None, false) = (&claims, lease, is_peek) {
        let holds = |policy: &&Arc<Policy>| matches!(policy.algorithm, Algorithm::Concurrency(_));
        if let Some(policy) = claims.policies().find(holds) {
            let detail = format!(
                "the policy {:?} counts requests in progress: ask for a lease",
                policy.name
            );
            return Err(Problem::bad_request(detail).at("/lease"));
        }
    }
    let dynamic = dynamic.map(|(stated, _)| stated.clone());
    let key_id = named.and_then(NamedKey::id).map(str::to_owned);
    Ok(Prepared { claims, headroom, is_peek, lease, dynamic, key_id, shown })
}

fn lease_of(
    asking: Asking<'_>,
    question: &Question,
    is_peek: bool,
) -> Result<Option<Span>, Problem> {
    let LeaseSettings { ttl: usual, max_ttl, .. } = *asking.leases;
    match (question.lease, &question.ttl) {
        (true, _) if is_peek => {
            Err(Problem::bad_request("what counts nothing has no lease").at("/lease"))
        }
        (true, Some(text)) => ttl(text, max_ttl.into()).map(Some),
        (true, None) => Ok(Some(usual.into())),
        (false, Some(_)) => Err(Problem::bad_request("\"ttl\" needs \"lease\": true").at("/ttl")),
        (false, None) => Ok(None),
    }
}

/// The policies that a question names.
enum Chosen<'r> {
    Policies(Vec<&'r Arc<Policy>>),
    Route(usize),
    Matching,
}

impl<'r> Chosen<'r> {
    fn of(
        asking: Asking<'r>,
        question: &Question,
        dynamic: Option<&'r (Dynamic, Arc<Policy>)>,
    ) -> Result<Self, Problem> {
        let Question { policy, policies, route, .. } = question;
        let named = [policy.is_some(), policies.is_some(), route.is_some(), dynamic.is_some()];
        if named.into_iter().filter(|it| *it).count() > 1 {
            let detail =
                "write one of \"policy\", \"policies\", \"route\", and \"name\" with \"limit\"";
            return Err(Problem::bad_request(detail));
        }
        if let Some((_, policy)) = dynamic {
            return Ok(Self::Policies(vec![policy]));
        }
        if let Some(name) = policy {
            let found = named_policy(asking, name).map_err(|problem| problem.at("/policy"))?;
            return Ok(Self::Policies(vec![found]));
        }
        if let Some(First(names)) = policies {
            if names.is_empty() || names.len() > MAX_TOGETHER {
                let detail = format!("\"policies\" has 1 to {MAX_TOGETHER} elements");
                return Err(Problem::bad_request(detail).at("/policies"));
            }
            let mut all: Vec<&'r Arc<Policy>> = Vec::with_capacity(names.len());
            for (index, name) in names.iter().enumerate() {
                let at = format!("/policies/{index}");
                let found = named_policy(asking, name).map_err(|problem| problem.at(&at))?;
                if all.iter().any(|other| other.counter == found.counter) {
                    return Err(Problem::bad_request("the policy occurs twice").at(&at));
                }
                all.push(found);
            }
            return Ok(Self::Policies(all));
        }
        let Some(name) = route else { return Ok(Self::Matching) };
        let rules = &asking.gateway.snapshot().rules;
        let index = rules.position(name).ok_or_else(|| {
            Problem::not_found(format!("there is no route {name:?}")).at("/route")
        })?;
        may_charge_route(asking, index).map_err(|problem| problem.at("/route"))?;
        Ok(Self::Route(index))
    }
}

fn named_policy<'r>(asking: Asking<'r>, name: &str) -> Result<&'r Arc<Policy>, Problem> {
    asking.caller.may_name(name)?;
    let policies = &asking.gateway.snapshot().policies;
    let found = policies.iter().find(|policy| *policy.name == *name);
    found.ok_or_else(|| Problem::not_found(format!("there is no policy {name:?}")))
}

fn may_charge_route(asking: Asking<'_>, index: usize) -> Result<(), Problem> {
    let policies = &asking.gateway.snapshot().rules.route(index).policies;
    policies.iter().try_for_each(|policy| asking.caller.may_charge(policy))
}

/// The claims of policies for a client that the question names. Each costs one unit.
fn by_key<'r>(
    asking: Asking<'r>,
    judges: &Chosen<'r>,
    key: &AskedKey,
    dynamic: Option<&(Dynamic, Arc<Policy>)>,
) -> Result<Claims<&'r Arc<Policy>>, Problem> {
    let Chosen::Policies(policies) = judges else {
        let detail = "the policies of a route are asked with a \"request\"";
        return Err(Problem::bad_request(detail).at("/key"));
    };
    let rules = &asking.gateway.snapshot().rules;
    let claim = |policy: &&'r Arc<Policy>| {
        let client = match dynamic {
            Some((stated, _)) => stated.principal(asking.gateway, key)?,
            None => key.principal(rules, &policy.key)?,
        };
        let limit = if policy.is_unlimited { LimitChoice::Unlimited } else { LimitChoice::Own };
        Ok(KnownClaim { policy, client, limit, instead: None, cost: 1 })
    };
    let claims: Result<Vec<_>, Problem> = policies.iter().map(claim).collect();
    Ok(Claims::known(claims?))
}

/// The claims of policies for a request, whose client has this API key if there is one. A key that is
/// not accepted has none.
fn describe<'r>(
    asking: Asking<'r>,
    judges: &Chosen<'r>,
    asked: &Asked,
    named: Option<&NamedKey<'r>>,
) -> Result<Described<'r>, Problem> {
    let view = view(asked)?;
    let chosen = match judges {
        Chosen::Policies(all) => Judges::Policies(all),
        Chosen::Route(index) => Judges::Route(*index),
        Chosen::Matching => Judges::Matching,
    };
    let rules = &asking.gateway.snapshot().rules;
    let policies: Vec<&Arc<Policy>> = match judges {
        Chosen::Policies(all) => all.clone(),
        Chosen::Route(index) => rules.route(*index).policies.iter().collect(),
        Chosen::Matching => {
            let index = rules.select(&view).ok();
            index.map(|index| rules.route(index).policies.iter().collect()).unwrap_or_default()
        }
    };
    let values = asked.body.as_deref();
    let values = values.and_then(|body| engine::body_values(policies, view.headers(), body));
    let view = view.with_values(values.as_ref().map_or(Content::Unknown, Content::Read));
    let described = engine::describe(rules, chosen, &view, asking.wall, named);
    let mut described = described.map_err(|undecidable| match undecidable {
        Undecidable::NoRoute => {
            Problem::new(StatusCode::NOT_FOUND, "no route matches the request").at("/request")
        }
        other => Problem::bad_request(other.to_string()).at("/request"),
    })?;
    if let (Chosen::Matching, Some(destination)) = (judges, described.destination) {
        may_charge_route(asking, destination.route).map_err(|problem| problem.at("/request"))?;
    }
    if let Some(refusal) = named.and_then(|named| named.refusal) {
        described.claims = Err(Outcome::Unauthenticated(refusal));
    }
    Ok(described)
}
