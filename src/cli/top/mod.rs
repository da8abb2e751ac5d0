//! `tollgate top`: what running gateways do, in a terminal or as plain text.
//!
//! `model` and `view` are pure: a state and its events, and a state as characters. `fetch` asks
//! gateways and makes their answers safe (`clean`). `shell` has the terminal.

mod args;
mod fetch;
mod figures;
mod form;
mod model;
mod plain;
mod rows;
mod shell;
mod table;
#[cfg(test)]
mod testing;
mod view;

use std::io::{self, IsTerminal as _, stdin, stdout};
use std::rc::Rc;

use anstream::{AutoStream, ColorChoice};
use tollgate_core::time::Clock;

use self::args::Scope;
pub(super) use self::args::{EXAMPLES, TopArgs};
use self::fetch::Gateways;
use self::figures::Figures;
use self::model::{Event, State};
use super::which;
use crate::app::local_runtime;

/// Why figures cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    /// An argument cannot be used.
    #[error(transparent)]
    Which(#[from] which::Problem),
    /// Several gateways are asked for the figures of all.
    #[error("with --scope cluster name one --admin: its answer has the figures of all nodes")]
    SeveralScopes,
    /// The system refuses a runtime.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// The terminal cannot be used.
    #[error("cannot use the terminal: {0}")]
    Terminal(io::Error),
}

impl Problem {
    /// Whether the fault is in the arguments.
    pub(super) const fn is_usage(&self) -> bool {
        match self {
            Self::Which(problem) => problem.is_usage(),
            Self::SeveralScopes => true,
            Self::Start(_) | Self::Terminal(_) => false,
        }
    }
}

/// What is printed.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The text for standard output.
    pub(super) text: String,
    /// What the gateways that have not answered say.
    pub(super) failures: Vec<String>,
}

/// Shows the figures until the user ends it, or once if there is no terminal.
///
/// # Errors
/// If the arguments are wrong, or the terminal cannot be used.
pub(super) fn run(args: &TopArgs) -> Result<Shown, Problem> {
    if args.scope == Scope::Cluster && args.gateways.has_several() {
        return Err(Problem::SeveralScopes);
    }
    let found = args.gateways.find()?;
    let urls: Vec<String> = found.iter().map(|it| it.url.clone()).collect();
    let gateways = Gateways::new(found, args);
    let state = State::new(Figures::new(&urls), args.policy.clone(), Clock::System.wall());
    let runtime = local_runtime().map_err(Problem::Start)?;
    let is_screen = !args.once && !args.json && stdout().is_terminal() && stdin().is_terminal();
    if is_screen {
        let has_colours = AutoStream::choice(&stdout()) != ColorChoice::Never;
        let shown = shell::run(state, Rc::new(gateways), args.interval, has_colours);
        runtime.block_on(shown).map_err(Problem::Terminal)?;
        return Ok(Shown::default());
    }
    Ok(runtime.block_on(once(args, state, &gateways)))
}

async fn once(args: &TopArgs, mut state: State, gateways: &Gateways) -> Shown {
    for index in 0..gateways.count() {
        let told = gateways.ask(index).await;
        state.update(Event::Told(index, told), Clock::System.wall());
    }
    let text = match args.json {
        true => format!("{:#}\n", plain::document(&state)),
        false => plain::text(&state),
    };
    let lost = state
        .figures
        .nodes
        .iter()
        .filter_map(|node| node.lost.as_ref().map(|(_, why)| format!("{}: {why}", node.url)));
    Shown { text, failures: lost.collect() }
}
