//! The page while something is away, and after a change with mistakes.

use serde_json::json;

use crate::admin::{AdminClient, OPERATE, settles, yaml};
use crate::support::redis::{Options, Redis};
use crate::support::{Browser, Gateway};

pub(super) fn sign_in(browser: &mut Browser, gateway: &Gateway) {
    let page = format!("http://{}/", gateway.addresses()[1]);
    browser.call("Page.navigate", json!({ "url": page }));
    browser.until("document.activeElement?.id === 'token'");
    browser.write(OPERATE);
    browser.press("Enter");
    browser.until_text("#contact", "Live");
}

#[test]
fn each_part_of_the_page_fails_alone_and_says_why() {
    let mut redis = Redis::start(Options::default());
    let store = format!("store: {{ redis: {{ url: \"{}\" }} }}", redis.url());
    let mut gateway = Gateway::start(&yaml(&store, ""));
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    sign_in(&mut browser, &gateway);
    browser.until_text("#node-table", "same configuration");
    a_mistake_is_told_once_with_its_remedy(&mut browser);

    redis.kill();
    let client = AdminClient::new(&gateway, OPERATE);
    settles("the nodes are not known", || client.get("/v1/nodes").status == 503);
    sign_in(&mut browser, &gateway);
    browser.until("document.querySelectorAll('#charts figure path').length > 0");
    browser.until_text("#audit", "The node began with its configuration");
    browser.until_text("#policy-table", "each");
    let nodes = "document.querySelector('#node-table').previousElementSibling.textContent";
    browser.until(&format!("{nodes}.includes('Not refreshed: the nodes are listed in Redis')"));
    browser.until_text("#contact", "not refreshed: the nodes");
    assert_eq!(browser.value("document.querySelectorAll('.old').length"), 1);
    browser.until_text("#reasons", "store away");
    redis.restart();
    browser.until_text("#node-table", "same configuration");
    browser.until("document.querySelectorAll('.old').length === 0");
    browser.until_text("#reasons", "knows of nothing that is wrong");

    gateway.signal("KILL");
    gateway.wait();
    browser.until_text("#reasons", "No contact with this node since");
    browser.until_text("#state", "No contact");
    assert_eq!(browser.value("document.querySelectorAll('#reasons .good').length"), 0);
}

/// A report points at places in its lines, so it keeps them.
#[test]
fn the_report_of_a_failed_reload_keeps_its_lines() {
    let good = yaml("", "");
    let gateway = Gateway::start(&good);
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    sign_in(&mut browser, &gateway);
    gateway.rewrite(&good.replace("3/day", "lots"));
    browser.until_text("#reasons pre", "\"lots\" is not a limit\n");
    browser.until_text("#reasons em", "mend the file");
    browser.resize(360, "light");
    let over = "document.documentElement.scrollWidth - innerWidth";
    assert!(browser.settles(|it| it.value(over) == 0), "a long line scrolls by itself");
}

fn a_mistake_is_told_once_with_its_remedy(browser: &mut Browser) {
    super::open_policy(browser, "each");
    browser.value("document.activeElement.select()");
    browser.write("lots");
    browser.until("document.activeElement?.value === 'lots'");
    browser.tab_to("[data-field=reason]");
    browser.write("a try");
    browser.until("document.activeElement?.value === 'a try'");
    browser.tab_to("[data-form=change] [type=submit]");
    browser.press("Enter");
    browser.until_text("#policy-table .result h4", "It was not done");
    let said = browser.value("document.querySelector('#policy-table .result').textContent");
    let said = said.as_str().expect("a text");
    assert_eq!(said.matches("\"lots\" is not a limit").count(), 1, "{said}");
    assert!(said.contains("write a count per time"), "{said}");
}

#[test]
fn the_record_names_the_access_list_that_was_changed() {
    let gateway = Gateway::start(&yaml("", ""));
    let client = AdminClient::new(&gateway, OPERATE);
    let force = ["If-Match: *", "Content-Type: application/json"];
    let shadow = json!({ "mode": "shadow", "reason": "a test" }).to_string();
    let made = client.send("PATCH", "/v1/access/office", &force, &shadow);
    assert_eq!(made.status, 200, "{}", made.text());
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    sign_in(&mut browser, &gateway);
    browser.until_text("#audit", "Mode of an access list changed of office");
}
