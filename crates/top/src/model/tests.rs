//! What each key does.

use proptest::prelude::*;

use super::super::clean::document;
use super::super::testing::{figures, state};
use super::*;

fn press(state: &mut State, keys: &str) -> Vec<Effect> {
    let now = state.now;
    keys.chars().filter_map(|c| state.update(Event::Key(Key::Char(c)), now)).collect()
}

#[test]
fn views_are_chosen_by_numbers_and_by_tab() {
    let mut state = state(1);
    for (digit, view) in ('1'..='6').zip(VIEWS) {
        press(&mut state, &digit.to_string());
        assert_eq!(state.view, view);
    }
    let now = state.now;
    state.update(Event::Key(Key::Tab), now);
    assert_eq!(state.view, View::Overview);
    state.update(Event::Key(Key::BackTab), now);
    assert_eq!(state.view, View::Store);
}

#[test]
fn rows_are_sorted_filtered_and_selected() {
    let mut state = state(1);
    press(&mut state, "2");
    let names = |state: &State| -> Vec<String> {
        state.table().rows.iter().map(|row| row.cells[0].clone()).collect()
    };
    assert_eq!(
        (names(&state), state.order()),
        (vec!["per-client".into(), "global".into()], Some("refused share"))
    );
    press(&mut state, "s");
    assert_eq!((names(&state)[0].as_str(), state.order()), ("global", Some("refusals")));
    press(&mut state, "ss");
    assert_eq!((names(&state)[0].as_str(), state.order()), ("global", Some("name")));
    press(&mut state, "s/CLIENT");
    assert_eq!(names(&state), ["per-client"]);
    let now = state.now;
    state.update(Event::Key(Key::Esc), now);
    assert_eq!(names(&state).len(), 2, "Esc goes back to the filter before");
    press(&mut state, "jjjj");
    assert_eq!(state.selected(2), 1);
    press(&mut state, "k");
    assert_eq!(state.selected(2), 0);
}

#[test]
fn a_client_and_a_refusal_are_explained() {
    let mut state = state(1);
    press(&mut state, "5");
    assert_eq!(press(&mut state, "e"), []);
    assert!(state.message.contains("choose a client"), "{}", state.message);
    press(&mut state, "3");
    let effects = press(&mut state, "e");
    let [Effect::Look(client)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((&*client.policy, &*client.id), ("per-client", "k7f2m9qd0v3x"));
    let now = state.now;
    let other = Client { id: "other".to_owned(), ..client.clone() };
    state.update(Event::Looked(other, vec!["wrong".to_owned()]), now);
    state.update(Event::Looked(client.clone(), vec!["Used 3 of 3".to_owned()]), now);
    let Dialog::Explained { lines, .. } = &state.dialog else { panic!("{:?}", state.dialog) };
    assert_eq!(lines, &["Used 3 of 3"]);
    assert_eq!(press(&mut state, "q"), [], "q closes what lies over the view");
    press(&mut state, "4");
    assert_eq!(press(&mut state, "e").len(), 1);
    let Dialog::Explained { lines, .. } = &state.dialog else { panic!("{:?}", state.dialog) };
    assert!(lines[0].starts_with("Refused by per-client at 2026"), "{lines:?}");
    press(&mut state, "q2");
    assert_eq!((press(&mut state, "e"), state.view), (vec![], View::Keys));
    assert_eq!(state.filter, "per-client");
}

/// Clients of another policy that are refused filled the table before its rows were filtered.
#[test]
fn the_clients_of_a_policy_are_shown_beside_many_of_another_one() {
    let mut state = state(1);
    let client = |id: String, refused: u64| serde_json::json!({ "id": id, "text": "ip 192.0.2.1", "requests": 9, "refused": refused });
    let list = |policy: &str, count: usize, refused: u64| {
        let clients = (0..count).map(|it| client(format!("{policy}-{it}"), refused));
        serde_json::json!({ "policy": policy, "clients": clients.collect::<Vec<_>>() })
    };
    let policies = [list("per-client", 300, 9), list("global", 250, 0)];
    let Some((_, answers)) = &mut state.figures.nodes[0].told else { panic!("no answers") };
    answers.clients = vec![document(serde_json::json!({ "policies": policies }))];
    press(&mut state, "3");
    assert_eq!(state.table().rows.len(), 200);
    press(&mut state, "/global");
    let rows = state.table().rows;
    assert_eq!(rows.len(), 200);
    assert!(rows.iter().all(|row| row.cells[0] == "global"));
    press(&mut state, "-249");
    assert_eq!(state.table().rows.len(), 1);
}

#[test]
fn the_selection_of_the_overview_moves_over_policies_and_then_clients() {
    let mut state = state(1);
    assert_eq!(press(&mut state, "r"), []);
    assert!(state.message.contains("choose a client"), "the first row is a policy");
    assert_eq!(press(&mut state, "jj"), []);
    let effects = press(&mut state, "e");
    assert!(matches!(&effects[..], [Effect::Look(client)] if client.id == "k7f2m9qd0v3x"));
    press(&mut state, "qg");
    assert_eq!((press(&mut state, "e"), state.view), (vec![], View::Keys));
    assert_eq!(state.filter, "per-client");
}

#[test]
fn a_reset_is_asked_for_and_done_only_after_yes() {
    let mut state = state(1);
    assert_eq!(press(&mut state, "3r"), []);
    assert!(matches!(&state.dialog, Dialog::Reset(client) if client.id == "k7f2m9qd0v3x"));
    assert_eq!(press(&mut state, "xqr"), [], "other keys change nothing");
    assert_eq!(press(&mut state, "n"), []);
    assert_eq!((&state.dialog, &*state.message), (&Dialog::None, "nothing was reset"));
    let effects = press(&mut state, "ry");
    assert!(matches!(&effects[..], [Effect::Reset(client)] if client.policy == "per-client"));
    let now = state.now;
    state.update(Event::Reset("done".to_owned()), now);
    assert_eq!(state.message, "done");
}

#[test]
fn a_pause_keeps_what_is_shown() {
    let mut state = state(1);
    press(&mut state, "p");
    let before = state.figures.clone();
    let now = state.now;
    state.update(Event::Told(0, Ok(Answers::default())), now);
    assert_eq!(state.figures, before);
    press(&mut state, "p");
    state.update(Event::Told(0, Err("away".to_owned())), now);
    assert_eq!(state.figures.state(), "lost");
    assert_eq!(press(&mut state, "q"), [Effect::Quit]);
    assert_eq!(state.update(Event::Key(Key::Interrupt), now), Some(Effect::Quit));
}

fn keys() -> impl Strategy<Value = Vec<Key>> {
    let special = prop::sample::select(vec![
        Key::Up,
        Key::Down,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
        Key::Tab,
        Key::BackTab,
        Key::Enter,
        Key::Esc,
        Key::Backspace,
    ]);
    let char = prop::sample::select("123456/srpe?qynjkgG x".chars().collect::<Vec<_>>());
    prop::collection::vec(prop_oneof![special, char.prop_map(Key::Char)], 0..60)
}

proptest! {
    /// Whatever is pressed and however small the terminal is, there is something to show.
    #[test]
    fn no_keys_break_a_view(keys in keys(), width in 1..130_u16, height in 1..45_u16, nodes in 0..4_usize) {
        let mut state = state(1);
        state.figures = figures(nodes);
        let now = state.now;
        for key in keys {
            state.update(Event::Key(key), now);
        }
        prop_assert!(!super::super::view::text(&state, width, height).is_empty());
    }
}
