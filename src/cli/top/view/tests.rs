//! Golden texts of the views. `UPDATE_GOLDEN=1` writes them.

use std::path::Path;

use ratatui::style::Color;

use super::super::model::{Event, Key};
use super::super::testing::{lost, state};
use super::*;

/// Holds the text of a state at this size to its file.
fn holds(name: &str, state: &State, (width, height): (u16, u16)) {
    let file = format!("src/cli/top/view/golden/{name}-{width}x{height}.txt");
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
