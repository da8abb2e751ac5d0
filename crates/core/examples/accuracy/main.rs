//! How often the decisions of each algorithm differ from those of an ideal sliding
//! window: prints the table of docs/accuracy.md.
//!
//!     cargo run --release -p tollgate-core --example accuracy
//!
//! The traffic is seeded, so the table is the same every time. A test compares the
//! document with it.

mod ideal;
mod tally;
mod traffic;

use tollgate_core::algorithm::{
    Algorithm, FixedWindow, Quota, QuotaError, SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};
use tollgate_core::time::Span;

use crate::tally::Tally;
use crate::traffic::Traffic;

const LIMIT: u64 = 100;
const WINDOW: Span = Span::from_secs(60);

/// The algorithms with their names in a configuration. `leaky_bucket` and
/// `concurrency` are missing, because they do not count requests in a window.
fn algorithms() -> Result<Vec<(&'static str, Algorithm)>, QuotaError> {
    let quota = Quota::new(LIMIT, WINDOW)?;
    Ok(vec![
        ("`sliding_log`", Algorithm::SlidingLog(SlidingLog::new(quota)?)),
        ("`sliding_window`", Algorithm::SlidingWindow(SlidingWindow::new(quota))),
        ("`sliding_window`, `buckets: 10`", Algorithm::SubWindows(SubWindows::new(quota, 10)?)),
        ("`sliding_window`, `buckets: 60`", Algorithm::SubWindows(SubWindows::new(quota, 60)?)),
        ("`token_bucket`, `burst: 100`", Algorithm::TokenBucket(TokenBucket::new(quota, 100)?)),
        ("`token_bucket`, `burst: 25`", Algorithm::TokenBucket(TokenBucket::new(quota, 25)?)),
        ("`fixed_window`", Algorithm::FixedWindow(FixedWindow::new(quota))),
    ])
}

/// The table in Markdown.
fn table() -> Result<String, QuotaError> {
    let mut table = String::from(
        "| traffic | algorithm | admitted | against the ideal | wrongly admitted | wrongly refused | most in a window |\n\
         |---|---|---:|---:|---:|---:|---:|\n",
    );
    let algorithms = algorithms()?;
    for traffic in Traffic::ALL {
        let clients = traffic.clients();
        for (name, algorithm) in &algorithms {
            let row = Tally::of(&clients, algorithm).row();
            table.push_str(&format!("| {} | {name} | {row} |\n", traffic.name()));
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
        let document = include_str!("../../../../docs/accuracy.md");
        let table = table().unwrap();
        assert!(document.contains(&table), "put this into docs/accuracy.md:\n{table}");
    }
}
