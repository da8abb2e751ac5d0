//! What a run is made of: nodes, servers, counters, clients and troubles. All of
//! it follows from a seed, or is written down for one purpose.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::consistency::{Consistency, OnFailure, StoreMode};
use tollgate_core::digest::{Counter, Key, Principal};
use tollgate_core::store::Charge;
use tollgate_core::time::Span;

use super::network::Way;
use super::server::{PORT, Sharing, host};
use crate::settings::{Address, Topology};

/// The traffic goes on for so long at least after the last trouble.
const SETTLING_US: u64 = 1_000_000;

/// Everything that one run is made of.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) kind: Servers,
    pub(super) nodes: usize,
    pub(super) workers: usize,
    pub(super) timeout: Duration,
    pub(super) interval: Span,
    /// How far ahead the clock of each node is.
    pub(super) ahead_us: Vec<i64>,
    pub(super) counters: Vec<Counted>,
    pub(super) clients: Vec<Client>,
    /// When the traffic ends.
    pub(super) traffic_us: u64,
    /// What goes wrong when, in this order.
    pub(super) troubles: Vec<(u64, Trouble)>,
}

/// What is still wrong when the traffic of a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unmended {
    Server(usize),
    Refusal(usize),
    Node(usize),
    Clock(usize),
    Way(usize, usize),
    Move,
    /// Something goes wrong so late that its consequences may not be over.
    Late,
}

/// The servers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    One,
    Shards,
    Cluster,
}

/// One counter.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) key: Key,
    pub(super) algorithm: Algorithm,
    pub(super) consistency: Consistency,
    pub(super) binding: bool,
    /// All clients have the same limit, and only clients charge it.
    pub(super) is_plain: bool,
}

/// One client: what its requests are charged to, and how it behaves.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Counters by their numbers, with the cost.
    pub(super) charges: Vec<(usize, u64)>,
    pub(super) begins_us: u64,
    pub(super) ends_us: u64,
    /// The mean pause between two bursts.
    pub(super) gap_ms: u64,
    /// The most requests at once.
    pub(super) burst: u32,
    /// The requests of one burst come within so long.
    pub(super) spread_ms: u64,
    /// The place of its node, if it always goes to the same.
    pub(super) sticks_to: Option<usize>,
    /// One of so many requests is left before it has ended. 0: none.
    pub(super) leaves_one_in: u64,
    /// The mean time from the decision to the end of the response.
    pub(super) hold_ms: u64,
    pub(super) settling: Settling,
    /// Its part of each limit.
    pub(super) plan_percent: u64,
    /// The counter of its refusals, if too many of them ban it. Its last charge is the ban.
    pub(super) penalty: Option<usize>,
}

/// How a server refuses all calls of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoPermission,
    OutOfMemory,
    WrongType,
}

/// What a request turns out to have cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settling {
    AsReserved,
    UpTo(u64),
    Exactly(u64),
}

/// What goes wrong, or is right again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Trouble {
    /// Between one node, by its place, and one server.
    Way {
        place: usize,
        server: usize,
        way: Way,
    },
    /// All ways are as good as new.
    Heal,
    Crash {
        server: usize,
        keeps: bool,
    },
    Restart {
        server: usize,
    },
    Flush {
        server: usize,
    },
    FlushScripts {
        server: usize,
    },
    Stall {
        server: usize,
        for_us: u64,
    },
    Replicate {
        server: usize,
    },
    /// The replica takes the place of its master. Its clock is ahead by so much.
    FailOver {
        server: usize,
        ahead_us: i64,
    },
    /// From now on all servers accept another password only, and all nodes have it. Connections
    /// stay open.
    Rotate,
    /// Refuses each call of the script from now on. None: it does so no longer.
    Refuse {
        server: usize,
        refusal: Option<Refusal>,
    },
    FailWithinBatch {
        server: usize,
        after: usize,
    },
    CrashNode {
        place: usize,
    },
    StopNode {
        place: usize,
    },
    StartNode {
        place: usize,
    },
    Jump {
        place: usize,
        ahead_us: i64,
    },
    BeginToMove {
        half: usize,
        to: usize,
    },
    EndTheMove,
    /// From now on the server has slots: it refuses commands with keys of several.
    GetSlots {
        server: usize,
    },
    /// From now on scripts of all servers cannot ask for the time.
    RefuseTime,
    /// All stand still, as on a machine without time for them.
    StandStill {
        for_ms: u64,
    },
}

impl Scenario {
    pub(super) fn server_count(&self) -> usize {
        if self.kind == Servers::One { 1 } else { 2 }
    }

    pub(super) fn sharing(&self) -> Sharing {
        if self.kind == Servers::Cluster { Sharing::Slots } else { Sharing::Sent }
    }

    pub(super) fn topology(&self) -> Topology {
        let address = |server| Address::tcp(host(server), PORT);
        let all = (0..self.server_count()).map(address).collect();
        match self.kind {
            Servers::One => Topology::Standalone(address(0)),
            Servers::Shards => Topology::Shards(all),
            Servers::Cluster => Topology::Cluster(all),
        }
    }

    pub(super) fn has(&self, is_meant: impl Fn(&Trouble) -> bool) -> bool {
        self.troubles.iter().any(|(_, trouble)| is_meant(trouble))
    }

    /// Whether a server may forget what it was told.
    pub(super) fn forgets(&self) -> bool {
        self.has(|it| {
            matches!(
                it,
                Trouble::Crash { keeps: false, .. }
                    | Trouble::Flush { .. }
                    | Trouble::FailOver { .. }
            )
        })
    }

    /// Whether a node ends without a word.
    pub(super) fn has_crashes(&self) -> bool {
        self.has(|it| matches!(it, Trouble::CrashNode { .. }))
    }

    /// Whether servers may miss what nodes have done: those that forget it, and those that
    /// are away while a node stops, or do not hear it. Then units in flight stay
    /// counted until their lease is over.
    pub(super) fn may_end_unheard(&self) -> bool {
        let stops = self.has(|it| matches!(it, Trouble::StopNode { .. }));
        let is_other =
            |it: &Trouble| !matches!(it, Trouble::StopNode { .. } | Trouble::StartNode { .. });
        self.has_crashes() || self.forgets() || stops && self.has(is_other)
    }

    pub(super) fn has_departures(&self) -> bool {
        self.clients.iter().any(|client| client.leaves_one_in > 0)
    }

    /// What is still wrong when the traffic ends. Drawn scenarios leave nothing: what
    /// is promised for the time after a trouble holds when it is over.
    pub(super) fn unmended(&self) -> BTreeSet<Unmended> {
        let mut all = BTreeSet::new();
        let mut note = |what, is_wrong| match is_wrong {
            true => drop(all.insert(what)),
            false => drop(all.remove(&what)),
        };
        let mut ways = BTreeSet::new();
        for &(at_us, trouble) in &self.troubles {
            match trouble {
                Trouble::Crash { server, .. } => note(Unmended::Server(server), true),
                Trouble::Restart { server } => note(Unmended::Server(server), false),
                Trouble::Refuse { server, refusal } => {
                    note(Unmended::Refusal(server), refusal.is_some());
                }
                Trouble::CrashNode { place } | Trouble::StopNode { place } => {
                    note(Unmended::Node(place), true);
                }
                Trouble::StartNode { place } => note(Unmended::Node(place), false),
                Trouble::Jump { place, ahead_us } => {
                    note(Unmended::Clock(place), ahead_us != self.ahead_us[place]);
                }
                Trouble::BeginToMove { .. } => note(Unmended::Move, true),
                Trouble::EndTheMove => note(Unmended::Move, false),
                Trouble::Way { place, server, way } if way != Way::default() => {
                    ways.insert((place, server));
                }
                Trouble::Way { place, server, .. } => drop(ways.remove(&(place, server))),
                Trouble::Heal => ways.clear(),
                _ => {}
            }
            if at_us + SETTLING_US > self.traffic_us {
                note(Unmended::Late, true);
            }
        }
        all.extend(ways.into_iter().map(|(place, server)| Unmended::Way(place, server)));
        all
    }

    /// Whether all nodes and servers are well, and near each other.
    pub(super) fn is_calm(&self) -> bool {
        self.troubles.is_empty()
    }
}

impl Counted {
    /// The counter with this number, of a principal with a number of its own.
    pub(super) fn new(
        counter: usize,
        principal: u64,
        algorithm: Algorithm,
        consistency: Consistency,
    ) -> Self {
        let counter = u64::try_from(counter).expect("a few counters");
        let mut bits = fastrand::Rng::with_seed(principal);
        let key = Key {
            principal: Principal::from_bits(bits.u128(..)),
            counter: Counter::from_bits(counter),
        };
        Self { key, algorithm, consistency, binding: true, is_plain: true }
    }
}

impl Counted {
    /// A charge of this cost.
    pub(super) const fn charge(&self, cost: u64) -> Charge<'_> {
        let Self { key, ref algorithm, consistency, binding, .. } = *self;
        Charge { key, algorithm, cost, binding, consistency }
    }
}

impl Client {
    /// A client that sends requests at this pace, one at a time.
    pub(super) fn new(charges: Vec<(usize, u64)>, gap_ms: u64) -> Self {
        Self {
            charges,
            begins_us: 1_000_000,
            ends_us: u64::MAX,
            gap_ms,
            burst: 1,
            spread_ms: 0,
            sticks_to: None,
            leaves_one_in: 0,
            hold_ms: 0,
            settling: Settling::AsReserved,
            plan_percent: 100,
            penalty: None,
        }
    }
}

/// Consistency in short.
pub(super) const fn consistency(mode: StoreMode, on_failure: OnFailure) -> Consistency {
    Consistency { mode, on_failure }
}
