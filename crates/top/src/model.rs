//! What is shown and what the keys do: a state and the events that change it. It reads no clock
//! and no terminal.

use tollgate_core::text::is_printable;
use tollgate_core::time::Timestamp;

use super::figures::{Answers, Figures};
use super::rows::{Asked, VIEWS, View};
use super::table::{About, Client, Table};
use super::texts;

/// The most characters of a filter.
const MAX_FILTER: usize = 60;
/// The views of which the overview has the first rows.
pub(super) const PARTS: [View; 2] = [View::Policies, View::Keys];
/// The rows that PageUp and PageDown move by.
const PAGE: usize = 10;

/// Everything that is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    pub(super) figures: Figures,
    pub(super) view: View,
    /// The selected row of each view.
    selected: [usize; VIEWS.len()],
    /// The order of each view, as an index.
    order: [usize; VIEWS.len()],
    pub(super) filter: String,
    pub(super) policy: Option<String>,
    pub(super) dialog: Dialog,
    pub(super) is_paused: bool,
    /// What was done last.
    pub(super) message: String,
    pub(super) now: Timestamp,
}

/// What lies over the view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Dialog {
    #[default]
    None,
    Help,
    /// A filter is written. Esc goes back to the one before.
    Filter(String),
    /// What is known of a client, from this line on.
    Explained {
        client: Client,
        lines: Vec<String>,
        from: usize,
    },
    /// The counters of a client are to be reset.
    Reset(Client),
}

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A key was pressed.
    Key(Key),
    /// A gateway has answered, or does not.
    Told(usize, Result<Answers, String>),
    /// What is known of a client.
    Looked(Client, Vec<String>),
    /// What has come of a reset.
    Reset(String),
    /// The terminal has another size.
    Resized,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    BackTab,
    Enter,
    Esc,
    Backspace,
    Interrupt,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    /// Ask for the counters of a client.
    Look(Client),
    /// Reset them.
    Reset(Client),
}

impl State {
    /// The first state.
    pub(super) fn new(figures: Figures, policy: Option<String>, now: Timestamp) -> Self {
        Self {
            figures,
            view: View::default(),
            selected: [0; VIEWS.len()],
            order: [0; VIEWS.len()],
            filter: String::new(),
            policy,
            dialog: Dialog::None,
            is_paused: false,
            message: String::new(),
            now,
        }
    }

    /// The table of the view, by whose rows the selection moves. Those of the overview are the
    /// rows of its parts.
    pub(super) fn table(&self) -> Table {
        match self.view {
            View::Overview => {
                let rows = self.parts().into_iter().flat_map(|part| part.rows).collect();
                Table { columns: Vec::new(), rows }
            }
            view => view.table(&self.figures, &self.asked(view)),
        }
    }

    /// The policies and the clients, as the overview shows them below the gateways.
    pub(super) fn parts(&self) -> [Table; 2] {
        PARTS.map(|view| view.table(&self.figures, &self.asked(view)))
    }

    /// How the table of a view is wanted.
    pub(super) fn asked(&self, view: View) -> Asked<'_> {
        Asked {
            order: self.order[view.index()],
            filter: &self.filter,
            policy: self.policy.as_deref(),
            now: self.now,
        }
    }

    /// The name of the order, if the view has any.
    pub(super) fn order(&self) -> Option<&'static str> {
        self.view.orders().get(self.order[self.view.index()]).copied()
    }

    /// The selected row of a table with this many.
    pub(super) fn selected(&self, rows: usize) -> usize {
        self.selected[self.view.index()].min(rows.saturating_sub(1))
    }

    /// Takes an event. `now`: the time by the wall clock.
    pub(super) fn update(&mut self, event: Event, now: Timestamp) -> Option<Effect> {
        self.now = now;
        match event {
            Event::Key(Key::Interrupt) => return Some(Effect::Quit),
            Event::Key(key) => return self.press(key),
            Event::Told(index, told) if !self.is_paused => self.figures.take(index, told, now),
            Event::Told(..) | Event::Resized => {}
            Event::Looked(of, more) => {
                if let Dialog::Explained { client, lines, .. } = &mut self.dialog
                    && *client == of
                {
                    lines.pop();
                    lines.extend(more);
                }
            }
            Event::Reset(message) => self.message = message,
        }
        None
    }

    fn press(&mut self, key: Key) -> Option<Effect> {
        match std::mem::take(&mut self.dialog) {
            Dialog::None => {
                self.message.clear();
                self.command(key)
            }
            Dialog::Help => None,
            Dialog::Filter(before) => {
                self.write_filter(key, before);
                None
            }
            Dialog::Explained { client, lines, from } => self.scroll(key, client, lines, from),
            Dialog::Reset(client) => match key {
                Key::Char('y' | 'Y') => {
                    self.message = format!("resetting {}", client.text);
                    Some(Effect::Reset(client))
                }
                Key::Char('n' | 'N') | Key::Esc => {
                    "nothing was reset".clone_into(&mut self.message);
                    None
                }
                // Any other key may be a mistake.
                _ => {
                    self.dialog = Dialog::Reset(client);
                    None
                }
            },
        }
    }

    fn command(&mut self, key: Key) -> Option<Effect> {
        match key {
            Key::Char('q') => return Some(Effect::Quit),
            Key::Char('?' | 'h') => self.dialog = Dialog::Help,
            Key::Char('p') => self.is_paused = !self.is_paused,
            Key::Char('/') => self.dialog = Dialog::Filter(std::mem::take(&mut self.filter)),
            Key::Char('s') => {
                let order = &mut self.order[self.view.index()];
                *order = (*order + 1) % self.view.orders().len().max(1);
            }
            Key::Char(digit @ '1'..='6') => {
                let number = digit.to_digit(10).and_then(|it| usize::try_from(it).ok());
                self.show(number.unwrap_or(1) - 1);
            }
            Key::Tab => self.show((self.view.index() + 1) % VIEWS.len()),
            Key::BackTab => self.show((self.view.index() + VIEWS.len() - 1) % VIEWS.len()),
            Key::Enter | Key::Char('e') => return self.explain(),
            Key::Char('r') => match self.client() {
                Some(client) => self.dialog = Dialog::Reset(client),
                None => self.needs_client(),
            },
            Key::Esc => self.filter.clear(),
            _ => self.go(key),
        }
        None
    }

    fn show(&mut self, index: usize) {
        self.view = VIEWS.get(index).copied().unwrap_or_default();
    }

    /// Moves the selection.
    fn go(&mut self, key: Key) {
        let last = self.table().rows.len().saturating_sub(1);
        let selected = &mut self.selected[self.view.index()];
        let from = (*selected).min(last);
        *selected = moved(key, from, last);
    }

    /// What the selected row is about.
    fn about(&self) -> About {
        let rows = self.table().rows;
        let selected = self.selected(rows.len());
        rows.into_iter().nth(selected).map_or(About::Nothing, |row| row.about)
    }

    fn client(&self) -> Option<Client> {
        match self.about() {
            About::Key(client) | About::Refusal(client, _) => Some(client),
            About::Policy(_) | About::Nothing => None,
        }
    }

    fn explain(&mut self) -> Option<Effect> {
        let (client, mut lines) = match self.about() {
            About::Key(client) => (client, Vec::new()),
            About::Refusal(client, refusal) => {
                let mut lines: Vec<String> =
                    texts::refusal(&refusal).lines().map(str::to_owned).collect();
                lines.push(String::new());
                (client, lines)
            }
            About::Policy(policy) => {
                // The clients of the policy explain its figures.
                self.filter = policy;
                self.view = View::Keys;
                return None;
            }
            About::Nothing => {
                self.needs_client();
                return None;
            }
        };
        lines.push("The gateway is asked for the counters of the key ...".to_owned());
        self.dialog = Dialog::Explained { client: client.clone(), lines, from: 0 };
        Some(Effect::Look(client))
    }

    fn needs_client(&mut self) {
        "choose a client (3) or a refusal (4) first".clone_into(&mut self.message);
    }

    fn write_filter(&mut self, key: Key, before: String) {
        match key {
            Key::Enter => return,
            Key::Esc => {
                self.filter = before;
                return;
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(c) if self.filter.chars().count() < MAX_FILTER && is_printable(c) => {
                self.filter.push(c);
            }
            _ => {}
        }
        self.dialog = Dialog::Filter(before);
    }

    fn scroll(
        &mut self,
        key: Key,
        client: Client,
        lines: Vec<String>,
        from: usize,
    ) -> Option<Effect> {
        match key {
            Key::Esc | Key::Enter | Key::Char('q' | 'e') => {}
            Key::Char('r') => self.dialog = Dialog::Reset(client),
            _ => {
                let from = moved(key, from, lines.len().saturating_sub(1));
                self.dialog = Dialog::Explained { client, lines, from };
            }
        }
        None
    }
}

/// Where a key moves to.
fn moved(key: Key, from: usize, last: usize) -> usize {
    let to = match key {
        Key::Up | Key::Char('k') => from.saturating_sub(1),
        Key::Down | Key::Char('j') => from + 1,
        Key::PageUp => from.saturating_sub(PAGE),
        Key::PageDown => from + PAGE,
        Key::Home | Key::Char('g') => 0,
        Key::End | Key::Char('G') => last,
        _ => from,
    };
    to.min(last)
}

#[cfg(test)]
mod tests;
