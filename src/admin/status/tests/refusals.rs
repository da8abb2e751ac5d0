//! The rules about refusals and their alerts say the same of the same seven series, word for word.
//!
//! The series are defined here. The test gives them to the rules of the status, and writes a test
//! of `promtool`, `docker/prometheus/refusals_test.yml`, which gives them to the alerts. A test of
//! the whole program runs it. `UPDATE_GOLDEN=1 cargo test --lib refusals` writes the file anew.

use std::fmt::Write as _;
use std::{env, fs};

use super::*;
use crate::admin::status::rule::Rule;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docker/prometheus/refusals_test.yml");
const LABELS: &str = "instance=\"a:9902\",job=\"tollgate\"";
/// The seconds between two samples.
const INTERVAL_S: u64 = 15;
const MANY_REFUSALS: &str = "many_refusals";
const UNUSUALLY_MANY: &str = "refuses_unusually_many";

/// What two policies admit and refuse, and when there is which reason.
struct Series {
    name: &'static str,
    phases: &'static [Phase],
    /// The reasons at a minute. Shares have lasted for some time then, as alerts demand.
    moments: &'static [(u64, &'static [&'static str])],
}

/// What happens in each interval.
struct Phase {
    minutes: u64,
    /// The requests that are admitted and refused by each policy.
    decisions: [(u64, u64); 2],
    /// The process restarts at the beginning.
    is_restart: bool,
}

const fn phase(minutes: u64, decisions: [(u64, u64); 2]) -> Phase {
    Phase { minutes, decisions, is_restart: false }
}

const SERIES: [Series; 7] = [
    Series {
        name: "calm",
        phases: &[phase(100, [(99, 1), (50, 0)])],
        moments: &[(30, &[]), (99, &[])],
    },
    Series {
        name: "43 % at once",
        phases: &[phase(90, [(98, 2), (18, 2)]), phase(20, [(57, 43), (18, 2)])],
        moments: &[(89, &[]), (104, &[MANY_REFUSALS, UNUSUALLY_MANY])],
    },
    Series {
        name: "slow rise",
        phases: &[
            phase(70, [(99, 1), (0, 0)]),
            phase(20, [(98, 2), (0, 0)]),
            phase(20, [(96, 4), (0, 0)]),
            phase(20, [(92, 8), (0, 0)]),
            phase(20, [(88, 12), (0, 0)]),
            phase(20, [(84, 16), (0, 0)]),
            phase(20, [(80, 20), (0, 0)]),
            phase(25, [(76, 24), (0, 0)]),
        ],
        moments: &[(109, &[]), (149, &[]), (189, &[]), (214, &[MANY_REFUSALS])],
    },
    Series {
        name: "no history",
        phases: &[phase(30, [(57, 43), (0, 0)])],
        moments: &[(14, &[MANY_REFUSALS, UNUSUALLY_MANY]), (29, &[MANY_REFUSALS, UNUSUALLY_MANY])],
    },
    Series {
        name: "restart",
        phases: &[
            phase(100, [(90, 10), (0, 0)]),
            Phase { minutes: 20, decisions: [(90, 10), (0, 0)], is_restart: true },
        ],
        moments: &[(99, &[]), (115, &[UNUSUALLY_MANY])],
    },
    Series {
        name: "few requests",
        phases: &[phase(100, [(1, 2), (0, 0)])],
        moments: &[(30, &[UNUSUALLY_MANY]), (99, &[])],
    },
    // Half of the requests in five minutes are refused, and these are 16.
    Series {
        name: "few refusals",
        phases: &[phase(4, [(1, 1), (0, 0)]), phase(20, [(0, 0), (0, 0)])],
        moments: &[(4, &[]), (8, &[]), (12, &[])],
    },
];

/// The samples of one series of Prometheus. None: it has none at that time.
type Samples = Vec<Option<f64>>;

/// The samples in the notation of `promtool`: runs of equal differences.
fn notation(samples: &[Option<f64>]) -> String {
    let mut runs = Vec::new();
    let mut rest = samples;
    while let [first, ..] = rest {
        let step = |pair: &[Option<f64>]| Some(pair[1]? - pair[0]?);
        let difference = rest.get(..2).and_then(step);
        let is_equal = |pair: &&[Option<f64>]| match first {
            None => pair[1].is_none(),
            Some(_) => step(pair).is_some() && step(pair) == difference,
        };
        let more = rest.windows(2).take_while(is_equal).count();
        runs.push(match (first, difference) {
            (None, _) => format!("_x{}", more + 1),
            (Some(first), Some(difference)) => format!("{first}+{difference}x{more}"),
            (Some(first), None) => format!("{first}"),
        });
        rest = &rest[more + 1..];
    }
    runs.join(" ")
}

/// The node after a restart, at the same time.
fn restarted(node: &Node) -> Node {
    let mut restarted = Node::new();
    restarted.now = node.now;
    restarted.window = Window::default();
    restarted.metrics.add_source(restarted.window.source());
    restarted.after(0);
    restarted
}

impl Series {
    /// Gives the series to the rules, checks the reasons, and returns the test of the alerts.
    fn run(&self) -> String {
        let mut node = Node::new();
        let mut seen = BTreeMap::<String, Samples>::new();
        let mut alerts = String::new();
        let mut interval = 0;
        let mut moments = self.moments.iter();
        let mut next = moments.next();
        see(&node, 0, &mut seen);
        for phase in self.phases {
            if phase.is_restart {
                node = restarted(&node);
            }
            for _ in 0..phase.minutes * 60 / INTERVAL_S {
                for (policy, (admitted, refused)) in ["p", "q"].into_iter().zip(phase.decisions) {
                    node.decisions(policy, "admitted", admitted);
                    node.decisions(policy, "refused", refused);
                }
                node.after(INTERVAL_S);
                interval += 1;
                see(&node, interval, &mut seen);
                if let Some((minute, codes)) = next
                    .filter(|it| it.0 * 60 == u64::try_from(interval).expect("few") * INTERVAL_S)
                {
                    alerts += &self.expect(&node, *minute, codes);
                    next = moments.next();
                }
            }
        }
        assert!(next.is_none(), "{}: a moment is after the end", self.name);
        let mut test =
            format!("  - name: {}\n    interval: {INTERVAL_S}s\n    input_series:\n", self.name);
        for (series, samples) in seen {
            let values = notation(&samples);
            let _ = write!(test, "      - series: '{series}'\n        values: '{values}'\n");
        }
        test + "    alert_rule_test:\n" + &alerts
    }

    /// Checks the reasons at a minute. Returns the test that the alerts are the same.
    fn expect(&self, node: &Node, minute: u64, codes: &[&str]) -> String {
        let found: Vec<&str> = node.reasons().iter().map(|(code, ..)| *code).collect();
        assert_eq!(found, codes, "{} at minute {minute}", self.name);
        let mut test = String::new();
        for (index, rule) in RULES.iter().enumerate() {
            let Rule { code, text, advice, .. } = rule;
            let Some(alert) = rule.alert.filter(|_| [MANY_REFUSALS, UNUSUALLY_MANY].contains(code))
            else {
                continue;
            };
            let _ = write!(test, "      - eval_time: {minute}m\n        alertname: {alert}\n");
            let present = node.present();
            let of_rule = reasons(&present).filter(|((it, _), _)| *it == index);
            let expected: Vec<String> = of_rule
                .map(|((_, about), value)| {
                    let policy = if about.is_empty() { about.clone() } else { format!("policy: {about}, ") };
                    let text = text(&present, &about, value);
                    format!(
                        "          - exp_labels: {{ instance: 'a:9902', {policy}severity: ticket }}\n            \
                         exp_annotations:\n              runbook_url: docs/operations.md#{code}\n              \
                         summary: 'a:9902: {text}: {advice}'\n"
                    )
                })
                .collect();
            test += &match expected.is_empty() {
                true => "        exp_alerts: []\n".to_owned(),
                false => format!("        exp_alerts:\n{}", expected.concat()),
            };
        }
        test
    }
}

/// Adds what the metrics show at an interval to the samples of each series.
fn see(node: &Node, interval: usize, seen: &mut BTreeMap<String, Samples>) {
    let mut add = |series: String, number: f64| {
        let samples = seen.entry(series).or_default();
        samples.resize(interval, None);
        samples.push(Some(number));
    };
    let samples = node.metrics.samples();
    samples.each(&families::DECISIONS, |labels, numbers| {
        let labels = format!("{LABELS},policy=\"{}\",outcome=\"{}\"", labels[0], labels[2]);
        add(format!("tollgate_decisions_total{{{labels}}}"), numbers[0]);
    });
    samples.each(&families::REFUSED_BEFORE, |labels, numbers| {
        let labels = format!("{LABELS},policy=\"{}\"", labels[0]);
        add(format!("tollgate_refused_before_ratio{{{labels}}}"), numbers[0]);
    });
}

#[test]
fn the_status_and_the_alerts_say_the_same_of_the_same_series() {
    let tests: Vec<String> = SERIES.iter().map(Series::run).collect();
    let expected = format!(
        "# What the rules of the status say of seven series, for the alerts. Made by a test:\n\
         # `UPDATE_GOLDEN=1 cargo test --lib refusals`\n\n\
         rule_files: [alerts.yml]\nevaluation_interval: 15s\n\ntests:\n{}",
        tests.concat()
    );
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(FILE, &expected).expect("the file can be written");
    }
    let file = fs::read_to_string(FILE).expect("it is shipped");
    assert!(file == expected, "{FILE} differs: UPDATE_GOLDEN=1 writes it anew");
}

#[test]
fn a_policy_refuses_unusually_many_by_what_it_refused_before() {
    let minutes = |it: &mut Node, minutes: u64, refused: u64| {
        for _ in 0..minutes {
            it.decisions("p", "admitted", 100 - refused);
            it.decisions("p", "refused", refused);
            it.after(60);
        }
    };
    let codes = |it: &Node| it.reasons().iter().map(|(code, ..)| *code).collect::<Vec<_>>();
    let unusual = ["refuses_unusually_many"];
    // Too little is known in the first hour: 5 % are unusual.
    let mut node = Node::new();
    minutes(&mut node, 50, 5);
    assert_eq!(node.reasons(), []);
    minutes(&mut node, 5, 6);
    assert_eq!(codes(&node), unusual);
    minutes(&mut node, 15, 6);
    assert_eq!(node.reasons(), [], "as many as before");
    // Then it is compared with the whole time before.
    let mut node = Node::new();
    minutes(&mut node, 90, 2);
    assert_eq!(node.reasons(), []);
    minutes(&mut node, 4, 20);
    assert_eq!(codes(&node), unusual);
    minutes(&mut node, 10, 3);
    assert_eq!(node.reasons(), []);
    // After a day it is compared with the day before, at the same time.
    let mut node = Node::new();
    minutes(&mut node, 10, 19);
    minutes(&mut node, 24 * 60 - 20, 1);
    assert_eq!(node.reasons(), []);
    minutes(&mut node, 13, 19);
    assert_eq!(node.reasons(), [], "as many as a day before");
    minutes(&mut node, 20, 19);
    assert_eq!(codes(&node), unusual);
    // A step without requests, a day before, says nothing: the whole time before counts.
    let mut node = Node::new();
    minutes(&mut node, 30, 0);
    node.after(60 * 60);
    minutes(&mut node, 23 * 60, 19);
    assert_eq!(node.reasons(), [], "as many as in the day before");
    // Few refusals are not judged.
    let mut node = Node::new();
    node.decisions("p", "admitted", 1);
    node.decisions("p", "refused", 19);
    node.after(5);
    assert_eq!(node.reasons(), []);
    node.decisions("p", "refused", 1);
    node.after(5);
    assert_eq!(codes(&node), unusual);
    // A policy without requests has no history.
    let mut node = Node::new();
    node.decisions("p", "refused", 0);
    node.after(2 * 60 * 60);
    minutes(&mut node, 5, 6);
    assert_eq!(codes(&node), unusual);
}

#[test]
fn a_series_is_written_in_runs() {
    let samples = [None, None, Some(0.0), Some(2.0), Some(4.0), Some(0.0), Some(0.5), None];
    assert_eq!(notation(&samples), "_x2 0+2x2 0+0.5x1 _x1");
    assert_eq!(notation(&[Some(1.0)]), "1");
}
