//! What gateways have told: the last answers of each, and how old they are.

use serde_json::Value;
use tollgate_core::time::Timestamp;

use super::clean;

/// The gateways that are asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) nodes: Vec<Node>,
}

/// One gateway.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The URL of its admin listener.
    pub(super) url: String,
    /// Its last answers, and when they came. None: it has never answered.
    pub(super) told: Option<(Timestamp, Answers)>,
    /// Why it does not answer now, and since when.
    pub(super) lost: Option<(Timestamp, String)>,
}

/// The answers of one gateway. All texts are safe for a terminal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answers {
    pub(super) status: Value,
    pub(super) policies: Value,
    /// The clients of the minute in progress, and those of the minute before it; or those of
    /// all nodes in one answer.
    pub(super) clients: Vec<Value>,
    pub(super) refusals: Value,
    pub(super) upstreams: Value,
    /// The nodes that share the store.
    pub(super) nodes: Value,
    /// The figures of the last ten minutes. Null: they were not asked for this time.
    pub(super) history: Value,
    /// The parts that the gateway has refused to tell, and why. They are null, or those of before.
    pub(super) failures: Vec<(Part, String)>,
}

/// A part of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Status,
    Policies,
    Clients,
    Refusals,
    Upstreams,
    Nodes,
    History,
}

impl Part {
    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Policies => "policies",
            Self::Clients => "clients",
            Self::Refusals => "refusals",
            Self::Upstreams => "upstreams",
            Self::Nodes => "nodes",
            Self::History => "history",
        }
    }
}

impl Answers {
    /// The same, with parts of earlier answers in the places of those that have failed.
    fn completed(mut self, before: Self) -> Self {
        for (part, _) in &self.failures {
            match part {
                Part::Status => self.status.clone_from(&before.status),
                Part::Policies => self.policies.clone_from(&before.policies),
                Part::Clients => self.clients.clone_from(&before.clients),
                Part::Refusals => self.refusals.clone_from(&before.refusals),
                Part::Upstreams => self.upstreams.clone_from(&before.upstreams),
                Part::Nodes => self.nodes.clone_from(&before.nodes),
                Part::History => {}
            }
        }
        if self.history.is_null() {
            self.history = before.history;
        }
        self
    }
}

impl Figures {
    /// Gateways that have not answered yet.
    pub(super) fn new(urls: &[String]) -> Self {
        let node = |url: &String| Node { url: clean::text(url), told: None, lost: None };
        Self { nodes: urls.iter().map(node).collect() }
    }

    /// Takes the answers of a gateway, or why there are none.
    pub(super) fn take(&mut self, index: usize, told: Result<Answers, String>, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        match told {
            Ok(answers) => {
                let answers = match node.told.take() {
                    Some((_, before)) => answers.completed(before),
                    None => answers,
                };
                (node.told, node.lost) = (Some((now, answers)), None);
            }
            Err(why) => {
                let since = node.lost.as_ref().map_or(now, |(since, _)| *since);
                node.lost = Some((since, why));
            }
        }
    }

    /// Each gateway that has ever answered, with its number.
    pub(super) fn told(&self) -> impl Iterator<Item = (usize, &Answers)> {
        let told = self.nodes.iter().enumerate();
        told.filter_map(|(index, node)| Some((index, &node.told.as_ref()?.1)))
    }

    /// The state of the worst gateway.
    pub(super) fn state(&self) -> String {
        if self.nodes.iter().any(|node| node.lost.is_some()) {
            return "lost".to_owned();
        }
        let states = self.told().map(|(_, it)| word(&it.status["state"]));
        let worst = states.max_by_key(|state| match &**state {
            "ok" => 0,
            "degraded" => 2,
            _ => 1,
        });
        worst.unwrap_or_else(|| "waiting".to_owned())
    }

    /// The sum of a rate of all gateways.
    pub(super) fn rate(&self, name: &str) -> Option<f64> {
        let rates = self.told().filter_map(|(_, it)| rate(&it.status, name));
        rates.reduce(|sum, rate| sum + rate)
    }
}

impl Node {
    /// The number by which tables name it.
    pub(super) fn label(index: usize) -> String {
        format!("n{}", index + 1)
    }
}

/// A rate of the last minute.
pub(super) fn rate(status: &Value, name: &str) -> Option<f64> {
    status["rates"]["per_second"][name].as_f64()
}

/// The items of an answer that is a list.
pub(super) fn items(answer: &Value) -> &[Value] {
    answer["items"].as_array().map_or(&[], Vec::as_slice)
}

/// A text of an answer on one line, or `-`.
pub(super) fn word(value: &Value) -> String {
    value.as_str().unwrap_or("-").replace('\n', " ")
}

/// A text of an answer in its lines, or `-`.
pub(super) fn lines(value: &Value) -> impl Iterator<Item = &str> {
    value.as_str().unwrap_or("-").lines()
}

/// A number of an answer, or 0.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_that_fails_stays_as_it_was_and_the_others_are_new() {
        let mut figures = Figures::new(&["http://a".to_owned()]);
        let of = |number: u64, failures: &[Part]| Answers {
            status: json!(number),
            policies: json!(number),
            clients: vec![json!(number)],
            refusals: json!(number),
            upstreams: json!(number),
            nodes: json!(number),
            history: if failures.contains(&Part::History) { Value::Null } else { json!(number) },
            failures: failures.iter().map(|part| (*part, "503".to_owned())).collect(),
        };
        let mut told = |answers: Answers| {
            figures.take(0, Ok(answers), Timestamp::default());
            figures.told().next().map(|(_, it)| it.clone()).expect("it has answered")
        };
        told(of(1, &[]));
        let parts = [
            Part::Status,
            Part::Policies,
            Part::Clients,
            Part::Refusals,
            Part::Upstreams,
            Part::Nodes,
            Part::History,
        ];
        for part in parts {
            let answers = told(of(2, &[part]));
            let numbers = [
                &answers.status,
                &answers.policies,
                &answers.clients[0],
                &answers.refusals,
                &answers.upstreams,
                &answers.nodes,
                &answers.history,
            ];
            let expected = parts.map(|it| if it == part { 1 } else { 2 });
            assert_eq!(numbers.map(|it| it.as_u64().unwrap_or(0)), expected, "{}", part.name());
            assert_eq!(answers.failures.len(), 1);
            told(of(1, &[]));
        }
    }

    #[test]
    fn a_gateway_that_does_not_answer_keeps_its_last_figures() {
        let mut figures = Figures::new(&["http://a".to_owned(), "http://b".to_owned()]);
        assert_eq!(figures.state(), "waiting");
        let at = |secs: u64| Timestamp::from_micros(secs * 1_000_000);
        let answers = |state: &str, rate: f64| Answers {
            status: json!({ "state": state, "rates": { "per_second": { "requests": rate } } }),
            ..Answers::default()
        };
        figures.take(0, Ok(answers("ok", 1.5)), at(1));
        figures.take(1, Ok(answers("degraded", 2.0)), at(1));
        assert_eq!((figures.state(), figures.rate("requests")), ("degraded".to_owned(), Some(3.5)));
        figures.take(1, Err("cannot connect".to_owned()), at(2));
        figures.take(1, Err("no answer".to_owned()), at(3));
        figures.take(7, Err("there is none".to_owned()), at(3));
        assert_eq!(figures.state(), "lost");
        let node = &figures.nodes[1];
        assert_eq!(node.lost, Some((at(2), "no answer".to_owned())));
        assert_eq!(node.told.as_ref().map(|it| it.0), Some(at(1)));
        figures.take(1, Ok(answers("ok", 0.0)), at(4));
        assert_eq!((figures.state(), figures.nodes[1].lost.clone()), ("ok".to_owned(), None));
    }
}
