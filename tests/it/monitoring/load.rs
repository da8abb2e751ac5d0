//! Two gateways, one with counters in memory and one with Redis, for which no program prints a
//! password, and requests that reach everything of which there are metrics.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::check::xds::server::{Server, daily, domain};
use crate::support::redis::{Fault, Options, Redis, Wire};
use crate::support::{Certificates, Client, Gateway, Origin, now};

/// Clients of the policy whose promises are checked, which is so for one of 16.
const CLIENTS: usize = 256;
/// When the store is away, after the start, and until when.
const OUTAGE: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(7)];

/// The gateways, and what they need.
pub(super) struct Load {
    memory: Gateway,
    shared: Gateway,
    yaml: String,
    wire: Wire,
    started: Instant,
    is_reloaded: bool,
    _redis: Redis,
    _xds: Server,
    _origin: Origin,
    _certificates: Certificates,
}

impl Load {
    pub(super) fn start() -> Self {
        let origin = origin();
        let certificates = Certificates::temporary("127.0.0.1");
        let yaml = in_memory(&origin, &certificates);
        let redis = Redis::start(Options::default());
        let wire = Wire::to(redis.port());
        let xds = Server::new();
        let shared = Gateway::start(&in_redis(&wire, &xds));
        xds.nth(0);
        xds.say("1", "a", &[domain("edge", vec![daily("key", 3)])]);
        Self {
            memory: Gateway::start(&yaml),
            shared,
            yaml,
            wire,
            started: now(),
            is_reloaded: false,
            _redis: redis,
            _xds: xds,
            _origin: origin,
            _certificates: certificates,
        }
    }

    /// The listeners with metrics.
    pub(super) fn scraped(&self) -> [SocketAddr; 2] {
        let last = |gateway: &Gateway| *gateway.addresses().last().expect("it has listeners");
        [last(&self.memory), last(&self.shared)]
    }

    /// Requests of all kinds.
    pub(super) fn step(&mut self) {
        let elapsed = now() - self.started;
        let is_away = (OUTAGE[0]..OUTAGE[1]).contains(&elapsed);
        self.wire.set(if is_away { Fault::Cut } else { Fault::None });
        if elapsed > OUTAGE[0] && !self.is_reloaded {
            self.is_reloaded = true;
            self.memory.reload(&self.yaml);
        }
        self.ask_memory();
        let mut client = self.shared.client();
        for number in 0..10 {
            let field = format!("X-Key: {number}");
            for path in ["/exact", "/leased", "/counted", "/open"] {
                client.get(path, &[&field]);
            }
        }
        // Units are leased for a client whose requests follow each other within a second. A step can
        // take longer.
        for _ in 0..20 {
            client.get("/leased", &["X-Key: busy"]);
        }
    }

    fn ask_memory(&self) {
        let mut client = self.memory.client();
        for number in 0..CLIENTS {
            let field = format!("X-Key: {number}");
            for _ in 0..2 {
                client.get("/limited", &[&field, "X-Plan: pro"]);
            }
        }
        // The origin answers HEAD as it answers GET, with a body.
        self.memory.client().request("HEAD", "/flaky", &[], b"");
        for path in ["/queue", "/queue", "/held", "/away", "/asked", "/flaky", "/flaky"] {
            client.get(path, &[]);
        }
        let [_, encrypted, check, _, admin, ..] = self.memory.addresses()[..] else {
            panic!("it has six listeners");
        };
        // No request has an empty key, so the descriptor has a counter of its own.
        let entries = r#"[{ "entries": [{ "key": "key", "value": "" }] }]"#;
        let question = format!(r#"{{ "domain": "edge", "descriptors": {entries} }}"#);
        Client::connect(check).request("POST", "/json", &[], question.as_bytes());
        for (address, request) in [
            (self.memory.address(), "get / HTTP/1.1\r\nHost: a\r\n\r\n"),
            (encrypted, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            (admin, "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        ] {
            let mut client = Client::connect(address);
            client.send(request.as_bytes());
            client.rest();
        }
    }
}

const KEY_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/key_files/good.keys");

/// Answers every second request to `/flaky` with 503.
fn origin() -> Origin {
    let turns = AtomicUsize::new(0);
    Origin::answering(move |request| {
        let is_flaky = request.line().contains("/flaky");
        let fails = is_flaky && turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let status = if fails { "503 Service Unavailable" } else { "200 OK" };
        format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok")
    })
}

fn in_memory(origin: &Origin, certificates: &Certificates) -> String {
    format!(
        "listeners:\n\
         - {{ address: \"127.0.0.1:0\" }}\n\
         - {{ address: \"127.0.0.1:0\", tls: {{ certificates: [{{ cert: {:?}, key: {:?} }}] }} }}\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: a, role: read, \
             token: read-0123456789abcdef }}], probe: {{ address: \"127.0.0.1:0\", metrics: true }} }}\n\
         check:\n  \
           http: {{ address: \"127.0.0.1:0\" }}\n  \
           grpc: {{ address: \"127.0.0.1:0\", domains: {{ edge: \
             [{{ match: [key], policy: limited, key: {{ \"header:x-key\": key }} }}] }} }}\n\
         client: {{ classes: {{ file: {:?} }}, keys: {{ file: {:?} }}, user: {{ jwt: {{ jwks: \"http://127.0.0.1:1/keys\", \
                 algorithms: [RS256] }} }} }}\n\
         prices: {{ currency: usd, file: {:?} }}\n\
         upstreams:\n  \
           app: {{ endpoints: [\"http://{}\"], max_in_flight: 100, max_connections: 99 }}\n  \
           away: {{ endpoints: [\"http://127.0.0.1:1\"] }}\n\
         authorizers: {{ sso: {{ http: \"http://127.0.0.1:1/verify\" }} }}\n\
         policies:\n  \
           limited: {{ key: \"header:x-key\", limit: 1/second, algorithm: token_bucket, \
             plans: {{ from: \"header:x-plan\", limits: {{ pro: 1/s }} }} }}\n  \
           candidate: {{ key: \"header:x-key\", limit: 1/day, mode: shadow }}\n  \
           queue: {{ key: global, limit: 10/second, algorithm: leaky_bucket, max_delay: 2s }}\n  \
           held: {{ key: global, algorithm: concurrency, limit: 9 }}\n  \
           failed: {{ key: global, limit: 900k/month, count: {{ status: [401] }}, warn: [80%] }}\n  \
           tokens: {{ key: global, limit: 900k/month, cost: {{ reserve: 1, \
             settle: {{ body: /usage/total_tokens }} }} }}\n\
         routes:\n\
         - {{ name: limited, path: /limited, policies: [limited, candidate], respond: {{ body: ok }} }}\n\
         - {{ name: queue, path: /queue, policies: [queue], respond: {{ body: ok }} }}\n\
         - {{ name: held, path: /held, policies: [held, failed, tokens], upstream: app }}\n\
         - {{ name: flaky, path: /flaky, upstream: app, retries: {{ attempts: 1, on: [\"503\"], \
             budget: 100% }} }}\n\
         - {{ name: asked, path: /asked, authorizer: sso, respond: {{ body: ok }} }}\n\
         - {{ name: away, path: /away, upstream: away }}\n",
        certificates.server(),
        certificates.server_key(),
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/class_files/good.classes"),
        KEY_FILE,
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/price_files/good.prices"),
        origin.address(),
    )
}

fn in_redis(wire: &Wire, xds: &Server) -> String {
    let policy = |name: &str, fields: &str| {
        format!("{name}: {{ key: \"header:x-key\", limit: 1M/minute, {fields} }}")
    };
    let policies = [
        policy("exact", "overrides: true"),
        policy("leased", "store_mode: leased"),
        policy("counted", "store_mode: write_back"),
        policy("open", "on_store_failure: allow"),
    ];
    let routes = ["exact", "leased", "counted", "open"].map(|name| {
        format!(
            "- {{ name: {name}, path: /{name}, policies: [{name}], respond: {{ body: ok }} }}\n"
        )
    });
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [{{ name: a, role: read, \
             token: read-0123456789abcdef }}], probe: {{ address: \"127.0.0.1:0\", metrics: true }} }}\n\
         check: {{ grpc: {{ address: \"127.0.0.1:0\", xds: {{ server: \"h2c://{}\" }} }} }}\n\
         client: {{ keys: {{ file: {:?} }}, user: {{ basic: {{ file: {:?} }} }} }}\n\
         store: {{ redis: {{ url: \"{}\", password_command: [/no/program] }} }}\n\
         policies:\n  {}\nroutes:\n{}\
         runtime: {{ workers: 1 }}\n",
        xds.address(),
        KEY_FILE,
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/password_files/good.htpasswd"),
        wire.url(),
        policies.join("\n  "),
        routes.concat(),
    )
}
