//! The exchange of one batch: one `EVALSHA` for each group of calls, all in one write, and
//! the replies, which are passed to the callers.

use bytes::Bytes;
use redis::{Pipeline, Value};
use tollgate_core::time::monotonic;

use super::super::batch::{Call, Repeat};
use super::super::deadline::Reply;
use super::super::failure::{Refusal, StoreError};
use super::super::script::Script;
use super::super::server_time::ServerTime;
use super::super::transport::Transport;
use super::super::wire::Wire;

/// Calls that one `EVALSHA` can decide.
type Group = Vec<Call>;

/// The result of a batch.
pub(super) struct BatchResult {
    /// The verdict on the server's health. A redirection is no failure, nor is an error of
    /// one call if others were answered.
    pub(super) verdict: Result<(), StoreError>,
    /// Calls that are sent again, because their connection broke.
    pub(super) again: Vec<Call>,
    /// The errors of single calls while the server decides others, and a key of each.
    pub(super) call_errors: Vec<(StoreError, Bytes)>,
    /// Whether the server has slots, which were not known.
    pub(super) is_cross_slot: bool,
    /// The server's time, if it was asked for.
    pub(super) time: Option<ServerTime>,
}

/// How calls are sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// Whether only calls of one slot are sent together.
    pub(super) by_slot: bool,
    /// The time that scripts are given, in microseconds since 1970. 0: the server's clock.
    pub(super) time_us: u64,
    /// Whether the server is a node of a known cluster. Then a slot that is moving is no failure
    /// of the server, which decides for its other slots.
    pub(super) in_cluster: bool,
}

impl BatchResult {
    /// That of a batch whose replies say nothing else.
    pub(super) fn of(verdict: Result<(), StoreError>) -> Self {
        let again = Vec::new();
        let call_errors = Vec::new();
        Self { verdict, again, call_errors, is_cross_slot: false, time: None }
    }
}

/// Sends a batch and passes the replies to the callers, with errors as `understood` sees them. If
/// the server does not know the script, nothing was counted. Then the script is loaded and the
/// calls are sent once more.
pub(super) async fn run(
    wire: &mut Wire,
    transport: &dyn Transport,
    (mut batch, manner): (Vec<Call>, Manner),
    understood: impl Fn(StoreError) -> StoreError,
) -> BatchResult {
    if manner.by_slot {
        batch.iter_mut().for_each(Call::group_by_slot);
    }
    transport.departs(&batch);
    let groups = group(batch);
    let script = transport.script();
    let mut tally = Tally { manner, ..Tally::default() };
    let mut unknown = send(wire, script, groups, Round::First, &mut tally, &understood).await;
    // Calls whose deadline has passed are not sent again.
    unknown.iter_mut().for_each(|group| group.retain(|call| !call.answer.is_closed()));
    unknown.retain(|group| !group.is_empty());
    if !unknown.is_empty() {
        send(wire, script, unknown, Round::Second, &mut tally, &understood).await;
    }
    tally.finished()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    First,
    /// The script is loaded first.
    Second,
}

/// The results of the groups of a batch.
#[derive(Default)]
struct Tally {
    manner: Manner,
    answered: bool,
    error: Option<StoreError>,
    again: Vec<Call>,
    call_errors: Vec<(StoreError, Bytes)>,
    is_cross_slot: bool,
    time: Option<ServerTime>,
}

impl Tally {
    fn finished(self) -> BatchResult {
        let verdict = match self.error {
            Some(error) if !self.answered => Err(error),
            _ => Ok(()),
        };
        let Self { again, call_errors, is_cross_slot, time, .. } = self;
        BatchResult { verdict, again, call_errors, is_cross_slot, time }
    }

    /// Whether the error concerns one slot that is moving, and not the server.
    fn is_of_slot(&self, error: &StoreError) -> bool {
        self.manner.in_cluster && error.is_try_again()
    }

    fn note(&mut self, error: &StoreError, call: &Call) {
        let is_of_call =
            matches!(error, StoreError::Refused(Refusal::Other | Refusal::CrossSlot, _));
        let is_noted = is_of_call || self.is_of_slot(error);
        if let Some(key) = call.encoded.keys.first().filter(|_| is_noted) {
            self.call_errors.push((error.clone(), key.clone()));
        }
    }

    /// The error that counts against the server's health, if there is one. An error of the
    /// script in one call does not.
    fn refusal<'a>(&self, answers: &'a [Reply]) -> Option<&'a StoreError> {
        let errors = answers.iter().filter_map(|answer| answer.as_ref().err());
        errors.filter(|it| !self.is_of_slot(it)).find(|it| it.is_of_server())
    }

    fn add(&mut self, error: Option<StoreError>) {
        let is_of_server = |error: &StoreError| {
            !error.is_redirection() && !error.is_cross_slot() && !self.is_of_slot(error)
        };
        match error.filter(is_of_server) {
            Some(error) => self.error = Some(error),
            None => self.answered = true,
        }
    }

    /// Ends all calls of a group with this error, or has them sent again.
    fn fail(&mut self, group: Group, error: &StoreError) {
        self.add(Some(error.clone()));
        let is_lost = matches!(error, StoreError::Lost(_));
        // Nothing was counted, and each call may have one slot.
        let is_split = error.is_cross_slot() && !self.manner.by_slot;
        self.is_cross_slot |= is_split;
        // The same, and the keys of each call may be on one node. Redis 6.2 redirects all of them.
        let is_apart =
            self.manner.in_cluster && error.is_of_moving_keys() && has_several_keys(&group);
        for mut call in group {
            let may_repeat = is_lost && call.repeat == Repeat::IfLost;
            if (is_split || is_apart) && !call.answer.is_closed() {
                call.is_apart |= is_apart;
                call.answer.unmark_sent();
                self.again.push(call);
            } else if may_repeat && call.answer.may_be_sent_again() {
                self.again.push(call);
            } else {
                if error.is_cross_slot() || self.is_of_slot(error) {
                    self.note(error, &call);
                }
                call.fail(error, 1);
            }
        }
    }
}

/// Whether the calls of a group have different keys.
fn has_several_keys(group: &Group) -> bool {
    group.windows(2).any(|calls| calls[0].encoded.keys != calls[1].encoded.keys)
}

fn group(batch: Vec<Call>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::with_capacity(1);
    for call in batch {
        let alike = |group: &&mut Group| {
            let joins = |first: &Call| first.group == call.group && first.joins() && call.joins();
            group.first().is_some_and(joins)
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(call),
            None => groups.push(vec![call]),
        }
    }
    groups
}

/// Sends the groups. Returns those whose script was unknown in the first round.
async fn send(
    wire: &mut Wire,
    script: &Script,
    groups: Vec<Group>,
    round: Round,
    tally: &mut Tally,
    understood: &impl Fn(StoreError) -> StoreError,
) -> Vec<Group> {
    let time_us = tally.manner.time_us;
    let (commands, leading) = commands(script, &groups, round, time_us);
    let asked = monotonic();
    let mut answers = wire.send(&commands).await.map(Vec::into_iter);
    if let Ok(answers) = &mut answers {
        let before = answers.by_ref().take(leading).last();
        if let Some(time) = before.filter(|_| time_us > 0) {
            tally.time = ServerTime::read(time, asked, monotonic()).ok();
        }
    }
    let mut unknown = Vec::new();
    for group in groups {
        let answer = match &mut answers {
            Ok(answers) => {
                if group.iter().any(|call| call.asking) {
                    answers.next();
                }
                let missing = StoreError::InvalidReply("fewer answers than commands");
                answers.next().ok_or(missing).and_then(|answer| strings(answer, group.len()))
            }
            Err(error) => Err(error.clone()),
        };
        match answer.map_err(understood) {
            Err(StoreError::Refused(Refusal::NoScript, _)) if round == Round::First => {
                unknown.push(group);
            }
            Ok(answers) => {
                tally.add(tally.refusal(&answers).cloned());
                for (call, answer) in group.into_iter().zip(answers) {
                    match answer {
                        Ok(answer) => call.answer.send(Ok(answer)),
                        Err(error) => {
                            tally.note(&error, &call);
                            call.fail(&error, 1);
                        }
                    }
                }
            }
            Err(error) => tally.fail(group, &error),
        }
    }
    unknown
}

/// The commands, and the number of replies before those of the first group.
fn commands(script: &Script, groups: &[Group], round: Round, time_us: u64) -> (Pipeline, usize) {
    let mut commands = Pipeline::with_capacity(groups.len() + 1);
    if round == Round::Second {
        commands.cmd("SCRIPT").arg("LOAD").arg(script.source);
    }
    if time_us > 0 {
        commands.add_command(ServerTime::question());
    }
    let leading = commands.len();
    for group in groups {
        if group.iter().any(|call| call.asking) {
            commands.cmd("ASKING");
        }
        let keys = || group.iter().flat_map(|call| &call.encoded.keys);
        commands.cmd("EVALSHA").arg(&*script.sha).arg(keys().count());
        for key in keys() {
            commands.arg(&key[..]);
        }
        // The server's own clock is the one clock of all nodes.
        commands.arg(time_us);
        for call in group {
            commands.arg(&call.encoded.body[..]);
        }
    }
    (commands, leading)
}

/// A list of `count` strings, some of which may be errors instead.
fn strings(answer: Value, count: usize) -> Result<Vec<Reply>, StoreError> {
    let items = match answer {
        Value::Array(items) => items,
        other => {
            other.extract_error()?;
            return Err(StoreError::InvalidReply("the script did not return a list"));
        }
    };
    if items.len() != count {
        return Err(StoreError::InvalidReply("the list and the batch have different lengths"));
    }
    let string = |item: Value| match item.extract_error()? {
        Value::BulkString(bytes) => Ok(Bytes::from(bytes)),
        _ => Err(StoreError::InvalidReply("the list does not hold strings")),
    };
    Ok(items.into_iter().map(string).collect())
}
