//! `tollgate prices import`: files, exit codes, and prices that a gateway uses.

use std::fs;
use std::path::Path;

use crate::support::Program;

const TABLE: &str = r#"{
  "sample_spec": { "mode": "one of: chat" },
  "openai/gpt-race": {
    "litellm_provider": "openai", "mode": "chat",
    "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1e-05,
    "cache_read_input_token_cost": 1.2500001e-07
  },
  "gpt-nothing": {
    "litellm_provider": "openai", "mode": "chat",
    "input_cost_per_token": 0, "output_cost_per_token": 0
  },
  "claude": {
    "litellm_provider": "anthropic", "mode": "chat",
    "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05
  }
}"#;

fn import(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Program::run(&[&["prices", "import"], arguments].concat());
    (output.code, output.stdout, output.stderr)
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn a_table_becomes_a_file_of_prices_that_a_configuration_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let table = path(directory.path(), "table.json");
    fs::write(&table, TABLE).expect("a file");
    let prices = path(directory.path(), "prices.yaml");
    let (code, said, report) = import(&["--provider", "openai", "-o", &prices, &table]);
    assert_eq!((code, &*said), (Some(0), ""), "{report}");
    assert!(report.contains("1 of 2 entries have a price of tokens here"), "{report}");
    assert!(report.contains("  gpt-race: cache_read_input_token_cost"), "{report}");
    assert!(report.contains("1 that cost nothing"), "{report}");
    let written = fs::read_to_string(&prices).expect("it is written");
    let line = "\"gpt-race\": { input: 1.25, cache_read: 0.125001, output: 10 }\n";
    assert!(written.ends_with(line), "{written}");
    // The file is there now. It is replaced only if that is asked for.
    let (code, _, report) = import(&["-o", &prices, &table]);
    assert_eq!(code, Some(2));
    assert!(report.contains("exists: add --replace"), "{report}");
    let (code, _, report) = import(&["--replace", "-o", &prices, &table]);
    assert_eq!(code, Some(0), "{report}");
    let (code, said, _) = import(&[&table]);
    assert_eq!((code, said), (Some(0), fs::read_to_string(&prices).expect("it is there")));
    let gateway = path(directory.path(), "gateway.yaml");
    let yaml = "listeners: [{ address: \"127.0.0.1:0\" }]\n\
                prices: { currency: usd, file: prices.yaml }\n\
                policies:\n  \
                  team: { key: ip, limit: 5 usd/month, cost: { reserve: {}, settle: { usage: openai } } }\n\
                routes: [{ path: \"/*\", policies: [team], upstream: model }]\n\
                upstreams: { model: http://127.0.0.1:9 }\n";
    fs::write(&gateway, yaml).expect("a file");
    let checked = Program::run(&["check", &gateway]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn members_that_are_not_known_are_told_by_the_exit_code() {
    let table = TABLE.replace("\"mode\": \"chat\",", "\"mode\": \"chat\", \"cost_per_idea\": 0.1,");
    let output = Program::given(&["prices", "import", "-"], &table);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("not taken: cost_per_idea (2)"), "{}", output.stderr);
    assert!(output.stdout.contains("\"claude\": { input: 3, output: 15 }"), "{}", output.stdout);
}

#[test]
fn nothing_is_written_of_what_is_not_a_table() {
    let directory = tempfile::tempdir().expect("a directory");
    let table = path(directory.path(), "table.json");
    fs::write(&table, TABLE).expect("a file");
    let prices = path(directory.path(), "prices.yaml");
    for (arguments, why) in [
        (&["--provider", "opnai", &*table][..], "the table has these providers: anthropic, openai"),
        (&[&*path(directory.path(), "absent.json")][..], "cannot read"),
        (&["/dev/null"][..], "this is not a table of prices in JSON"),
    ] {
        let (code, _, report) = import(&[&["-o", &*prices], arguments].concat());
        assert_eq!(code, Some(2), "{report}");
        assert!(report.contains(why), "{report}");
    }
    assert!(!Path::new(&prices).exists());
}

/// A table is downloaded. A name could clear the screen, and hide what is left out.
#[test]
fn names_of_a_table_do_not_control_the_terminal() {
    let table = TABLE
        .replace("gpt-nothing", "gpt\\u001b[2J")
        .replace("\"mode\": \"chat\",", "\"mode\": \"chat\", \"cost\\u001b[1A\": 0.1,");
    let output = Program::given(&["prices", "import", "--color", "always", "-"], &table);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    for part in ["gpt\\u{1b}[2J", "not taken: cost\\u{1b}[1A (2)"] {
        assert!(output.stderr.contains(part), "{part}: {:?}", output.stderr);
    }
    assert!(!output.stderr.contains('\u{1b}'), "{:?}", output.stderr);
}
