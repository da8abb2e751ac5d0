//! What an operator does at a row: the whole key, the counters, a limit of its own, and plans.

use serde_json::json;

use super::faults::sign_in;
use crate::admin::{AdminClient, OPERATE, READ, section, settles, statuses};
use crate::support::{Browser, Gateway};

/// A gateway whose keys have limits of their own, with more policies than are shown at once.
fn gateway(directory: &std::path::Path, admin: &str) -> Gateway {
    let overrides = directory.join("overrides.redb");
    let names: Vec<String> = (0..14).map(|number| format!("idle-{number:02}")).collect();
    let idle: String =
        names.iter().map(|name| format!("  {name}: {{ key: ip, limit: 1M/day }}\n")).collect();
    Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         store: {{ overrides: {{ path: \"{}\" }} }}\n\
         policies:\n  \
           each:\n    \
             {{ key: \"header:x-who\", limit: 3/day, overrides: true, \
             plans: {{ from: \"header:x-plan\", limits: {{ pro: 5/day }} }} }}\n\
         {idle}\
         routes:\n  \
           - {{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}\n  \
           - {{ path: \"/idle\", policies: [{}], respond: {{ body: ok }} }}\n{}",
        overrides.display(),
        names.join(", "),
        section(admin)
    ))
}

/// The page after a client was refused, with the row of that refusal open.
fn with_open_refusal(gateway: &Gateway) -> Browser {
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    sign_in(&mut browser, gateway);
    assert_eq!(statuses(gateway, "ann-secret", 4), [200, 200, 200, 429]);
    browser.until_text("#refusal-table", "header x-who an…");
    browser.tab_to("#refusal-table [data-opens]");
    browser.press("Enter");
    browser
}

/// Presses a button of the open row that has this name.
fn act(browser: &mut Browser, name: &str) {
    browser.tab_to(&format!(".panel [data-do={name}]"));
    browser.press("Enter");
}

#[test]
fn a_row_has_what_an_operator_needs() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(directory.path(), "reveal_keys: true");
    let mut browser = with_open_refusal(&gateway);
    browser.until_text(".panel .result h4", "3 of 3 used, 0 left");

    act(&mut browser, "whole");
    browser.until_text(".panel", "header x-who ann-secret");
    browser.until_text("#audit", "Whole keys shown of each");
    act(&mut browser, "request");
    browser.until("document.querySelector('#x-headers').value === 'x-who: ann-secret'");

    act(&mut browser, "own");
    browser.until("document.activeElement.value === '3/1d'");
    browser.value("document.activeElement.select()");
    browser.write("6/day");
    browser.press("Enter");
    browser.until_text(".panel", "This key now has its own limit: 6/day");
    browser.until_text(".panel .result h4", "3 of 6 used, 3 left");
    act(&mut browser, "unset");
    browser.until_text(".panel", "This key has the limit of its policy again");

    // It asks before it forgets the counters, and a refresh does not take the question back.
    let reset = "[...document.querySelectorAll('.panel button')].find((it) => it.textContent";
    let look = "document.querySelector('.panel [data-do=look]')";
    browser.until(&format!("{look}.ariaBusy === 'false'"));
    browser.value(&format!("{reset} === 'Reset its counters').focus()"));
    browser.press("Enter");
    browser.until(&format!("{reset} === 'Really reset them?') !== undefined"));
    browser.value(&format!("{look}.click()"));
    browser.until(&format!("{look}.ariaBusy === 'false'"));
    assert_eq!(browser.value(&format!("{reset} === 'Really reset them?') !== undefined")), true);
    browser.press("Enter");
    browser.until_text(".panel", "Its counters are forgotten");
    settles("it is admitted", || statuses(&gateway, "ann-secret", 1) == [200]);

    // The policy is changed beside the same row, and what is open outlives refreshes.
    act(&mut browser, "policy");
    browser.until("document.activeElement.dataset.field === 'limit'");
    browser.tab_to("[data-field=\"plan pro\"]");
    assert_eq!(browser.value("document.activeElement.value"), "5");
    browser.value("document.activeElement.select(), globalThis.field = document.activeElement");
    browser.write("7");
    assert_eq!(statuses(&gateway, "bob-secret", 4), [200, 200, 200, 429]);
    browser.until_text("#refusal-table tbody", "header x-who bo…");
    assert_eq!(browser.value("field === document.activeElement && field.value"), "7");
    browser.tab_to("[data-field=reason]");
    browser.write("more for pro");
    browser.tab_to(".panel [type=radio]");
    browser.press("ArrowDown");
    browser.press("Enter");
    browser.until_text(".panel", "each now has plan pro 7/1d");
    browser.until_text("#plan-table", "7 in 1 day");
    browser.tab_to(".panel [data-undo]");
    browser.press("Enter");
    browser.until_text(".panel", "each has the values of the file again");
    browser.until_text("#plan-table", "5 in 1 day");
}

/// The panel of a refusal asks for the limit that has refused: that of the plan.
#[test]
fn a_refused_client_of_a_plan_is_looked_up_with_its_plan() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(directory.path(), "");
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    sign_in(&mut browser, &gateway);
    let mut user = gateway.client();
    let mut asked = || user.get("/", &["X-Who: ann-secret", "X-Plan: pro"]).status;
    assert_eq!([(); 6].map(|()| asked()), [200, 200, 200, 200, 200, 429]);
    browser.until_text("#refusal-table", "header x-who an…");
    browser.tab_to("#refusal-table [data-opens]");
    browser.press("Enter");
    browser.until_text(".panel .result h4", "5 of 5 used, 0 left");
    browser.until_text(".panel .result", "plan pro");
}

#[test]
fn a_key_that_may_not_be_seen_says_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(directory.path(), "");
    let mut browser = with_open_refusal(&gateway);
    browser.until_text(".panel .result h4", "3 of 3 used");
    act(&mut browser, "whole");
    browser.until_text(".panel", "whole keys are not kept: admin.reveal_keys is not true");
    // Without it, the id is enough for a limit of its own.
    act(&mut browser, "own");
    browser.until("document.activeElement.value === '3/1d'");
}

/// One chart for all policies and one for each, in the table and as numbers.
#[test]
fn refusals_are_shown_over_time_by_policy() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(directory.path(), "");
    let client = AdminClient::new(&gateway, READ);
    assert_eq!(statuses(&gateway, "ann-secret", 5), [200, 200, 200, 429, 429]);
    settles("they are in the history", || {
        let history = client.get("/v1/history?policies=1").json();
        history["policies"][0]["policy"] == "each"
    });
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    sign_in(&mut browser, &gateway);
    let spark = "#policy-table tr[data-row=each] .spark .area2";
    browser.until(&format!("document.querySelector('{spark}') !== null"));
    let idle = browser.value("document.querySelector('tr[data-row=idle-00] .spark .area2')");
    assert_eq!(idle, json!(null), "what refuses nothing has a flat line");
    browser.tab_to("#policy-table tr[data-row=each] [data-key=chart]");
    browser.press("Enter");
    browser.until("document.activeElement.id === 'by-policy-which'");
    assert_eq!(browser.value("document.activeElement.value"), "each");
    browser.until_text("#by-policy-chart p", "each refused 40 % of its decisions");
    browser.press("Home");
    browser.until_text("#by-policy-chart p", "each refused most: 100 % of all refusals");
    assert_eq!(browser.value("document.querySelectorAll('#by-policy-chart .legend li').length"), 1);
    // More policies than there is room for.
    let rows = "document.querySelectorAll('#policy-table tbody tr').length";
    assert_eq!(browser.value(rows), 12);
    browser.tab_to("#policy-table .more");
    browser.press("Enter");
    assert_eq!(browser.value(rows), 15);
}

/// What is changed and tried is wide, and nothing scrolls to the side at any width.
#[test]
fn nothing_scrolls_to_the_side_at_any_width() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(directory.path(), "");
    let client = AdminClient::new(&gateway, OPERATE);
    let force = ["If-Match: *", "Content-Type: application/json"];
    let reason = "a launch of which everybody has been told in good time";
    let patch = json!({ "limit": "4/1d", "plans": { "pro": "6/1d" }, "reason": reason });
    let path = "/v1/policies/each";
    assert_eq!(client.send("PATCH", path, &force, &patch.to_string()).status, 200);
    let candidate = json!({ "limit": "5/1d", "for": "1h", "reason": reason });
    let path = "/v1/policies/each/candidate";
    assert_eq!(client.send("PUT", path, &force, &candidate.to_string()).status, 200);
    assert_eq!(statuses(&gateway, "ann-secret", 5), [200, 200, 200, 200, 429]);
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    sign_in(&mut browser, &gateway);
    browser.until_text("#policy-table", "In shadow");
    browser.until_text("#refusal-table", "header x-who an…");
    for width in [1920, 1280, 1100, 1024, 800, 768, 360, 320] {
        browser.resize(width, "light");
        let over = "document.documentElement.scrollWidth - innerWidth";
        assert!(browser.settles(|it| it.value(over) == 0), "{width}: {}", browser.value(over));
    }
}

#[test]
fn rows_take_one_line_and_the_page_little_height() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = gateway(directory.path(), "");
    for number in 0..12 {
        assert_eq!(statuses(&gateway, &format!("client-{number}"), 4), [200, 200, 200, 429]);
    }
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    sign_in(&mut browser, &gateway);
    let rows = |id: &str| format!("document.querySelectorAll('#{id} tbody tr').length");
    browser.until(&format!("{} === 8", rows("refusal-table")));
    browser.until(&format!("{} === 12", rows("policy-table")));
    let tallest =
        "Math.max(...[...document.querySelectorAll('tbody tr')].map((it) => it.offsetHeight))";
    let wide = browser.value(tallest).as_u64().expect("a number");
    assert!(wide <= 34, "{wide} px at 1280");
    browser.picture("rows-1280");
    browser.resize(360, "light");
    browser.until(&format!("{} === 5", rows("refusal-table")));
    let narrow = browser.value(tallest).as_u64().expect("a number");
    assert!(narrow <= 140, "{narrow} px at 360");
    browser.picture("rows-360");
    let height = browser.value("document.documentElement.scrollHeight");
    assert!(height.as_u64().expect("a number") <= 5400, "{height} px at 360");
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 360);
}

/// The form has the amount of the policy, and what it sends is an amount, too.
#[test]
fn a_limit_in_money_is_tried_as_an_amount() {
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         prices: {{ currency: usd, models: {{ m: {{ input: 1, output: 1 }} }} }}\n\
         policies: {{ spend: {{ key: ip, limit: 2.50 usd/day, \
         cost: {{ reserve: {{}}, settle: {{ usage: openai }} }} }} }}\n\
         routes: [{{ path: \"/*\", policies: [spend], respond: {{ body: ok }} }}]\n{}",
        section("")
    ));
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    sign_in(&mut browser, &gateway);
    browser.until_text("#policy-table", "spend");
    browser.tab_to("#policy-table [data-opens]");
    browser.press("Enter");
    browser.until("document.activeElement.value === '2.50 usd'");
    browser.value("document.activeElement.select()");
    browser.write("1.25");
    browser.tab_to("#policy-table [data-field=reason]");
    browser.write("a smaller budget");
    browser.press("Enter");
    browser.until_text("#policy-table", "spend is tried with 1.25 usd/1d in shadow");
    let tried = AdminClient::new(&gateway, OPERATE).get("/v1/policies/spend").json();
    let expected =
        json!({ "units": 1_250_000, "burst": 1_250_000, "window_ms": 86_400_000, "unit": "usd-6" });
    assert_eq!(tried["candidate"]["limit"], expected);
}
