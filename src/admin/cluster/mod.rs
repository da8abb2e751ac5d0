//! The figures of all nodes that share a store: what `scope=cluster` shows.
//!
//! Nodes never call each other. The node that is asked sets a watch in Redis, and while it is
//! there each node publishes its figures every two seconds (`publish`). Without a watch nothing
//! is published, and a node only looks once a second whether there is one.

mod publish;
mod record;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::sleep;
use tollgate_core::digest::{Principal, PrincipalId};
use tollgate_core::time::{Timestamp, monotonic};
use tollgate_redis::{ControlStore, StoreError};

use super::call::Call;
use super::outcomes::{PolicyOutcomes, ratio};
use super::words::{Scope, SourceWord};
use crate::telemetry::{ClientText, History, TopHistory};
pub use publish::Publisher;
use record::{Figures, PolicyFigures};

/// How long the first question waits for the figures of the other nodes.
const PATIENCE: Duration = Duration::from_millis(2500);
/// The time between two looks during this.
const LOOK: Duration = Duration::from_millis(200);
/// Figures that are older were published for an earlier watch, while nodes may still answer.
const FRESH: Duration = Duration::from_secs(3);
/// Without a question for this time, the watch has ended.
const WATCH: Duration = Duration::from_secs(14);
/// Sums are used again for this time.
const KEPT: Duration = Duration::from_millis(900);

/// The figures of the cluster that were asked for last.
#[derive(Debug, Default)]
pub struct ClusterFigures(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<(Instant, Rc<Cluster>)>,
    /// When the watch began, and when it was renewed.
    watch: Option<(Instant, Instant)>,
}

/// The figures of the node that is asked.
#[derive(Clone, Copy, Debug)]
pub struct Own<'n> {
    pub history: &'n History,
    pub top: &'n TopHistory,
}

impl Own<'_> {
    fn figures(self, now: Timestamp) -> Figures {
        Figures::of(self.history, self.top, now)
    }
}

/// The sum of what the nodes have told.
#[derive(Debug)]
pub struct Cluster {
    about: About,
    sum: Figures,
}

/// Whose figures an answer with `scope=cluster` has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct About {
    /// `node`: the counters are in memory, so this node is alone.
    scope: Scope,
    /// `local`: Redis does not answer, so the figures are those of this node alone.
    source: SourceWord,
    /// The nodes whose figures are in the sums.
    nodes: Vec<Answered>,
    /// The nodes that are alive, and whose figures are not in the sums.
    missing: Vec<Missing>,
}

/// A node whose figures are in the sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AnsweredNode")]
struct Answered {
    id: String,
    /// Whether it is the node that was asked.
    this: bool,
    /// The age of its figures in milliseconds.
    age_ms: u64,
    /// Its policies whose figures did not fit into what it publishes.
    policies_left_out: u64,
}

/// A node whose figures are not in the sums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "MissingNode")]
struct Missing {
    id: String,
    /// Why they are not.
    because: &'static str,
}

/// Whether a call asks for the whole cluster.
pub fn is_cluster(call: &Call) -> bool {
    call.parameter("scope") == Some("cluster")
}

impl ClusterFigures {
    /// The sum of all nodes. If Redis does not answer, it is this node alone. There is one
    /// collection at a time; its result serves all that wait for it.
    pub async fn collect(
        &self,
        control: Option<&ControlStore>,
        own: Own<'_>,
        now: Timestamp,
    ) -> Rc<Cluster> {
        let mut state = self.0.lock().await;
        if let Some((at, last)) = &state.last
            && monotonic().saturating_duration_since(*at) < KEPT
        {
            return Rc::clone(last);
        }
        let alone = |id: String, scope, source| {
            let cluster = Cluster::of(id, own.figures(now), [].into_iter());
            Cluster { about: About { scope, source, ..cluster.about }, ..cluster }
        };
        let cluster = Rc::new(match control {
            None => alone("local".to_owned(), Scope::Node, SourceWord::Store),
            Some(control) => match state.read(control, own, now).await {
                Ok(cluster) => cluster,
                Err(_) => alone(control.node_id(), Scope::Cluster, SourceWord::Local),
            },
        });
        state.last = Some((monotonic(), Rc::clone(&cluster)));
        cluster
    }

    /// The text of this client of a policy, if it was in the last sums.
    pub async fn text(&self, policy: &str, client: Principal) -> Option<ClientText> {
        let state = self.0.lock().await;
        let figures = state.last.as_ref()?.1.sum.policies.get(policy)?;
        figures.clients.text(client).cloned()
    }

    /// The client of a policy with this id, if it was in the last sums.
    pub async fn principal(&self, policy: &str, id: PrincipalId) -> Option<Principal> {
        let state = self.0.lock().await;
        let figures = state.last.as_ref()?.1.sum.policies.get(policy)?;
        figures.clients.principal(id)
    }
}

impl State {
    async fn read(
        &mut self,
        control: &ControlStore,
        own: Own<'_>,
        now: Timestamp,
    ) -> Result<Cluster, StoreError> {
        control.watch().await?;
        let renewed = monotonic();
        let began = match self.watch {
            Some((began, last)) if renewed.saturating_duration_since(last) < WATCH => began,
            _ => renewed,
        };
        self.watch = Some((began, renewed));
        own.top.read(now);
        loop {
            let others = control.records().await?.into_iter().map(|it| it.id);
            let own_id = control.node_id();
            let others = others.filter(|id| *id != own_id).collect();
            let told = control.figures(others).await;
            let is_late = |published: &Option<(Vec<u8>, Duration)>| {
                published.as_ref().is_none_or(|(_, age)| *age > FRESH)
            };
            let waits = told.iter().any(|it| is_late(&it.published));
            if !waits || monotonic().saturating_duration_since(began) >= PATIENCE {
                let told = told.into_iter().map(|it| (it.id, it.published));
                return Ok(Cluster::of(own_id, own.figures(now), told));
            }
            sleep(LOOK).await;
        }
    }
}

impl Cluster {
    /// The sum of this node, and of what the others have published.
    fn of(
        own_id: String,
        own: Figures,
        others: impl Iterator<Item = (String, Option<(Vec<u8>, Duration)>)>,
    ) -> Self {
        let mut nodes = vec![answered(&own_id, true, Duration::ZERO, own.left_out)];
        let mut sum = own;
        let mut missing = Vec::new();
        for (id, published) in others {
            let because = match published.map(|(text, age)| (Figures::decode(&text), age)) {
                Some((Some(figures), age)) => {
                    nodes.push(answered(&id, false, age, figures.left_out));
                    sum.add(figures);
                    continue;
                }
                Some((None, _)) => "its figures are of a version that this node cannot read",
                None => "it has published no figures in the last seconds",
            };
            missing.push(Missing { id, because });
        }
        let scope = Scope::Cluster;
        let source = SourceWord::Store;
        Self { about: About { scope, source, nodes, missing }, sum }
    }

    /// What an answer says of its scope.
    pub fn about(&self) -> About {
        self.about.clone()
    }

    /// The outcomes of the policy of this name.
    pub fn outcomes(&self, policy: &str) -> PolicyOutcomes {
        self.sum.policies.get(policy).map(|it| it.outcomes.clone()).unwrap_or_default()
    }

    /// The figures of the policies by name.
    pub fn policies(&self) -> &BTreeMap<String, PolicyFigures> {
        &self.sum.policies
    }

    /// The time that the lists of clients are of, in seconds.
    pub fn clients_of(&self) -> Option<f64> {
        ratio(self.sum.clients_of.as_micros(), 1_000_000)
    }
}

fn answered(id: &str, is_this: bool, age: Duration, left_out: u64) -> Answered {
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    Answered { id: id.to_owned(), this: is_this, age_ms, policies_left_out: left_out }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollgate_core::time::Span;

    use super::*;

    #[test]
    fn nodes_that_cannot_be_read_are_missing() {
        let own = Figures { clients_of: Span::from_secs(70), ..Figures::default() };
        let mut other = own.clone();
        other.policies.insert("p".to_owned(), PolicyFigures::default());
        let text = other.encode(1000).into_bytes();
        let newer = String::from_utf8_lossy(&text).replace("\"v\":1", "\"v\":2").into_bytes();
        let age = Duration::from_millis(1500);
        let told = [
            ("b".to_owned(), Some((text, age))),
            ("c".to_owned(), Some((newer, age))),
            ("d".to_owned(), None),
        ];
        let cluster = Cluster::of("a".to_owned(), own, told.into_iter());
        let about = json!(cluster.about());
        let ids = |of: &str| -> Vec<Value> {
            about[of].as_array().expect("a list").iter().map(|it| it["id"].clone()).collect()
        };
        assert_eq!(
            (ids("nodes"), ids("missing")),
            (vec!["a".into(), "b".into()], vec!["c".into(), "d".into()])
        );
        assert_eq!(
            (&about["nodes"][1]["age_ms"], &about["nodes"][0]["this"]),
            (&json!(1500), &json!(true))
        );
        let because = |index: usize| about["missing"][index]["because"].to_string();
        assert!(because(0).contains("version") && because(1).contains("no figures"));
        assert_eq!(cluster.policies().keys().collect::<Vec<_>>(), ["p"]);
        assert_eq!(cluster.clients_of(), Some(70.0));
    }
}
