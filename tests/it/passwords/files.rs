//! The file of users while a gateway runs.

use std::thread;
use std::time::Duration;

use super::{DEMANDING, HUNTER2, Users, field, metric, shown};
use crate::support::{Program, eventually};

#[test]
fn a_changed_file_is_in_force_by_itself() {
    let users = Users::new();
    let gateway = users.start("failures: 100000/minute", DEMANDING);
    let status = |user: &str| gateway.client().get("/", &[&field(user, "hunter2")]).status;
    assert_eq!((status("ann"), status("cid")), (200, 401));
    users.rewrite(&format!("cid:{HUNTER2}\n"));
    eventually("the new user is known", || {
        // A wrong result is kept for as long as the line does not change.
        thread::sleep(Duration::from_millis(100));
        status("cid") == 200
    });
    assert_eq!(status("ann"), 401, "the removed user is not known");
}

#[test]
fn a_broken_file_keeps_the_users_and_is_reported() {
    let users = Users::new();
    let gateway = users.start("", DEMANDING);
    let series = format!("tollgate_password_file_last_load_successful{{file={:?}}}", users.path());
    assert_eq!(metric(&gateway, &series), 1);
    users.rewrite(&format!("ann:{HUNTER2}\ncid:hunter3\n"));
    eventually("the mistake is known", || {
        thread::sleep(Duration::from_millis(100));
        metric(&gateway, &series) == 0
            && shown(&gateway, "/v1/status").contains("password_file_broken")
    });
    let told = ":2: the line has a password where a bcrypt hash belongs";
    eventually("the log has it", || gateway.log().contains(told));
    let told =
        [gateway.log(), shown(&gateway, "/v1/config"), shown(&gateway, "/v1/status")].concat();
    assert!(!told.contains("hunter") && !told.contains("$2y$"), "no secret is shown");
    assert_eq!(gateway.client().get("/", &[&field("bob", "hunter2")]).status, 200, "he stays");
    users.rewrite(&format!("ann:{HUNTER2}\n"));
    eventually("it is well", || {
        thread::sleep(Duration::from_millis(100));
        metric(&gateway, &series) == 1
            && !shown(&gateway, "/v1/status").contains("password_file_broken")
    });
}

#[test]
fn a_gateway_does_not_start_with_a_broken_file() {
    let users = Users::new();
    users.rewrite("ann:hunter2\nbob\n");
    let file = users.0.path().join("gateway.yaml");
    std::fs::write(&file, users.yaml("", DEMANDING)).expect("a file");
    let checked = Program::run(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(checked.code, Some(2));
    for told in [":1: the line has a password", ":2: the line has no colon", "htpasswd -B"] {
        assert!(checked.stderr.contains(told), "{told} | {}", checked.stderr);
    }
    assert!(!checked.stderr.contains("hunter"), "{}", checked.stderr);
}
