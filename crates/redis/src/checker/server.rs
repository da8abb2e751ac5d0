//! A model of the servers: as much of Redis as the store uses of it. It decides
//! by the algorithms themselves ([`Counters`]), by its own clock.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::digest::Key;
use tollgate_core::time::Timestamp;

use super::counters::{Counters, Outcome};
use super::journal::{bodies, bytes};
use super::scenario::Refusal;
use super::wire::{Command, Reply};
use super::world::World;
use crate::layout::Layout;
use crate::slots::{SLOTS, slot};

/// A node that has been silent for so long is not alive.
const SILENCE_S: u64 = 15;
/// The error of a script that asks for the time, from a server that refuses it.
const NO_TIME: &str =
    "ERR This Redis command is not allowed from script script: f, on @user_script:1.";
/// A part of the keys of test writes.
const TEST_KEY: &[u8] = b":meta:test";

/// How servers share the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Each has what it is sent: one server, or independent ones.
    Sent,
    /// By slots.
    Slots,
}

/// All servers.
pub(super) struct Servers {
    pub(super) sharing: Sharing,
    all: Vec<Server>,
    /// Which server keeps the slots of the lower and of the upper half.
    owners: RefCell<[usize; 2]>,
    /// Slots of this half are on their way to this server.
    moving: Cell<Option<(usize, usize)>>,
    pub(super) layout: Layout,
    /// How often the password has changed.
    rotations: Cell<u64>,
}

/// The fields of a hash.
type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Server {
    is_down: Cell<bool>,
    wakes_us: Cell<u64>,
    has_script: Cell<bool>,
    /// It fails in the middle of the next batch, after so many bodies.
    fails_after: Cell<Option<usize>>,
    refusal: Cell<Option<Refusal>>,
    /// It has all slots, and refuses commands with keys of several.
    has_slots: Cell<bool>,
    /// Its scripts cannot ask for the time.
    refuses_time: Cell<bool>,
    /// How far its clock is ahead.
    ahead_us: Cell<i64>,
    counters: RefCell<Counters>,
    /// A replica's copy, as of some time ago.
    replica: RefCell<Option<Counters>>,
    strings: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Hashes, by key.
    hashes: RefCell<BTreeMap<Vec<u8>, Fields>>,
    nodes: RefCell<BTreeMap<Vec<u8>, u64>>,
}

/// A reply, and the questions that it answers.
pub(super) struct Answered {
    pub(super) reply: Reply,
    pub(super) questions: Vec<usize>,
}

impl From<Reply> for Answered {
    fn from(reply: Reply) -> Self {
        Self { reply, questions: Vec::new() }
    }
}

impl Server {
    /// The time of its own clock.
    fn now(&self, world: &World) -> Timestamp {
        let us = world.now().as_micros();
        Timestamp::from_micros(us.saturating_add_signed(self.ahead_us.get()))
    }
}

impl Servers {
    pub(super) fn new(sharing: Sharing, count: usize, layout: Layout) -> Self {
        Self {
            sharing,
            all: (0..count).map(|_| Server::default()).collect(),
            owners: RefCell::new([0, count - 1]),
            moving: Cell::new(None),
            layout,
            rotations: Cell::new(0),
        }
    }

    /// The password that all servers accept.
    pub(super) fn password(&self) -> String {
        format!("secret {}", self.rotations.get())
    }

    /// All servers accept another password only.
    pub(super) fn rotate(&self) {
        self.rotations.set(self.rotations.get() + 1);
    }

    pub(super) fn is_running(&self, server: usize) -> bool {
        !self.all[server].is_down.get()
    }

    /// Until when a server stands still, if it does.
    pub(super) fn wakes_at(&self, server: usize) -> Option<u64> {
        Some(self.all[server].wakes_us.get())
    }

    pub(super) fn stall(&self, server: usize, until_us: u64) {
        // One that stands still already does so for the longer of both times.
        let wakes_us = &self.all[server].wakes_us;
        wakes_us.set(wakes_us.get().max(until_us));
    }

    /// A server ends. What it counts is kept, or lost.
    pub(super) fn crash(&self, server: usize, keeps: bool) {
        let server = &self.all[server];
        server.is_down.set(true);
        server.has_script.set(false);
        if !keeps {
            self.empty(server);
        }
    }

    pub(super) fn restart(&self, server: usize) {
        self.all[server].is_down.set(false);
    }

    /// All of a server's data is gone.
    pub(super) fn flush(&self, server: usize) {
        self.empty(&self.all[server]);
    }

    fn empty(&self, server: &Server) {
        server.counters.take();
        server.strings.take();
        server.hashes.take();
        server.nodes.take();
    }

    /// The server forgets its scripts.
    pub(super) fn flush_scripts(&self, server: usize) {
        self.all[server].has_script.set(false);
    }

    /// The replica has all that was written until now.
    pub(super) fn replicate(&self, server: usize) {
        let server = &self.all[server];
        server.replica.replace(Some(server.counters.borrow().clone()));
    }

    /// The replica takes the master's place: what came after its copy is lost.
    pub(super) fn fail_over(&self, server: usize, ahead_us: i64) {
        let server = &self.all[server];
        if let Some(copy) = server.replica.take() {
            server.counters.replace(copy);
        }
        server.ahead_us.set(ahead_us);
        server.has_script.set(false);
    }

    pub(super) fn fail_within_batch(&self, server: usize, after: usize) {
        self.all[server].fails_after.set(Some(after));
    }

    /// The server refuses each call of the script, or does so no longer.
    pub(super) fn refuse(&self, server: usize, refusal: Option<Refusal>) {
        self.all[server].refusal.set(refusal);
    }

    pub(super) fn refuse_time(&self) {
        self.all.iter().for_each(|server| server.refuses_time.set(true));
    }

    pub(super) fn get_slots(&self, server: usize) {
        self.all[server].has_slots.set(true);
    }

    /// Half of the slots begins to move, and then belongs elsewhere.
    pub(super) fn begin_to_move(&self, half: usize, to: usize) {
        // One at a time.
        self.end_the_move();
        let from = self.owners.borrow()[half];
        if from == to {
            return;
        }
        let layout = &self.layout;
        let moved =
            self.all[from].counters.borrow_mut().split_off(|key| self::half(layout, *key) == half);
        self.all[to].counters.borrow_mut().adopt(moved);
        self.moving.set(Some((half, to)));
    }

    pub(super) fn end_the_move(&self) {
        if let Some((half, to)) = self.moving.take() {
            self.owners.borrow_mut()[half] = to;
        }
    }

    /// What all servers together count of a key.
    pub(super) fn state(
        &self,
        key: Key,
        now: tollgate_core::time::Timestamp,
    ) -> Option<tollgate_core::algorithm::State> {
        self.all.iter().find_map(|server| server.counters.borrow().state(key, now))
    }

    /// Does what one command says.
    pub(super) fn answer(
        &self,
        world: &World,
        node: usize,
        number: usize,
        command: &Command,
        is_asking: &mut bool,
    ) -> Answered {
        let server = &self.all[number];
        let word = |index: usize| command.get(index).cloned().unwrap_or_default();
        let was_asking = std::mem::take(is_asking);
        let reply = match command.first().map_or(&b""[..], |name| name) {
            b"ROLE" => Reply::List(vec![Reply::Text(b"master".to_vec())]),
            b"PING" => Reply::Simple("PONG"),
            b"AUTH" if command.last().is_none_or(|it| *it != self.password().into_bytes()) => {
                Reply::Error("WRONGPASS invalid username-password pair".to_owned())
            }
            b"ASKING" => {
                *is_asking = true;
                Reply::Simple("OK")
            }
            b"SCRIPT" => {
                server.has_script.set(true);
                Reply::Text(b"sha".to_vec())
            }
            b"CONFIG" => {
                let pair = [&b"maxmemory-policy"[..], b"noeviction"];
                Reply::List(pair.map(|text| Reply::Text(text.to_vec())).to_vec())
            }
            b"EVAL" | b"EVALSHA" if server.has_slots.get() && is_cross_slot(command) => {
                Reply::Error("CROSSSLOT Keys in request don't hash to the same slot".to_owned())
            }
            b"CLUSTER" => self.slots(),
            b"TIME" => {
                let us = server.now(world).as_micros();
                let text = |number: u64| Reply::Text(number.to_string().into_bytes());
                Reply::List(vec![text(us / 1_000_000), text(us % 1_000_000)])
            }
            b"EVAL" if is_test_write(&word(3)) => {
                let asks = command.last().is_some_and(|asks| asks == b"1");
                match asks && server.refuses_time.get() {
                    true => Reply::List(vec![
                        Reply::Text(b"TIME".to_vec()),
                        Reply::Error(NO_TIME.to_owned()),
                    ]),
                    false => Reply::List(Vec::new()),
                }
            }
            b"EVAL" => self.sign_of_life(world, node, server, word(4)),
            b"SET" => {
                server.strings.borrow_mut().entry(word(1)).or_insert_with(|| word(2));
                Reply::Simple("OK")
            }
            b"GET" => server
                .strings
                .borrow()
                .get(&word(1))
                .map_or(Reply::Nothing, |value| Reply::Text(value.clone())),
            b"HSET" => server.set_fields(command),
            b"HGETALL" => server.fields(command),
            b"EVALSHA" => return self.decide(world, number, command, was_asking),
            _ => Reply::Simple("OK"),
        };
        reply.into()
    }

    fn slots(&self) -> Reply {
        let owners = self.owners.borrow();
        let half = u64::from(SLOTS / 2);
        let ranges = owners.iter().zip([(0, half - 1), (half, u64::from(SLOTS) - 1)]);
        let range = |(owner, (first, last)): (&usize, (u64, u64))| {
            let address = vec![Reply::Text(host(*owner).into_bytes()), Reply::Number(PORT.into())];
            Reply::List(vec![Reply::Number(first), Reply::Number(last), Reply::List(address)])
        };
        Reply::List(ranges.map(range).collect())
    }

    fn sign_of_life(&self, world: &World, node: usize, server: &Server, name: Vec<u8>) -> Reply {
        let now_s = server.now(world).as_secs();
        let mut nodes = server.nodes.borrow_mut();
        nodes.insert(name, now_s);
        nodes.retain(|_, seen_s| now_s.abs_diff(*seen_s) < SILENCE_S);
        let alive = u64::try_from(nodes.len()).expect("a few nodes");
        world.journal.borrow_mut().alive.push((world.now_us(), node, alive));
        Reply::Number(alive)
    }

    fn decide(&self, world: &World, number: usize, command: &Command, asking: bool) -> Answered {
        let server = &self.all[number];
        if !server.has_script.get() {
            return Reply::Error("NOSCRIPT No matching script.".to_owned()).into();
        }
        if let Some(elsewhere) = self.elsewhere(number, command, asking) {
            return elsewhere.into();
        }
        if let Some(refusal) = server.refusal.get() {
            return Reply::Error(refusal.text().to_owned()).into();
        }
        let given = given_time(command);
        if given.is_none() && server.refuses_time.get() {
            return Reply::Error(NO_TIME.to_owned()).into();
        }
        let now = given.unwrap_or_else(|| server.now(world));
        let mut journal = world.journal.borrow_mut();
        let questions = bodies(command);
        let fails_after = server.fails_after.take();
        let mut replies = Vec::new();
        for (done, &question) in questions.iter().enumerate() {
            if fails_after == Some(done) {
                world.tell(|| format!("server {number} fails after {done} bodies of a batch"));
                return Reply::Error("ERR the script broke".to_owned()).into();
            }
            let asked = &journal.questions[question];
            let outcome = server.counters.borrow_mut().decide(asked.worker, &asked.asked, now);
            world.tell(|| tale(number, question, &journal.questions[question], &outcome));
            let told = journal.outcomes.len();
            journal.outcomes.push(outcome);
            let asked = &mut journal.questions[question];
            let before = asked.done.replace((told, world.now_us()));
            asked.done_before.extend(before.map(|(done, _)| done));
            replies.push(Reply::Text(bytes(told)));
        }
        Answered { reply: Reply::List(replies), questions }
    }

    /// Where the keys of a call are, if they are not here.
    fn elsewhere(&self, number: usize, command: &Command, asking: bool) -> Option<Reply> {
        if self.sharing == Sharing::Sent || command.get(2).is_none_or(|count| count == b"0") {
            return None;
        }
        let key = command.get(3)?;
        let slot = slot(key);
        let half = usize::from(slot >= SLOTS / 2);
        let owner = self.owners.borrow()[half];
        let moved_to = self.moving.get().filter(|moving| moving.0 == half).map(|(_, to)| to);
        match moved_to {
            Some(to) if number == to && asking => None,
            Some(to) if number == owner => {
                Some(Reply::Error(format!("ASK {slot} {}:{PORT}", host(to))))
            }
            _ if number == owner => None,
            _ => Some(Reply::Error(format!("MOVED {slot} {}:{PORT}", host(owner)))),
        }
    }
}

impl Refusal {
    const fn text(self) -> &'static str {
        match self {
            Self::NoPermission => {
                "NOPERM this user has no permissions to run the 'evalsha' command"
            }
            Self::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::WrongType => {
                "WRONGTYPE Operation against a key holding the wrong kind of value script: f, on @user_script:1."
            }
        }
    }
}

impl Server {
    fn set_fields(&self, command: &Command) -> Reply {
        let (Some(key), Some(pairs)) = (command.get(1), command.get(2..)) else {
            return Reply::Error("ERR wrong number of arguments".to_owned());
        };
        let mut hashes = self.hashes.borrow_mut();
        let hash = hashes.entry(key.clone()).or_default();
        for pair in pairs.chunks_exact(2) {
            hash.insert(pair[0].clone(), pair[1].clone());
        }
        Reply::Number(0)
    }

    fn fields(&self, command: &Command) -> Reply {
        let hashes = self.hashes.borrow();
        let fields = command.get(1).and_then(|key| hashes.get(key)).into_iter().flatten();
        let words = fields.flat_map(|(field, value)| [field, value]);
        Reply::List(words.map(|word| Reply::Text(word.clone())).collect())
    }
}

/// The port of all servers.
pub(super) const PORT: u16 = 6379;

/// What a server is called.
pub(super) fn host(server: usize) -> String {
    format!("s{server}.model")
}

/// The server of that name.
pub(super) fn server_of(host: &str) -> Option<usize> {
    host.strip_prefix('s')?.strip_suffix(".model")?.parse().ok()
}

/// In which half of the slots a key lies.
pub(super) fn half(layout: &Layout, key: Key) -> usize {
    usize::from(slot(&layout.key(key.principal)) >= SLOTS / 2)
}

fn tale(
    server: usize,
    number: usize,
    question: &super::journal::Question,
    outcome: &Outcome,
) -> String {
    let asks: Vec<String> = question
        .asked
        .iter()
        .zip(&outcome.before)
        .map(|(part, before)| {
            let key = part.key.counter.bits();
            format!("{:?} of counter {key}, which stood at {before:?}", part.ask)
        })
        .collect();
    let verdict = if outcome.refused { "refuses" } else { "does" };
    let by = question.request.map_or("an errand".to_owned(), |it| format!("request {it}"));
    format!("server {server} {verdict} question {number} ({by}): {}", asks.join("; "))
}

/// Whether the keys of a script are in several slots.
fn is_cross_slot(command: &Command) -> bool {
    let count = command.get(2).and_then(|count| str::from_utf8(count).ok()?.parse().ok());
    let keys = command.iter().skip(3).take(count.unwrap_or(0));
    keys.map(|key| slot(key)).collect::<BTreeSet<u16>>().len() > 1
}

/// The time that a script is given behind its keys.
fn given_time(command: &Command) -> Option<Timestamp> {
    let number = |at: usize| str::from_utf8(command.get(at)?).ok()?.parse::<u64>().ok();
    let keys = usize::try_from(number(2)?).ok()?;
    number(3 + keys).filter(|us| *us > 0).map(Timestamp::from_micros)
}

/// Whether a key is one of the test write.
fn is_test_write(key: &[u8]) -> bool {
    key.windows(TEST_KEY.len()).any(|part| part == TEST_KEY)
}
