//! `tollgate replay`: what the limits of a configuration would have done to a log.

mod progress;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_replay::{Format, Input, Job, MapError, Names, ReplayError, Report, Setup};

use self::progress::Progress;
use super::args::ReplayArgs;
use crate::config::Config;

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The log cannot be read or understood.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The text of `--map` cannot be used.
    #[error("--map: {0}")]
    Map(#[from] MapError),
    /// There is no such format.
    #[error("there is no format `{0}`: formats are {1}")]
    Format(String, String),
    /// Standard input is named twice.
    #[error("`-` can be named once only")]
    Twice,
    /// The page would replace a log.
    #[error("--html: {} is a log that is read, and the page would replace it", .0.display())]
    HtmlIsLog(PathBuf),
    /// The page cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Html {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// Too many lines could not be read.
    #[error(
        "more than 1 % of the lines could not be read, so the results are incomplete; see the notes"
    )]
    Unread,
    /// No policy has judged any request.
    #[error(
        "no policy has judged any request of the log, so the report says nothing about the limits; \
         see the notes and the counts of other requests"
    )]
    Unjudged,
}

impl Problem {
    /// Whether the fault is in the arguments.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Map(_) | Self::Format(..) | Self::Twice | Self::HtmlIsLog(_))
    }
}

/// A report, written.
pub struct Written {
    /// The text for standard output.
    pub text: String,
    is_mostly_unread: bool,
    is_unjudged: bool,
}

impl Written {
    /// # Errors
    /// If too many lines could not be read, or nothing was judged.
    pub const fn says_enough(&self) -> Result<(), Problem> {
        match self {
            Self { is_mostly_unread: true, .. } => Err(Problem::Unread),
            Self { is_unjudged: true, .. } => Err(Problem::Unjudged),
            _ => Ok(()),
        }
    }
}

/// Replays the logs of the arguments.
///
/// # Errors
/// If the arguments are wrong, a log cannot be read, or the page cannot be written.
pub fn run(args: &ReplayArgs, config: Config, against: Option<Config>) -> Result<Written, Problem> {
    let job = Job {
        inputs: inputs(&args.logs)?,
        format: format(args)?,
        host: args.host.clone(),
        setup: setup(config, &args.config),
        against: against.zip(args.against.as_deref()).map(|(config, path)| setup(config, path)),
        suggest: args.suggest,
    };
    if let Some(page) = &args.html
        && args.logs.iter().any(|log| is_same_file(log, page))
    {
        return Err(Problem::HtmlIsLog(page.clone()));
    }
    let mut progress = Progress::new(if job.is_read_twice() { 2 } else { 1 });
    let report = tollgate_replay::replay(&job, &mut |read, of| progress.show(read, of));
    progress.clear();
    let report = report?;
    if let Some(path) = &args.html {
        fs::write(path, tollgate_replay::page(&report))
            .map_err(|error| Problem::Html { path: path.clone(), error })?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(&report).expect("a report has text keys only")
    } else {
        tollgate_replay::text(&report)
    };
    let Report { is_mostly_unread, is_unjudged, .. } = report;
    Ok(Written { text, is_mostly_unread, is_unjudged })
}

/// Whether two names are of one regular file that exists.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| {
        let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some((file.dev(), file.ino()))
    };
    file(one).is_some_and(|it| file(other) == Some(it))
}

fn inputs(logs: &[PathBuf]) -> Result<Vec<Input>, Problem> {
    let input = |path: &PathBuf| match path.as_path() {
        path if path == Path::new("-") => Input::Stdin,
        path => Input::File(path.to_owned()),
    };
    let inputs: Vec<Input> = logs.iter().map(input).collect();
    let stdin = inputs.iter().filter(|input| **input == Input::Stdin).count();
    if stdin > 1 { Err(Problem::Twice) } else { Ok(inputs) }
}

fn format(args: &ReplayArgs) -> Result<Option<Format>, Problem> {
    if let Some(map) = &args.map {
        return Ok(Some(Format::Json("json", Names::of_map(map)?)));
    }
    let Some(name) = &args.format else { return Ok(None) };
    let format = Format::named(name)
        .ok_or_else(|| Problem::Format(name.clone(), Format::words().join(", ")))?;
    Ok(Some(format))
}

/// The rules of a configuration. Files of overrides and addresses of servers are not used.
fn setup(config: Config, path: &Path) -> Setup {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let overflowing = config.routes.iter().filter(|route| route.rule.overflow.is_some());
    let overflowing = overflowing.map(|route| Arc::clone(&route.rule.name)).collect();
    Setup {
        name: name.to_string_lossy().into_owned(),
        routes: config.routes.into_iter().map(|route| route.rule).collect(),
        policies: config.policies,
        client: config.client,
        overflowing,
        max_keys: config.store.max_keys,
    }
}
