//! `tollgate status`: whether a running gateway is well, and what it does, in some lines.

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;
use tollgate_top::clean;

use super::admin_client::AdminError;
use super::paint::{FAINT, GOOD, STRONG, WARNING, paint};
use super::which::{GatewayArgs, Problem};
use crate::app::local_runtime;

pub const EXAMPLES: &str = "\
Examples:
  tollgate status
  tollgate status --admin http://127.0.0.1:9901
  tollgate status --json
Exit code 0: the gateway is well; 1: it is not, or does not answer.";

#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// The state of a gateway.
pub struct Status {
    /// The text for standard output.
    pub text: String,
    /// Whether nothing is wrong.
    pub is_good: bool,
}

/// Asks the gateway.
///
/// # Errors
/// If an argument or the configuration cannot be used, or the gateway does not answer.
pub fn run(args: &StatusArgs) -> Result<Status, Problem> {
    let gateway = args.gateway.find()?;
    let runtime = local_runtime().map_err(|error| gateway.problem(AdminError::Connect(error)))?;
    let answer = runtime.block_on(async { gateway.client.get("/v1/status").await });
    let answer = clean::document(answer.map_err(|error| gateway.problem(error))?);
    let is_good = answer["state"] == "ok";
    let text = if args.json { format!("{answer:#}\n") } else { painted(&text(&answer)) };
    Ok(Status { text, is_good })
}

/// The state in lines: the word first, then what is wrong, then figures.
fn text(answer: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let reasons = answer["reasons"].as_array().map_or(&[][..], Vec::as_slice);
    let mut text = format!("{}\n", word(&answer["state"]));
    for reason in reasons {
        let code = word(&reason["code"]);
        let since = word(&reason["since"]);
        let _ = writeln!(text, "\n{code} since {since}");
        let lines = [word(&reason["text"]), word(&reason["advice"])];
        for line in lines.iter().flat_map(|it| it.lines()) {
            let _ = writeln!(text, "  {line}");
        }
    }
    if !reasons.is_empty() {
        text.push('\n');
    }
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<10}{value}");
    };
    row("Version", word(&answer["version"]));
    let loaded = word(&answer["loaded"]);
    row("Config", format!("generation {}, since {loaded}", answer["generation"]));
    row("Nodes", answer["nodes"].to_string());
    let rates = &answer["rates"];
    if rates.is_null() {
        return text;
    }
    let each = |name: &str| rate(&rates["per_second"][name]);
    let requests = each("requests");
    let refused = each("refused");
    let errors = each("errors");
    row("Requests", format!("{requests}, {refused} refused, {errors} with 5xx (last minute)"));
    if let Some(own) = quantile(&rates["own_us"]["p99"]) {
        row("Own time", format!("p99 {own}"));
    }
    let percent = |value: &Value| value.as_f64().map(|it| format!("{:.0} %", it * 100.0));
    if let Some(busy) = percent(&rates["busy"]["mean"]) {
        row("Workers", format!("{}, {busy} busy", rates["busy"]["workers"]));
    }
    text
}

/// The state in colours, and the names of what follows.
fn painted(text: &str) -> String {
    let (state, rest) = text.split_once('\n').unwrap_or((text, ""));
    let style = if state == "ok" { GOOD } else { WARNING };
    let mut painted = format!("{}\n", paint(style, state));
    for line in rest.lines() {
        let _ = match (line.split_once(" since "), line.split_at_checked(10)) {
            (Some((code, since)), _) if !line.starts_with([' ', 'C']) => {
                writeln!(painted, "{} since {since}", paint(STRONG, code))
            }
            (_, Some((name, value))) if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                writeln!(painted, "{}{value}", paint(FAINT, name))
            }
            _ => writeln!(painted, "{line}"),
        };
    }
    painted
}

/// Requests in a second.
fn rate(value: &Value) -> String {
    let each = value.as_f64().unwrap_or(0.0);
    let digits = if each > 0.0 && each < 10.0 { 1 } else { 0 };
    format!("{each:.digits$}/s")
}

/// The bucket of a duration in microseconds.
fn quantile(value: &Value) -> Option<String> {
    let time = |us: f64| match us {
        ms if ms >= 1000.0 => format!("{} ms", ms / 1000.0),
        us => format!("{us} µs"),
    };
    match (value["over"].as_f64()?, value["to"].as_f64()) {
        (_, Some(to)) => Some(format!("up to {}", time(to))),
        (over, None) => Some(format!("above {}", time(over))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_state_is_told_in_lines() {
        let answer = json!({
            "state": "degraded", "version": "0.1.0", "generation": 3, "nodes": 2,
            "loaded": "2026-11-26T09:00:00Z",
            "reasons": [{ "code": "reload_failed", "since": "2026-11-26T09:01:00Z",
                "text": "the file has mistakes:\na.yaml:1:1: error", "advice": "correct it" }],
            "rates": {
                "per_second": { "requests": 120.4, "refused": 0.25, "errors": 0.0 },
                "own_us": { "p99": { "over": 500.0, "to": 1000.0 } },
                "busy": { "workers": 2, "mean": 0.125, "busiest": 0.2 },
            },
        });
        let told = "\
degraded

reload_failed since 2026-11-26T09:01:00Z
  the file has mistakes:
  a.yaml:1:1: error
  correct it

Version   0.1.0
Config    generation 3, since 2026-11-26T09:00:00Z
Nodes     2
Requests  120/s, 0.2/s refused, 0/s with 5xx (last minute)
Own time  p99 up to 1 ms
Workers   2, 12 % busy
";
        assert_eq!(text(&answer), told);
        let young = json!({ "state": "ok", "version": "0.1.0", "generation": 1, "nodes": 1,
            "loaded": "now", "reasons": [], "rates": null });
        assert!(text(&young).starts_with("ok\nVersion") && !text(&young).contains("Requests"));
    }
}
