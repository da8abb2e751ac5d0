//! Access lists: which requests may use a route at all.
//!
//! A list is an ordered sequence of rules. The first rule that matches a request decides, and a
//! request that no rule matches has the effect of `else`. All lists of a route must allow a
//! request. A denied request is counted by no policy.
//!
//! A value that backends may read differently neither passes a rule that allows, nor escapes one
//! that denies: the request is refused. See [`AccessRule`].

mod rule;
#[cfg(test)]
mod tests;
mod verdicts;

use std::num::NonZeroU32;
use std::sync::Arc;

use http::HeaderName;

use super::{KeyExpr, Subject};

pub use self::rule::{AccessEffect, AccessRule, exact_value};
use self::rule::{Doubt, Match};
pub use self::verdicts::{AccessVerdict, AccessVerdicts, Denial, DenialCause};

/// A list of rules, and how it answers.
#[derive(Clone, Debug)]
pub struct AccessList {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it has an effect.
    pub mode: AccessMode,
    /// The response to a request that it denies.
    pub answer: DenialAnswer,
    rules: Arc<Ordered>,
}

/// The rules of a list. Lists that differ in their modes share them.
#[derive(Debug)]
struct Ordered {
    rules: Vec<AccessRule>,
    otherwise: AccessEffect,
    step: AccessStep,
}

/// Whether a list has an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessMode {
    /// Requests that it denies are refused.
    #[default]
    Enforce,
    /// Requests that it denies are recorded, and pass.
    Shadow,
    /// It is not evaluated.
    Off,
}

/// The response to a denied request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DenialAnswer {
    /// 403.
    #[default]
    Forbidden,
    /// 404: the response to a request that no route matches.
    NotFound,
    /// 503, with the seconds after which the client may try again.
    Unavailable(Option<NonZeroU32>),
}

/// When a list is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessStep {
    /// Before the credentials of the request are looked at: no rule needs them.
    BeforeAuth,
    /// After them.
    AfterAuth,
}

/// What a list says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ruling {
    Allowed,
    Denied,
    /// A rule may match or not, depending on the backend or on keys that are not known.
    Doubtful(Doubt),
}

impl AccessMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Enforce, Self::Shadow, Self::Off];

    /// The word of the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }

    /// The mode with this word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

impl DenialAnswer {
    /// The status of the response.
    pub const fn status(self) -> u16 {
        match self {
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Unavailable(_) => 503,
        }
    }
}

impl AccessList {
    /// A list of these rules in their order. `otherwise` is the effect on requests that no rule
    /// matches.
    pub fn new(
        name: Arc<str>,
        rules: Vec<AccessRule>,
        otherwise: AccessEffect,
        mode: AccessMode,
        answer: DenialAnswer,
    ) -> Self {
        let needs_identity = rules.iter().flat_map(AccessRule::keys).any(KeyExpr::is_identity);
        let step = if needs_identity { AccessStep::AfterAuth } else { AccessStep::BeforeAuth };
        Self { name, mode, answer, rules: Arc::new(Ordered { rules, otherwise, step }) }
    }

    /// The same list in another mode.
    #[must_use]
    pub fn in_mode(&self, mode: AccessMode) -> Self {
        Self { mode, ..self.clone() }
    }

    /// When it is evaluated.
    pub fn step(&self) -> AccessStep {
        self.rules.step
    }

    /// The words whose values its rules compare.
    pub fn keys(&self) -> impl Iterator<Item = &KeyExpr> {
        self.rules.rules.iter().flat_map(AccessRule::keys)
    }

    /// The header fields that its rules compare, beside those that are keys.
    pub fn header_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.rules.rules.iter().flat_map(AccessRule::header_names)
    }

    /// The kinds of places that its rules compare.
    pub fn places(&self) -> impl Iterator<Item = &KeyExpr> {
        self.rules.rules.iter().flat_map(AccessRule::places)
    }

    /// What the list says of a request, whatever its mode is.
    fn judge(&self, subject: &Subject<'_, '_>) -> Ruling {
        let Ordered { rules, otherwise, .. } = &*self.rules;
        for rule in rules {
            match rule.matches(subject) {
                Match::Yes => return rule.effect.into(),
                Match::No => {}
                Match::Doubtful(doubt) => return Ruling::Doubtful(doubt),
            }
        }
        (*otherwise).into()
    }
}

impl From<AccessEffect> for Ruling {
    fn from(effect: AccessEffect) -> Self {
        match effect {
            AccessEffect::Allow => Self::Allowed,
            AccessEffect::Deny => Self::Denied,
        }
    }
}
