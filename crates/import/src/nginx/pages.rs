//! `error_page`: the status that it gives to refusals.

use super::levels::Levels;
use super::syntax::Directive;
use crate::notes::Notes;
use crate::report::Loss;

/// The status that a client gets for a refusal with this status. The page itself is not taken.
/// `can` says which statuses a refusal may have here.
pub fn replaced(
    status: u16,
    can: impl Fn(u16) -> bool,
    levels: &Levels<'_>,
    notes: &mut Notes,
) -> u16 {
    let pages = levels.nearest("error_page");
    let Some(page) = pages.into_iter().find(|it| codes(it).any(|code| code == status)) else {
        return status;
    };
    let target = page.args.last().map_or("", String::as_str);
    let new = match page.args.iter().find_map(|it| it.strip_prefix('=')) {
        // Without a sign a page keeps the status, and another server is a redirect.
        None if !target.contains("://") => {
            let what = format!("refusals keep the status {status}; the page itself is not taken");
            notes.not_taken("error_page", page.place, Loss::Harmless, what);
            return status;
        }
        None => Some(302),
        Some("") => levels.named(target).and_then(answer),
        Some(code) => code.parse().ok(),
    };
    match new {
        Some(new) if can(new) => {
            let what = format!("refusals have the status {new}; the page itself is not taken");
            notes.different("error_page", page.place, what);
            new
        }
        Some(new) => {
            let what = format!("refusals have the status {new} in nginx, and {status} here");
            notes.different("error_page", page.place, what);
            status
        }
        None => {
            let what = format!("refusals have the status of {target} in nginx, and {status} here");
            notes.different("error_page", page.place, what);
            status
        }
    }
}

/// The statuses that a page is for.
fn codes(page: &Directive) -> impl Iterator<Item = u16> {
    page.args.iter().map_while(|arg| arg.parse().ok())
}

/// The status of the `return` of a location.
fn answer(location: &Directive) -> Option<u16> {
    location.inner().iter().find(|it| it.name == "return")?.arg(0).parse().ok()
}

/// A page that no refusal has.
pub fn unused(page: &Directive, notes: &mut Notes) {
    let what = "responses of endpoints pass as they are, and those of the gateway have no page";
    notes.not_taken("error_page", page.place, Loss::Harmless, what);
}
