//! The parameters of calls: their names, their values, and what the API's document says of them.
//! A value is checked by what is written here, and the document is made from it.

use super::problem::Problem;
use crate::telemetry::HISTORY_SECONDS;

/// A parameter of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// What it means: one line for the document.
    pub(super) about: &'static str,
    pub(super) values: Values,
}

/// The values that a parameter can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// A number between two bounds, and the one that holds if none is given.
    Number { least: usize, most: usize, default: usize },
    /// One of these words. The first holds if none is given.
    Word(&'static [&'static str]),
    /// Several of these words, with commas between them. All but the last hold if none is given.
    Words(&'static [&'static str]),
    /// A text.
    Text,
}

/// Where a list goes on.
const AFTER: Parameter =
    Parameter { name: "after", about: "`next` of the page before", values: Values::Text };
/// How many items a page has.
const LIMIT: Parameter = number("limit", "the most items of the page", (1, 1000), 100);
/// One policy of a list.
const POLICY: Parameter =
    Parameter { name: "policy", about: "only those of this policy", values: Values::Text };

/// Whose figures an answer has.
const SCOPE: Parameter = Parameter {
    name: "scope",
    about: "whose figures: those of this node, or the sums of all nodes that share the store",
    values: Values::Word(&["node", "cluster"]),
};

/// Whether whole keys are shown.
const REVEAL: Parameter = Parameter {
    name: "reveal",
    about: "whether whole keys are shown, with the role `operate` and `admin.reveal_keys: true`",
    values: Values::Word(&["false", "true"]),
};

/// The parameters of lists.
pub(super) const PAGE: &[Parameter] = &[AFTER, LIMIT];
/// Those of all policies.
pub(super) const POLICIES: &[Parameter] = &[AFTER, LIMIT, SCOPE];
/// Those of one policy.
pub(super) const ONE_POLICY: &[Parameter] = &[SCOPE];
/// Those of refusals.
pub(super) const REFUSALS: &[Parameter] = &[POLICY, LIMIT, AFTER, REVEAL];
/// Those of the refusals of one request.
pub(super) const REFUSAL: &[Parameter] = &[REVEAL];
/// Those of the configuration.
pub(super) const CONFIG: &[Parameter] = &[Parameter {
    name: "view",
    about: "what is shown: the file as it is written, or what is true of it",
    values: Values::Word(&["file", "effective"]),
}];
/// Those of a new configuration.
pub(super) const PUT_CONFIG: &[Parameter] = &[Parameter {
    name: "write",
    about: "whether it also replaces the file",
    values: Values::Word(&["false", "true"]),
}];
/// Those of a key.
pub(super) const KEY: &[Parameter] =
    &[Parameter { name: "plan", about: "the plan of the client", values: Values::Text }, REVEAL];
/// Those of the heaviest clients.
pub(super) const TOP: &[Parameter] = &[
    POLICY,
    number(
        "minutes",
        "complete minutes; 0: the minute in progress. With `scope=cluster` it is 0",
        (0, 10),
        0,
    ),
    number("limit", "the most clients of a policy", (1, 128), 20),
    SCOPE,
    REVEAL,
];
/// Those of the history.
pub(super) const HISTORY: &[Parameter] = &[
    number("seconds", "how far it reaches back", (1, HISTORY_SECONDS), HISTORY_SECONDS),
    number("step", "the length of a step in seconds", (1, 60), 10),
    number(
        "policies",
        "for how many policies the decisions and refusals are listed, too: those with the most \
         refusals first",
        (0, 100),
        0,
    ),
];
/// Those of the stream of events.
pub(super) const EVENTS: &[Parameter] = &[Parameter {
    name: "topics",
    about: "the events of the stream",
    values: Values::Words(&["summary", "state", "refusals"]),
}];

const fn number(
    name: &'static str,
    about: &'static str,
    (least, most): (usize, usize),
    default: usize,
) -> Parameter {
    Parameter { name, about, values: Values::Number { least, most, default } }
}

impl Parameter {
    /// Refuses a value that it cannot have.
    ///
    /// # Errors
    /// 400.
    pub(super) fn check(&self, value: &str) -> Result<(), Problem> {
        let is_good = match self.values {
            Values::Number { least, most, .. } => {
                number_of(value).is_some_and(|it| (least..=most).contains(&it))
            }
            Values::Word(words) => words.contains(&value),
            Values::Words(words) => value.split(',').all(|it| words.contains(&it)),
            Values::Text => true,
        };
        if is_good { Ok(()) } else { Err(Problem::bad_request(self.rule())) }
    }

    /// The number that this value means.
    pub(super) fn number(&self, value: Option<&str>) -> usize {
        let Values::Number { default, .. } = self.values else { return 0 };
        value.and_then(number_of).unwrap_or(default)
    }

    /// The words that this value means.
    pub(super) fn words<'v>(&self, value: Option<&'v str>) -> Vec<&'v str> {
        match (value, self.values) {
            (Some(value), _) => value.split(',').collect(),
            (None, Values::Words(words)) => words.split_last().map_or(&[][..], |it| it.1).to_vec(),
            (None, _) => Vec::new(),
        }
    }

    fn rule(&self) -> String {
        let name = self.name;
        match self.values {
            Values::Number { least, most, .. } => {
                format!("{name} is a number from {least} to {most}")
            }
            Values::Word(words) => format!("{name} is {}", words.join(" or ")),
            Values::Words(words) => format!("{name} is a list of {}", words.join(", ")),
            Values::Text => format!("{name} is a text"),
        }
    }
}

/// A number in decimal digits, without a sign.
fn number_of(text: &str) -> Option<usize> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_within_their_bounds_or_known_words() {
        let limit = number("limit", "", (1, 128), 20);
        for good in ["1", "128", "007"] {
            assert!(limit.check(good).is_ok(), "{good}");
        }
        for bad in ["", "0", "129", "+5", "-1", "1.0", " 1", "x", "99999999999999999999999"] {
            let problem = limit.check(bad).expect_err(bad);
            assert_eq!(problem.detail, "limit is a number from 1 to 128");
        }
        assert_eq!((limit.number(None), limit.number(Some("7"))), (20, 7));
        let topics = EVENTS[0];
        for (value, is_good) in
            [("summary", true), ("state,refusals", true), ("", false), ("state,", false)]
        {
            assert_eq!(topics.check(value).is_ok(), is_good, "{value}");
        }
        assert!(CONFIG[0].check("file").is_ok() && CONFIG[0].check("File").is_err());
    }
}
