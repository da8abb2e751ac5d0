//! The link with a token in its fragment, which `tollgate run` prints at a terminal.

use serde_json::json;

use super::{OPERATE, gateway};
use crate::support::Browser;

#[test]
fn a_link_with_a_token_signs_in_and_the_address_loses_it() {
    let gateway = gateway();
    let admin = gateway.addresses()[1];
    let mut browser = Browser::start();
    let url = format!("http://{admin}/#token={OPERATE}");
    browser.call("Page.navigate", json!({ "url": url }));
    browser.until_text("#state", "Working");
    assert_eq!(browser.value("location.href"), format!("http://{admin}/"));
    assert_eq!(browser.value("sessionStorage.length + localStorage.length"), 0);
    // A wrong token is not kept either.
    browser.call("Page.navigate", json!({ "url": "about:blank" }));
    browser.until("location.href === 'about:blank'");
    let wrong = format!("http://{admin}/#token=wrong-0123456789abcdef");
    browser.call("Page.navigate", json!({ "url": wrong }));
    browser.until_text("#login-fault", "This token is not valid");
    assert_eq!(browser.value("location.hash"), "");
}

/// A field of a request cannot have it, so the node is not asked.
#[test]
fn what_is_no_token_is_told_at_once() {
    let gateway = gateway();
    let mut browser = Browser::start();
    let url = format!("http://{}/", gateway.addresses()[1]);
    browser.call("Page.navigate", json!({ "url": url }));
    browser.until("document.activeElement?.id === 'token'");
    browser.write("“operate-0123456789abcdef”");
    browser.press("Enter");
    browser.until_text("#login-fault", "This is not a token");
}
