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

/// The table in Markdown.
fn table() -> Result<String, QuotaError> {
    let mut table = String::from(
        "| traffic | nodes | mode | calls a request | most above the limit | admitted too many | refused too many | innocents refused |\n\
         |---|---:|---|---:|---:|---:|---:|---:|\n",
    );
    for traffic in Traffic::ALL {
        let algorithm = traffic.algorithm()?;
        for &nodes in traffic.nodes() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_holds_the_table_that_is_printed() {
        let document = include_str!("../../docs/redis.md");
        let table = table().unwrap();
        assert!(document.contains(&table), "put this into docs/redis.md:\n{table}");
    }

    /// In hundredths of a percent: what docs/redis.md promises, and how many
    /// may be refused too many.
    const fn bounds(mode: Mode) -> (u64, u64) {
        match mode {
            Mode::Exact => (0, 0),
            Mode::Leased => (200, 300),
            Mode::WriteBack => (10_000, 200),
        }
    }

    #[test]
    fn every_mode_keeps_its_promise_with_other_seeds() {
        for (seed, nodes) in [(1, 4), (2, 16)] {
            for traffic in Traffic::ALL {
                let algorithm = traffic.algorithm().unwrap();
                let requests = traffic.requests(nodes, seed);
                for mode in Mode::ALL {
                    let tally = World::run(&algorithm, mode, nodes, &requests, seed);
                    let (above, fewer) = bounds(mode);
                    let what = format!("{}, {}, seed {seed}", traffic.name(), mode.name());
                    assert!(tally.most_above() <= above, "{what}: {} above", tally.most_above());
                    assert!(tally.fewer() <= fewer, "{what}: {} fewer", tally.fewer());
                }
            }
        }
    }
}
