//! The terminal: keys in, the drawn state out, and the questions to the gateways.
//!
//! Guarantee: the terminal is as it was before, however this ends: by a key, a signal, an error
//! or a panic.

use std::io::{self, Stdout, stdout};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossterm::cursor::Show;
use crossterm::event::{self, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::{interval, sleep};
use tollgate_core::time::Clock;

use super::fetch::Gateways;
use super::model::{Effect, Event, Key, State};
use super::view;

/// Events that wait.
const MAX_EVENTS: usize = 256;
/// The longest time in which the thread for keys notices the end.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// The time after which the ages of figures are drawn again.
const TICK: Duration = Duration::from_secs(1);

/// The terminal in the mode for full screens. Dropping it restores the terminal.
struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    fn open() -> io::Result<Self> {
        let panics = std::panic::take_hook();
        // The text of a panic is to be seen after the view has gone.
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            panics(panic);
        }));
        enable_raw_mode()?;
        let opened = execute!(stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        opened.map(Self).inspect_err(|_| restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal. It may have gone, so errors are ignored.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

/// Shows the state and keeps it up to date, until a key or a signal ends it.
///
/// # Errors
/// If the terminal cannot be used.
pub(super) async fn run(
    mut state: State,
    gateways: Rc<Gateways>,
    every: Duration,
    has_colours: bool,
) -> io::Result<()> {
    let (sender, mut events) = mpsc::channel(MAX_EVENTS);
    let mut signals = [
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ];
    let mut screen = Screen::open()?;
    let _keys = Keys::read(sender.clone())?;
    ask_for_ever(&gateways, &sender, every);
    let mut ticks = interval(TICK);
    let [interrupt, terminate, hangup] = &mut signals;
    loop {
        screen.0.draw(|frame| view::draw(&state, has_colours, frame.area(), frame.buffer_mut()))?;
        let event = tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            _ = ticks.tick() => Some(Event::Resized),
            event = events.recv() => event,
        };
        let Some(event) = event else { return Ok(()) };
        match state.update(event, Clock::System.wall()) {
            None => {}
            Some(Effect::Quit) => return Ok(()),
            Some(effect) => perform(effect, Rc::clone(&gateways), sender.clone()),
        }
    }
}

/// Asks each gateway at intervals, until the events are not read any more.
fn ask_for_ever(gateways: &Rc<Gateways>, sender: &mpsc::Sender<Event>, every: Duration) {
    for index in 0..gateways.count() {
        let gateways = Rc::clone(gateways);
        let sender = sender.clone();
        spawn_local(async move {
            loop {
                let told = gateways.ask(index).await;
                if sender.send(Event::Told(index, told)).await.is_err() {
                    return;
                }
                sleep(every).await;
            }
        });
    }
}

/// Asks gateways for what the user wants. The answer is an event.
fn perform(effect: Effect, gateways: Rc<Gateways>, sender: mpsc::Sender<Event>) {
    spawn_local(async move {
        let answer = match effect {
            Effect::Quit => return,
            Effect::Look(client) => {
                let lines = gateways.look(&client).await;
                Event::Looked(client, lines)
            }
            Effect::Reset(client) => Event::Reset(gateways.reset(&client).await),
        };
        // The view may have ended.
        let _ = sender.send(answer).await;
    });
}

/// The thread that reads keys. It ends when this is dropped.
struct Keys {
    has_ended: Arc<AtomicBool>,
}

impl Keys {
    fn read(sender: mpsc::Sender<Event>) -> io::Result<Self> {
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        thread::Builder::new().name("keys".to_owned()).spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let read = event::poll(KEY_WAIT).and_then(|is_there| match is_there {
                    true => event::read().map(Some),
                    false => Ok(None),
                });
                let event = match read {
                    Ok(read) => read.and_then(event_of),
                    // The terminal has gone.
                    Err(_) => Some(Event::Key(Key::Interrupt)),
                };
                if let Some(event) = event
                    && sender.blocking_send(event).is_err()
                {
                    return;
                }
            }
        })?;
        Ok(Self { has_ended })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

fn event_of(event: event::Event) -> Option<Event> {
    let key = match event {
        event::Event::Key(key) if key.kind != KeyEventKind::Release => key,
        event::Event::Resize(..) => return Some(Event::Resized),
        _ => return None,
    };
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(Event::Key(match key.code {
        KeyCode::Char('c') if is_control => Key::Interrupt,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    }))
}
