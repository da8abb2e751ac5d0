//! A profile of each service: a real Redis or Valkey that refuses what the documentation of the
//! service says. Two gateways on it admit exactly the limit of each client, and none decides alone.
//!
//! A profile is stricter than its service where the service refuses some subcommands: then the
//! whole command is refused, unless gateways need it. Left out are commands between servers (`SYNC`,
//! `PSYNC`, `REPLCONF`), which the replicas of the tests need, and those that not all versions have.
//! How a service fails over, its latency and its limits are not part of a profile.

use std::fs;
use std::thread;

use super::{node, wait_for_store};
use crate::support::Gateway;
use crate::support::load::{client_field, is_local};
use crate::support::redis::{Cluster, Options, Redis, ScriptsWithoutTime, major_version};

/// Where a service has its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Server,
    /// All slots of a cluster, behind one address.
    Slots,
    /// The same, and scripts cannot ask for the time.
    SlotsWithoutTime,
    /// Nodes with addresses of their own.
    Cluster,
}

/// The error with which a service refuses a command.
#[derive(Clone, Copy)]
enum Refusal {
    /// `ERR unknown command`
    Unknown,
    /// `NOPERM`
    NoPermission,
}

/// What a service has instead of a plain Redis.
struct Profile {
    /// As docs/stores.md names it.
    service: &'static str,
    place: Place,
    refuses: &'static [&'static [&'static str]],
    refusal: Refusal,
    /// Whether it has no other database than 0.
    has_one_database: bool,
    /// The document of the service, or that there is none.
    #[expect(dead_code, reason = "it is for readers of the table")]
    source: &'static str,
}

const ELASTICACHE: &[&str] = &[
    "ACL",
    "BGREWRITEAOF",
    "BGSAVE",
    "CONFIG",
    "DEBUG",
    "MIGRATE",
    "REPLICAOF",
    "SAVE",
    "SHUTDOWN",
    "SLAVEOF",
];
const SERVERLESS: &[&str] = &[
    "CLIENT",
    "FCALL",
    "FCALL_RO",
    "FUNCTION",
    "KEYS",
    "LASTSAVE",
    "LATENCY",
    "MEMORY",
    "MONITOR",
    "MOVE",
    "OBJECT",
    "PFDEBUG",
    "PFSELFTEST",
    "PSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SLOWLOG",
    "SWAPDB",
    "WAIT",
];
const ENTERPRISE: &[&str] = &[
    "ACL",
    "ASKING",
    "BGREWRITEAOF",
    "BGSAVE",
    "DEBUG",
    "FAILOVER",
    "LASTSAVE",
    "LATENCY",
    "MIGRATE",
    "MODULE",
    "REPLICAOF",
    "RESET",
    "RESTORE-ASKING",
    "ROLE",
    "SAVE",
    "SELECT",
    "SHUTDOWN",
    "SLAVEOF",
    "SWAPDB",
];
const MEMORYSTORE: &[&str] = &["ACL", "BGREWRITEAOF", "BGSAVE", "CONFIG", "DEBUG", "FAILOVER"];
const AIVEN: &[&str] = &[
    "ACL",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLUSTER",
    "COMMAND",
    "CONFIG",
    "DEBUG",
    "FAILOVER",
    "LASTSAVE",
    "MIGRATE",
    "MONITOR",
    "REPLICAOF",
    "ROLE",
    "SAVE",
    "SHUTDOWN",
    "SLAVEOF",
];

const RESTRICTED: &str =
    "ElastiCache: Supported and restricted Valkey, Memcached, and Redis OSS commands";
const COMPATIBILITY: &str = "Redis Software: Compatibility with Redis Open Source commands, to \
                             which Azure Managed Redis refers for blocked commands";

const PROFILES: &[Profile] = &[
    Profile {
        service: "ElastiCache, one node",
        place: Place::Server,
        refuses: &[ELASTICACHE],
        refusal: Refusal::Unknown,
        has_one_database: false,
        source: RESTRICTED,
    },
    Profile {
        service: "ElastiCache, cluster mode",
        place: Place::Cluster,
        refuses: &[ELASTICACHE],
        refusal: Refusal::Unknown,
        has_one_database: true,
        source: RESTRICTED,
    },
    // A report of 2024 has TIME refused in scripts:
    // github.com/cristipufu/aspnetcore-redis-rate-limiting, issue 154.
    Profile {
        service: "ElastiCache Serverless",
        place: Place::SlotsWithoutTime,
        refuses: &[ELASTICACHE, SERVERLESS],
        refusal: Refusal::Unknown,
        has_one_database: true,
        source: RESTRICTED,
    },
    Profile {
        service: "MemoryDB",
        place: Place::Cluster,
        refuses: &[ELASTICACHE, &["MODULE"]],
        refusal: Refusal::Unknown,
        has_one_database: true,
        source: "MemoryDB: Restricted commands",
    },
    Profile {
        service: "Azure Managed Redis, OSSCluster",
        place: Place::Cluster,
        refuses: &[ENTERPRISE],
        refusal: Refusal::Unknown,
        has_one_database: true,
        source: COMPATIBILITY,
    },
    Profile {
        service: "Azure Managed Redis, EnterpriseCluster",
        place: Place::Slots,
        refuses: &[ENTERPRISE, &["CLUSTER"]],
        refusal: Refusal::Unknown,
        has_one_database: true,
        source: COMPATIBILITY,
    },
    Profile {
        service: "Azure Managed Redis, NonClustered",
        place: Place::Server,
        refuses: &[ENTERPRISE, &["CLUSTER"]],
        refusal: Refusal::Unknown,
        has_one_database: true,
        source: COMPATIBILITY,
    },
    Profile {
        service: "Memorystore for Redis",
        place: Place::Server,
        refuses: &[
            MEMORYSTORE,
            &["CLIENT", "CLUSTER", "COMMAND", "LASTSAVE", "MIGRATE", "MONITOR", "OBJECT"],
            &["REPLICAOF", "SAVE", "SHUTDOWN"],
        ],
        refusal: Refusal::Unknown,
        has_one_database: false,
        source: "Memorystore for Redis: Product constraints",
    },
    Profile {
        service: "Memorystore for Valkey",
        place: Place::Server,
        refuses: &[MEMORYSTORE, &["CLUSTER"]],
        refusal: Refusal::NoPermission,
        has_one_database: false,
        source: "Memorystore for Valkey: Supported and blocked commands, cluster mode disabled",
    },
    Profile {
        service: "Memorystore for Redis Cluster",
        place: Place::Cluster,
        refuses: &[MEMORYSTORE],
        refusal: Refusal::NoPermission,
        has_one_database: true,
        source: "Memorystore for Redis Cluster: Supported and blocked commands",
    },
    Profile {
        service: "Redis Cloud",
        place: Place::Slots,
        refuses: &[ENTERPRISE, &["CLUSTER"]],
        refusal: Refusal::Unknown,
        has_one_database: true,
        source: "Redis Cloud: Compatibility with Redis Open Source commands",
    },
    Profile {
        service: "Upstash",
        place: Place::Server,
        refuses: &[
            &["BGREWRITEAOF", "BGSAVE", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DEBUG"],
            &["FAILOVER", "FCALL", "FCALL_RO", "FUNCTION", "INFO", "LASTSAVE", "LATENCY"],
            &["MEMORY", "MIGRATE", "MODULE", "MOVE", "OBJECT", "REPLICAOF", "ROLE", "SAVE"],
            &["SHUTDOWN", "SLAVEOF", "SLOWLOG", "SWAPDB", "WAIT"],
        ],
        refusal: Refusal::Unknown,
        has_one_database: true,
        source: "Upstash: Redis API Compatibility (what its table does not list), SELECT",
    },
    Profile {
        service: "Aiven",
        place: Place::Server,
        refuses: &[AIVEN],
        refusal: Refusal::Unknown,
        has_one_database: false,
        source: "Aiven for Caching: Restricted commands; Aiven for Valkey: Restricted commands",
    },
    Profile {
        service: "DigitalOcean",
        place: Place::Server,
        refuses: &[AIVEN],
        refusal: Refusal::Unknown,
        has_one_database: false,
        source: "none was found: the list is that of Aiven",
    },
];

/// The servers of a profile.
enum Running {
    Server(Redis),
    WithoutTime(ScriptsWithoutTime),
    Cluster(Cluster),
}

impl Running {
    fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::WithoutTime(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    fn first(&self) -> &Redis {
        match self {
            Self::Server(server) => server,
            Self::WithoutTime(proxy) => proxy.server(),
            Self::Cluster(cluster) => &cluster.nodes[0],
        }
    }
}

impl Profile {
    /// The commands that it refuses, of those that this version of the server has.
    fn refused(&self) -> impl Iterator<Item = &'static str> {
        let is_new = |command: &str| matches!(command, "FCALL" | "FCALL_RO" | "FUNCTION");
        let all = self.refuses.iter().copied().flatten().copied();
        all.filter(move |command| major_version() >= 7 || !is_new(command))
    }

    fn start(&self) -> Running {
        let mut lines: Vec<String> = match self.refusal {
            Refusal::Unknown => self.refused().map(|it| self.renamed(it)).collect(),
            Refusal::NoPermission => {
                let refused: String = self.refused().map(|it| format!(" -{it}")).collect();
                vec![format!("user default on nopass ~* &* +@all{}", refused.to_lowercase())]
            }
        };
        if self.has_one_database {
            lines.push("databases 1".to_owned());
        }
        let options = Options { lines, ..Options::default() };
        match self.place {
            Place::Server => Running::Server(Redis::start(options)),
            Place::Slots => Running::Server(Redis::start_with_slots(options)),
            Place::SlotsWithoutTime => {
                Running::WithoutTime(ScriptsWithoutTime::start_with_slots(options))
            }
            Place::Cluster => Running::Cluster(Cluster::start_with(options)),
        }
    }

    /// The line that takes a command from clients. The tests need `CLUSTER` where there are slots.
    fn renamed(&self, command: &str) -> String {
        let hidden = self.place == Place::Slots && command == "CLUSTER";
        format!("rename-command {command} {}", if hidden { "HIDDENCLUSTER" } else { "\"\"" })
    }

    fn holds(&self) {
        let running = self.start();
        for command in self.refused() {
            let error = running.first().try_cli(&[command]).expect_err(command);
            // An argument is missing where the command exists and the user may not run it.
            let known = ["unknown command", "NOPERM", "wrong number of arguments"];
            assert!(known.iter().any(|it| error.contains(it)), "{}: {error}", self.service);
        }
        for mode in ["exact", "leased"] {
            let store = format!("url: \"{}\", prefix: {mode}, mode: {mode}", running.url());
            let gateways = [(); 2].map(|()| node(&store, &format!("limit: {LIMIT}/day")));
            gateways.iter().for_each(wait_for_store);
            // Leased units of one gateway can be missing at the other one.
            let least = if mode == "exact" { LIMIT } else { 1 };
            let admitted = admitted(&gateways);
            let is_right = admitted.iter().all(|units| (least..=LIMIT).contains(units));
            assert!(is_right, "{}: {admitted:?} of {LIMIT} in {mode}", self.service);
        }
    }
}

const LIMIT: usize = 20;
const CLIENTS: usize = 8;
const CONNECTIONS: usize = 16;
/// Each connection asks so often for each client: together four times the limit.
const ROUNDS: usize = 5;

/// The requests of each client that both gateways admit, by many connections at once. No gateway
/// decides alone.
fn admitted(gateways: &[Gateway; 2]) -> [usize; CLIENTS] {
    let of_one = |connection: usize| {
        let mut admitted = [0; CLIENTS];
        let mut http = gateways[connection % 2].client();
        for turn in 0..CLIENTS * ROUNDS {
            let client = (connection + turn) % CLIENTS;
            let response = http.get("/", &[&client_field(client)]);
            assert!(!is_local(&response), "a gateway decided alone");
            assert!([200, 429].contains(&response.status), "{}", response.status);
            admitted[client] += usize::from(response.status == 200);
        }
        admitted
    };
    let all: Vec<_> = thread::scope(|scope| {
        let threads = (0..CONNECTIONS).map(|it| scope.spawn(move || of_one(it)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|it| it.join().expect("all are answered")).collect()
    });
    std::array::from_fn(|client| all.iter().map(|of_one| of_one[client]).sum())
}

fn all_hold(is_here: impl Fn(Place) -> bool) {
    PROFILES.iter().filter(|profile| is_here(profile.place)).for_each(Profile::holds);
}

#[test]
fn gateways_share_limits_on_services_with_one_server() {
    all_hold(|place| place == Place::Server);
}

#[test]
fn gateways_share_limits_on_services_with_slots_behind_one_address() {
    all_hold(|place| matches!(place, Place::Slots | Place::SlotsWithoutTime));
}

#[test]
fn gateways_share_limits_on_services_with_a_cluster() {
    all_hold(|place| place == Place::Cluster);
}

#[test]
fn the_documentation_names_each_service() {
    let text = fs::read_to_string("docs/stores.md").expect("tests run in the project");
    for profile in PROFILES {
        let row = format!("| {} |", profile.service);
        assert!(text.contains(&row), "docs/stores.md has no row for {}", profile.service);
    }
}
