//! `tollgate policy` and `tollgate reset`: limits that change while a gateway runs.

use std::fs;

use serde_json::Value;

use super::{Directory, TOKEN, command, done, run, with_socket, yaml};
use crate::support::{Gateway, Origin, Output, Program};

fn policy(directory: &Directory, arguments: &[&str]) -> Output {
    let url = directory.url();
    run(directory.path(), &[&["policy"], arguments, &["--admin", &url]].concat())
}

/// The output of a command that is done.
fn told(output: &Output) -> &str {
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    &output.stdout
}

fn statuses(gateway: &Gateway, who: &str, count: usize) -> Vec<u16> {
    let mut client = gateway.client();
    (0..count).map(|_| client.get("/", &[&format!("X-Who: {who}")]).status).collect()
}

#[test]
fn a_limit_is_set_told_and_undone_by_the_printed_command() {
    let (gateway, directory) = with_socket("2/day");
    assert_eq!(statuses(&gateway, "ann", 3), [200, 200, 429]);
    let set = policy(&directory, &["set", "each", "4/1d", "--for", "30m", "--reason", "launch"]);
    let text = told(&set);
    assert!(text.starts_with("each: 2/1d -> 4/1d\n  In force  on this node"), "{text}");
    assert!(text.contains(", until 20"), "{text}");
    assert_eq!(statuses(&gateway, "ann", 3), [200, 200, 429]);
    let shown = policy(&directory, &["show", "each"]);
    for part in ["Limit     4/1d", "Changed   by ", ": launch\n", "File      2/day"] {
        assert!(told(&shown).contains(part), "{part}: {}", shown.stdout);
    }
    let listed = policy(&directory, &["list"]);
    assert!(told(&listed).starts_with("POLICY  LIMIT  KEY"), "{}", listed.stdout);
    assert!(listed.stdout.contains("\neach    4/1d   header:x-who  enforce"), "{}", listed.stdout);
    let json = policy(&directory, &["list", "--json"]);
    let json: Value = serde_json::from_str(told(&json)).expect("JSON");
    assert_eq!(json[0]["patch"]["reason"], "launch");

    // A second change can be undone, too: by the limit that was in force before it, for the rest of its
    // time.
    let more = policy(&directory, &["set", "each", "5/1d"]);
    let again = told(&more).lines().find(|it| it.starts_with("  Undo ")).expect("it is printed");
    let rest = again.strip_prefix("  Undo      tollgate policy set each 4/1d --for ");
    let at = format!(" --admin {}", directory.url());
    let rest = rest.and_then(|it| it.strip_suffix(&at)).unwrap_or_else(|| panic!("{again}"));
    assert!(rest == "30m" || rest.starts_with("29m"), "{again}");
    let command = text.lines().find_map(|line| line.trim().strip_prefix("Undo      tollgate "));
    let command: Vec<&str> = command.expect("it is printed").split(' ').collect();
    let undone = run(directory.path(), &command);
    let expected = "each: 5/1d -> 2/1d\n  In force  on this node alone, as in the file\n";
    assert_eq!(told(&undone), expected);
    let nothing = policy(&directory, &["undo", "each"]);
    assert!(
        nothing.code == Some(1) && nothing.stderr.contains("as in the file"),
        "{}",
        nothing.stderr
    );
}

/// Money is two words, and the listener needs a token.
#[test]
fn the_printed_command_undoes_a_second_change_of_a_limit_in_money() {
    let directory = Directory::new();
    let token = directory.path().join("the token");
    fs::write(&token, TOKEN).expect("a file");
    let gateway = Gateway::start(&format!(
        "listeners: [{{ address: \"127.0.0.1:0\" }}]\n\
         prices: {{ currency: usd, models: {{ a: {{ input: 1, output: 1 }} }} }}\n\
         policies: {{ spend: {{ key: ip, limit: 500 usd/day, \
                      cost: {{ reserve: {{}}, settle: {{ usage: openai }} }} }} }}\n\
         routes: [{{ path: \"/*\", policies: [spend], respond: {{ body: ok }} }}]\n\
         admin: {{ address: \"127.0.0.1:0\", token: {TOKEN} }}\n"
    ));
    let url = format!("http://{}", gateway.addresses()[1]);
    let at = ["--admin", &url, "--token-file", token.to_str().expect("UTF-8")];
    let set = |limit: &str| {
        run(directory.path(), &[&["policy", "set", "spend", limit], &at[..]].concat())
    };
    told(&set("600 usd/1d"));
    let second = set("700 usd/1d");
    let command =
        told(&second).lines().find_map(|it| it.trim().strip_prefix("Undo      tollgate "));
    let mut shell = Program::by_shell(&format!("\"$0\" {}", command.expect("it is printed")));
    let undone = done(shell.env_remove("TOLLGATE_ADMIN").env_remove("TOLLGATE_ADMIN_TOKEN"));
    assert!(
        told(&undone).starts_with("spend: 700.00 usd/1d -> 600.00 usd/1d\n"),
        "{}",
        undone.stdout
    );
}

#[test]
fn a_limit_is_tried_and_then_applied() {
    let (gateway, directory) = with_socket("4/day");
    let none = policy(&directory, &["apply", "each"]);
    assert!(none.code == Some(1), "{}", none.stdout);
    assert!(none.stderr.contains("begin with: tollgate policy try each LIMIT"), "{}", none.stderr);
    let tried = policy(&directory, &["try", "each", "1/1d"]);
    let text = told(&tried);
    assert!(text.starts_with("each: 1/1d is tried beside 4/1d, and refuses nothing\n"), "{text}");
    assert_eq!(statuses(&gateway, "ann", 3), [200, 200, 200]);
    let shown = policy(&directory, &["show", "each"]);
    assert!(told(&shown).contains("Tried     1/1d until 20"), "{}", shown.stdout);
    let applied = policy(&directory, &["apply", "each", "--reason", "it is enough"]);
    assert!(told(&applied).starts_with("each: 4/1d -> 1/1d\n"), "{}", applied.stdout);
    assert_eq!(statuses(&gateway, "bob", 2), [200, 429]);
    let after = policy(&directory, &["show", "each", "--json"]);
    let after: Value = serde_json::from_str(told(&after)).expect("JSON");
    assert_eq!((&after["candidate"], &after["patch"]["limit"]), (&Value::Null, &"1/1d".into()));
    // A trial ends beside a change, too.
    told(&policy(&directory, &["try", "each", "3/1d"]));
    let trial = policy(&directory, &["undo", "each", "--trial"]);
    assert_eq!(told(&trial), "each: 3/1d is tried no more\n");
    assert_eq!(policy(&directory, &["undo", "each", "--trial"]).code, Some(1));
    // Without a change, the trial is what is undone.
    told(&policy(&directory, &["undo", "each"]));
    told(&policy(&directory, &["try", "each", "2/1d", "--for", "1h"]));
    let ended = policy(&directory, &["undo", "each"]);
    assert_eq!(told(&ended), "each: 2/1d is tried no more\n");
}

#[test]
fn a_limit_that_is_kept_is_in_the_file() {
    let directory = Directory::new();
    let admin = directory.admin().replace(" }", ", write_config: true }");
    let gateway = Gateway::start(&yaml("2/day", &admin));
    let kept = policy(&directory, &["set", "each", "3/1d", "--persist"]);
    let text = told(&kept);
    assert!(text.contains(", also in the file\n"), "{text}");
    assert!(text.contains("Undo      tollgate policy set each 2/1d --persist --admin "), "{text}");
    let file = fs::read_to_string(gateway.file()).expect("it is there");
    assert!(file.contains("limit: 3/1d"), "{file}");
    assert_eq!(statuses(&gateway, "ann", 4), [200, 200, 200, 429]);
}

/// The limit that was in force before the change was never in the file.
#[test]
fn the_limit_of_the_file_is_what_a_kept_one_is_undone_to() {
    let directory = Directory::new();
    let admin = directory.admin().replace(" }", ", write_config: true }");
    let gateway = Gateway::start(&yaml("2/day", &admin));
    told(&policy(&directory, &["set", "each", "100000/1d", "--for", "1h"]));
    let kept = policy(&directory, &["set", "each", "3/1d", "--persist"]);
    let undo = "Undo      tollgate policy set each 2/day --persist --admin ";
    assert!(told(&kept).contains(undo), "{}", kept.stdout);
    told(&policy(&directory, &["set", "each", "2/day", "--persist"]));
    let file = fs::read_to_string(gateway.file()).expect("it is there");
    assert!(file.contains("limit: 2/day"), "{file}");
}

#[test]
fn a_change_that_ends_is_made_again_for_the_rest_of_its_time() {
    let (_gateway, directory) = with_socket("2/day");
    told(&policy(&directory, &["set", "each", "100000/1d", "--for", "1h"]));
    let second = policy(&directory, &["set", "each", "200000/1d", "--for", "30s"]);
    let command =
        told(&second).lines().find_map(|it| it.trim().strip_prefix("Undo      tollgate "));
    let command: Vec<&str> = command.expect("it is printed").split(' ').collect();
    let undone = run(directory.path(), &command);
    assert!(told(&undone).starts_with("each: 200000/1d -> 100000/1d\n"), "{}", undone.stdout);
    assert!(undone.stdout.contains(", until 20"), "{}", undone.stdout);
}

/// Another operator changes the policy between the two calls of the command.
#[test]
fn a_trial_that_goes_on_beside_its_applied_limit_is_told() {
    let limit = |units: u64| serde_json::json!({ "units": units, "window_ms": 60_000 });
    let shown = move |units: u64| {
        serde_json::json!({
            "name": "each", "algorithm": "gcra", "limit": limit(units), "patch": null,
            "changes_scope": "node",
            "candidate": { "written": "9/1m", "algorithm": "gcra", "limit": limit(9), "burst": null },
        })
    };
    for (status, why) in
        [("412 Precondition Failed", "was changed"), ("503 Service Unavailable", "503")]
    {
        let origin = Origin::answering(move |request| {
            let (status, body) = match request.line().split(' ').next() {
                Some("GET") => ("200 OK", shown(5).to_string()),
                Some("PATCH") => ("200 OK", shown(9).to_string()),
                _ => (status, "{}".to_owned()),
            };
            let length = body.len();
            format!(
                "HTTP/1.1 {status}\r\nETag: \"1\"\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            )
        });
        let directory = Directory::new();
        let url = format!("http://{}", origin.address());
        let mut apply = command(directory.path(), &["policy", "apply", "each", "--admin", &url]);
        let applied = done(apply.env("TOLLGATE_ADMIN_TOKEN", TOKEN));
        assert_eq!(applied.code, Some(1), "{}{}", applied.stdout, applied.stderr);
        assert!(applied.stdout.starts_with("each: 5/1m -> 9/1m\n"), "{}", applied.stdout);
        let undo = format!("Undo      tollgate policy undo each --admin {url}\n");
        assert!(applied.stdout.contains(&undo), "{}", applied.stdout);
        let end = format!("end it with: tollgate policy undo each --trial --admin {url}\n");
        for part in ["the limit was set", why, &end] {
            assert!(applied.stderr.contains(part), "{part}: {}", applied.stderr);
        }
        assert!(!applied.stderr.contains("nothing was done"), "{}", applied.stderr);
    }
}

#[test]
fn a_client_begins_again_by_its_key_or_its_id() {
    let (gateway, directory) = with_socket("1/day");
    let url = directory.url();
    let reset = |key: &str| run(directory.path(), &["reset", "each", key, "--admin", &url]);
    assert_eq!(statuses(&gateway, "a/b c", 2), [200, 429]);
    let done = reset("a/b c");
    let text = told(&done);
    assert!(
        text.starts_with("each: a/b c (~") && text.ends_with("begins again on this node\n"),
        "{text}"
    );
    assert_eq!(statuses(&gateway, "a/b c", 2), [200, 429]);
    let id = text.split(['(', ')']).nth(1).expect("it is told");
    told(&reset(id));
    assert_eq!(statuses(&gateway, "a/b c", 2), [200, 429]);
    let unknown = run(directory.path(), &["reset", "nobody", "a", "--admin", &url]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("404"), "{}", unknown.stderr);
}

#[test]
fn what_a_gateway_refuses_is_told_with_its_correction() {
    let (gateway, directory) = with_socket("2/day");
    let wrong = policy(&directory, &["set", "each", "lots"]);
    assert_eq!(wrong.code, Some(1), "{}", wrong.stdout);
    assert!(
        wrong.stderr.contains("422") && wrong.stderr.contains("1000/minute"),
        "{}",
        wrong.stderr
    );
    let window = policy(&directory, &["set", "each", "5/1m"]);
    assert!(window.code == Some(1) && window.stderr.contains("window"), "{}", window.stderr);
    let both = policy(&directory, &["set", "each", "5/1d", "--for", "1h", "--persist"]);
    assert_eq!(both.code, Some(2), "{}", both.stderr);
    let forbidden = policy(&directory, &["set", "each", "5/1d", "--persist"]);
    assert!(
        forbidden.code == Some(1) && forbidden.stderr.contains("write_config"),
        "{}",
        forbidden.stderr
    );
    assert!(gateway.log().contains("audit: a call that changes something"));
    assert!(!forbidden.stderr.contains(TOKEN));
}
