//! The line of a request for a person at a terminal: what matters, within the width of the terminal.
//!
//! `format: text` has more, and programs read it.

use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd;

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use rustix::termios::tcgetwinsize;
use tollgate_core::text::is_printable;

use crate::telemetry::settings::{Output, Terminal};

/// The width if the terminal does not tell its own.
const USUAL_COLUMNS: usize = 80;
/// A path is not made shorter.
const MIN_PATH: usize = 12;
/// A client that waits too long, or a limit.
const REFUSED: Style = AnsiColor::Yellow.on_default().bold();
/// A failure of the gateway or of an upstream.
const FAILED: Style = AnsiColor::Red.on_default().bold();

/// What a line shows of a request.
pub struct Shown<'a> {
    /// In RFC 3339.
    pub time: &'a str,
    /// 0 without a response.
    pub status: u16,
    pub method: &'a str,
    pub path: &'a str,
    pub client: &'a str,
    pub duration_us: u64,
    pub outcome: &'a str,
    pub policy: Option<&'a str>,
    pub remaining: Option<u64>,
    pub wait_ms: Option<u64>,
}

impl Terminal {
    /// The terminal that `output` is, if it is one.
    pub fn of(output: &Output) -> Option<Self> {
        match output {
            Output::Stdout => Self::behind(&io::stdout()),
            Output::Stderr => Self::behind(&io::stderr()),
            Output::File(_) => None,
        }
    }

    fn behind(stream: &(impl RawStream + AsFd)) -> Option<Self> {
        let columns = tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { USUAL_COLUMNS } else { columns };
        let has_colours = AutoStream::choice(stream) != ColorChoice::Never;
        stream.is_terminal().then_some(Self { columns, has_colours })
    }

    /// Adds the line of a request. Only the path is cut.
    pub fn write(self, shown: &Shown<'_>, line: &mut String) {
        let Shown { time, status, method, client, .. } = shown;
        // `2026-11-21T07:28:46.123Z` without the day.
        let clock = time.split_once('T').map_or(*time, |(_, clock)| clock.trim_end_matches('Z'));
        let status = if *status == 0 { "---".to_owned() } else { status.to_string() };
        let end = format!("{client} {} {}", duration(shown.duration_us), shown.decision());
        let others = [clock, &status, method, &end].map(|it| it.chars().count() + 1);
        let room = self.columns.saturating_sub(others.iter().sum()).max(MIN_PATH);
        let path = cut(shown.path, room);
        let status = match shown.style().filter(|_| self.has_colours) {
            Some(style) => format!("{style}{status}{style:#}"),
            None => status,
        };
        let _ = writeln!(line, "{clock} {status} {method} {path} {end}");
    }
}

impl Shown<'_> {
    /// What the limits say.
    fn decision(&self) -> String {
        let outcome = self.outcome;
        match (self.policy, self.wait_ms, self.remaining) {
            (Some(policy), Some(ms), _) => format!("{outcome} by {policy}, {}", wait(ms)),
            (Some(policy), None, Some(left)) => format!("{outcome} by {policy}, {left} left"),
            _ => outcome.to_owned(),
        }
    }

    /// How the status stands out.
    const fn style(&self) -> Option<Style> {
        match self.status {
            429 => Some(REFUSED),
            0 | 500.. => Some(FAILED),
            _ => None,
        }
    }
}

fn wait(ms: u64) -> String {
    format!("wait {} s", ms.div_ceil(1000))
}

fn duration(us: u64) -> String {
    match us {
        ..1_000 => format!("{us}us"),
        1_000..1_000_000 => format!("{}ms", us / 1_000),
        _ => format!("{}s", us / 1_000_000),
    }
}

/// The text in at most `room` characters, none of which a terminal acts on.
fn cut(text: &str, room: usize) -> String {
    let shown = |c: char| if is_printable(c) { c } else { '?' };
    if text.chars().count() <= room {
        return text.chars().map(shown).collect();
    }
    text.chars().map(shown).take(room.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: Shown<'_> = Shown {
        time: "2026-11-21T07:28:46.123Z",
        status: 429,
        method: "GET",
        path: "/orders/7",
        client: "203.0.113.0/24",
        duration_us: 34,
        outcome: "refused",
        policy: Some("per-client"),
        remaining: Some(0),
        wait_ms: Some(1501),
    };

    fn terminal(columns: usize, has_colours: bool) -> Terminal {
        Terminal { columns, has_colours }
    }

    fn line(terminal: Terminal, shown: &Shown<'_>) -> String {
        let mut line = String::new();
        terminal.write(shown, &mut line);
        line
    }

    #[test]
    fn a_line_fits_the_terminal_and_only_its_path_is_cut() {
        let wide = terminal(200, false);
        let told =
            "07:28:46.123 429 GET /orders/7 203.0.113.0/24 34us refused by per-client, wait 2 s\n";
        assert_eq!(line(wide, &SHOWN), told);
        let long = "/a".repeat(200);
        let narrow = line(terminal(100, false), &Shown { path: &long, ..SHOWN });
        assert_eq!(narrow.trim_end().chars().count(), 100);
        assert!(narrow.contains("/a…  203.") || narrow.contains("… 203."), "{narrow}");
        let least = line(terminal(10, false), &Shown { path: &long, ..SHOWN });
        assert!(least.contains(" /a/a/a/a/a/… 203."), "{least}");
        let admitted =
            Shown { status: 200, outcome: "admitted", wait_ms: None, remaining: Some(4), ..SHOWN };
        assert!(line(wide, &admitted).ends_with("34us admitted by per-client, 4 left\n"));
    }

    #[test]
    fn refusals_and_failures_stand_out_and_clients_send_no_colours() {
        let with_colours = terminal(120, true);
        let of = |status| line(with_colours, &Shown { status, ..SHOWN });
        assert!(of(429).contains(&format!("{REFUSED}429{REFUSED:#}")));
        assert!(of(502).contains(&format!("{FAILED}502{FAILED:#}")));
        assert!(of(0).contains(&format!("{FAILED}---{FAILED:#}")));
        assert!(!of(200).contains('\u{1b}') && !of(404).contains('\u{1b}'));
        let sent = line(terminal(120, false), &Shown { path: "/\u{1b}[31m\u{202e}", ..SHOWN });
        assert!(sent.contains(" /?[31m? "), "{sent}");
    }
}
