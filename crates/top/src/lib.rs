//! `tollgate top`: what running gateways do, in a terminal or as plain text.
//!
//! This crate is a part of the gateway `tollgate`. It is not published, and its interface may
//! change in any commit. It is for engineers who change what operators see in a terminal. It is a
//! crate of its own because nothing else needs a library for terminals.
//!
//! It knows no connection, no configuration and no code of the gateway: [`AdminApi`] asks the
//! gateways, and [`run`] shows what they answer. `model` and `view` are pure: a state and its
//! events, and a state as characters. `fetch` asks gateways and makes their answers safe
//! ([`clean`]). `shell` has the terminal. [`texts`] has what other commands print, too.

mod admin;
mod args;
pub mod clean;
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
pub mod texts;
mod view;

use std::io::{self, IsTerminal as _, stdin, stdout};
use std::rc::Rc;

use anstream::{AutoStream, ColorChoice};
use tollgate_core::time::Clock;

pub use self::admin::{AdminApi, Answer, Failure, Gateway};
pub use self::args::{EXAMPLES, TopOptions};
use self::fetch::Gateways;
use self::figures::Figures;
use self::model::{Event, State};

/// What is printed.
#[derive(Debug, Default)]
pub struct Shown {
    /// The text for standard output.
    pub text: String,
    /// What the gateways that have not answered say.
    pub failures: Vec<String>,
}

/// Shows the figures of the gateways until the user ends it, or once if there is no terminal. It
/// needs a tokio runtime for local tasks.
///
/// # Errors
/// If the terminal cannot be used.
pub async fn run(options: &TopOptions, gateways: Vec<Gateway>) -> io::Result<Shown> {
    let urls: Vec<String> = gateways.iter().map(|it| it.url.clone()).collect();
    let gateways = Gateways::new(gateways, options);
    let state = State::new(Figures::new(&urls), options.policy.clone(), Clock::System.wall());
    let is_screen =
        !options.once && !options.json && stdout().is_terminal() && stdin().is_terminal();
    if is_screen {
        let has_colours = AutoStream::choice(&stdout()) != ColorChoice::Never;
        shell::run(state, Rc::new(gateways), options.interval, has_colours).await?;
        return Ok(Shown::default());
    }
    Ok(once(options, state, &gateways).await)
}

async fn once(options: &TopOptions, mut state: State, gateways: &Gateways) -> Shown {
    for index in 0..gateways.count() {
        let told = gateways.ask(index).await;
        state.update(Event::Told(index, told), Clock::System.wall());
    }
    let text = match options.json {
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
