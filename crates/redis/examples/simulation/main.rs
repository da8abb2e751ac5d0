//! Simulates several nodes with one Redis in virtual time. Measures the excess
//! admissions, the wrong refusals and the calls of each mode, and prints the tables
//! of docs/redis.md.
//!
//!     cargo run --release -p tollgate-redis --example simulation
//!
//! Traffic and latencies are seeded, so the tables are the same every time. Tests
//! compare the document with them, and check the published bounds with other seeds.

mod node;
mod tally;
mod traffic;
mod world;

use tollgate_core::algorithm::QuotaError;

use crate::node::Mode;
use crate::traffic::Traffic;
use crate::world::{Trouble, World};

const SEED: u64 = 2026;

const COLUMNS: &str = "calls a request | most above the limit | admitted too many | refused too many | innocents refused |\n";
const ALIGNED: &str = "---|---:|---|---:|---:|---:|---:|---:|\n";

/// The results of the modes without failures, in Markdown.
fn modes() -> Result<String, QuotaError> {
    let mut table = format!("| traffic | nodes | mode | {COLUMNS}|{ALIGNED}");
    for traffic in Traffic::ALL {
        let algorithm = traffic.algorithm()?;
        for &nodes in traffic.nodes() {
            let requests = traffic.requests(nodes, SEED);
            for mode in Mode::ALL {
                let tally = World::run(&algorithm, mode, nodes, Trouble::None, &requests, SEED)?;
                let traffic = traffic.name();
                let mode = mode.name();
                let row = tally.row();
                table.push_str(&format!("| {traffic} | {nodes} | {mode} | {row} |\n"));
            }
        }
    }
    Ok(table)
}

/// The results of the modes with failures, in Markdown.
fn failures() -> Result<String, QuotaError> {
    let mut table = format!("| what fails | nodes | mode | {COLUMNS}|{ALIGNED}");
    let algorithm = Traffic::Zipf.algorithm()?;
    for trouble in [Trouble::Losses, Trouble::Away] {
        for nodes in [1, 4, 16] {
            let requests = Traffic::Zipf.requests(nodes, SEED);
            for mode in Mode::ALL {
                let tally = World::run(&algorithm, mode, nodes, trouble, &requests, SEED)?;
                let trouble = trouble.name();
                let mode = mode.name();
                let row = tally.row();
                table.push_str(&format!("| {trouble} | {nodes} | {mode} | {row} |\n"));
            }
        }
    }
    Ok(table)
}

#[expect(clippy::print_stdout, reason = "this is what it is for")]
fn main() -> Result<(), QuotaError> {
    print!("{}\n{}", modes()?, failures()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../../docs/redis.md");

    #[test]
    fn the_document_holds_the_table_of_modes() {
        let table = modes().unwrap();
        assert!(DOCUMENT.contains(&table), "put this into docs/redis.md:\n{table}");
    }

    #[test]
    fn the_document_holds_the_table_of_failures() {
        let table = failures().unwrap();
        assert!(DOCUMENT.contains(&table), "put this into docs/redis.md:\n{table}");
    }

    /// In hundredths of a percent: the most units above the limit by docs/redis.md,
    /// and the most wrong refusals.
    const fn bounds(mode: Mode) -> (u64, u64) {
        match mode {
            Mode::Exact => (0, 0),
            Mode::Leased => (200, 300),
            Mode::WriteBack => (5_000, 200),
        }
    }

    #[test]
    fn every_mode_keeps_its_promise_with_other_seeds() {
        for (seed, nodes) in [(1, 4), (2, 16)] {
            for traffic in Traffic::ALL {
                let algorithm = traffic.algorithm().unwrap();
                let requests = traffic.requests(nodes, seed);
                for mode in Mode::ALL {
                    let tally = World::run(&algorithm, mode, nodes, Trouble::None, &requests, seed)
                        .unwrap();
                    let (above, fewer) = bounds(mode);
                    let what = format!("{}, {}, seed {seed}", traffic.name(), mode.name());
                    assert!(tally.most_above() <= above, "{what}: {} above", tally.most_above());
                    assert!(tally.fewer() <= fewer, "{what}: {} fewer", tally.fewer());
                }
            }
        }
    }

    #[test]
    fn while_the_store_is_away_no_mode_admits_much_more_than_docs_promise() {
        let algorithm = Traffic::Zipf.algorithm().unwrap();
        for (seed, nodes) in [(3, 4), (4, 16)] {
            let requests = Traffic::Zipf.requests(nodes, seed);
            for mode in Mode::ALL {
                let tally =
                    World::run(&algorithm, mode, nodes, Trouble::Away, &requests, seed).unwrap();
                // A limit of 100 divided by 16 and rounded up is 7: 12 too many in total.
                let most = if mode == Mode::WriteBack { 15_000 } else { 11_200 };
                let above = tally.most_above();
                assert!(above <= most, "{}, seed {seed}: {above} above", mode.name());
            }
        }
    }
}
