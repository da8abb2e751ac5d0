//! The parameters of calls: their names, their values, and what the API's document says of them.
//! A value is checked by what is written here and in the table of calls, and the document is made
//! from it.

use super::problem::Problem;

/// A parameter of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// What it means: one line for the document.
    pub about: &'static str,
    pub values: Values,
}

/// A parameter of a path: a name in braces, in the place of one segment.
#[derive(Clone, Copy, Debug)]
pub struct PathName {
    pub name: &'static str,
    /// What it means: one line for the document.
    pub about: &'static str,
    pub example: &'static str,
    /// The values that it can have. None: any.
    pub known: Option<fn() -> Vec<&'static str>>,
}

/// The values that a parameter can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
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
pub const AFTER: Parameter =
    Parameter { name: "after", about: "`next` of the page before", values: Values::Text };
/// How many items a page has.
pub const LIMIT: Parameter = number("limit", "the most items of the page", 1, 1000, 100);
/// One policy of a list.
pub const POLICY: Parameter =
    Parameter { name: "policy", about: "only those of this policy", values: Values::Text };

/// Whose figures an answer has.
pub const SCOPE: Parameter = Parameter {
    name: "scope",
    about: "whose figures: those of this node, or the sums of all nodes that share the store",
    values: Values::Word(&["node", "cluster"]),
};

/// Whether whole keys are shown.
pub const REVEAL: Parameter = Parameter {
    name: "reveal",
    about: "whether whole keys are shown, with the role `operate` and `admin.reveal_keys: true`",
    values: Values::Word(&["false", "true"]),
};

/// The parameters of lists.
pub const PAGE: &[Parameter] = &[AFTER, LIMIT];

/// What calls with `scope` have in common.
pub const CLUSTER: &str = "With `scope=cluster` the answer has the sums of all nodes, and \
                                  says which nodes are missing. The first such call waits for \
                                  them, 2.5 s at most.";

/// The name of a policy in a path.
pub const POLICY_NAME: PathName =
    PathName { name: "policy", about: "the name of a policy", example: "per-client", known: None };

/// The name of an access list in a path.
pub const LIST_NAME: PathName =
    PathName { name: "list", about: "the name of an access list", example: "office", known: None };

/// A number from `least` to `most`.
pub const fn number(
    name: &'static str,
    about: &'static str,
    least: usize,
    most: usize,
    default: usize,
) -> Parameter {
    Parameter { name, about, values: Values::Number { least, most, default } }
}

impl Parameter {
    /// Refuses a value that it cannot have.
    ///
    /// # Errors
    /// 400.
    pub fn check(&self, value: &str) -> Result<(), Problem> {
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
    pub fn number(&self, value: Option<&str>) -> usize {
        let Values::Number { default, .. } = self.values else { return 0 };
        value.and_then(number_of).unwrap_or(default)
    }

    /// The words that this value means.
    pub fn words<'v>(&self, value: Option<&'v str>) -> Vec<&'v str> {
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
        let limit = number("limit", "", 1, 128, 20);
        for good in ["1", "128", "007"] {
            assert!(limit.check(good).is_ok(), "{good}");
        }
        for bad in ["", "0", "129", "+5", "-1", "1.0", " 1", "x", "99999999999999999999999"] {
            let problem = limit.check(bad).expect_err(bad);
            assert_eq!(problem.detail, "limit is a number from 1 to 128");
        }
        assert_eq!((limit.number(None), limit.number(Some("7"))), (20, 7));
        let values = Values::Words(&["summary", "state", "refusals"]);
        let topics = Parameter { name: "topics", about: "", values };
        for (value, is_good) in
            [("summary", true), ("state,refusals", true), ("", false), ("state,", false)]
        {
            assert_eq!(topics.check(value).is_ok(), is_good, "{value}");
        }
        let view =
            Parameter { name: "view", about: "", values: Values::Word(&["file", "effective"]) };
        assert!(view.check("file").is_ok() && view.check("File").is_err());
    }
}
