//! Classes of clients: the file on its page, and changes of the file while a gateway runs.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::support::{Client, Gateway, Program, eventually};

const READ: &str = "read-0123456789abcdef";

/// The blocks of YAML on the page: the configuration, and the file with the classes.
fn page() -> [String; 2] {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/classes.md");
    let text = fs::read_to_string(path).expect("it is there");
    let blocks = text.split("```yaml\n").skip(1);
    let blocks: Vec<_> =
        blocks.map(|it| it.split("```").next().unwrap_or_default().to_owned()).collect();
    blocks.try_into().expect("the page has two")
}

/// The configuration of the page, the file with its classes, and the directory of both.
struct Scene {
    classes: PathBuf,
    yaml: String,
    _directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let [yaml, classes] = page();
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("classes.yaml");
        fs::write(&file, classes).expect("it can be written");
        let yaml = yaml
            .replace("classes.yaml", file.to_str().expect("UTF-8"))
            .replace("127.0.0.1:8080", "127.0.0.1:0");
        Self { classes: file, yaml, _directory: directory }
    }

    fn rewrite(&self, text: &str) {
        let next = self.classes.with_extension("new");
        fs::write(&next, text).expect("it can be written");
        fs::rename(next, &self.classes).expect("it can be moved");
    }

    /// A gateway with an admin listener, whose log has one line for each request, in their order.
    fn start(&self) -> Gateway {
        Gateway::start(&format!(
            "{}runtime: {{ workers: 1 }}\nadmin: {{ address: \"127.0.0.1:0\", tokens: [\
             {{ name: a, role: read, token: {READ} }}], hosts: [gateway.test] }}\n",
            self.yaml
        ))
    }
}

fn admin(gateway: &Gateway, path: &str) -> String {
    let mut client = Client::connect(gateway.addresses()[1]);
    client.get(path, &[&format!("Authorization: Bearer {READ}")]).text()
}

fn get(gateway: &Gateway, agent: &str) -> crate::support::Response {
    gateway.client().get("/", &[&format!("User-Agent: {agent}")])
}

#[test]
fn the_file_of_the_page_limits_denies_and_logs_classes() {
    let scene = Scene::new();
    let gateway = scene.start();
    let limit = |agent: &str| {
        let response = get(&gateway, agent);
        assert_eq!(response.status, 200, "{agent}: {response:?}");
        response.number("X-Ratelimit-Limit")
    };
    assert_eq!(limit("Mozilla/5.0 (compatible; ExampleBot/2.1)"), 60, "a false search engine");
    assert_eq!(limit("curl/8"), 100);
    assert_eq!(get(&gateway, "Scrapy/2.11").status, 403);
    let both = gateway.client().get("/", &["User-Agent: scrapy", "User-Agent: curl/8"]);
    assert_eq!(both.status, 400, "{both:?}");
    let disguised = gateway.client().get("/", &["User_Agent: curl/8"]);
    assert_eq!(disguised.status, 400, "{disguised:?}");
    let lines = gateway.access_lines(5);
    let classes: Vec<_> = lines.iter().map(|line| line["class"].as_str()).collect();
    assert_eq!(classes, [Some("crawlers"), None, Some("scrapers"), None, None]);
    assert_eq!(lines[2]["denied_by"], "no-scrapers");
    let explained = explain(&gateway, "a spider");
    assert!(explained.contains("\"class\": \"crawlers\""), "{explained}");
}

fn explain(gateway: &Gateway, agent: &str) -> String {
    let body = format!(
        "{{\"method\":\"GET\",\"url\":\"http://localhost/\",\"headers\":[[\"user-agent\",\"{agent}\"]]}}"
    );
    let token = format!("Authorization: Bearer {READ}");
    let fields = [&*token, "Content-Type: application/json"];
    Client::connect(gateway.addresses()[1])
        .request("POST", "/v1/explain", &fields, body.as_bytes())
        .text()
}

#[test]
fn a_changed_file_is_in_force_and_a_broken_one_keeps_the_classes_and_is_reported() {
    let scene = Scene::new();
    let gateway = scene.start();
    assert_eq!(get(&gateway, "newbot").status, 200);
    scene.rewrite("- { name: scrapers, user_agent: [newbot] }\n");
    eventually("the new class is known", || get(&gateway, "newbot").status == 403);
    assert_eq!(get(&gateway, "scrapy").status, 200, "the old text is not in the file");
    let metric = |value: u8| {
        format!(
            "tollgate_class_file_last_load_successful{{file={:?}}} {value}",
            scene.classes.to_str().expect("UTF-8")
        )
    };
    assert!(admin(&gateway, "/metrics").contains(&metric(1)));
    scene.rewrite("- { name: scrapers, user_agent: [newbot] }\n- { name: other }\n");
    eventually("the mistake is known", || {
        thread::sleep(Duration::from_millis(100));
        admin(&gateway, "/metrics").contains(&metric(0))
            && admin(&gateway, "/v1/status").contains("class_file_broken")
    });
    assert!(gateway.log().contains("the class has no condition"), "{}", gateway.log());
    assert_eq!(get(&gateway, "newbot").status, 403, "the classes stay");
    scene.rewrite("[]");
    eventually("it is well", || {
        thread::sleep(Duration::from_millis(100));
        admin(&gateway, "/metrics").contains(&metric(1))
            && !admin(&gateway, "/v1/status").contains("class_file_broken")
    });
    assert_eq!(get(&gateway, "newbot").status, 200, "there are no classes");
}

/// Logs in the format combined have the field, and those of the gateway do not.
#[test]
fn a_replay_knows_classes_by_the_field_of_the_log() {
    let scene = Scene::new();
    let [config, log] = ["gateway.yaml", "access.log"].map(|it| scene.classes.with_file_name(it));
    fs::write(&config, &scene.yaml).expect("it can be written");
    let line = |second: usize, agent: &str| {
        format!(
            "192.0.2.200 - - [26/Nov/2026:10:00:{second:02} +0000] \"GET / HTTP/1.1\" 200 10 \"-\" \"{agent}\"\n"
        )
    };
    let lines: String = (0..50).map(|it| line(it, ["a spider", "curl/8"][it % 2])).collect();
    let paths = [&config, &log].map(|path| path.to_str().expect("UTF-8"));
    let replayed = |lines: &str| {
        fs::write(&log, lines).expect("it can be written");
        let output = Program::run(&["replay", "-c", paths[0], paths[1]]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.stdout
    };
    let text = replayed(&lines);
    let row = text.lines().find(|it| it.starts_with("bots ")).expect("a row of the policy");
    assert_eq!(row.split_whitespace().nth(2), Some("25"), "{text}");
    assert!(!text.contains("lacks"), "{text}");
    let without = lines.replace(" \"-\" \"a spider\"", "").replace(" \"-\" \"curl/8\"", "");
    let text = replayed(&without);
    assert!(text.contains("bots: the log lacks class"), "{text}");
}

#[test]
fn a_gateway_does_not_start_with_a_broken_file() {
    let scene = Scene::new();
    scene.rewrite("- { name: other }\n- { user_agent: [x] }\n");
    let file = scene.classes.with_file_name("gateway.yaml");
    fs::write(&file, &scene.yaml).expect("it can be written");
    let checked = Program::run(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(checked.code, Some(2));
    for told in [":1:3: the class has no condition", ":2:3: the class has no \"name\""] {
        assert!(checked.stderr.contains(told), "{told} | {}", checked.stderr);
    }
}
