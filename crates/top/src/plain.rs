//! The figures as plain text, without escape codes: `tollgate top --once`.

use serde_json::{Value, json};

use super::figures::{Answers, Part};
use super::model::State;
use super::rows::{Rate, Reason, VIEWS, View, reasons, sources};

/// The columns of the text. Lines are not cut to the width of a terminal, which is not known.
const WIDTH: usize = 160;

/// All views, one after the other.
pub(super) fn text(state: &State) -> String {
    let mut text = String::new();
    for view in VIEWS {
        let table = view.table(&state.figures, &state.asked(view));
        text += &format!("{}\n{}", view.name(), table.plain(WIDTH));
        match view {
            View::Overview => {
                let charts = Rate::ALL.map(|it| it.chart(&state.figures, WIDTH));
                charts.into_iter().flatten().for_each(|it| text += &format!("{it}\n"));
                let reasons = reasons(&state.figures, state.now);
                reasons.iter().flat_map(Reason::lines).for_each(|it| text += &format!("{it}\n"));
            }
            View::Store => text += &format!("{}\n", sources(&state.figures)),
            _ => {}
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// The answers of the gateways.
pub(super) fn document(state: &State) -> Value {
    let node = |node: &super::figures::Node| {
        let answers = node.told.as_ref().map(|(_, answers)| answers);
        let of = |part: fn(&Answers) -> &Value| answers.map_or(&Value::Null, part);
        json!({
            "admin": node.url,
            "error": node.lost.as_ref().map(|(_, why)| why),
            "failures": answers.map(|it| failures(&it.failures)),
            "status": of(|it| &it.status),
            "policies": of(|it| &it.policies),
            "top": answers.map(|it| &it.clients),
            "refusals": of(|it| &it.refusals),
            "upstreams": of(|it| &it.upstreams),
            "nodes": of(|it| &it.nodes),
            "history": of(|it| &it.history),
        })
    };
    json!({ "nodes": state.figures.nodes.iter().map(node).collect::<Vec<_>>() })
}

/// Why parts are null, by their names.
fn failures(failures: &[(Part, String)]) -> Value {
    failures.iter().map(|(part, why)| (part.name().to_owned(), json!(why))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{lost, state};
    use super::*;

    #[test]
    fn all_views_follow_each_other_without_escape_codes() {
        let text = text(&lost());
        let places: Vec<_> = VIEWS.map(|it| text.find(&format!("{}\n", it.name()))).to_vec();
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert!(
            text.contains("! n2 http://10.0.0.2:9901: lost for 60 s; these figures are 65 s old")
        );
        assert!(text.contains("header x-api-key \\u{1b}]0;owned\\u{7}"), "{text}");
    }

    #[test]
    fn a_reason_of_several_lines_is_shown_in_lines() {
        let mut state = lost();
        let (_, answers) = state.figures.nodes[1].told.as_mut().expect("it has answered");
        let report = "f.yaml:1:2: error: x\n    1 | y\u{1b}\n      | ^ z";
        let reason = json!([{ "code": "reload_failed", "since": "now", "text": report }]);
        answers.status["reasons"] = crate::clean::document(reason);
        let expected = "! n2 reload_failed since now: f.yaml:1:2: error: x\n        1 | \
                        y\\u{1b}\n          | ^ z\n";
        let text = text(&state);
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_part_that_a_gateway_does_not_tell_is_named() {
        let mut lacking = lost();
        let (_, answers) = lacking.figures.nodes[0].told.as_mut().expect("it has answered");
        answers.failures = vec![(Part::Nodes, "503: Redis does not answer".to_owned())];
        let failed = document(&lacking)["nodes"][0]["failures"].take();
        assert_eq!(failed, json!({ "nodes": "503: Redis does not answer" }));
        let line = "\n! n1: nodes not refreshed: 503: Redis does not answer\n";
        assert!(text(&lacking).contains(line), "{}", text(&lacking));
    }

    #[test]
    fn a_document_has_the_answers_of_each_gateway() {
        let document = document(&lost());
        assert_eq!(document["nodes"][0]["error"], Value::Null);
        assert_eq!(document["nodes"][1]["status"]["state"], "degraded");
        assert!(document["nodes"][1]["error"].as_str().is_some_and(|it| it.contains("refused")));
        let none = super::document(&state(0));
        assert_eq!(none, json!({ "nodes": [] }));
    }
}
