//! A call as it was made: the values of its path and of its query.

use std::cell::RefCell;

use http::HeaderMap;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use tollgate_core::api_keys::KeyId;

use super::Role;
use super::audit::Change;
use super::credentials::Actor;
use super::parameter::Parameter;
use super::problem::Problem;
use super::target::{decoded, pairs};
use crate::api_keys::Teams;

/// A call with the values of its path and its query.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: &'static str,
    /// The path, with names in braces for the values.
    pub path: &'static str,
    /// The values of the names in braces.
    values: Vec<String>,
    parameters: &'static [Parameter],
    query: Vec<(String, String)>,
    /// The field `If-Match`. Several lines are one list.
    pub if_match: Option<String>,
    /// The field `If-None-Match`.
    pub if_none_match: Option<String>,
    /// The name of the credential.
    pub actor: String,
    /// What the credential allows. None: the call needs no credential.
    pub role: Option<Role>,
    /// The teams whose API keys the caller may see and change.
    pub teams: Teams,
    /// What the call has changed so far, if it does more.
    made: RefCell<Option<Change>>,
}

impl Call {
    /// The call with this method and at `template`, whose names in braces have values in `path`.
    /// Its query may have these parameters.
    ///
    /// # Errors
    /// 400, if it cannot be read.
    pub fn read(
        method: &'static str,
        template: &'static str,
        parameters: &'static [Parameter],
        path: &str,
        query: Option<&str>,
    ) -> Result<Self, Problem> {
        let segments = template.split('/').zip(path.split('/'));
        let values = segments.filter(|(name, _)| name.starts_with('{')).map(|(_, it)| decoded(it));
        let call = Self {
            method,
            path: template,
            values: values.collect::<Result<_, _>>()?,
            parameters,
            query: pairs(query)?,
            if_match: None,
            if_none_match: None,
            actor: String::new(),
            role: None,
            teams: Teams::Only(Vec::new()),
            made: RefCell::default(),
        };
        for (index, (name, value)) in call.query.iter().enumerate() {
            let Some(parameter) = parameters.iter().find(|it| it.name == name) else {
                let known: Vec<&str> = parameters.iter().map(|it| it.name).collect();
                let known = known.join(", ");
                let known = if known.is_empty() { "no parameters" } else { &known };
                let detail = format!("there is no parameter {name:?}; this call has {known}");
                return Err(Problem::bad_request(detail));
            };
            if call.query[..index].iter().any(|(before, _)| before == name) {
                return Err(Problem::bad_request(format!("{name} is given more than once")));
            }
            parameter.check(value)?;
        }
        Ok(call)
    }

    /// The same call with its fields, by this actor.
    pub fn by(self, actor: &Actor, headers: &HeaderMap) -> Self {
        let joined = |name| {
            let lines = headers.get_all(name).iter();
            let lines: Vec<&str> = lines.map(|line| line.to_str().unwrap_or_default()).collect();
            (!lines.is_empty()).then(|| lines.join(","))
        };
        Self {
            if_match: joined(IF_MATCH),
            if_none_match: joined(IF_NONE_MATCH),
            actor: actor.name.clone(),
            role: Some(actor.role),
            teams: actor.teams.clone(),
            ..self
        }
    }

    /// The values of `{policy}` and `{key}`; empty where the path has none.
    pub fn value(&self, index: usize) -> &str {
        self.values.get(index).map_or("", String::as_str)
    }

    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// A number of the query, or the one that holds if none is given.
    pub fn number(&self, name: &str) -> usize {
        let parameter = self.parameters.iter().find(|it| it.name == name);
        parameter.map_or(0, |it| it.number(self.parameter(name)))
    }

    /// The words of a list in the query, or those that hold if none is given.
    pub fn words(&self, name: &str) -> Vec<&str> {
        let parameter = self.parameters.iter().find(|it| it.name == name);
        parameter.map_or_else(Vec::new, |it| it.words(self.parameter(name)))
    }

    /// The value of a name in braces. None: the path does not have the name.
    fn named(&self, name: &str) -> Option<&str> {
        let mut names = self.path.split('/').filter(|name| name.starts_with('{'));
        names.position(|it| it == name).map(|index| self.value(index))
    }

    /// The policy that the call is about. None: all policies, or none of them.
    pub fn policy(&self) -> Option<&str> {
        self.named("{policy}").or_else(|| self.parameter("policy"))
    }

    /// The access list that the call is about.
    pub fn list(&self) -> Option<&str> {
        self.named("{list}")
    }

    /// Records what the call has changed, in case that it does not end.
    pub fn has_made(&self, change: &Change) {
        *self.made.borrow_mut() = Some(change.clone());
    }

    /// What the call has changed so far.
    pub fn made(&self) -> Option<Change> {
        self.made.borrow().clone()
    }

    /// The id of the API key that the call is about. None: there is none, or the text is not an id
    /// and could be a whole key.
    pub fn api_key_id(&self) -> Option<KeyId> {
        let is_of_key = self.path.starts_with("/v1/keys/{id}");
        self.value(0).parse().ok().filter(|_| is_of_key)
    }

    /// Whether it shows whole keys.
    pub fn reveals(&self) -> bool {
        self.parameter("reveal") == Some("true")
    }
}
