//! Reloads while clients are served, without lost requests.

use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::load::{Load, Plan};
use crate::support::{Client, Gateway, Origin, PATIENCE, eventually};

const LISTENER: &str = "listeners: [{ address: \"127.0.0.1:0\" }]\n";

/// A gateway that responds to all requests itself, with this limit.
fn limited(limit: &str) -> String {
    format!(
        "{LISTENER}policies: {{ p: {{ key: ip, limit: {limit} }} }}\n\
         routes: [{{ path: /*, policies: [p], respond: {{ body: \"{limit}\" }} }}]\n"
    )
}

/// A gateway that responds to all requests with this text.
fn saying(text: &str) -> String {
    format!("{LISTENER}routes: [{{ path: /*, respond: {{ body: {text} }} }}]\n")
}

/// A gateway that forwards all requests to this origin. `route`: further fields of the
/// route.
fn forwarding(origin: &Origin, route: &str) -> String {
    format!(
        "{LISTENER}upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
         routes: [{{ path: /*, upstream: app, {route} }}]\n",
        origin.address()
    )
}

#[test]
fn a_changed_limit_applies_at_once_to_existing_counters() {
    let gateway = Gateway::start(&limited("2/day"));
    let mut client = gateway.client();
    let statuses = [1, 2, 3].map(|_| client.get("/", &[]).status);
    assert_eq!(statuses, [200, 200, 429]);
    gateway.reload(&limited("3/day"));
    let third = client.get("/", &[]);
    assert_eq!((third.status, third.number("X-Ratelimit-Remaining")), (200, 0));
    assert_eq!(third.number("X-Ratelimit-Limit"), 3);
    assert_eq!(client.get("/", &[]).status, 429);
    gateway.reload(&limited("1/day"));
    assert_eq!(client.get("/", &[]).status, 429, "the connection lives on");
}

#[test]
fn a_signal_reads_the_file_again() {
    let gateway = Gateway::start(&saying("old"));
    gateway.signal("HUP");
    eventually("it reloads", || gateway.log().contains(" reloaded file="));
    assert_eq!(gateway.client().get("/", &[]).text(), "old");
}

#[test]
fn without_a_file_a_signal_changes_nothing() {
    let arguments = ["--to", "builtin:echo", "--limit", "9/day", "--listen", "127.0.0.1:0"];
    let gateway = Gateway::start_with(&arguments);
    gateway.signal("HUP");
    eventually("it says so", || gateway.log().contains("no file"));
    assert_eq!(gateway.client().get("/", &[]).status, 200);
}

/// As Kubernetes mounts a ConfigMap: a link to a link to a directory. The second link is
/// replaced.
#[test]
fn a_file_that_is_replaced_behind_links_is_read_again() {
    let gateway = Gateway::start(&saying("first"));
    let file = gateway.file();
    let directory = file.parent().expect("a directory");
    for version in ["one", "two"] {
        let path = directory.join(version);
        std::fs::create_dir(&path).expect("a directory");
        std::fs::write(path.join("gateway.yaml"), saying(version)).expect("a file");
    }
    let link = |to: &str, name: &str| {
        let beside = directory.join("link");
        symlink(to, &beside).expect("a link");
        std::fs::rename(beside, directory.join(name)).expect("it is in the same directory");
    };
    link("one", "..data");
    link("..data/gateway.yaml", "gateway.yaml");
    eventually("it is read", || gateway.client().get("/", &[]).text() == "one");
    link("two", "..data");
    eventually("it is read", || gateway.client().get("/", &[]).text() == "two");
}

#[test]
fn a_broken_file_changes_nothing_and_the_log_reports_the_mistake() {
    let gateway = Gateway::start(&saying("good"));
    gateway.rewrite(&limited("many"));
    eventually("it is refused", || gateway.log().contains("not reloaded"));
    let log = gateway.log();
    assert!(log.contains("gateway.yaml:2:34: error: "), "{log}");
    assert_eq!(gateway.client().get("/", &[]).text(), "good");
    gateway.reload(&saying("better"));
    assert_eq!(gateway.client().get("/", &[]).text(), "better");
}

/// The file that it names is missing or invalid. Correcting that file is enough.
#[test]
fn a_corrected_file_that_a_broken_one_names_is_read_again() {
    let gateway = Gateway::start(&saying("old"));
    let named = gateway.file().with_file_name("limit");
    gateway.rewrite(&limited("1/s").replace("limit: 1/s", "limit: \"${file:limit}\""));
    eventually("it is refused", || gateway.log().matches("not reloaded").count() == 1);
    std::fs::write(&named, "many").expect("a file");
    eventually("it is refused", || gateway.log().matches("not reloaded").count() == 2);
    std::fs::write(&named, "7/day").expect("a file");
    eventually("it is read", || gateway.log().contains(" reloaded file="));
    assert_eq!(gateway.client().get("/", &[]).number("X-Ratelimit-Limit"), 7);
}

#[test]
fn a_request_in_progress_keeps_its_configuration() {
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let origin = Origin::answering(move |_| {
        let _ = may_go.lock().map(|may_go| may_go.recv_timeout(PATIENCE));
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()
    });
    let with = |value: &str| {
        forwarding(&origin, &format!("response_headers: {{ set: {{ x-config: {value} }} }}"))
    };
    let gateway = Gateway::start(&with("old"));
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request arrives", || origin.received().len() == 1);
    gateway.reload(&with("new"));
    go.send(()).expect("the origin waits");
    assert_eq!(client.response("GET").field("X-Config"), Some("old"));
    go.send(()).expect("the origin waits");
    assert_eq!(client.get("/", &[]).field("X-Config"), Some("new"));
}

#[test]
fn connections_to_an_upstream_that_did_not_change_are_kept() {
    let origin = Origin::hello();
    let one_worker =
        |route: &str| format!("{}runtime: {{ workers: 1 }}\n", forwarding(&origin, route));
    let gateway = Gateway::start(&one_worker(""));
    let mut client = gateway.client();
    assert_eq!(client.get("/", &[]).status, 200);
    gateway.reload(&one_worker("max_body: 1KiB"));
    assert_eq!(client.get("/", &[]).status, 200);
    assert_eq!(origin.connections(), 1);
    let other = Origin::hello();
    gateway.reload(&forwarding(&other, ""));
    assert_eq!(client.get("/", &[]).status, 200);
    assert_eq!(other.connections(), 1);
}

#[test]
fn listeners_are_added_and_removed() {
    let two = saying("ok").replacen("[{", "[{ address: \"127.0.0.2:0\" }, {", 1);
    let gateway = Gateway::start(&saying("ok"));
    let mut staying = gateway.client();
    gateway.reload(&two);
    let addresses = gateway.addresses();
    assert_eq!(addresses.len(), 2, "the first one stays: {}", gateway.log());
    let mut leaving = Client::connect(addresses[1]);
    assert_eq!(leaving.get("/", &[]).text(), "ok");
    gateway.reload(&saying("ok"));
    let last = leaving.get("/", &[]);
    assert_eq!(last.field("Connection").map(str::to_lowercase).as_deref(), Some("close"));
    eventually("the address is closed", || Client::try_connect(addresses[1]).is_err());
    assert_eq!(staying.get("/", &[]).text(), "ok");
}

#[test]
fn requests_of_a_removed_listener_have_the_time_of_a_drain() {
    let (go, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let origin = Origin::answering(move |_| {
        let _: Result<(), _> = wait.lock().expect("no panic").recv();
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()
    });
    let short = format!("{}runtime: {{ drain: 300ms }}\n", forwarding(&origin, ""));
    let two = short.replacen("[{", "[{ address: \"127.0.0.2:0\" }, {", 1);
    let gateway = Gateway::start(&two);
    let [leaving, staying] = gateway.addresses()[..] else { panic!("two listeners") };
    let [mut leaving, mut staying] = [leaving, staying].map(Client::connect);
    for client in [&mut leaving, &mut staying] {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    eventually("both ask", || origin.received().len() == 2);
    gateway.reload(&short);
    assert!(leaving.is_closed());
    for _ in 0..2 {
        go.send(()).expect("both wait");
    }
    assert_eq!(staying.response("GET").status, 200);
}

#[test]
fn an_address_that_is_not_available_changes_nothing() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let gateway = Gateway::start(&saying("good"));
    let more = format!("[{{ address: \"{address}\" }}, {{");
    gateway.rewrite(&saying("bad").replacen("[{", &more, 1));
    eventually("it is refused", || gateway.log().contains("another program has this port"));
    assert_eq!(gateway.client().get("/", &[]).text(), "good");
}

/// Regression: the socket of the other process was replaced before, and then it had no name.
#[test]
fn a_reload_that_fails_leaves_the_unix_socket_of_another_process() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let _other = UnixListener::bind(&path).expect("a socket");
    let gateway = Gateway::start(&saying("good"));
    let more =
        format!("[{{ address: \"unix:{}\" }}, {{ address: \"{address}\" }}, {{", path.display());
    gateway.rewrite(&saying("bad").replacen("[{", &more, 1));
    eventually("it is refused", || gateway.log().contains("another program has this port"));
    UnixStream::connect(&path).expect("the other process still listens");
}

#[test]
fn bounds_of_a_listener_apply_to_later_connections() {
    let gateway = Gateway::start(&saying("ok"));
    let fields = ["X-A: 1", "X-B: 2", "X-C: 3"];
    let mut earlier = gateway.client();
    assert_eq!(earlier.get("/", &fields).status, 200);
    gateway.reload(&saying("ok").replacen(" }]", ", max_headers: 3 }]", 1));
    assert_eq!(gateway.client().get("/", &fields).status, 431);
    assert_eq!(earlier.get("/", &fields).status, 200);
}

#[test]
fn changes_that_need_a_restart_are_logged_and_not_applied() {
    let gateway = Gateway::start(&saying("old"));
    gateway.reload(&format!(
        "{}runtime: {{ workers: 1 }}\nstore: {{ memory: {{ max_keys: 5 }} }}\n",
        saying("new")
    ));
    let log = gateway.log();
    for name in ["runtime.workers", "store"] {
        assert!(log.contains(&format!("{name}: changed in the file")), "{log}");
    }
    assert!(!log.contains("telemetry: changed"), "{log}");
    assert_eq!(gateway.client().get("/", &[]).text(), "new");
}

#[test]
fn a_hundred_reloads_under_load_lose_no_request_and_no_memory() {
    let origin = Origin::hello();
    let with = |number: usize| {
        format!(
            "{LISTENER}upstreams: {{ app: {{ endpoints: [\"http://{}\"] }} }}\n\
             policies: {{ p: {{ key: ip, limit: {}/s }} }}\n\
             routes: [{{ path: /*, policies: [p], upstream: app }}]\n",
            origin.address(),
            1_000_000 + number
        )
    };
    let gateway = Gateway::start(&with(0));
    let addresses = vec![gateway.address()];
    let rest = Duration::from_millis(1);
    let load = Load::start(&Plan { addresses, connections: 8, path: "/", clients: 8, rest });
    for number in 1..=20 {
        gateway.reload(&with(number));
    }
    let before = gateway.resident_kib();
    for number in 21..=100 {
        gateway.reload(&with(number));
    }
    let grown = gateway.resident_kib().saturating_sub(before);
    let samples = load.stop();
    assert!(samples.len() > 1000, "only {} requests", samples.len());
    assert!(samples.iter().all(|sample| sample.status == 200));
    assert!(grown < 4 * 1024, "{grown} KiB more");
    assert_eq!(gateway.client().get("/", &[]).number("X-Ratelimit-Limit"), 1_000_100);
}

#[test]
fn too_many_connections_for_the_files_are_logged_once_and_again_if_there_are_more() {
    let origin = Origin::hello();
    let gateway = Gateway::with_files(300, &origin, "");
    let said = || gateway.log().matches("max_connections adds up to").count();
    eventually("it is said at the start", || said() == 1);
    for size in ["1KiB", "2KiB"] {
        gateway.reload(&forwarding(&origin, &format!("max_body: {size}")));
    }
    assert_eq!(said(), 1, "{}", gateway.log());
    let more = forwarding(&origin, "").replacen(" }]", ", max_connections: 20000 }]", 1);
    gateway.reload(&more);
    assert_eq!(said(), 2, "{}", gateway.log());
}
