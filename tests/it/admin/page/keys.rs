//! The API keys on the page: listed, made, used, rotated and revoked, with the keyboard alone.

use serde_json::{Value, json};

use super::{check_look, check_requests};
use crate::admin::{AdminClient, OPERATE, READ};
use crate::support::{Browser, Gateway, eventually};

const KEYS: &str = "keys-0123456789abcdef0";
const JSON: &str = "Content-Type: application/json";

/// A gateway with one worker, so that a key that holds does so for each connection.
fn gateway(store: &str, keys: &str) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\nruntime: {{ workers: 1 }}\n{store}\
         client: {{ failures: 100000/minute, keys: {{ prefix: acme, {keys} }} }}\n\
         policies: {{ each: {{ key: api_key, limit: 100/day }} }}\n\
         routes: [{{ path: \"/*\", auth: [api_key], policies: [each], respond: {{ body: ok }} }}]\n\
         admin: {{ address: \"127.0.0.1:0\", tokens: [\
         {{ name: oncall, role: operate, token: {OPERATE} }}, \
         {{ name: viewer, role: read, token: {READ} }}, \
         {{ name: acme, role: keys, token: {KEYS}, teams: [acme] }}] }}\n",
    ))
}

fn stored(directory: &tempfile::TempDir) -> String {
    format!("store: {{ keys: {{ path: {:?} }} }}\n", directory.path().join("keys.redb"))
}

/// The page, signed in with this token.
fn signed_in(gateway: &Gateway, token: &str) -> Browser {
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    let url = format!("http://{}/", gateway.addresses()[1]);
    browser.call("Page.navigate", json!({ "url": url }));
    browser.until("document.activeElement?.id === 'token'");
    browser.write(token);
    browser.press("Enter");
    browser.until("document.querySelector('#api-keys')?.checkVisibility()");
    browser
}

fn status(gateway: &Gateway, key: &str) -> u16 {
    gateway.client().get("/", &[&format!("X-Api-Key: {key}")]).status
}

/// Goes to an element with the tabulator, and presses Enter there.
fn enter(browser: &mut Browser, selector: &str) {
    browser.tab_to(selector);
    browser.press("Enter");
}

/// Writes into a field.
fn fill(browser: &mut Browser, selector: &str, text: &str) {
    browser.tab_to(selector);
    browser.write(text);
}

/// The text of a key that is shown.
fn shown(browser: &mut Browser) -> String {
    browser.until("document.querySelector('#new-secret code') !== null");
    let focused = browser.value("document.activeElement.id");
    assert_eq!(focused, "new-secret", "the focus is where the text is");
    let text = browser.value("document.querySelector('#new-secret code').textContent");
    text.as_str().expect("a text").to_owned()
}

/// Dismisses the text of a key, after which no part of the page and no address has it.
fn dismiss(browser: &mut Browser, key: &str, origin: &str) {
    enter(browser, "#new-secret [data-do=dismiss]");
    browser.until("document.querySelector('#new-secret').hidden");
    let (_, secret) = key.rsplit_once('_').expect("PREFIX_ID_SECRET");
    let everywhere = "document.documentElement.outerHTML + \
                      [...document.querySelectorAll('input, textarea, select')].map((it) => it.value) \
                      + JSON.stringify([{ ...localStorage }, { ...sessionStorage }]) + location.href \
                      + document.cookie + performance.getEntries().map((it) => it.name)";
    let everywhere = browser.value(everywhere);
    assert!(!everywhere.as_str().expect("a text").contains(secret), "the text is still there");
    let asked = |it: &&Value| it["method"] == "Network.requestWillBeSent";
    for request in browser.events.iter().filter(asked) {
        let url = request["params"]["request"]["url"].as_str().expect("an address");
        assert!(url.starts_with(origin) && !url.contains(secret), "{url}");
    }
}

#[test]
fn a_key_is_made_used_rotated_and_revoked() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(&stored(&directory), "");
    let origin = format!("http://{}/", gateway.addresses()[1]);
    let mut browser = signed_in(&gateway, OPERATE);
    browser.until_text("#api-key-table", "No key is found.");

    fill(&mut browser, "#new-name", "acme, production");
    fill(&mut browser, "#new-team", "acme");
    fill(&mut browser, "#new-limits", "each 5/day");
    enter(&mut browser, "#api-key-new [type=submit]");
    browser.until_text("#api-key-made", "“each 5/day” is not a limit");
    browser.value("document.querySelector('#new-limits').value = 'each=lots'");
    enter(&mut browser, "#api-key-new [type=submit]");
    browser.until_text("#api-key-made li", "limits: each");
    browser.value("document.querySelector('#new-limits').value = 'each=500/day'");
    enter(&mut browser, "#api-key-new [type=submit]");
    let first = shown(&mut browser);
    assert!(first.starts_with("acme_") && first.len() == 5 + 12 + 1 + 49, "{first}");
    browser.until_text("#new-secret", "It is shown once");
    enter(&mut browser, "#new-secret [data-do=copy]");
    browser.until_text("#new-secret [aria-live]", "It is ");
    check_look(&mut browser, "keys");
    // Another key is not made over a text that is still shown.
    enter(&mut browser, "#api-key-new [type=submit]");
    browser.until_text("#api-key-made", "still shown above");
    assert_eq!(browser.value("document.querySelectorAll('#new-secret code').length"), 1);
    dismiss(&mut browser, &first, &origin);
    eventually("the key holds", || status(&gateway, &first) == 200);
    browser.until_text("#api-key-table tbody", "acme, production");
    browser.until_text("#api-key-table tbody", "each 500/1d");

    // A whole key in the place of an id: the id alone is used.
    fill(&mut browser, "#ak-id", &first);
    browser.press("Enter");
    browser.until_text("#ak-said", "1 key at");
    let id = &first[5..17];
    assert_eq!(browser.value("document.querySelector('#ak-id').value"), id);

    enter(&mut browser, "#api-key-table [data-opens]");
    browser.until("document.activeElement?.dataset.field === 'overlap'");
    enter(&mut browser, "#api-key-table [data-do=rotate]");
    let second = shown(&mut browser);
    assert_eq!((&second[..17], second == first), (&first[..17], false));
    browser.until_text("#api-key-table .result", "The old one ends in a day");
    browser.until_text("#api-key-table tbody", "2, the old one until");
    dismiss(&mut browser, &second, &origin);
    eventually("both hold", || status(&gateway, &first) == 200 && status(&gateway, &second) == 200);

    enter(&mut browser, "#api-key-table [data-do=revoke]");
    browser.until_text("#api-key-table [data-do=revoke]", "Really revoke it for ever?");
    assert_eq!(status(&gateway, &second), 200, "it asks first");
    browser.press("Enter");
    browser.until_text("#api-key-table .result", "It is revoked");
    browser.until_text("#api-key-table tbody", "■ revoked");
    eventually("no secret holds", || {
        status(&gateway, &first) == 401 && status(&gateway, &second) == 401
    });
    browser.until_text("#audit", "API key revoked");
    check_requests(&without_refusals(browser), &origin);
}

/// The browser without what it logs of answers with 4xx and 5xx, which this test wants.
fn without_refusals(mut browser: Browser) -> Browser {
    browser.events.retain(|it| it["params"]["entry"]["source"] != "network");
    browser
}

#[test]
fn a_caller_sees_what_it_may_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(&stored(&directory), "");
    let operator = AdminClient::new(&gateway, OPERATE);
    for (name, team) in [("own", "acme"), ("foreign", "other")] {
        let form = json!({ "first": true, "name": name, "team": team }).to_string();
        let made = operator.send("POST", "/v1/keys", &[JSON], &form);
        assert!((200..300).contains(&made.status), "{made:?}");
    }
    let visible = "[...document.querySelectorAll('section, nav')].filter((it) => \
                   it.checkVisibility()).map((it) => it.id)";
    let changing = "[...document.querySelectorAll('#api-keys button')].filter((it) => \
                    it.checkVisibility()).map((it) => it.textContent)";

    let mut team = signed_in(&gateway, KEYS);
    team.until_text("#api-key-table tbody", "own");
    assert_eq!(team.value(visible), json!(["api-keys"]));
    team.until_text("#contact", "acme, for API keys of acme alone");
    assert!(!team.value("document.body.textContent").as_str().expect("a text").contains("foreign"));
    assert_eq!(team.value("document.querySelector('#new-team').value"), "acme");
    assert_eq!(team.value(changing), json!(["Show", "Rotate, revoke", "Make a key"]));

    check_look(&mut team, "keys-alone");

    let mut reader = signed_in(&gateway, READ);
    reader.until_text("#api-key-table tbody", "own");
    reader.until_text("#api-key-table tbody", "foreign");
    assert_eq!(reader.value(changing), json!(["Show"]));
    reader.until_text("#contact", "Live");
    // A page has a bounded number of keys.
    for _ in 0..60 {
        // A credential may make a bounded number of calls in a second.
        eventually("a key is made", || {
            let made = operator.send("POST", "/v1/keys", &[JSON], "{}");
            assert!((200..300).contains(&made.status) || made.status == 429, "{made:?}");
            made.status != 429
        });
    }
    enter(&mut reader, "#ak-show");
    let rows = "document.querySelectorAll('#api-key-table tbody tr').length";
    reader.until(&format!("{rows} === 50"));
    enter(&mut reader, "#ak-next");
    reader.until_text("#ak-said", "Page 2: 12 keys");
    assert_eq!(reader.value(rows), 12);
    fill(&mut reader, "#ak-team", "other");
    reader.press("Enter");
    reader.until_text("#ak-said", "1 key at");
    assert_eq!(reader.value(rows), 1);
}

#[test]
fn without_a_store_the_page_says_how_to_get_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("keys.yaml");
    std::fs::write(&file, "keys: []\n").expect("the directory can be written");
    let gateway = gateway("", &format!("file: {file:?}"));
    let mut browser = signed_in(&gateway, OPERATE);
    browser.until_text("#api-keys-none", "add store: { redis: redis://127.0.0.1 }");
    let forms =
        "[...document.querySelectorAll('#api-keys form')].filter((it) => it.checkVisibility())";
    assert_eq!(browser.value(&format!("{forms}.length")), 0);
}
