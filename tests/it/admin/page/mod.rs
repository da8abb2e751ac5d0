//! The page, in a real browser. The browser is started once for all that is looked at.

mod acts;
mod faults;
mod keys;
mod link;
mod sessions;

use serde_json::{Value, json};

use super::{AdminClient, OPERATE, READ, section, statuses};
use crate::support::{Browser, Gateway, eventually};

/// A gateway whose policy can be looked at, explained and changed.
fn gateway() -> Gateway {
    Gateway::start(&yaml())
}

fn yaml() -> String {
    format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies:\n  \
           each: {{ key: \"header:x-who\", limit: 3/day }}\n  \
           open: {{ key: ip, limit: 1M/day, mode: shadow, \
                  plans: {{ from: \"header:x-plan\", limits: {{ pro: 5/day }} }} }}\n\
         routes: [{{ path: \"/*\", policies: [each, open], respond: {{ body: ok }} }}]\n{}",
        section("")
    )
}

#[test]
fn the_page_is_static_and_keeps_foreign_hosts_out() {
    let gateway = gateway();
    let client = AdminClient::without_token(&gateway);
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page/main.js", "text/javascript; charset=utf-8"),
        ("/page/style.css", "text/css; charset=utf-8"),
    ] {
        let response = client.get(path);
        assert_eq!((response.status, response.field("Content-Type")), (200, Some(content_type)));
        let policy = response.field("Content-Security-Policy").expect("it has one");
        for part in [
            "default-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.split("; ").any(|it| it == part), "{part}: {policy}");
        }
        for (name, value) in [
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ] {
            assert_eq!(response.field(name), Some(value), "{path} {name}");
        }
        let foreign = client.send_to("Host: evil.example", "GET", path, &[], "");
        assert_eq!(foreign.status, 403, "{path}");
    }
    assert_eq!(client.get("/page/none.js").status, 404);
}

/// A reader of events that reads nothing, and one too many.
#[test]
fn streams_of_events_are_bounded_and_slow_no_request_down() {
    let gateway = gateway();
    let viewer = AdminClient::new(&gateway, READ);
    let open = || {
        let mut client = crate::support::Client::connect(viewer.address);
        let head = format!(
            "GET /v1/events?topics=summary,state HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {READ}\r\n\r\n"
        );
        client.send(head.as_bytes());
        client
    };
    let mut streams: Vec<_> = (0..16).map(|_| open()).collect();
    let head = streams[0].head();
    assert_eq!((head.status, head.field("Content-Type")), (200, Some("text/event-stream")));
    let mut told = String::new();
    while !(told.contains("event: summary\n") && told.contains("event: state\n")) {
        let chunk = streams[0].chunk().expect("it goes on").expect("it goes on");
        told += &String::from_utf8(chunk).expect("UTF-8");
    }
    let refused = viewer.get("/v1/events?topics=state");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(statuses(&gateway, "ann", 4), [200, 200, 200, 429]);
    assert_eq!(viewer.get("/v1/events?topics=other").status, 400);
    super::settles("the figures are those of the requests", || {
        let history = viewer.get("/v1/history?step=60&policies=1").json();
        let items = history["items"].as_array().expect("a list");
        let sum = |name: &str| items.iter().filter_map(|it| it[name].as_u64()).sum::<u64>();
        let policies = history["policies"].as_array().expect("a list");
        let [policy] = &policies[..] else { return false };
        let of = |name: &str| {
            let steps = policy[name].as_array().expect("a list");
            assert_eq!(steps.len(), items.len(), "{name}");
            steps.iter().filter_map(Value::as_u64).sum::<u64>()
        };
        let decided = (of("decisions"), of("refused"), of("shadow_refused"));
        policy["policy"] == "each"
            && (sum("requests"), sum("refused"), decided) == (4, 1, (4, 1, 0))
    });
    assert_eq!(viewer.get("/v1/history").json()["policies"], Value::Null);
    assert_eq!(viewer.get("/v1/history?policies=101").status, 400);
    let rates = &viewer.get("/v1/status").json()["rates"];
    assert_eq!((&rates["requests"], &rates["refused"]), (&json!(4), &json!(1)), "{rates}");
    let outcomes = &viewer.get("/v1/policies/each").json()["outcomes"]["5m"];
    assert_eq!((&outcomes["admitted"], &outcomes["refused"]), (&json!(3), &json!(1)));
    // A stream ends when its token is removed by a reload.
    gateway.reload(&yaml().replace(READ, "another-token-0123456789"));
    let chunks = std::iter::from_fn(|| streams[0].chunk().expect("it goes on until its end"));
    let rest = String::from_utf8(chunks.flatten().collect()).expect("UTF-8");
    assert!(rest.contains("event: end\n") && rest.contains("no longer valid"), "{rest}");
}

/// Everything is done with the keyboard.
#[test]
fn the_page_shows_explains_and_changes_a_gateway() {
    let gateway = gateway();
    let admin = gateway.addresses()[1];
    let mut browser = Browser::start();
    browser.resize(1280, "light");
    browser.call("Page.navigate", json!({ "url": format!("http://{admin}/") }));
    browser.until("document.activeElement?.id === 'token'");
    check_look(&mut browser, "login");
    browser.write(OPERATE);
    browser.press("Enter");
    browser.until_text("#state", "Working");
    // It follows what happens.
    browser.until_text("#contact", "Live");
    watch_refused(&mut browser);
    assert_eq!(statuses(&gateway, "ann-secret", 5), [200, 200, 200, 429, 429]);
    browser.until("window.hasRefused === true");
    browser.until_text("#policy-table tbody tr", "40 %");
    eventually("the client is listed, also if another minute has begun", || {
        statuses(&gateway, "ann-secret", 1);
        browser.value("document.querySelector('#top-table').textContent.includes('header x-who')")
            == true
    });
    browser.until("document.querySelectorAll('#charts figure path').length > 3");
    eventually("a client of the plan is near its limit", || {
        let name = fastrand::u64(..).to_string();
        gateway.client().get("/", &["X-Plan: pro", &format!("X-Who: {name}")]);
        let row = "[...document.querySelectorAll('#plan-table tbody tr')].find((it) => \
                   it.textContent.startsWith('pro'))?.textContent.includes('1 listed')";
        browser.value(row) == true
    });
    explain(&mut browser);
    change(&mut browser, &gateway);
    check_look(&mut browser, "page");
    check_names(&mut browser);
    check_tabulator(&mut browser);
    check_requests(&browser, &format!("http://{admin}/"));
}

/// Lets the page set `hasRefused` when it shows refused requests. The figure lasts for one second, in
/// which the test may not look on a busy machine.
fn watch_refused(browser: &mut Browser) {
    browser.value(
        "new MutationObserver(() => {
            const refused = document.querySelectorAll('#figures .value')[1];
            window.hasRefused ||= refused.textContent !== '0';
        }).observe(document.querySelector('#figures'), { childList: true, subtree: true, characterData: true })",
    );
}

/// Opens the form of a policy, whose first field has the focus.
fn open_policy(browser: &mut Browser, policy: &str) {
    browser.tab_to(&format!("#policy-table tr[data-row={policy}] [data-opens]"));
    browser.press("Enter");
    browser.until("document.activeElement?.dataset.field === 'limit'");
}

/// A refusal is explained by its id, and then asked for again.
fn explain(browser: &mut Browser) {
    browser.until_text("#refusal-table", "header x-who an…");
    browser.tab_to("#refusal-table [data-opens]");
    browser.press("Enter");
    browser.until_text("#refusal-table .panel .result h4", "3 of 3 used, 0 left");
    browser.until_text("#refusal-table .panel", "with 3 of 3 used, told to wait");
    browser.tab_to("#refusal-table [data-do=request]");
    browser.press("Enter");
    browser.until("document.activeElement.id === 'x-headers'");
    assert_eq!(browser.value("document.activeElement.value"), "x-who: ");
    browser.press("End");
    browser.write("ann-secret");
    browser.tab_to("#explain [type=submit]");
    browser.press("Enter");
    browser.until_text("#explained h4", "Refused by each: 3 of 3 used, fits in");
    browser.until_text("#explained", "each: refused");
    browser.tab_to("#refusal-table .panel button");
    browser.press("Escape");
    let is_closed = "document.activeElement.matches('#refusal-table [data-opens]')";
    assert_eq!(browser.value(is_closed), true, "the focus goes back to the row");
}

/// A limit is tried in shadow, and then applied.
fn change(browser: &mut Browser, gateway: &Gateway) {
    open_policy(browser, "each");
    assert_eq!(browser.value("document.activeElement.value"), "3", "the limit of now");
    browser.value("document.activeElement.select()");
    browser.write("1");
    browser.tab_to("[data-field=reason]");
    browser.write("a try");
    browser.tab_to("[data-form=change] [type=submit]");
    browser.press("Enter");
    browser.until_text("#policy-table .result h4", "each is tried with 1/1d in shadow");
    browser.until_text("#policy-table tr[data-row=each]", "In shadow");
    assert_eq!(statuses(gateway, "bob-secret", 2), [200, 200]);
    browser.until_text("#policy-table tr[data-row=each]", "would refuse 50 % of 2 here");
    browser.tab_to("[data-field=limit]");
    browser.value("document.activeElement.select()");
    browser.write("9");
    browser.tab_to("#policy-table [type=radio]");
    browser.press("ArrowDown");
    // A change at run time keeps the window.
    let windows = "[...document.querySelector('[data-field=window]').options]";
    let allowed = browser.value(&format!("{windows}.filter((it) => !it.disabled).length"));
    assert_eq!(allowed, 1);
    browser.tab_to("[data-form=change] [type=submit]");
    assert_eq!(browser.value("document.activeElement.textContent"), "Apply now");
    browser.press("Enter");
    browser.until_text("#policy-table .result h4", "each now has 9/1d");
    browser.until_text("#policy-table tr[data-row=each]", "Changed");
    browser.until_text("#audit", "Limit changed of each");
    assert_eq!(statuses(gateway, "bob-secret", 8), [200, 200, 200, 200, 200, 200, 200, 429]);
    browser.tab_to("#policy-table [data-key=patch]");
    browser.press("Enter");
    browser.until_text("#policy-table .result h4", "each has the values of the file again");
    browser.until("!document.querySelector('#policy-table').textContent.includes('Changed 9')");
}

/// Both themes and narrow windows: nothing is cut off, and every text can be read.
fn check_look(browser: &mut Browser, name: &str) {
    for (width, theme) in [(1280, "light"), (1280, "dark"), (360, "light"), (320, "dark")] {
        browser.resize(width, theme);
        browser.picture(&format!("{name}-{width}-{theme}"));
        // A busy machine shows the change a little later.
        let nothing = |browser: &mut Browser, what: &str, expression: &str| {
            let mut found = Value::Null;
            let wanted = [json!(0), json!([])];
            let is_nothing = |browser: &mut Browser| {
                found = browser.value(expression);
                wanted.contains(&found)
            };
            assert!(browser.settles(is_nothing), "{name} at {width} in {theme}: {what}: {found}");
        };
        nothing(browser, "scrolls", "document.documentElement.scrollWidth - innerWidth");
        nothing(browser, "faint texts", include_str!("contrast.js"));
    }
    browser.resize(1280, "light");
}

/// Every control has a name that is read aloud, and every part of the page, too.
fn check_names(browser: &mut Browser) {
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().expect("a list");
    let named = |role: &str| {
        let of_role =
            nodes.iter().filter(|it| it["ignored"] == false && it["role"]["value"] == role);
        let names = of_role.map(|it| it["name"]["value"].as_str().unwrap_or_default().to_owned());
        names.collect::<Vec<_>>()
    };
    for (role, least) in [
        ("button", 2),
        ("link", 7),
        ("textbox", 4),
        ("combobox", 2),
        ("slider", 1),
        // The list of keys is empty in the first moments of a minute.
        ("table", 3),
        ("region", 7),
        ("figure", 3),
    ] {
        let names = named(role);
        assert!(names.len() >= least, "{role}: {names:?}");
        assert!(names.iter().all(|name| !name.trim().is_empty()), "{role}: {names:?}");
    }
    for landmark in ["banner", "main", "navigation", "contentinfo", "status"] {
        assert_eq!(named(landmark).len(), 1, "{landmark}");
    }
}

/// The tabulator reaches every control, and the focus can be seen wherever it is.
fn check_tabulator(browser: &mut Browser) {
    browser.value("document.activeElement.blur(), scrollTo(0, 0)");
    browser.value("globalThis.reached = new Set(), globalThis.unseen = []");
    let mut missed = Value::Null;
    // The page replaces controls while it is live. On a busy machine a round takes so long that
    // new ones appear behind the focus.
    let is_complete = browser.settles(|browser| {
        for _ in 0..120 {
            browser.press("Tab");
            browser.value(
                "{ const it = document.activeElement; if (it !== document.body) { \
                 reached.add(it); \
                 if (getComputedStyle(it).outlineStyle === 'none') unseen.push(it.outerHTML); } }",
            );
        }
        missed = browser.value(
            "[...document.querySelectorAll('a, button, input, select, textarea, summary')]\
             .filter((it) => it.checkVisibility() && !reached.has(it) && it.isConnected \
             && !(it.type === 'radio' && !it.checked)).map((it) => it.outerHTML)",
        );
        missed == json!([])
    });
    assert!(is_complete, "never reached: {missed}");
    assert_eq!(browser.value("unseen"), json!([]));
}

/// The console has no error, and the page asks its own origin alone.
fn check_requests(browser: &Browser, origin: &str) {
    let of = |method: &'static str| browser.events.iter().filter(move |it| it["method"] == method);
    let urls = of("Network.requestWillBeSent").map(|it| &it["params"]["request"]["url"]);
    let foreign: Vec<&Value> =
        urls.filter(|url| !url.as_str().is_some_and(|it| it.starts_with(origin))).collect();
    assert_eq!(foreign, [&Value::Null; 0], "requests to other origins");
    let said = of("Runtime.exceptionThrown").chain(of("Log.entryAdded"));
    let said: Vec<&Value> = said.chain(of("Runtime.consoleAPICalled")).collect();
    assert!(said.is_empty(), "the console is not empty: {said:?}");
}
