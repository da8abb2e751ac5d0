//! Every recipe of docs/recipes.md and of a few other pages: its configuration is good, and its
//! requests get the answers that the page shows.
//!
//! The page is the only copy of both. `stage` starts what a recipe needs, and `answers` compares.
//! Only addresses and the places of certificates are others than on the page.

mod answers;
mod stage;

use std::thread;
use std::time::Duration;

use crate::commands::mistake;
use crate::commands::page::{Command, Page, Spelling, page};
use crate::support::{PATIENCE, Program, eventually, now};

use answers::differs;
use stage::Stage;

const PAGE: &str = "docs/recipes.md";
/// The pages with recipes, and how many each has at least. Other sections of a page have no
/// commands, or are no whole configuration.
pub(crate) const PAGES: [(&str, usize); 4] =
    [(PAGE, 10), ("docs/access.md", 3), ("docs/bodies.md", 1), ("docs/traffic.md", 2)];

/// The sections of the page that are recipes.
fn recipes(path: &str) -> Vec<Page> {
    let text = page(path).text;
    let is_recipe = |section: &&str| {
        section.contains("\n```yaml\nlisteners:") && section.contains("\n```console\n")
    };
    let sections = text.split("\n## ").skip(1);
    let sections = sections.filter(|it| path == PAGE || is_recipe(it)).map(|section| {
        let title = section.lines().next().unwrap_or_default();
        Page { path: format!("{path}: {title}"), text: section.to_owned() }
    });
    sections.collect()
}

#[test]
fn every_recipe_gets_the_answers_of_its_page() {
    let mut recipes = Vec::new();
    for (path, least) in PAGES {
        let of_page = self::recipes(path);
        assert!(of_page.len() >= least, "{path} has {} recipes", of_page.len());
        recipes.extend(of_page);
    }
    let problems: Vec<String> = thread::scope(|scope| {
        let tried: Vec<_> = recipes.iter().map(|recipe| scope.spawn(|| try_out(recipe))).collect();
        tried.into_iter().flat_map(|it| it.join().expect("each recipe has a stage")).collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// certbot exchanges the links in its directory `live` when it renews a certificate.
#[test]
fn a_certificate_that_certbot_renews_is_in_use_without_a_restart() {
    let recipe =
        recipes(PAGE).into_iter().find(|it| it.text.contains("certbot")).expect("a recipe");
    let commands = recipe.commands();
    let request = commands.iter().find(|it| it.text.starts_with("curl ")).expect("a request");
    let mut stage = Stage::of(&recipe, &page(PAGE));
    let first = stage.run(&request.text);
    assert!(first.starts_with("HTTP/2 200"), "{first}");
    stage.renew();
    // curl knows only the authority of the second certificate now.
    eventually("the new certificate is in use", || {
        stage.run(&request.text).starts_with("HTTP/2 200")
    });
}

/// The problems of a recipe.
fn try_out(recipe: &Page) -> Vec<String> {
    let mut stage = Stage::of(recipe, &page(PAGE));
    let mut problems = Vec::new();
    let file = stage.file.to_str().expect("the path is UTF-8");
    let checked = Program::run(&["check", "-c", file]);
    if checked.code != Some(0) || checked.stderr.contains("warning") {
        problems.push(format!("{}: tollgate check: {}", recipe.path, checked.stderr));
    }
    if recipe.commands().iter().all(|command| command.printed.is_empty()) {
        problems.push(format!("{}: it shows no answer", recipe.path));
    }
    for command in recipe.commands() {
        let loose = Spelling::of(&command.text).loose;
        let problem = match command.printed.as_str() {
            "" if command.text.contains("curl ") => Some("the page shows no answer".to_owned()),
            // It starts or installs something, as the stage does.
            "" => mistake(&command.text),
            _ if !loose.is_empty() => Some(format!("not in quotes: {loose:?}")),
            _ => wrong_answer(&mut stage, &command),
        };
        problems.extend(problem.map(|it| format!("{}: {}\n{it}", recipe.path, command.text)));
    }
    problems
}

/// How the answer differs from that of the page.
fn wrong_answer(stage: &mut Stage, command: &Command) -> Option<String> {
    let deadline = now() + PATIENCE;
    loop {
        let answer = stage.run(&command.text);
        let difference = differs(&command.printed, &answer);
        // A command that only reads a file can come before the gateway has written it.
        let may_change = !command.text.contains("curl ");
        if difference.is_none() || !may_change || now() > deadline {
            return difference;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
