//! How many allocations a request costs the gateway, counted by the allocator.
//!
//! The program starts itself once more as the gateway, so that the process whose allocations are
//! counted contains nothing else. One connection sends request after request, and counting
//! begins when everything that is kept for a connection exists. This program has its own `main`,
//! because the gateway reads the arguments of its process.

mod counted;
mod peer;

use std::io::{self, Write as _};
use std::process::ExitCode;

use alloc_tracker::Allocator;

use counted::Gateway;
use peer::{Backend, Client};

#[global_allocator]
static ALLOCATOR: Allocator<std::alloc::System> = Allocator::system();

const WARMING: u32 = 200;
/// So many that what the gateway allocates from time to time is a small part of a request's.
const REQUESTS: u32 = 2_000;

/// A kind of request, and how many allocations it costs.
struct Kind {
    name: &'static str,
    limit: &'static str,
    status: u16,
    /// What was measured. From time to time there are others, less than one in ten requests.
    allocations: f64,
}

const KINDS: [Kind; 2] = [
    Kind { name: "forwarded", limit: "100000000/minute", status: 200, allocations: 9.0 },
    Kind { name: "refused", limit: "1/day", status: 429, allocations: 6.0 },
];

fn main() -> ExitCode {
    if counted::is_the_gateway() {
        return counted::run();
    }
    // As with other test programs, an argument without dashes selects by name.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let is_wanted =
        |kind: &&Kind| wanted.is_empty() || wanted.iter().any(|it| kind.name.contains(it.as_str()));
    let failures = KINDS.iter().filter(is_wanted).filter(|kind| !holds(kind)).count();
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a request of this kind costs what is recorded. Less fails too, because otherwise a
/// later rise to the old number is not seen.
fn holds(kind: &Kind) -> bool {
    let found = allocations(kind);
    let recorded = kind.allocations;
    let verdict = if found > recorded + 0.5 {
        "FAILED: more than recorded"
    } else if found < recorded - 0.5 {
        "FAILED: less than recorded, so record the new number in tests/allocations/main.rs"
    } else {
        "ok"
    };
    let line = format!(
        "{}: {found:.3} allocations a request, recorded {recorded} ... {verdict}",
        kind.name
    );
    writeln!(io::stdout(), "{line}").expect("the output can be written");
    verdict == "ok"
}

fn allocations(kind: &Kind) -> f64 {
    let backend = Backend::start();
    let mut gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         policies: {{ per-key: {{ key: api_key, limit: {} }} }}\n\
         routes: [{{ path: /*, policies: [per-key], upstream: app }}]\n\
         telemetry: {{ access_log: false }}\n\
         runtime: {{ workers: 1 }}\n",
        backend.address, kind.limit
    ));
    let mut client = Client::connect(gateway.address);
    client.ask(); // the one that a limit of 1/day admits
    client.ask_often(WARMING, kind.status);
    gateway.begin();
    client.ask_often(REQUESTS, kind.status);
    gateway.end() / f64::from(REQUESTS)
}
