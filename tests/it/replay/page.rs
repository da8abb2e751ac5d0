//! What the page of a replay names, and how large it is.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{Place, notes};
use crate::support::{Client, Gateway, Program, eventually};

const TOKEN: &str = "operate-0123456789abcdef";
/// The most bytes of a page.
const MAX_BYTES: usize = 200_000;

/// The cells of the first column of the tables with clients.
fn listed_clients(page: &str) -> BTreeSet<&str> {
    let (_, clients) = page.split_once(">Clients that would be refused<").expect("a section");
    let clients = clients.split("<h2>").next().unwrap_or_default();
    let rows = clients.split("<tr><td>").skip(1);
    rows.filter_map(|row| Some(row.split_once("</td>")?.0)).collect()
}

impl Place {
    /// The page of a replay that succeeds.
    fn page(&self, arguments: &[&str]) -> String {
        let path = self.path("report.html").display().to_string();
        let output = self.replay(&[&["--html", &path], arguments].concat());
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        std::fs::read_to_string(&path).expect("a page")
    }
}

/// An operator who reads the page asks the gateway with the ids that are on it.
#[test]
fn the_clients_of_a_log_with_keys_are_those_of_the_admin_api() {
    let yaml = format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         policies: {{ each: {{ key: \"header:x-who\", limit: 3/day }} }}\n\
         routes: [{{ path: \"/*\", policies: [each], respond: {{ body: ok }} }}]\n\
         runtime: {{ workers: 1 }}\n\
         admin: {{ address: \"127.0.0.1:0\", token: {TOKEN} }}\n"
    );
    let gateway = Gateway::start_logging(&yaml, "json, keys: true");
    let mut client = gateway.client();
    for (who, requests) in [("ann-secret", 7), ("bob-secret", 5), ("eve-secret", 3)] {
        for _ in 0..requests {
            client.get("/", &[&format!("X-Who: {who}")]);
        }
    }
    let place = Place::new(&[]);
    place.write("gateway.yaml", yaml.as_bytes());
    let log = place.write("access.log", gateway.access_text(15).as_bytes());
    let page = place.page(&[&log]);
    assert!(!page.contains("secret") && !page.contains("127.0.0"), "{page}");
    let ids = listed_clients(&page);
    assert_eq!(ids.len(), 2, "eve is never refused: {ids:?}");

    let admin = gateway.addresses()[1];
    let get = |target: &str| {
        let fields = format!("Host: {admin}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close");
        let mut client = Client::connect(admin);
        client.send(format!("GET {target} HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes());
        client.response("GET")
    };
    // The requests may lie in two minutes.
    let mut refused = BTreeSet::new();
    eventually("both clients are listed", || {
        thread::sleep(Duration::from_millis(50));
        let tops =
            [0, 1].map(|minutes| get(&format!("/v1/top?policy=each&minutes={minutes}")).json());
        let clients =
            tops.iter().filter_map(|top| top["policies"][0]["clients"].as_array()).flatten();
        let clients = clients.filter(|it| it["refused"] != 0);
        refused = clients.filter_map(|it| Some(it["id"].as_str()?.to_owned())).collect();
        refused.len() == 2
    });
    assert_eq!(ids, refused.iter().map(String::as_str).collect());
    for id in ids {
        let counter = get(&format!("/v1/policies/each/keys/~{id}"));
        assert_eq!((counter.status, &counter.json()["remaining"]), (200, &0.into()), "{id}");
    }
}

/// The client is the address that the gateway would take: the last one of a list, or with trusted
/// proxies the last one that is none of them.
#[test]
fn trusted_proxies_decide_which_address_of_a_list_counts() {
    let place = Place::new(&[("per-client", "key: ip, limit: 2/minute, algorithm: fixed_window")]);
    let line =
        |list: &str| format!("{{\"ts\":1795244400123,\"from\":\"{list}\",\"url\":\"/x\"}}\n");
    let text = line("198.51.100.1, 203.0.113.9, 10.0.0.1").repeat(4)
        + &line("198.51.100.2, 203.0.113.9, 10.0.0.2").repeat(3)
        + &line("198.51.100.3, 203.0.113.9, 192.0.2.1").repeat(3);
    let log = place.write("requests.json", text.as_bytes());
    let map = ["--map", "time=ts,client=from,path=url", &*log];
    let clients = |report: &Value| {
        let clients = report["policies"][0]["refused_clients"].as_array().expect("a list").iter();
        let of = |it: &Value| Some((it["client"].as_str()?.to_owned(), it["refused"].as_u64()?));
        clients.filter_map(of).collect::<BTreeSet<_>>()
    };
    let expected = |clients: &[(&str, u64)]| {
        clients.iter().map(|(client, refused)| ((*client).to_owned(), *refused)).collect()
    };
    let report = place.report(&map);
    let peers: BTreeSet<_> = expected(&[("10.0.0.1", 2), ("10.0.0.2", 1), ("192.0.2.1", 1)]);
    assert_eq!(clients(&report), peers);
    assert!(notes(&report)[0].starts_with("10 requests name a list of addresses"), "{report:#}");

    let file = std::fs::read_to_string(place.path("gateway.yaml")).expect("a file");
    let trusting = file + "client: { trusted_proxies: [10.0.0.0/8] }\n";
    place.write("gateway.yaml", trusting.as_bytes());
    let report = place.report(&map);
    // 192.0.2.1 is no proxy, so what it says of others does not count.
    assert_eq!(clients(&report), expected(&[("203.0.113.9", 5), ("192.0.2.1", 1)]));
    assert_eq!(notes(&report), [""; 0]);
    assert_eq!(listed_clients(&place.page(&map)), BTreeSet::from(["203.0.113.9", "192.0.2.1"]));
}

/// A configuration of so many policies with names of this length, at most 128, each on a route of its own. All but
/// the last ten allow one request of a client.
fn crowd(policies: usize, length: usize) -> String {
    let mut text = "listeners: [{ address: \"127.0.0.1:0\" }]\npolicies:\n".to_owned();
    let name = |number: usize| format!("p{number:0length$}");
    for number in 0..policies {
        let limit = if number + 10 < policies { 1 } else { 3 };
        let _ = writeln!(text, "  {}: {{ key: ip, limit: {limit}/day }}", name(number));
    }
    text.push_str("routes:\n");
    for number in 0..policies {
        let name = name(number);
        let _ =
            writeln!(text, "- {{ path: /{number}, policies: [{name}], respond: {{ body: ok }} }}");
    }
    text
}

/// Requests of 25 clients on each route, over an hour. No two of 40 routes are used as much.
fn crowded_log(policies: usize) -> String {
    let mut log = String::new();
    for minute in 0..5 {
        for route in 0..policies {
            for client in std::iter::repeat_n(0, route % 40).chain(0..25) {
                let minute = minute * 12 + client / 3;
                let second = client * 2;
                let _ = writeln!(
                    log,
                    "2001:db8:aaaa:{client:04x}:cccc:dddd:eeee:ffff - - [21/Nov/2026:07:{minute:02}:{second:02} +0000] \
                     \"GET /{route} HTTP/1.1\" 200 12 \"-\" \"curl/8\""
                );
            }
        }
    }
    log
}

/// However many policies and clients there are, a page can be sent and opened.
#[test]
fn a_page_of_many_policies_and_clients_is_small() {
    let place = Place::new(&[]);
    place.write("gateway.yaml", crowd(60, 127).as_bytes());
    let old = crowd(60, 127).replace("limit: 1/day", "limit: 2/day");
    let old = place.write("old.yaml", old.as_bytes());
    let log = place.write("access.log", crowded_log(60).as_bytes());
    let page = place.page(&["--suggest", "--against", &old, &log]);
    assert!(page.len() <= MAX_BYTES, "{} bytes", page.len());
    assert!(page.ends_with("</html>\n"), "{page}");
    assert!(
        page.contains("shows the 25 policies with the most refusals, of 60 policies."),
        "{page}"
    );
    // Twelve policies have a chart and a list of clients.
    assert_eq!(page.matches("<svg ").count(), 13);
    assert_eq!(page.matches("<tr><td>2001:db8:").count(), 13 * 20, "and those newly refused");
    assert_eq!(
        page.matches(&format!("<td>p{:0127}</td>", 24)).count(),
        2,
        "a policy of both tables"
    );
    assert_eq!(page.matches(&format!("p{:0127}", 59)).count(), 0, "it refuses least");
    // The text has all of them.
    let config = place.path("gateway.yaml").display().to_string();
    let text = Program::run(&["replay", "-c", &config, &log]).stdout;
    assert!(text.contains(&format!("\np{:0127} ", 59)), "{text}");
}
