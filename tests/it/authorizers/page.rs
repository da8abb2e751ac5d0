//! The examples of docs/authorizers.md.

use super::checker::{Checker, pass};
use super::get;
use super::portal::Portal;
use crate::commands::page::page;
use crate::support::{Gateway, Origin, Program};

#[test]
fn the_example_of_the_page_does_what_the_page_says() {
    let portal = Portal::start();
    let origin = Origin::hello();
    let yaml = page("docs/authorizers.md").block("yaml");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gateway.yaml");
    std::fs::write(&file, &yaml).expect("a file");
    let checked = Program::run(&["check", "-c", file.to_str().expect("UTF-8")]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(!checked.stderr.contains("warning"), "{}", checked.stderr);
    let yaml = yaml.replace("0.0.0.0:8080", "\"127.0.0.1:0\"");
    let yaml = yaml.replace("127.0.0.1:9091", &portal.address());
    let gateway = Gateway::start(&yaml.replace("127.0.0.1:9000", &origin.address().to_string()));
    assert_eq!(get(&gateway, "/health", &[]).status, 200);
    assert_eq!(portal.asked(), 0);
    assert_eq!(get(&gateway, "/orders", &[]).status, 401);
    let passed = get(&gateway, "/orders", &["Cookie: session=ann"]);
    assert_eq!(passed.status, 200);
    let policies = passed.field("ratelimit-policy").expect("it is told");
    assert!(policies.contains("\"per-client\"") && policies.contains("\"per-user\""), "{policies}");
    assert_eq!(origin.received().pop().expect("it").fields("remote-user"), ["ann"]);
}

#[test]
fn the_example_over_grpc_does_what_the_page_says() {
    let checker = Checker::answering(|_| pass(&[("x-user", "ann"), ("x-other", "1")], &[], &[]));
    let origin = Origin::hello();
    let text = page("docs/authorizers.md").text;
    let yaml = text.split("```yaml\n").nth(2).and_then(|block| block.split("```").next());
    let yaml = yaml.expect("a second example").replace("0.0.0.0:8080", "\"127.0.0.1:0\"");
    let yaml = yaml.replace("h2c://127.0.0.1:9191", &checker.url());
    let gateway = Gateway::start(&yaml.replace("127.0.0.1:9000", &origin.address().to_string()));
    let passed = get(&gateway, "/orders", &["X-User: root", "Cookie: a=1"]);
    assert_eq!(passed.status, 200);
    assert!(passed.field("ratelimit-policy").is_some_and(|it| it.contains("\"per-user\"")));
    let received = origin.received().pop().expect("it was forwarded");
    assert_eq!((received.fields("x-user"), received.fields("x-other")), (vec!["ann"], vec![]));
    assert_eq!(checker.last().http.headers["cookie"], "a=1");
}
