//! Translates a configuration without checking the result: `translate KIND FILE...`. It prints the
//! number of bytes of the configuration and of the report, for measurements of this crate alone
//! (bench/import).

use std::io::Write as _;
use std::path::PathBuf;

use tollgate_import::{Job, Kind, import};

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let kind: Kind = args.next().unwrap_or_default().parse()?;
    let files: Vec<PathBuf> = args.map(PathBuf::from).collect();
    let job = Job { kind, files, rest: None, accept: Vec::new(), nodes: None };
    let imported = import(&job).map_err(|error| error.to_string())?;
    let report = imported.report.text();
    let yaml = imported.yaml.map_err(|error| error.to_string())?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} bytes, a report of {}", yaml.len(), report.len())
        .map_err(|error| error.to_string())
}
