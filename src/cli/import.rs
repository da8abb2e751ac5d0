//! `tollgate import`: translates a configuration of another gateway. What `tollgate check` would
//! refuse is not written.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde_json::json;
use thiserror::Error;
use tollgate_import::{Imported, Job, Kind, Unreadable, import};
use tollgate_top::clean;

use super::console::say;
use super::{paint, whole_file};
use crate::config::{Config, Endpoint, Report, ScalarError};

/// Examples for the help.
pub const EXAMPLES: &str = "\
The configuration goes to standard output, or to the file of -o; the report goes to
standard error. Each construct is taken, different, not taken or needless here.
Exit code 0: nothing is lost. 1: something harmless differs or is lost. 2: a limit,
an access rule or a route is lost, or nothing is imported.

Examples:
  tollgate import nginx -o gateway.yaml /etc/nginx/nginx.conf
  tollgate import nginx --rest http://127.0.0.1:8081 -o gateway.yaml /etc/nginx/nginx.conf
  tollgate import ingress-nginx --nodes 3 -o gateway.yaml ingresses.yaml configmap.yaml
  tollgate import kong --accept request-transformer -o gateway.yaml kong.yaml
  tollgate import traefik --json -o gateway.yaml dynamic.yaml
  tollgate import envoy-ratelimit -o gateway.yaml config.yaml";

/// The exit code if nothing is written.
const NOTHING: u8 = 2;
/// The mode of the file, from which the umask takes bits.
const MODE: u32 = 0o666;

#[derive(Debug, ClapArgs)]
pub struct ImportArgs {
    /// Whose configuration it is: ingress-nginx, nginx, kong, traefik or envoy-ratelimit
    #[arg(value_name = "KIND")]
    kind: Kind,
    /// The files; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the configuration to this file, which does not exist
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the report as JSON; without -o it contains the configuration
    #[arg(long)]
    json: bool,
    /// Send what cannot be served here, such as files, to the old server at this address
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    rest: Option<String>,
    /// Accept the losses of constructs with this name
    #[arg(long, value_name = "NAME")]
    accept: Vec<String>,
    /// How many nodes or pods of the old gateway counted, each on its own
    #[arg(long, visible_alias = "pods", value_name = "N")]
    nodes: Option<u32>,
}

/// Why nothing is imported.
#[derive(Debug, Error)]
pub enum Problem {
    /// There are no routes for the old server.
    #[error("--rest is for routes, and {0} has none: leave it out")]
    NoRoutes(Kind),
    /// A file cannot be read.
    #[error("nothing is imported: {0}")]
    Unreadable(#[from] Unreadable),
    /// The configuration would have mistakes.
    #[error("nothing is written, because the configuration would have mistakes:\n{0}")]
    Mistakes(Report),
    /// The file is there already.
    #[error("{0} exists: name another file with -o")]
    Exists(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {path}: {error}", path = path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// The text of an endpoint.
fn endpoint(text: &str) -> Result<String, ScalarError> {
    text.parse::<Endpoint>().map(|_| text.to_owned())
}

/// What is printed to standard output, and the exit code.
pub struct Output {
    /// The configuration, or the report as JSON.
    pub text: String,
    /// The exit code, which is 2 for a loss; or why nothing is written.
    pub code: Result<u8, Problem>,
}

/// A configuration that a gateway can use.
struct Written {
    yaml: String,
    warnings: Report,
}

/// Imports the files. The report goes to standard error, unless it is JSON.
///
/// # Errors
/// If a file cannot be read. If a configuration is not written, there is a report.
pub fn run(args: &ImportArgs) -> Result<Output, Problem> {
    if args.rest.is_some() && args.kind == Kind::EnvoyRatelimit {
        return Err(Problem::NoRoutes(args.kind));
    }
    let job = Job {
        kind: args.kind,
        files: args.files.clone(),
        rest: args.rest.clone(),
        accept: args.accept.clone(),
        nodes: args.nodes,
    };
    let Imported { yaml, report } = import(&job)?;
    let written = yaml.map_err(Problem::from).and_then(|yaml| write(yaml, args.output.as_deref()));
    let mut text = String::new();
    if args.json {
        let mut document = report.json();
        match &written {
            Ok(written) if args.output.is_none() => document["gateway"] = json!(written.yaml),
            Ok(_) => {}
            Err(_) => document["exit_code"] = json!(NOTHING),
        }
        text = format!("{document:#}\n");
    } else {
        // The names of constructs are what the files say.
        say(&clean::lines(&report.text()));
    }
    let Written { yaml, warnings } = match written {
        Ok(written) => written,
        Err(problem) => return Ok(Output { text, code: Err(problem) }),
    };
    if !args.json && args.output.is_none() {
        text = yaml;
    }
    if !Report::is_empty(&warnings) {
        say(&paint::report(&warnings.to_string()));
    }
    Ok(Output { text, code: Ok(report.exit_code()) })
}

/// Writes a configuration that has no mistakes, if there is a file for it.
fn write(yaml: String, path: Option<&Path>) -> Result<Written, Problem> {
    let warnings = check(&yaml, path)?;
    if let Some(path) = path {
        write_new(path, &yaml)?;
    }
    Ok(Written { yaml, warnings })
}

/// The warnings about the configuration.
fn check(yaml: &str, path: Option<&Path>) -> Result<Report, Problem> {
    // The variables of secrets are set later.
    let env = |name: &str| std::env::var(name).ok().or_else(|| Some("0".repeat(64)));
    let path = path.unwrap_or(Path::new("gateway.yaml")).to_string_lossy();
    let compiled = Config::parse(yaml, &path, &env).map_err(Problem::Mistakes)?;
    Ok(compiled.warnings)
}

fn write_new(path: &Path, yaml: &str) -> Result<(), Problem> {
    let unwritable = |error: io::Error| match error.kind() {
        ErrorKind::AlreadyExists => Problem::Exists(path.to_owned()),
        _ => Problem::Unwritable { path: path.to_owned(), error },
    };
    whole_file::write_new(path, yaml, MODE).map_err(unwritable)
}
