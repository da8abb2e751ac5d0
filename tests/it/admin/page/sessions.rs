//! The page over time: signing in, a node that hangs, changes by others, and many nodes.

use serde_json::json;

use super::super::patches::change;
use super::faults::sign_in;
use super::open_policy;
use crate::admin::{AdminClient, OPERATE, yaml};
use crate::support::redis::{Options, Redis};
use crate::support::{Browser, Gateway};

fn browser() -> Browser {
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    browser
}

/// Regression: there were two sessions, and the first could not be ended. When the token had ended,
/// it went on with wrong tokens, and the gateway refused all tokens of this address.
#[test]
fn a_form_that_is_sent_twice_begins_one_session() {
    let gateway = Gateway::start(&yaml("", ""));
    let mut browser = browser();
    let page = format!("http://{}/", gateway.addresses()[1]);
    browser.call("Page.navigate", json!({ "url": page }));
    browser.until("document.activeElement?.id === 'token'");
    browser.write(OPERATE);
    browser.value(
        "window.streams = 0;
         const original = window.fetch;
         window.fetch = (path, options) => {
             if (path.startsWith('/v1/events')) window.streams += 1;
             return original(path, options);
         };
         for (let i = 0; i < 2; i += 1) document.getElementById('login').requestSubmit();",
    );
    browser.until_text("#contact", "Live");
    browser.until_text("#audit", "The node began with its configuration");
    assert_eq!(browser.value("window.streams"), 1);
}

/// Regression: only an error of the connection was noticed. The page said that it was live.
#[test]
fn a_node_that_hangs_is_not_live() {
    let gateway = Gateway::start(&yaml("", ""));
    let mut browser = browser();
    sign_in(&mut browser, &gateway);
    gateway.signal("STOP");
    browser.until_text("#reasons", "No contact with this node since");
    browser.until_text("#contact", "What you see is from then: the node does not answer");
    browser.until_text("#state", "No contact");
    gateway.signal("CONT");
    browser.until_text("#contact", "Live");
}

/// Regression: the tag was that of the moment of the change, so the page overwrote what its user had
/// not seen.
#[test]
fn a_change_that_was_not_seen_is_not_overwritten() {
    let gateway = Gateway::start(&yaml("", ""));
    let other = AdminClient::new(&gateway, OPERATE);
    let limit = || other.get("/v1/policies/each").json()["patch"]["limit"].clone();
    let mut browser = browser();
    sign_in(&mut browser, &gateway);
    open_policy(&mut browser, "each");
    browser.value("document.activeElement.select()");
    browser.write("9");
    browser.tab_to("[data-field=reason]");
    browser.write("more");
    browser.value("document.querySelector('[data-form=change] input[value=patch]').click()");
    let body = r#"{ "limit": "2/day", "reason": "attack" }"#;
    assert_eq!(change(&other, "PATCH", "/v1/policies/each", "*", body).status, 200);

    browser.tab_to("[data-form=change] [type=submit]");
    browser.press("Enter");
    let said = "It was changed in the meantime: it has 2 in 1 day now, by oncall: “attack”.";
    browser.until_text("#policy-table .result", said);
    assert_eq!(limit(), "2/day");
    browser.tab_to("[data-form=change] [type=submit]");
    browser.press("Enter");
    browser.until_text("#policy-table .result h4", "each now has 9/1d");
    browser.until_text("#policy-table .result", "Before: 2 in 1 day.");
    assert_eq!(limit(), "9/1d");

    // The change is undone only as it was made.
    assert_eq!(change(&other, "PATCH", "/v1/policies/each", "*", body).status, 200);
    browser.tab_to("[data-undo]");
    browser.press("Enter");
    browser.until_text("#policy-table .result", "It was changed in the meantime");
    assert_eq!(limit(), "2/day");
}

/// Regression: the page asked for the first hundred nodes.
#[test]
fn all_nodes_are_shown() {
    let redis = Redis::start(Options::default());
    let store = format!("store: {{ redis: {{ url: \"{}\" }} }}", redis.url());
    let gateway = Gateway::start(&yaml(&store, ""));
    let mut browser = browser();
    sign_in(&mut browser, &gateway);
    // Those that are silent are forgotten after some time.
    let mut nodes = vec!["HSET".to_owned(), "tollgate:meta:nodes".to_owned()];
    let seconds = redis.cli(&["TIME"]).lines().next().expect("the seconds").to_owned();
    nodes.extend((0..110).flat_map(|index| [format!("{:016x}", 0xff00 + index), seconds.clone()]));
    redis.cli(&nodes.iter().map(String::as_str).collect::<Vec<_>>());
    browser.until_text("#node-table .more", "Show all 111");
}
