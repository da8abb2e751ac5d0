//! Several nodes over one Redis, in virtual time: what each mode admits too
//! much, refuses wrongly, and costs in calls. Prints the table of docs/redis.md.
//!
//!     cargo run --release --example simulation
//!
//! Traffic and latencies are seeded, so the table is the same every time. Tests
//! hold the document to it, and other seeds to the published bounds.

mod node;
mod tally;
mod traffic;
mod world;

use tollgate::algorithm::QuotaError;

use crate::node::Mode;
use crate::traffic::Traffic;
use crate::world::World;

const SEED: u64 = 2026;
const NODES: [usize; 3] = [1, 4, 16];

/// The table in Markdown.
fn table() -> Result<String, QuotaError> {
    let mut table = String::from(
        "| traffic | nodes | mode | calls a request | most above the limit | admitted too many | refused too many | innocents refused |\n\
         |---|---:|---|---:|---:|---:|---:|---:|\n",
    );
    for traffic in Traffic::ALL {
        let algorithm = traffic.algorithm()?;
        for nodes in NODES {
            let requests = traffic.requests(nodes, SEED);
            for mode in Mode::ALL {
                let row = World::run(&algorithm, mode, nodes, &requests, SEED).row();
                table.push_str(&format!(
                    "| {} | {nodes} | {} | {row} |\n",
                    traffic.name(),
                    mode.name(),
                ));
            }
        }
    }
    Ok(table)
}

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn main() -> Result<(), QuotaError> {
    print!("{}", table()?);
    Ok(())
}
