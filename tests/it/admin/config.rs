//! The configuration that runs: shown whole, replaced by a call, and written into the file.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::patches::change;
use super::{AdminClient, OPERATE, READ, gateway, reasons, settles, statuses, yaml};
use crate::support::frames::{DATA, Frames, NO_ERROR, Outcome, frame, head, reset};
use crate::support::{Gateway, Origin, PATIENCE, Response, eventually};

const CONFIG: &str = "/v1/config";
const YAML: &str = "Content-Type: application/yaml";

fn tag(client: &AdminClient) -> String {
    client.get(CONFIG).field("ETag").expect("it has one").to_owned()
}

fn put(client: &AdminClient, target: &str, tag: &str, body: &str) -> Response {
    client.send("PUT", target, &[YAML, &format!("If-Match: {tag}")], body)
}

fn faults(client: &AdminClient) -> Vec<String> {
    reasons(client).unwrap_or_default()
}

fn text(gateway: &Gateway) -> String {
    fs::read_to_string(gateway.file()).expect("the file is there")
}

#[test]
fn a_put_configuration_runs_on_this_node_until_its_file_changes() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    let file = text(&gateway);
    let first = tag(&client);
    let other = file.replace("limit: 3/day", "limit: 4/day");
    assert_eq!(statuses(&gateway, "ann", 4), [200, 200, 200, 429]);
    assert_eq!(client.send("PUT", CONFIG, &[YAML], &other).status, 428);
    assert_eq!(put(&client, CONFIG, "\"old\"", &other).status, 412);
    let viewer = AdminClient::new(&gateway, READ);
    assert_eq!(put(&viewer, CONFIG, "*", &other).status, 403);
    let written = put(&client, "/v1/config?write=true", "*", &other);
    assert!(written.status == 403 && written.text().contains("write_config"), "{}", written.text());
    let broken = put(&client, CONFIG, &first, &file.replace("3/day", "lots"));
    let errors = broken.json()["errors"].clone();
    assert_eq!((broken.status, &errors[0]["line"]), (422, &json!(4)), "{errors}");
    let masked = put(&client, CONFIG, &first, &file.replace(OPERATE, "'***'"));
    assert!(masked.status == 422 && masked.text().contains("mask"), "{}", masked.text());
    assert_eq!((tag(&client), faults(&client)), (first.clone(), Vec::new()));

    let done = put(&client, CONFIG, &first, &other);
    assert_eq!(done.status, 200, "{}", done.text());
    let answer = done.json();
    let changed = json!([{ "at": "/policies/each/limit", "before": "3/day", "after": "4/day" }]);
    assert_eq!((&answer["changes"], &answer["from"]), (&changed, &json!("call")));
    assert_eq!(done.field("ETag"), Some(&*tag(&client)));
    assert_eq!(statuses(&gateway, "ann", 2), [200, 429], "the counter goes on");
    assert_eq!(text(&gateway), file);
    settles("it is told", || faults(&client) == ["config_not_from_file"]);
    let node = client.get("/v1/nodes").json()["items"][0].clone();
    assert_eq!((&node["config_from"], &node["config"]), (&json!("call"), &answer["digest"]));
    let audit = client.get("/v1/audit?limit=1").json()["items"][0].clone();
    assert_eq!(audit["after"]["at"], json!(["/policies/each/limit"]), "{audit}");
    assert_ne!(audit["before"]["digest"], audit["after"]["digest"]);

    // A call gives no rights that the file does not give.
    let more = other.replace("admin: {", "admin: { write_config: true, ");
    assert_eq!(put(&client, CONFIG, "*", &more).status, 200);
    assert_eq!(put(&client, "/v1/config?write=true", "*", &other).status, 403);
    // A reload that fails leaves it; a changed file replaces it.
    gateway.rewrite("nonsense: 1\n");
    settles("it is told", || faults(&client) == ["reload_failed", "config_not_from_file"]);
    let operator = AdminClient::new(&gateway, OPERATE);
    assert_eq!(statuses(&gateway, "bob", 5), [200, 200, 200, 200, 429]);
    gateway.reload(&yaml("", "").replace("3/day", "5/day"));
    assert_eq!(operator.get(CONFIG).json()["from"], "file");
    assert_eq!(statuses(&gateway, "ann", 2), [200, 429]);
    settles("it is well", || faults(&operator).is_empty());
    // So does a signal.
    assert_eq!(put(&operator, CONFIG, "*", &other).json()["from"], "call");
    gateway.signal("HUP");
    settles("it is the file again", || operator.get(CONFIG).json()["from"] == "file");
    // The text of the file is no other configuration.
    assert_eq!(put(&operator, CONFIG, "*", &text(&gateway)).json()["from"], "file");
}

/// A part of a configuration can be a configuration, too.
#[test]
fn a_configuration_whose_stream_is_reset_is_not_used() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    let before = tag(&client);
    let authority = gateway.addresses()[1].to_string();
    let bearer = format!("Bearer {OPERATE}");
    let call = |stream, method, ends| {
        let fields = [
            (":method", method),
            (":scheme", "http"),
            (":authority", &*authority),
            (":path", CONFIG),
            ("authorization", &*bearer),
            ("content-type", "application/yaml"),
            ("if-match", "*"),
        ];
        head(stream, &fields, ends)
    };
    let other = text(&gateway).replace("limit: 3/day", "limit: 4/day");
    // Often, because the call may also be cancelled before its body is read.
    for _ in 0..20 {
        let mut frames = Frames::connect(gateway.addresses()[1]);
        let body = frame(DATA, 0, 1, other.as_bytes());
        frames.send(&[call(1, "PUT", false), body, reset(1, NO_ERROR)].concat());
        frames.send(&call(3, "GET", true));
        assert_eq!(frames.outcome(3), Outcome::Status(200));
    }
    assert_eq!(tag(&client), before);
}

#[test]
fn what_is_true_is_shown_with_its_origins_and_without_secrets() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    super::patches::patch(&client, r#"{"limit":"9/1d"}"#);
    let shown = AdminClient::new(&gateway, READ).get("/v1/config?view=effective");
    assert!(![OPERATE, READ].iter().any(|it| shown.text().contains(it)), "{}", shown.text());
    assert_eq!(shown.field("ETag"), Some(&*tag(&client)));
    let shown = shown.json();
    let each = &shown["effective"]["policies"]["each"];
    assert_eq!((&each["limit"], &each["missing_key"]), (&json!("9/1d"), &json!("ip")));
    assert_eq!(shown["origins"]["patch"], json!(["/policies/each/limit"]));
    assert_eq!(client.get("/v1/config?view=other").status, 400);
    // Another configuration is compared with the one that runs.
    let other = text(&gateway).replace("1M/day", "2M/day");
    let checked = client.send("POST", "/v1/config/check", &[YAML], &other).json();
    assert_eq!(checked["changes"][0]["at"], "/policies/open/limit", "{checked}");
}

#[test]
fn what_cannot_run_here_is_not_written() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    let gateway = gateway("", "write_config: true");
    let client = AdminClient::new(&gateway, OPERATE);
    let before = fs::metadata(gateway.file()).expect("it is there");
    let first = tag(&client);
    let more = format!("listeners: [{{ address: \"{address}\" }}, {{");
    let other = text(&gateway).replacen("listeners: [{", &more, 1).replace("3/day", "4/day");
    for target in [CONFIG, "/v1/config?write=true"] {
        let refused = put(&client, target, &first, &other);
        assert_eq!(refused.status, 409, "{}", refused.text());
        let told = "it cannot run here, so nothing has changed: ";
        assert!(refused.text().contains(told), "{}", refused.text());
    }
    let after = fs::metadata(gateway.file()).expect("it is there");
    assert_eq!(after.ino(), before.ino(), "another program never sees another text");
    let beside = fs::read_dir(gateway.file().parent().expect("a directory")).expect("it is ours");
    let names: Vec<_> = beside.flatten().map(|it| it.file_name()).collect();
    assert!(!names.iter().any(|it| it.to_string_lossy().starts_with('.')), "{names:?}");
    assert_eq!((tag(&client), statuses(&gateway, "ann", 4)), (first, vec![200, 200, 200, 429]));
}

/// An issuer that has no keys, and says so when the test lets it go on. A call whose configuration asks
/// it for its first keys waits until then.
struct SlowIssuer {
    issuer: Origin,
    go: mpsc::Sender<()>,
    /// The section that asks it.
    user: String,
}

impl SlowIssuer {
    fn new() -> Self {
        let (go, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let issuer = Origin::answering(move |_| {
            let _ = wait.lock().map(|wait| wait.recv_timeout(PATIENCE));
            "HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n".to_owned()
        });
        let jwt = format!("jwks: \"http://{}/keys\", algorithms: [ES256]", issuer.address());
        let user = format!("client: {{ user: {{ jwt: {{ {jwt} }} }} }}\n");
        Self { issuer, go, user }
    }
}

/// Regression: the digest before the change was that of the moment of the call, and the rest that of
/// the configuration that was replaced.
#[test]
fn the_audit_log_has_the_configuration_that_a_call_has_replaced() {
    let gateway = gateway("", "");
    let client = AdminClient::new(&gateway, OPERATE);
    let SlowIssuer { issuer, go, user } = SlowIssuer::new();
    let file = text(&gateway);
    let slow = format!("{file}{user}");
    let next = file.replace("3/day", "4/day");
    thread::scope(|scope| {
        let first = scope.spawn(|| put(&client, CONFIG, "*", &slow));
        eventually("the keys are asked for", || !issuer.received().is_empty());
        let sockets = gateway.open_sockets();
        let second = scope.spawn(|| put(&client, CONFIG, "*", &next));
        eventually("the second call has come", || gateway.open_sockets() > sockets);
        go.send(()).expect("the issuer waits");
        for call in [first, second] {
            let done = call.join().expect("it is answered");
            assert_eq!(done.status, 200, "{}", done.text());
        }
    });
    let audit = client.get("/v1/audit").json();
    let [last, first] = [&audit["items"][0], &audit["items"][1]];
    assert_eq!(last["before"]["keyed_digest"], first["after"]["keyed_digest"], "{audit}");
    assert_eq!(last["before"]["digest"], first["after"]["digest"], "{audit}");
}

/// Puts this text, and replaces the file by the `edited` one while the call waits for an issuer.
fn put_during_an_edit(
    gateway: &Gateway,
    client: &AdminClient,
    text: &str,
    edited: &str,
) -> Response {
    let SlowIssuer { issuer, go, user } = SlowIssuer::new();
    let first = tag(client);
    let other = format!("{text}{user}");
    thread::scope(|scope| {
        let call = scope.spawn(|| put(client, "/v1/config?write=true", &first, &other));
        eventually("the keys are asked for", || !issuer.received().is_empty());
        let new = gateway.file().with_file_name("edited");
        fs::write(&new, edited).expect("a file");
        fs::rename(new, gateway.file()).expect("both are in one directory");
        go.send(()).expect("the issuer waits");
        call.join().expect("it is answered")
    })
}

/// Regression: the sockets were replaced before the call was refused, and then they had no name.
#[test]
fn a_call_that_is_refused_at_last_replaces_no_unix_socket() {
    let directory = tempfile::tempdir().expect("a directory");
    let [own, other] = ["own", "other"].map(|name| directory.path().join(name));
    let another_process = UnixListener::bind(&other).expect("a socket");
    let listener = |path: &Path| format!("{{ address: \"unix:{}\" }}", path.display());
    let listeners = format!("[{}, {{", listener(&own));
    let gateway = Gateway::start(&yaml("", "write_config: true").replacen("[{", &listeners, 1));
    let client = AdminClient::new(&gateway, OPERATE);
    let file = text(&gateway);
    let moved = file.replacen(&listener(&own), &listener(&other), 1);
    let changed = format!("{moved}check: {{ http: {} }}\n", listener(&own));
    let refused = put_during_an_edit(&gateway, &client, &changed, &file.replace("3/day", "5/day"));
    assert_eq!(refused.status, 409, "{}", refused.text());
    let ask = |path: &Path| {
        let mut socket = UnixStream::connect(path).expect("it has its name");
        let _ = socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        socket
    };
    let answer = |path: &Path| {
        let mut answer = String::new();
        ask(path).read_to_string(&mut answer).expect("it is answered");
        answer
    };
    ask(&other);
    another_process.accept().expect("it has the socket");
    assert!(answer(&own).contains("x-request-id"), "{}", answer(&own));
    let left = fs::read_dir(directory.path()).expect("it is there").count();
    assert_eq!(left, 2, "no other names are left");
    settles("the edit is in use", || gateway.log().contains(" reloaded file="));
    let done = put(&client, CONFIG, &tag(&client), &changed);
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(answer(&other).contains("x-request-id"), "{}", answer(&other));
    assert!(!answer(&own).contains("x-request-id"), "it is of the check API: {}", answer(&own));
}

/// Regression: the edit of another program was lost without a word.
#[test]
fn an_edit_of_the_file_while_a_call_is_prepared_is_not_overwritten() {
    let gateway = gateway("", "write_config: true");
    let client = AdminClient::new(&gateway, OPERATE);
    let file = text(&gateway);
    let edited = file.replace("3/day", "5/day");
    let refused = put_during_an_edit(&gateway, &client, &file, &edited);
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("changed in the meantime"), "{}", refused.text());
    assert_eq!(text(&gateway), edited);
    settles("the edit is in use", || gateway.log().contains(" reloaded file="));
    assert_eq!(statuses(&gateway, "ann", 6), [200, 200, 200, 200, 200, 429]);
}

/// The author of the call has seen the text in use, and not this one.
#[test]
fn an_edit_of_the_file_that_could_not_be_reloaded_is_not_overwritten() {
    let gateway = gateway("", "write_config: true");
    let client = AdminClient::new(&gateway, OPERATE);
    let first = tag(&client);
    let good = text(&gateway);
    let edited = format!("{good}nonsense: 1\n");
    fs::write(gateway.file(), &edited).expect("it is ours");
    settles("it is refused", || gateway.log().contains("not reloaded"));
    let other = good.replace("3/day", "4/day");
    let refused = put(&client, "/v1/config?write=true", &first, &other);
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("could not be reloaded"), "{}", refused.text());
    assert_eq!(text(&gateway), edited);
    // This call does not touch the file, and so its text is still not in use.
    assert_eq!(put(&client, CONFIG, &first, &other).status, 200);
    let refused = put(&client, "/v1/config?write=true", &tag(&client), &other);
    assert_eq!(refused.status, 409, "{}", refused.text());
    let forced = put(&client, "/v1/config?write=true", "*", &other);
    assert_eq!((forced.status, text(&gateway)), (200, other), "{}", forced.text());
    let done = put(&client, "/v1/config?write=true", &tag(&client), &good);
    assert_eq!((done.status, text(&gateway)), (200, good), "{}", done.text());
}

#[test]
fn calls_write_the_file_if_it_allows_that() {
    let gateway = gateway("", "write_config: true");
    let client = AdminClient::new(&gateway, OPERATE);
    let generation = || client.get(CONFIG).json()["generation"].clone();
    let commented = text(&gateway).replace("  each:", "  # who calls\n  each:");
    let commented = commented.replace("limit: 3/day", "limit:  40/day");
    fs::set_permissions(gateway.file(), fs::Permissions::from_mode(0o640)).expect("it is ours");
    let done = put(&client, "/v1/config?write=true", &tag(&client), &commented);
    assert_eq!((done.status, &done.json()["from"]), (200, &json!("file")), "{}", done.text());
    assert_eq!(text(&gateway), commented);
    let mode = fs::metadata(gateway.file()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);

    // A patch that is kept: no request goes without the limit, and none is counted twice.
    let persist = |body: &str| change(&client, "PATCH", "/v1/policies/each", "*", body);
    let admitted = thread::scope(|scope| {
        let requests = scope.spawn(|| statuses(&gateway, "ann", 120));
        let kept = persist(r#"{"limit":"60/1d","persist":true,"reason":"more"}"#);
        assert_eq!((kept.status, &kept.json()["patch"]), (200, &json!(null)), "{}", kept.text());
        assert_eq!(kept.json()["definition"]["limit"], "60/1d");
        requests.join().expect("they are answered").into_iter().filter(|it| *it == 200).count()
    });
    let rest = statuses(&gateway, "ann", 60).into_iter().filter(|it| *it == 200).count();
    assert_eq!(admitted + rest, 60);
    let kept = commented.replace("40/day", "60/1d");
    assert_eq!(text(&gateway), kept);
    thread::sleep(Duration::from_millis(400));
    assert_eq!(generation(), 3, "what this process writes is no change: {}", gateway.log());
    assert_eq!(faults(&client), Vec::<String>::new());

    let more = persist(r#"{"mode":"shadow","persist":true}"#);
    assert_eq!(more.status, 409, "{}", more.text());
    assert_eq!(more.json()["errors"][0]["help"], "policies:\n  each:\n    mode: shadow\n");
    let timed = persist(r#"{"limit":"7/1d","for":"1h","persist":true}"#);
    assert_eq!(timed.status, 422, "{}", timed.text());
    fs::set_permissions(gateway.file(), fs::Permissions::from_mode(0o444)).expect("it is ours");
    let body = r#"{"limit":"7/1d","persist":true}"#;
    for refused in [persist(body), put(&client, "/v1/config?write=true", "*", &commented)] {
        assert!(
            refused.status == 409 && refused.text().contains("read-only"),
            "{}",
            refused.text()
        );
    }
    fs::set_permissions(gateway.file(), fs::Permissions::from_mode(0o600)).expect("it is ours");
    fs::write(gateway.file(), format!("{kept}nonsense: 1\n")).expect("it is ours");
    let refused = persist(body);
    assert!(refused.status == 409 && refused.text().contains("another"), "{}", refused.text());
    let each = client.get("/v1/policies/each").json();
    assert_eq!((&each["patch"], &each["limit"]["units"]), (&json!(null), &json!(60)));
}
