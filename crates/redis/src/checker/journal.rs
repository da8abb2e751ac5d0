//! What was asked, decided and told in a run, for the oracle to judge when the
//! run is over.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use tollgate_core::algorithm::{Algorithm, Op, State, Verdict};
use tollgate_core::digest::Key;
use tollgate_core::store::{Answer, Source};
use tollgate_core::time::Timestamp;

use super::counters::Outcome;
use super::scenario::Client;
use super::wire::Command;
use crate::codec::{Ask, Asked};

/// Everything that is kept of a run.
#[derive(Default)]
pub(super) struct Journal {
    pub(super) questions: Vec<Question>,
    /// What bodies answer: by the number that the answer's bytes are.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) requests: Vec<Request>,
    pub(super) corrections: Vec<Corrected>,
    pub(super) samples: Vec<Sample>,
    pub(super) probes: Vec<Probe>,
    /// Which nodes the server told how many are alive, and when.
    pub(super) alive: Vec<(u64, usize, u64)>,
    /// Which processes ended without a word, and when.
    pub(super) ended: Vec<(usize, u64)>,
    /// Decisions under way.
    open: usize,
    /// Decisions that were told and corrections that were made.
    steps: usize,
    /// When anything happened last.
    last_us: u64,
}

/// One body: what a worker asked, or told, in one step.
pub(super) struct Question {
    /// Who counts units in flight.
    pub(super) worker: u32,
    pub(super) asked: Vec<Part>,
    pub(super) made_us: u64,
    /// The request that asked. None: it is an errand.
    pub(super) request: Option<usize>,
    /// It went out: the server may have seen it.
    pub(super) is_sent: bool,
    /// What the server did, by its number, and when.
    pub(super) done: Option<(usize, u64)>,
    /// What the servers did before, if it was sent more than once.
    pub(super) done_before: Vec<usize>,
    /// When the node heard of it.
    pub(super) heard: Option<(usize, u64)>,
}

/// What is asked of one counter.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) key: Key,
    pub(super) algorithm: Algorithm,
    pub(super) ask: Ask,
    pub(super) binding: bool,
}

/// One decision.
pub(super) struct Request {
    /// The process.
    pub(super) node: usize,
    pub(super) client: Client,
    pub(super) charges: Vec<Charged>,
    pub(super) begun_us: u64,
    /// None while it is under way, and of a client that went away before.
    pub(super) decided: Option<Made>,
    /// When it went away, or its node crashed.
    pub(super) gone_us: Option<u64>,
}

/// What a decision was.
pub(super) struct Made {
    pub(super) at: Timestamp,
    pub(super) made_us: u64,
    pub(super) admitted: bool,
    pub(super) answers: Vec<Answer>,
    pub(super) order: Order,
}

/// The place of something among all that happened at the nodes and at the servers:
/// how many bodies the servers had decided before, and which step of the nodes it was.
pub(super) type Order = (usize, usize);

/// One charge of a request.
#[derive(Clone)]
pub(super) struct Charged {
    /// The number of its counter in the scenario.
    pub(super) counter: usize,
    pub(super) key: Key,
    pub(super) cost: u64,
}

/// What became of a charge after its request.
pub(super) struct Corrected {
    /// The request, by its number.
    pub(super) request: usize,
    pub(super) at_us: u64,
    pub(super) order: Order,
    pub(super) node: usize,
    pub(super) key: Key,
    pub(super) source: Source,
    pub(super) op: Op,
}

/// What the store counts of a counter at some time, while all is quiet.
pub(super) struct Sample {
    pub(super) at_us: u64,
    pub(super) order: Order,
    /// For how long nothing has happened.
    pub(super) quiet_us: u64,
    pub(super) key: Key,
    pub(super) used: u64,
    /// It was taken when everything was over.
    pub(super) is_last: bool,
}

/// A client that was alone, and waited as it was told.
pub(super) struct Probe {
    pub(super) at_us: u64,
    pub(super) counter: usize,
    pub(super) first: Verdict,
    pub(super) second: Verdict,
}

impl Journal {
    pub(super) fn ask(
        &mut self,
        worker: u32,
        asked: &[Asked<'_>],
        request: Option<usize>,
        now_us: u64,
    ) -> usize {
        // What is told of other requests while a decision is polled is an errand.
        let takes = asked.iter().any(|it| match it.ask {
            Ask::Take(cost) | Ask::Lease { cost, .. } => cost > 0,
            _ => false,
        });
        let request = request.filter(|_| takes);
        let part = |asked: &Asked<'_>| Part {
            key: asked.key,
            algorithm: asked.algorithm.clone(),
            ask: asked.ask,
            binding: asked.binding,
        };
        self.questions.push(Question {
            worker,
            asked: asked.iter().map(part).collect(),
            made_us: now_us,
            request,
            is_sent: false,
            done: None,
            done_before: Vec::new(),
            heard: None,
        });
        self.last_us = now_us;
        self.questions.len() - 1
    }

    /// A body leaves its node.
    pub(super) fn departs(&mut self, body: &[u8]) {
        if let Some(question) = number(body).and_then(|number| self.questions.get_mut(number)) {
            question.is_sent = true;
        }
    }

    /// A node has what the server said to these questions.
    pub(super) fn heard(&mut self, node: usize, questions: &[usize], now_us: u64) {
        for &number in questions {
            self.questions[number].heard = Some((node, now_us));
        }
        self.last_us = now_us;
    }

    /// A request comes. Its number.
    pub(super) fn begin(&mut self, request: Request) -> usize {
        self.open += 1;
        self.last_us = request.begun_us;
        self.requests.push(request);
        self.requests.len() - 1
    }

    pub(super) fn decided(&mut self, request: usize, made: Made) {
        self.open -= 1;
        self.last_us = made.made_us;
        let order = self.order();
        self.requests[request].decided = Some(Made { order, ..made });
    }

    /// The client of a request goes away before it is decided.
    pub(super) fn left(&mut self, request: usize, now_us: u64) {
        self.open -= 1;
        self.last_us = now_us;
        self.requests[request].gone_us = Some(now_us);
    }

    pub(super) fn correct(&mut self, corrected: Corrected) {
        self.last_us = corrected.at_us;
        let order = self.order();
        self.corrections.push(Corrected { order, ..corrected });
    }

    /// The place of what happens now.
    pub(super) fn order(&mut self) -> Order {
        self.steps += 1;
        (2 * self.outcomes.len(), self.steps)
    }

    /// A process has ended, and with it all that it had under way.
    pub(super) fn end_node(&mut self, node: usize, now_us: u64) {
        self.ended.push((node, now_us));
        for request in self.requests.iter_mut().filter(|it| it.node == node) {
            if request.decided.is_none() && request.gone_us.is_none() {
                request.gone_us = Some(now_us);
                self.open -= 1;
            }
        }
    }

    /// For how long nothing has happened; none if decisions are under way.
    pub(super) fn quiet_us(&self, now_us: u64) -> Option<u64> {
        (self.open == 0).then(|| now_us - self.last_us)
    }

    /// Stands for all that was asked and decided.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        for question in &self.questions {
            let done = question.done;
            let heard = question.heard;
            hasher.write(format!("{} {done:?} {heard:?}", question.made_us).as_bytes());
            question.asked.iter().for_each(|part| {
                hasher.write(format!("{:?}{:?}", part.key.counter, part.ask).as_bytes());
            });
        }
        for request in &self.requests {
            let made = request.decided.as_ref().map(|it| (it.at, it.made_us, &it.answers));
            hasher.write(format!("{made:?} {:?}", request.gone_us).as_bytes());
        }
        for Outcome { refused, at, before, taken } in &self.outcomes {
            hasher.write(format!("{refused} {at} {before:?} {taken:?}").as_bytes());
        }
        for it in &self.samples {
            hasher.write(format!("{} {:?} {}", it.at_us, it.key.counter, it.used).as_bytes());
        }
        hasher.finish()
    }

    /// The states that an answer tells of.
    pub(super) fn outcome(&self, answer: &[u8]) -> Option<(bool, Timestamp, Vec<Option<State>>)> {
        let outcome = self.outcomes.get(number(answer)?)?;
        Some((outcome.refused, outcome.at, outcome.before.clone()))
    }
}

/// A number as the bytes that stand for a body or an answer.
pub(super) fn bytes(number: usize) -> Vec<u8> {
    u64::try_from(number).expect("64 bits").to_le_bytes().to_vec()
}

pub(super) fn number(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
}

/// The bodies of an `EVALSHA`: what stands behind its keys and its time.
pub(super) fn bodies(command: &Command) -> Vec<usize> {
    if command.first().is_none_or(|name| name != b"EVALSHA") {
        return Vec::new();
    }
    let keys = command.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    let first = 4 + keys.unwrap_or(0_usize);
    command.get(first..).unwrap_or_default().iter().filter_map(|body| number(body)).collect()
}
