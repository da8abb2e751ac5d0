//! Golden texts of the views. `UPDATE_GOLDEN=1` writes them.

use std::path::Path;

use ratatui::style::Color;

use super::super::model::{Event, Key};
use super::super::testing::{lost, state};
use super::*;

/// Holds the text of a state at this size to its file.
fn holds(name: &str, state: &State, (width, height): (u16, u16)) {
    let file = format!("src/view/golden/{name}-{width}x{height}.txt");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
    let text = text(state, width, height);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        std::fs::write(&path, &text).expect("it is written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{file}: UPDATE_GOLDEN=1 writes it");
}

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (40, 12)];

fn pressed(nodes: usize, keys: &str) -> State {
    let mut state = state(nodes);
    for c in keys.chars() {
        let key = if c == '\n' { Key::Enter } else { Key::Char(c) };
        state.update(Event::Key(key), state.now);
    }
    state
}

#[test]
fn each_view_has_its_form_at_each_size() {
    for (number, view) in (1..).zip(VIEWS) {
        let state = pressed(2, &format!("{number}"));
        for size in SIZES {
            holds(&view.name().to_lowercase(), &state, size);
        }
    }
}

#[test]
fn dialogs_have_their_form() {
    for (name, keys) in [("help", "?"), ("explained", "4e"), ("reset", "3r"), ("filter", "2/cli")] {
        for size in [SIZES[0], SIZES[2]] {
            holds(name, &pressed(1, keys), size);
        }
    }
}

#[test]
fn a_lost_gateway_is_shown_with_the_age_of_its_figures() {
    for size in [SIZES[0], SIZES[2]] {
        holds("lost", &lost(), size);
    }
}

/// What a part of the overview does not need is the other's, and the selection is always seen.
#[test]
fn the_overview_uses_all_lines_and_shows_the_selected_row() {
    let mut state = state(1);
    let (_, answers) = state.figures.nodes[0].told.as_mut().expect("it has answered");
    let client = answers.clients[0]["policies"][0]["clients"][0].clone();
    let clients = (0..50).map(|number| {
        let mut client = client.clone();
        client["id"] = format!("id{number:02}").into();
        client["requests"] = (100 - number).into();
        client
    });
    answers.clients[0]["policies"][0]["clients"] = clients.collect();
    for (width, height) in [(80, 24), (120, 40), (40, 12)] {
        for number in 0..52 {
            let text = text(&state, width, height);
            let empty = text.lines().filter(|line| line.is_empty()).count();
            assert!(height < 20 || empty == 0, "{empty} of {height} lines:\n{text}");
            let marks = text.lines().filter(|line| line.starts_with('>')).count();
            assert_eq!(marks, 1, "row {number} at {width}x{height}:\n{text}");
            state.update(Event::Key(Key::Down), state.now);
        }
        state.update(Event::Key(Key::Home), state.now);
    }
}

#[test]
fn without_colours_nothing_is_coloured() {
    let area = Rect::new(0, 0, 80, 24);
    for has_colours in [false, true] {
        let mut buffer = Buffer::empty(area);
        draw(&lost(), has_colours, area, &mut buffer);
        let coloured = buffer.content.iter().any(|cell| cell.fg != Color::Reset);
        assert_eq!(coloured, has_colours);
    }
}

#[test]
fn long_lines_are_wrapped_between_words() {
    assert_eq!(wrapped("a bc def", 4), ["a bc", "def"]);
    assert_eq!(wrapped("abcdefgh", 3), ["abc", "def", "gh"]);
    assert_eq!(wrapped("", 3), [""]);
}
